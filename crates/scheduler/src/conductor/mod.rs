//! One job, from its first process to its last: the loop that carries out what [`decide`] says on
//! the supervisors of the job's hosts.

pub mod decide;
pub mod plan;
pub mod record;

use crate::replica::ReplicaId;
use crate::supervisor::host::{Host, Hosts, Report};
use crate::supervisor::message::{Command, Event, Signal};
use contract::ready::Ready;
use contract::state::{JobState, ReplicaState, State};
use contract::{Error, Result};
use decide::{Decision, decide};
use plan::JobPlan;
use record::{Ending, JobRecord, Verdict};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc;

/// Somebody asks to end the job.
#[derive(Debug, Clone, Copy)]
pub struct Stop {
    /// The exit code of the whole: 128 + signal.
    pub exit_code: i32,
    /// Without giving replicas the time to end by themselves.
    pub is_forced: bool,
}

/// Who is told of a job's course, as it happens.
pub trait Watch {
    /// A replica printed whole lines.
    fn log(&mut self, replica: ReplicaId, text: &str);
    /// Something was decided, for a reason that people may want to read.
    fn decided(&mut self, decision: &Decision, reason: &str);
    /// The record changed. That nobody can take note of it is no reason to end a job.
    fn changed(&mut self, record: &JobRecord);
}

/// Runs a job to its end on supervisors that have been reached already, one per host of the plan.
/// Whatever happens, nothing of the job is left when this returns.
///
/// # Errors
/// The plan makes no sense. The failure of a job is not an error but its record.
pub async fn run(
    plan: &JobPlan,
    hosts: Vec<Host>,
    mut stops: mpsc::Receiver<Stop>,
    watch: &mut dyn Watch,
) -> Result<JobRecord> {
    if hosts.len() != plan.hosts.len() {
        return Err(Error::invalid("a plan needs one supervisor per host")
            .with("hosts", plan.hosts.len())
            .with("supervisors", hosts.len()));
    }
    let mut conductor = Conductor {
        plan,
        hosts: Hosts::new(hosts),
        record: JobRecord::new(plan, now_ms()),
        served: BTreeMap::new(),
    };
    let outcome = conductor.run(&mut stops, watch).await;
    conductor.hosts.close().await;
    outcome.map(|()| conductor.record)
}

struct Conductor<'a> {
    plan: &'a JobPlan,
    hosts: Hosts,
    record: JobRecord,
    /// What each server said last; it outlives the server, which comes back at the same place.
    served: BTreeMap<ReplicaId, Ready>,
}

impl Conductor<'_> {
    async fn run(&mut self, stops: &mut mpsc::Receiver<Stop>, watch: &mut dyn Watch) -> Result<()> {
        loop {
            let now = now_ms();
            let (decision, reason) = decide(now, &self.record, &self.plan.policy);
            let wake_ms = match decision {
                Decision::Wait(wake_ms) => wake_ms,
                decision => {
                    watch.decided(&decision, &reason);
                    let is_over = self.carry_out(decision, now).await?;
                    watch.changed(&self.record);
                    if is_over {
                        return Ok(());
                    }
                    continue;
                }
            };
            let pause = wake_ms.map(|moment| Duration::from_millis(moment.saturating_sub(now)));
            tokio::select! {
                report = self.hosts.next() => self.take_in(report, watch),
                Some(stop) = stops.recv() => self.stop(stop).await,
                () = tokio::time::sleep(pause.unwrap_or_default()), if pause.is_some() => {}
            }
        }
    }

    fn take_in(&mut self, report: Report, watch: &mut dyn Watch) {
        let event = match report {
            Report::Event(event) => event,
            Report::Lost { host, why } => {
                self.record.lose_host(&self.plan.hosts[host].name, &why, now_ms());
                watch.changed(&self.record);
                return;
            }
        };
        match &event {
            Event::Log { replica, text } => watch.log(*replica, text),
            Event::Ready { replica, ready } => {
                self.served.insert(*replica, ready.clone());
            }
            _ => {}
        }
        if self.record.apply(&event, now_ms()) {
            self.record.state = self.state();
            watch.changed(&self.record);
        }
    }

    /// The state of the whole while it runs.
    fn state(&self) -> JobState {
        let runs = |state| matches!(state, ReplicaState::Running | ReplicaState::Succeeded);
        match self.record.state {
            JobState::Pending | JobState::Starting | JobState::Running
                if self.record.replicas.iter().all(|replica| runs(replica.state)) =>
            {
                JobState::Running
            }
            state => state,
        }
    }

    /// Whether that was the last decision.
    async fn carry_out(&mut self, decision: Decision, now_ms: u64) -> Result<bool> {
        match decision {
            Decision::Start(replicas) => {
                if self.record.state == JobState::Pending {
                    self.record.state = JobState::Starting;
                }
                for id in replicas {
                    self.start(id, now_ms).await?;
                }
            }
            Decision::Restart(id) => self.start(id, now_ms).await?,
            Decision::End(verdict) => self.end(verdict, Signal::Terminate).await,
            Decision::Kill => self.signal(Signal::Kill).await,
            Decision::Finish => {
                let ending = self.record.ending.take();
                if let Some(Ending { verdict, .. }) = ending {
                    self.record.state = verdict.state;
                    self.record.reason = verdict.reason;
                    self.record.exit_code = Some(verdict.exit_code);
                    self.record.culprit = verdict.culprit;
                }
                self.record.ended_ms = Some(now_ms);
                return Ok(true);
            }
            Decision::Wait(_) => {}
        }
        Ok(false)
    }

    async fn start(&mut self, id: ReplicaId, now_ms: u64) -> Result<()> {
        let Some(replica) = self.plan.replica(id) else { return Ok(()) };
        let attempt = self.record.begin(id, now_ms);
        let start = self.plan.start(replica, attempt, &self.served)?;
        self.hosts.send(replica.host, &Command::Start(start)).await
    }

    async fn stop(&mut self, stop: Stop) {
        let signal = if stop.is_forced { Signal::Kill } else { Signal::Terminate };
        match &self.record.ending {
            // It ends already; all that can be asked for is to hurry.
            Some(_) if stop.is_forced => self.signal(Signal::Kill).await,
            Some(_) => {}
            None => {
                let reason = contract::exit::reason(stop.exit_code);
                let verdict = Verdict {
                    state: JobState::Killed,
                    exit_code: stop.exit_code,
                    reason,
                    culprit: None,
                };
                self.end(verdict, signal).await;
            }
        }
    }

    async fn end(&mut self, verdict: Verdict, signal: Signal) {
        if verdict.state == JobState::Killed {
            self.record.state = JobState::Killing;
        }
        self.record.ending = Some(Ending { verdict, since_ms: now_ms(), is_forced: false });
        self.signal(signal).await;
    }

    async fn signal(&mut self, signal: Signal) {
        for host in 0..self.plan.hosts.len() {
            let runs = |id| self.record.replica(id).is_some_and(|r| !r.state.is_final());
            let replicas = self.plan.replicas.iter().filter(|replica| replica.host == host);
            let replicas: Vec<_> =
                replicas.map(|replica| replica.id).filter(|id| runs(*id)).collect();
            // A host that cannot be told is gone, and reported as lost.
            let _ = self.hosts.send(host, &Command::Signal { replicas, signal }).await;
        }
        if let (Signal::Kill, Some(ending)) = (signal, &mut self.record.ending) {
            ending.is_forced = true;
        }
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
