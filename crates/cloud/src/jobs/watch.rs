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
    /// What of the filter is not a change of the state: a job that ends is told, too.
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
        Ok(Watcher { cloud: Arc::clone(cloud), filter, is_first: true })
    }
}

impl Lines for Watcher {
    async fn next(&mut self) -> Result<Option<Vec<Bytes>>> {
        let deadline = Instant::now() + HEARTBEAT;
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
                let newest = store::newest_change(&self.cloud.database).await?;
                self.filter.since = self.filter.since.max(Some(newest));
            }
            if Instant::now() >= deadline {
                return Ok(Some(Vec::new()));
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}
