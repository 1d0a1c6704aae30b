//! The loop of a datacenter: notices what changed, lets waiting jobs start, and has every job that
//! is not done driven by a task of its own. It decides nothing itself: that is [`super::admit`] and
//! [`super::reconcile`].

use super::admit::{self, Decision, Rules, State, Waiting};
use super::drive::{self, Drive};
use super::need::Need;
use super::row::{JobRow, Stage};
use super::store::{self, Filter};
use crate::Cloud;
use crate::clock::now_ms;
use crate::datacenters::Datacenter;
use crate::lease::{self, Lease};
use crate::quotas;
use contract::Result;
use contract::state::JobState;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Between two looks at the database when nobody says that something changed: other servers do not.
const TICK: Duration = Duration::from_millis(500);
const CHANGES_MAX: u32 = 1000;

/// Runs the jobs of a datacenter while this server holds its lease, until the server stops. Jobs
/// go on after that.
pub(crate) async fn run(cloud: Arc<Cloud>, datacenter: Arc<Datacenter>) {
    let mut lease = Lease::new(&datacenter);
    let mut desk = Desk::default();
    let mut stopping = cloud.stopping.clone();
    loop {
        if lease.hold(&cloud).await {
            if let Err(error) = desk.turn(&cloud, &datacenter).await {
                let datacenter = &datacenter.name;
                tracing::warn!(error = error.chain(), datacenter, "jobs wait: trying again");
            }
        } else if !desk.is_empty() {
            tracing::warn!(datacenter = datacenter.name, "another server runs the jobs now");
            desk = Desk::default();
        }
        let stranded = lease.stranded().map(str::to_owned);
        if datacenter.set_stranded(stranded.clone())
            && let Some(host) = stranded
        {
            tracing::warn!(
                datacenter = datacenter.name,
                host,
                "jobs have processes on another machine, where no server lives: start one there"
            );
        }
        tokio::select! {
            _ = stopping.wait_for(|stopping| *stopping) => break,
            () = datacenter.wake.notified() => {}
            () = tokio::time::sleep(TICK) => {}
        }
    }
    drop(desk);
    if let Err(error) = lease.release(&cloud).await {
        tracing::warn!(error = error.chain(), "the lease runs out by itself");
    }
}

/// The jobs that are not done, and those who drive them.
#[derive(Default)]
struct Desk {
    rows: HashMap<String, JobRow>,
    /// The newest change that was seen; `None` before the first look.
    change: Option<u64>,
    drives: HashMap<String, Drive>,
    /// When the queue was decided about last; by no clock that can be put back.
    decided: Option<Instant>,
}

/// A queue in which nothing changed is decided about again after this time, because patience ends.
const DECIDE_AGAIN: Duration = Duration::from_secs(2);

/// The most jobs that are told at once what they wait for: those that were told nothing yet first,
/// then those that were told longest ago. In a long queue every start changes the reasons of all, and
/// while they are written nobody else can write.
const REASONS_MAX: usize = 200;

impl Desk {
    fn is_empty(&self) -> bool {
        self.change.is_none()
    }

    async fn turn(&mut self, cloud: &Arc<Cloud>, datacenter: &Arc<Datacenter>) -> Result<()> {
        let has_changed = self.look(cloud, datacenter).await?;
        if has_changed || self.decided.is_none_or(|decided| decided.elapsed() >= DECIDE_AGAIN) {
            self.admit(cloud, datacenter, now_ms()).await?;
            self.decided = Some(Instant::now());
        }
        self.drives.retain(|_, drive| !drive.is_finished());
        for row in self.rows.values() {
            let is_idle = row.stage == Stage::Queued && row.kill_ms.is_none();
            if !is_idle && !self.drives.contains_key(&row.uid) {
                let drive = drive::spawn(cloud, datacenter, row.clone());
                self.drives.insert(row.uid.clone(), drive);
            }
        }
        Ok(())
    }

    /// Takes in what changed. Whether anything did.
    async fn look(&mut self, cloud: &Cloud, datacenter: &Datacenter) -> Result<bool> {
        let Some(mut since) = self.change else {
            // Asked first: what changes meanwhile is seen again.
            let change = store::newest_change(&cloud.database).await?;
            let rows = store::to_do(&cloud.database, &datacenter.name).await?;
            if !rows.is_empty() {
                tracing::info!(jobs = rows.len(), datacenter = datacenter.name, "jobs taken over");
            }
            self.rows = rows.into_iter().map(|row| (row.uid.clone(), row)).collect();
            self.change = Some(change);
            return Ok(true);
        };
        let mut has_changed = false;
        loop {
            let filter = Filter {
                datacenter: datacenter.name.clone(),
                since: Some(since),
                limit: CHANGES_MAX,
                ..Filter::default()
            };
            let rows = store::list(&cloud.database, &filter).await?;
            let count = rows.len();
            has_changed |= count > 0;
            for row in &rows {
                since = row.as_ref().map_or_else(|damaged| damaged.change, |row| row.change);
            }
            for row in store::readable(rows) {
                if let Some(drive) = self.drives.get(&row.uid) {
                    drive.tell(&row);
                }
                match row.is_forgotten {
                    true => self.rows.remove(&row.uid),
                    false => self.rows.insert(row.uid.clone(), row),
                };
            }
            self.change = Some(since);
            if count < CHANGES_MAX as usize {
                break;
            }
        }
        // A job that was removed leaves no change behind.
        self.rows.retain(|uid, row| {
            row.stage != Stage::Ended
                || self.drives.get(uid).is_none_or(|drive| !drive.is_finished())
        });
        Ok(has_changed)
    }

    async fn admit(
        &mut self,
        cloud: &Arc<Cloud>,
        datacenter: &Arc<Datacenter>,
        now_ms: u64,
    ) -> Result<()> {
        let is_waiting = |row: &&JobRow| row.stage == Stage::Queued && row.kill_ms.is_none();
        let waiting: Vec<Waiting> = self
            .rows
            .values()
            .filter(is_waiting)
            .map(|row| Waiting {
                uid: row.uid.clone(),
                username: row.username.clone(),
                priority: row.spec.priority,
                submitted_ms: row.submitted_ms,
                need: row.need,
            })
            .collect();
        if waiting.is_empty() {
            return Ok(());
        }
        let mut running: BTreeMap<String, Need> = BTreeMap::new();
        for row in self.rows.values() {
            if matches!(row.stage, Stage::Admitted | Stage::Placed) {
                let sum = running.entry(row.username.clone()).or_default();
                *sum = sum.plus(row.need);
            }
        }
        let limits = quotas::store::all(&cloud.database, &datacenter.name).await?;
        let rules = Rules {
            capacity: datacenter.capacity.clone(),
            quota: cloud.config.quota.clone(),
            patience_ms: cloud.config.fairness.patience_seconds.saturating_mul(1000),
        };
        let decisions = admit::decide(now_ms, &State { waiting, running, limits }, &rules);
        let (mut news, mut waits): (Vec<_>, Vec<_>) = decisions
            .into_iter()
            .filter(|(uid, decision)| match (decision, self.rows.get(uid)) {
                (Decision::Wait(reason), Some(row)) => row.reason != *reason,
                (_, row) => row.is_some(),
            })
            .partition(|(_, decision)| *decision == Decision::Start);
        waits.sort_by_key(|(uid, _)| {
            self.rows.get(uid).map(|row| (!row.reason.is_empty(), row.change))
        });
        waits.truncate(REASONS_MAX);
        news.append(&mut waits);
        if news.is_empty() {
            return Ok(());
        }
        let mut write = lease::write(cloud, &datacenter.name).await?;
        for (uid, decision) in news {
            let row = store::get_in(&mut write, &uid).await?;
            let Some(mut row) = row.filter(|row| is_waiting(&row)) else {
                self.rows.remove(&uid);
                continue;
            };
            match decision {
                Decision::Wait(reason) => row.reason = reason,
                Decision::Start => {
                    (row.stage, row.state) = (Stage::Admitted, JobState::Starting);
                    row.reason = String::new();
                    let waited = now_ms.saturating_sub(row.submitted_ms) / 1000;
                    let event = format!("admitted after {waited} s in the queue");
                    let most = cloud.config.limits.events;
                    store::add_event(&mut write, &uid, now_ms, &event, most).await?;
                }
            }
            store::update(&mut write, &mut row).await?;
            self.rows.insert(uid, row);
        }
        write.commit().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::job::JobSpec;
    use contract::quantity::Quantity;

    #[tokio::test]
    async fn a_long_queue_is_told_bit_by_bit_what_it_waits_for() {
        let folder = tempfile::tempdir().unwrap();
        let cloud = crate::server::empty_cloud(folder.path()).await;
        let datacenter = Arc::clone(cloud.datacenter("local").unwrap());
        let mut write = cloud.database.write().await.unwrap();
        for number in 0..=REASONS_MAX {
            let mut spec = JobSpec {
                name: format!("job-{number}"),
                user: "wu".into(),
                datacenter: "local".into(),
                entry: "true".into(),
                package: "/pfs/local/home/wu/program".into(),
                ..JobSpec::default()
            };
            // More than there is.
            spec.resources.trainer.cpu = Some(Quantity::whole(1_000_000));
            let name = format!("job-{number}-1");
            let row = JobRow::queued(name.clone(), name, spec, None, 1);
            store::insert(&mut write, &row).await.unwrap();
        }
        write.commit().await.unwrap();
        assert!(Lease::new(&datacenter).hold(&cloud).await);
        let mut desk = Desk::default();
        for expected in [REASONS_MAX, REASONS_MAX + 1] {
            desk.turn(&cloud, &datacenter).await.unwrap();
            let rows = store::to_do(&cloud.database, "local").await.unwrap();
            assert_eq!(rows.iter().filter(|row| !row.reason.is_empty()).count(), expected);
        }
    }
}
