//! The jobs of a list as a stream: first all that match, then each again when it changes.

use super::service;
use super::store::{self, Filter};
use crate::Cloud;
use crate::http::Caller;
use crate::http::stream::{HEARTBEAT, Lines, line};
use bytes::Bytes;
use contract::Result;
use contract::api::job::JobQuery;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How often it is looked whether something changed.
const LOOK: Duration = Duration::from_millis(500);
const ROWS: u32 = 1000;

/// Somebody who watches a list.
pub(super) struct Watcher {
    cloud: Arc<Cloud>,
    filter: Filter,
    /// The newest change before the first line, until all that match were told. Every change after
    /// it is told, of jobs that no longer match, too: they may have been told as they were before.
    begun: Option<u64>,
    is_first: bool,
}

impl Watcher {
    pub(super) fn new(
        cloud: &Arc<Cloud>,
        caller: &Caller,
        datacenter: &str,
        query: &JobQuery,
    ) -> Result<Self> {
        let filter = service::filter(cloud, caller, datacenter, query)?;
        let filter = Filter { since: Some(0), limit: ROWS, before: None, ..filter };
        Ok(Watcher { cloud: Arc::clone(cloud), filter, begun: None, is_first: true })
    }
}

impl Lines for Watcher {
    async fn next(&mut self) -> Result<Option<Vec<Bytes>>> {
        let deadline = Instant::now() + HEARTBEAT;
        if self.is_first && self.begun.is_none() {
            self.begun = Some(store::newest_change(&self.cloud.database).await?);
        }
        loop {
            let rows = store::list(&self.cloud.database, &self.filter).await?;
            if let Some(last) = rows.last() {
                let change = last.as_ref().map_or_else(|damaged| damaged.change, |row| row.change);
                self.filter.since = Some(change);
                let rows = store::readable(rows);
                return rows.iter().map(|row| line(&row.job())).collect::<Result<_>>().map(Some);
            }
            if self.is_first {
                self.is_first = false;
                // From here on what stops to match is told as well.
                (self.filter.is_active, self.filter.states) = (false, Vec::new());
                self.filter.since = self.begun;
                continue;
            }
            if Instant::now() >= deadline {
                return Ok(Some(Vec::new()));
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::row::{JobRow, Stage};
    use contract::job::JobSpec;
    use contract::state::JobState;
    use std::net::{IpAddr, Ipv4Addr};

    #[tokio::test]
    async fn a_job_that_ends_while_the_first_lines_are_taken_is_told_again() {
        let folder = tempfile::tempdir().unwrap();
        let cloud = crate::server::empty_cloud(folder.path()).await;
        let spec = JobSpec {
            name: "ctr".into(),
            user: "wu".into(),
            datacenter: "local".into(),
            entry: "true".into(),
            package: "/pfs/local/home/wu/jobs/ctr".into(),
            ..JobSpec::default()
        };
        let mut row = JobRow::queued("ctr-1".into(), "r".into(), spec, None, 1);
        let mut write = cloud.database.write().await.unwrap();
        store::insert(&mut write, &row).await.unwrap();
        write.commit().await.unwrap();
        let wu = Caller {
            username: "wu".to_owned(),
            is_admin: false,
            token: String::new(),
            expires_ms: 0,
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        };
        let query = JobQuery { active: true, ..JobQuery::default() };
        let mut watcher = Watcher::new(&cloud, &wu, "local", &query).unwrap();
        assert_eq!(watcher.next().await.unwrap().unwrap().len(), 1);
        (row.stage, row.state, row.ended_ms) = (Stage::Ended, JobState::Succeeded, Some(2));
        let mut write = cloud.database.write().await.unwrap();
        store::update(&mut write, &mut row).await.unwrap();
        write.commit().await.unwrap();
        let lines = watcher.next().await.unwrap().unwrap();
        let line = String::from_utf8(lines.first().unwrap().to_vec()).unwrap();
        assert!(line.contains("succeeded"), "{line}");
    }
}
