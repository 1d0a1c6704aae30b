//! Drives one job: looks at it again and again, and does what [`super::reconcile`] says, until its
//! backend has nothing of it any more.

use super::reconcile::{self, Observed, Step, decide, decide_retry};
use super::row::{JobRow, Stage, Trouble};
use super::{mounts, start, store};
use crate::Cloud;
use crate::blocking::blocking;
use crate::clock::now_ms;
use crate::datacenters::Datacenter;
use crate::lease;
use crate::logs::collect::{Collected, Collector, LAST_MAX};
use contract::state::{JobState, State};
use contract::{Error, Kind, Result};
use scheduler::JobRecord;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Between two looks: short while something moves, longer the longer nothing does.
const PAUSE_SHORT: Duration = Duration::from_millis(20);
const PAUSE_LONG: Duration = Duration::from_millis(1000);
const PAUSE_GROWTH: f64 = 1.25;
/// After an error of the backend or the database.
const PAUSE_ERROR: Duration = Duration::from_secs(1);
/// How long a start that is rolled back may take to be gone.
const ROLL_BACK: Duration = Duration::from_secs(30);
/// How often the mounted files of a job are looked at.
const FILES: Duration = Duration::from_secs(2);

/// A job that is being driven. Dropping it leaves the job as it is.
pub(super) struct Drive {
    rows: watch::Sender<JobRow>,
    task: JoinHandle<()>,
}

impl Drive {
    /// Whether nothing is left to do, or the task has broken off.
    pub(super) fn is_finished(&self) -> bool {
        self.task.is_finished()
    }

    /// Tells it that its job was changed.
    pub(super) fn tell(&self, row: &JobRow) {
        self.rows.send_if_modified(|known| {
            let is_newer = row.change > known.change;
            if is_newer {
                known.clone_from(row);
            }
            is_newer
        });
    }
}

impl Drop for Drive {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Begins to drive a job.
pub(super) fn spawn(cloud: &Arc<Cloud>, datacenter: &Arc<Datacenter>, row: JobRow) -> Drive {
    let (rows, receiver) = watch::channel(row.clone());
    let driver = Driver {
        collector: Collector::new(cloud, datacenter, &row),
        cloud: Arc::clone(cloud),
        datacenter: Arc::clone(datacenter),
        row,
        files_seen: Instant::now(),
    };
    Drive { rows, task: tokio::spawn(driver.run(receiver)) }
}

struct Driver {
    cloud: Arc<Cloud>,
    datacenter: Arc<Datacenter>,
    row: JobRow,
    collector: Collector,
    /// When its mounted files were looked at.
    files_seen: Instant,
}

/// What came of a look.
enum Turn {
    /// Something moved: look again soon.
    Moved,
    /// Nothing did.
    Still,
    /// There is nothing left to do.
    Done,
}

impl Driver {
    async fn run(mut self, mut rows: watch::Receiver<JobRow>) {
        let mut pause = PAUSE_SHORT;
        loop {
            {
                let newest = rows.borrow_and_update();
                if newest.change > self.row.change {
                    self.row = newest.clone();
                }
            }
            pause = match self.turn().await {
                Ok(Turn::Done) => break,
                Ok(Turn::Moved) => PAUSE_SHORT,
                Ok(Turn::Still) => pause.mul_f64(PAUSE_GROWTH).min(PAUSE_LONG),
                Err(error) if error.kind() == Kind::Interrupted => break,
                Err(error) => {
                    tracing::warn!(job = self.row.uid, error = error.chain(), "trying again");
                    // A database that fails is what it may be about.
                    if let Err(error) = self.troubled(&error).await {
                        tracing::warn!(job = self.row.uid, error = error.chain(), "not noted");
                    }
                    PAUSE_ERROR
                }
            };
            tokio::select! {
                changed = rows.changed() => if changed.is_err() { break },
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    async fn turn(&mut self) -> Result<Turn> {
        let observed = match self.datacenter.backend.observe(&self.row.uid).await {
            Ok(record) => Observed::Known(Box::new(record)),
            Err(error) if error.kind() == Kind::NotFound => Observed::Unknown,
            Err(error) => return Err(error),
        };
        if self.row.stage == Stage::Placed && self.row.trouble.is_some() {
            let event = "the place that runs it answers again".to_owned();
            self.change(Some(event), |row| row.trouble = None).await?;
        }
        let step = decide(now_ms(), &self.row, &observed);
        match (step, &observed) {
            (Step::Wait, _) => Ok(Turn::Still),
            (Step::Start, _) => self.start().await,
            (Step::TakeOver, _) => {
                self.placed("it was found running, and is looked after again").await
            }
            (Step::Kill { is_forced }, _) => {
                self.datacenter.backend.kill(&self.row.uid, is_forced).await?;
                Ok(Turn::Still)
            }
            (Step::Look, Observed::Known(record)) if self.has_lost_files().await => {
                self.collector.collect(record).await?;
                self.roll_back().await?;
                let reason = "its files are gone: the mount that showed them has ended";
                self.end(JobState::Failed, reason.to_owned()).await
            }
            (Step::Look | Step::Finish, Observed::Known(record)) => self.look(record).await,
            (Step::Look | Step::Finish, Observed::Unknown) => Ok(Turn::Still),
            (Step::End { state, reason }, _) => self.end(state, reason).await,
            (Step::GiveUp, _) => {
                self.roll_back().await?;
                let reason = "nobody could be started to run it: see the server's log";
                self.end(JobState::Failed, reason.to_owned()).await
            }
            (Step::Forget, _) => {
                self.datacenter.backend.forget(&self.row.uid).await?;
                self.release().await?;
                Ok(Turn::Moved)
            }
            (Step::Forgotten, _) => self.forgotten().await,
        }
    }

    /// Gives the job to the backend, or notes why not.
    async fn start(&mut self) -> Result<Turn> {
        let started = {
            let Ok(_permit) = self.cloud.starts.acquire().await else { return Ok(Turn::Still) };
            start::start(&self.cloud, &self.datacenter, &self.row).await
        };
        let error = match started {
            Ok(()) => return self.placed("handed to the backend").await,
            Err(error) if error.kind() == Kind::Interrupted => return Err(error),
            Err(error) => error,
        };
        tracing::warn!(job = self.row.uid, error = error.chain(), "cannot start a job");
        // The next attempt must find nothing of this one.
        let is_answering = match self.roll_back().await {
            Ok(()) => true,
            Err(error) if error.kind() == Kind::Interrupted => return Err(error),
            Err(error) => {
                tracing::warn!(job = self.row.uid, error = error.chain(), "not rolled back");
                false
            }
        };
        self.not_started(&error, is_answering).await
    }

    /// Notes that it could not be started, and when that is tried again, if it is.
    async fn not_started(&mut self, error: &Error, is_answering: bool) -> Result<Turn> {
        let fresh = store::get(&self.cloud.database, &self.row.uid).await?;
        if let Some(row) = fresh.filter(|row| row.kill_ms.is_some()) {
            return self.end(JobState::Killed, reconcile::killed_before_start(&row)).await;
        }
        let (now_ms, attempts) = (now_ms(), self.row.attempts + 1);
        let trouble = self.trouble(error);
        let failed_for_ms = now_ms.saturating_sub(trouble.since_ms);
        let event = format!("it could not be started: {}", trouble.error);
        let pause_ms = decide_retry(error.kind(), attempts, failed_for_ms, is_answering);
        let Some(pause_ms) = pause_ms else {
            return self.end(JobState::Failed, event).await;
        };
        let is_known = self.row.trouble.as_ref().is_some_and(|known| known.error == trouble.error);
        // Many attempts with one error are one event.
        self.change((!is_known).then_some(event), |row| {
            (row.attempts, row.retry_ms) = (attempts, now_ms + pause_ms);
            row.reason.clone_from(&trouble.error);
            row.trouble = Some(trouble);
        })
        .await?;
        Ok(Turn::Still)
    }

    /// Notes that its place cannot be asked about it.
    async fn troubled(&mut self, error: &Error) -> Result<()> {
        match self.row.stage {
            Stage::Admitted if self.row.kill_ms.is_some() => {
                let reason = "killed while the place that was to run it could not be asked: what \
                              may have started there is ended when it answers again";
                self.end(JobState::Killed, reason.to_owned()).await.map(|_| ())
            }
            Stage::Admitted if reconcile::must_wait(now_ms(), &self.row) => Ok(()),
            Stage::Admitted => self.not_started(error, false).await.map(|_| ()),
            Stage::Placed => {
                let trouble = self.trouble(error);
                if self.row.trouble.as_ref() == Some(&trouble) {
                    return Ok(());
                }
                let event = format!("the place that runs it cannot be asked: {}", trouble.error);
                self.change(Some(event), |row| row.trouble = Some(trouble)).await
            }
            Stage::Queued | Stage::Ended => Ok(()),
        }
    }

    /// This error, since the first one.
    fn trouble(&self, error: &Error) -> Trouble {
        let since_ms = self.row.trouble.as_ref().map_or_else(now_ms, |known| known.since_ms);
        Trouble { error: error.chain(), since_ms }
    }

    /// Ends what a failed start may have left.
    async fn roll_back(&self) -> Result<()> {
        let (backend, uid) = (&self.datacenter.backend, &self.row.uid);
        let gone = async {
            loop {
                match backend.observe(uid).await {
                    Err(error) if error.kind() == Kind::NotFound => return Ok(()),
                    Err(error) => return Err(error),
                    Ok(record) if record.state.is_final() => return backend.forget(uid).await,
                    Ok(_) => backend.kill(uid, true).await?,
                }
                tokio::time::sleep(PAUSE_SHORT).await;
            }
        };
        tokio::time::timeout(ROLL_BACK, gone).await.unwrap_or_else(|_| {
            Err(Error::new(Kind::Timeout, "a job that was rolled back does not end"))
        })?;
        self.release().await
    }

    /// Whether the files that were mounted for it are no longer there. Looked at now and then.
    async fn has_lost_files(&mut self) -> bool {
        if !self.datacenter.config.is_mounted() || self.files_seen.elapsed() < FILES {
            return false;
        }
        self.files_seen = Instant::now();
        !mounts::is_there(&self.cloud, &self.datacenter, &self.row).await
    }

    /// Unmounts what was mounted for it.
    async fn release(&self) -> Result<()> {
        match self.datacenter.config.is_mounted() {
            true => mounts::release(&self.cloud, &self.datacenter, &self.row).await,
            false => Ok(()),
        }
    }

    async fn placed(&mut self, event: &str) -> Result<Turn> {
        self.change(Some(event.to_owned()), |row| {
            row.stage = Stage::Placed;
            if row.kill_ms.is_none() {
                row.reason = String::new();
            }
            row.trouble = None;
            row.started_ms = row.started_ms.or_else(|| Some(now_ms()));
        })
        .await?;
        Ok(Turn::Moved)
    }

    /// Notes how the job is and archives what it printed; when it has ended, all of it first.
    async fn look(&mut self, record: &JobRecord) -> Result<Turn> {
        let Collected { has_moved, is_complete } = self.collector.collect(record).await?;
        let (next, events) = reconcile::apply(&self.row, record);
        if next == self.row && events.is_empty() {
            return Ok(if has_moved { Turn::Moved } else { Turn::Still });
        }
        let mut write = lease::write(&self.cloud, &self.datacenter.name).await?;
        let Some(fresh) = store::get_in(&mut write, &self.row.uid).await? else {
            return Ok(Turn::Done);
        };
        let (mut next, mut events) = reconcile::apply(&fresh, record);
        if !is_complete {
            let seconds = LAST_MAX.as_secs();
            events.push(format!(
                "its last output is missing: the place that ran it had none to give for {seconds} s"
            ));
        }
        let now_ms = now_ms();
        for event in &events {
            let most = self.cloud.config.limits.events;
            store::add_event(&mut write, &next.uid, now_ms, event, most).await?;
        }
        store::update(&mut write, &mut next).await?;
        write.commit().await?;
        self.row = next;
        if self.row.stage == Stage::Ended {
            self.ended();
        }
        Ok(Turn::Moved)
    }

    async fn end(&mut self, state: JobState, reason: String) -> Result<Turn> {
        let event = format!("{state}: {reason}");
        self.change(Some(event), |row| {
            (row.stage, row.state, row.reason) = (Stage::Ended, state, reason);
            row.ended_ms = Some(now_ms());
            row.trouble = None;
        })
        .await?;
        self.ended();
        Ok(Turn::Moved)
    }

    /// There is room for others, and followers of the logs have seen all.
    fn ended(&self) {
        self.datacenter.wake.notify_one();
        self.collector.end();
        metrics::counter!("cloud_jobs_ended", "state" => self.row.state.to_string()).increment(1);
    }

    async fn forgotten(&mut self) -> Result<Turn> {
        self.release().await?;
        let row = store::get(&self.cloud.database, &self.row.uid).await?;
        let is_removed = row.is_some_and(|row| row.is_removed_at_end);
        if is_removed {
            // Before its row: logs without a job would stay for ever.
            let (datacenter, uid) = (Arc::clone(&self.datacenter), self.row.uid.clone());
            blocking(move || datacenter.store.remove_logs(&uid)).await?;
        }
        let mut write = lease::write(&self.cloud, &self.datacenter.name).await?;
        let fresh = store::get_in(&mut write, &self.row.uid).await?;
        match fresh.is_some_and(|row| row.is_removed_at_end) {
            true if !is_removed => return Ok(Turn::Moved),
            true => store::remove(&mut write, &self.row.uid).await?,
            false => store::set_forgotten(&mut write, &self.row.uid).await?,
        }
        write.commit().await?;
        Ok(Turn::Done)
    }

    /// Changes the job as it is in the database now.
    async fn change(
        &mut self,
        event: Option<String>,
        change: impl FnOnce(&mut JobRow),
    ) -> Result<()> {
        let mut write = lease::write(&self.cloud, &self.datacenter.name).await?;
        let Some(mut row) = store::get_in(&mut write, &self.row.uid).await? else {
            return Err(Error::new(Kind::Interrupted, "the job was removed"));
        };
        change(&mut row);
        if let Some(event) = event {
            let most = self.cloud.config.limits.events;
            store::add_event(&mut write, &row.uid, now_ms(), &event, most).await?;
        }
        store::update(&mut write, &mut row).await?;
        write.commit().await?;
        self.row = row;
        Ok(())
    }
}
