//! One round of a job, from its first process to its last: the loop that carries out what
//! [`decide`] says on the supervisors of the job's machines.

pub mod decide;

mod elastic;
mod goodbye;

use crate::plan::JobPlan;
use crate::record::{Ending, JobRecord, ReplicaRecord, Verdict};
use crate::replica::ReplicaId;
use crate::supervisor::host::{Host, Hosts, Report};
use crate::supervisor::message::{Command, Event, Signal};
use contract::ready::Ready;
use contract::role::Role;
use contract::state::{JobState, ReplicaState, State};
use contract::{Error, Result};
use decide::{Decision, decide};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc;

/// A request to end the job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stop {
    /// The exit code of the whole: 128 + signal.
    pub exit_code: i32,
    /// Why, where the exit code does not say it.
    pub reason: Option<String>,
    /// Whether replicas are killed without the time to end by themselves.
    pub is_forced: bool,
}

/// What somebody asks of a job that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// To end.
    Stop(Stop),
    /// To have so many trainers.
    Scale(u32),
}

/// Who keeps what a job tells, as it happens. That something cannot be kept is no reason to end a
/// job, so nothing here fails.
pub trait Watch: Send {
    /// A replica printed something.
    fn log(&mut self, replica: ReplicaId, bytes: &[u8]);
    /// A replica reported figures.
    fn metrics(&mut self, replica: ReplicaId, lines: &[serde_json::Value]);
    /// Something was decided, for a reason that people may want to read.
    fn decided(&mut self, reason: &str);
    /// The record changed.
    fn changed(&mut self, record: &mut JobRecord);
}

/// How a round ended. Nothing of it runs any more.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The job is over, as the verdict says. The record does not say so yet: what was produced is
    /// delivered first.
    Over(Verdict),
    /// Another round may repair what failed.
    Again,
}

/// The most reports that are taken in before a change is written down.
const TOGETHER_MAX: u32 = 16;

/// Runs one round on supervisors that have been reached already, one per machine of the plan.
///
/// # Errors
/// The plan makes no sense. The failure of a job is not an error but its verdict.
pub async fn run(
    plan: &JobPlan,
    hosts: Vec<Host>,
    record: &mut JobRecord,
    requests: &mut mpsc::Receiver<Request>,
    watch: &mut dyn Watch,
) -> Result<Outcome> {
    if hosts.len() != plan.nodes.len() {
        return Err(Error::invalid("a plan needs one supervisor per machine")
            .with("machines", plan.nodes.len())
            .with("supervisors", hosts.len()));
    }
    record.take_plan(plan);
    let mut conductor =
        Conductor { plan, hosts: Hosts::new(hosts), record, served: BTreeMap::new() };
    let outcome = conductor.run(requests, watch).await;
    if let Ok(Outcome::Over(_)) = outcome {
        conductor.hosts.dismiss().await?;
    }
    conductor.hosts.close().await;
    outcome
}

/// Milliseconds since 1970.
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

struct Conductor<'a> {
    plan: &'a JobPlan,
    hosts: Hosts,
    record: &'a mut JobRecord,
    /// What each server said last; it outlives the server, which comes back at the same place.
    served: BTreeMap<ReplicaId, Ready>,
}

impl Conductor<'_> {
    async fn run(
        &mut self,
        requests: &mut mpsc::Receiver<Request>,
        watch: &mut dyn Watch,
    ) -> Result<Outcome> {
        // What has changed is written down before anything is waited for, with what came meanwhile.
        let (mut is_new, mut taken) = (true, 0);
        loop {
            let now = now_ms();
            let (decision, reason) = decide(now, self.record, &self.plan.policy);
            let wake_ms = match decision {
                Decision::Wait(wake_ms) => {
                    is_new |= self.note_losses();
                    if !reason.is_empty() && self.record.reason != reason {
                        watch.decided(&reason);
                        self.record.reason = reason;
                        is_new = true;
                    }
                    wake_ms
                }
                decision => {
                    watch.decided(&reason);
                    is_new = true;
                    match self.carry_out(decision, &reason, now).await? {
                        Some(outcome) => {
                            watch.changed(self.record);
                            return Ok(outcome);
                        }
                        None => continue,
                    }
                }
            };
            if is_new
                && taken < TOGETHER_MAX
                && let Some(report) = self.hosts.try_next()
            {
                self.take_in(report, watch);
                taken += 1;
                continue;
            }
            if is_new {
                watch.changed(self.record);
                (is_new, taken) = (false, 0);
            }
            let pause = wake_ms.map(|moment| Duration::from_millis(moment.saturating_sub(now)));
            tokio::select! {
                report = self.hosts.next() => is_new |= self.take_in(report, watch),
                Some(request) = requests.recv() => {
                    match request {
                        Request::Stop(stop) => self.stop(stop).await,
                        Request::Scale(trainers) => {
                            self.record.scale(self.plan, trainers);
                        }
                    }
                    is_new = true;
                }
                () = tokio::time::sleep(pause.unwrap_or_default()), if pause.is_some() => {}
            }
        }
    }

    /// Notes which trainers an elastic job goes on without. Whether that is new.
    fn note_losses(&mut self) -> bool {
        if self.record.ending.is_some() {
            return false;
        }
        let losses = elastic::losses(self.record, &self.plan.policy);
        let mut is_new = false;
        for loss in losses {
            is_new |= self.record.note(loss);
        }
        is_new
    }

    /// Takes in what a supervisor says. Whether the record changed.
    fn take_in(&mut self, report: Report, watch: &mut dyn Watch) -> bool {
        let event = match report {
            Report::Event(event) => event,
            Report::Lost { host, why } => {
                self.record.lose_host(&self.plan.nodes[host].name, &why, now_ms());
                return true;
            }
        };
        match &event {
            Event::Log { replica, output } => watch.log(*replica, &output.decode()),
            Event::Metrics { replica, lines } => watch.metrics(*replica, lines),
            Event::Ready { replica, ready } => {
                self.served.insert(*replica, ready.clone());
            }
            _ => {}
        }
        let is_new = self.record.apply(&event, now_ms());
        if is_new {
            self.record.state = self.state();
        }
        is_new
    }

    /// The state of the whole while it runs.
    fn state(&self) -> JobState {
        let is_elastic = self.plan.policy.min_trainers.is_some();
        let runs = |replica: &ReplicaRecord| match replica.state {
            ReplicaState::Running | ReplicaState::Succeeded => true,
            // The others go on.
            state => is_elastic && state.is_final() && replica.replica.role == Role::Trainer,
        };
        match self.record.state {
            JobState::Pending | JobState::Starting | JobState::Running
                if self.record.replicas.iter().all(runs) =>
            {
                JobState::Running
            }
            state => state,
        }
    }

    /// The outcome, if that was the last decision.
    async fn carry_out(
        &mut self,
        decision: Decision,
        reason: &str,
        now_ms: u64,
    ) -> Result<Option<Outcome>> {
        match decision {
            Decision::Start(replicas) => {
                if self.record.state != JobState::Starting {
                    self.record.state = JobState::Starting;
                    self.record.reason.clear();
                }
                for id in replicas {
                    self.start(id, now_ms).await?;
                }
            }
            Decision::Restart(id) => self.start(id, now_ms).await?,
            Decision::Leave { replicas, is_killed } => {
                self.record.leave(&replicas, is_killed, now_ms);
                let signal = if is_killed { Signal::Kill } else { Signal::Terminate };
                self.tell(signal, |id| replicas.contains(&id)).await;
            }
            Decision::Again(culprit) => {
                self.record.count_failure(culprit);
                self.record.rounds += 1;
                self.record.state = JobState::Starting;
                reason.clone_into(&mut self.record.reason);
                return Ok(Some(Outcome::Again));
            }
            Decision::End(verdict) => self.end(verdict, Signal::Terminate).await,
            Decision::Kill => self.signal(Signal::Kill).await,
            Decision::Finish => return Ok(Some(Outcome::Over(self.verdict()))),
            Decision::Wait(_) => {}
        }
        Ok(None)
    }

    /// How the job ends, now that everything has been heard.
    fn verdict(&mut self) -> Verdict {
        let mut verdict = match &self.record.ending {
            Some(ending) => ending.verdict.clone(),
            None => Verdict::failed("it ended without a decision".to_owned()),
        };
        let is_checked = verdict.state == JobState::Succeeded && !self.plan.policy.allows_idle;
        let is_elastic = self.plan.policy.min_trainers.is_some();
        if let Some(reason) = decide::idle(self.record, is_elastic).filter(|_| is_checked) {
            verdict = Verdict::failed(reason);
        }
        if let Some(reason) = decide::unsaved(self.record, &self.plan.policy)
            && verdict.state == JobState::Succeeded
        {
            verdict = Verdict::failed(reason);
        }
        if verdict.state == JobState::Succeeded && !self.plan.policy.allows_idle {
            self.record.notes.extend(decide::unasked_master(self.record));
        }
        if let Some(reason) = decide::undead(self.record) {
            match verdict.state {
                JobState::Succeeded => verdict = Verdict::failed(reason),
                // Why the job ended is the more important news.
                _ => self.record.notes.push(reason),
            }
        }
        // What is decided holds for another conductor too, which may have to deliver the results.
        if let Some(ending) = &mut self.record.ending {
            ending.verdict = verdict.clone();
        }
        verdict
    }

    async fn start(&mut self, id: ReplicaId, now_ms: u64) -> Result<()> {
        let Some(replica) = self.plan.replica(id) else { return Ok(()) };
        let attempt = self.record.begin(id, now_ms);
        if let Some(why) = self.hosts.gone(replica.node) {
            self.record.lose_host(&self.plan.nodes[replica.node].name, why, now_ms);
            return Ok(());
        }
        let has_begun = self.record.has_begun();
        let start = self.plan.start(replica, attempt, has_begun, &self.served)?;
        self.hosts.send(replica.node, &Command::Start(Box::new(start))).await
    }

    /// Signals those of the wanted replicas that run.
    async fn tell(&mut self, signal: Signal, is_wanted: impl Fn(ReplicaId) -> bool) {
        for node in 0..self.plan.nodes.len() {
            let runs = |id| self.record.replica(id).is_some_and(|r| !r.state.is_final());
            let replicas = self.plan.replicas.iter().filter(|replica| replica.node == node);
            let replicas: Vec<_> = replicas
                .map(|replica| replica.id)
                .filter(|id| runs(*id) && is_wanted(*id))
                .collect();
            // A machine that cannot be told is gone, and reported as lost.
            let _ = self.hosts.send(node, &Command::Signal { replicas, signal }).await;
        }
    }

    async fn stop(&mut self, stop: Stop) {
        let signal = if stop.is_forced { Signal::Kill } else { Signal::Terminate };
        match &self.record.ending {
            // It ends already; all that can be asked for is to hurry.
            Some(_) if stop.is_forced => self.signal(Signal::Kill).await,
            Some(_) => {}
            None => self.end(Verdict::killed(stop), signal).await,
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
        self.tell(signal, |_| true).await;
        if let (Signal::Kill, Some(ending)) = (signal, &mut self.record.ending) {
            (ending.is_forced, ending.since_ms) = (true, now_ms());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Node, plan};
    use crate::submission::sample;
    use crate::supervisor::message::{VERSION, decode, encode};
    use contract::job::{FaultTolerance, JobSpec};
    use contract::port::Ports;
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, duplex, split};

    struct Nobody;

    impl Watch for Nobody {
        fn log(&mut self, _: ReplicaId, _: &[u8]) {}
        fn metrics(&mut self, _: ReplicaId, _: &[serde_json::Value]) {}
        fn decided(&mut self, _: &str) {}
        fn changed(&mut self, _: &mut JobRecord) {}
    }

    /// A supervisor without processes: everything starts, and what is told to end has ended.
    /// `started` hears of each trainer, and by which way to say that it ended.
    async fn supervise(pipe: DuplexStream, started: mpsc::Sender<(ReplicaId, DuplexEnd)>) {
        let (input, output) = split(pipe);
        let output = std::sync::Arc::new(tokio::sync::Mutex::new(output));
        let mut lines = BufReader::new(input).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let events = match decode::<Command>(&format!("{line}\n")).unwrap() {
                Command::Start(start) if start.is_server => {
                    let ports = Ports { first: 7164, dense: 1, sparse: 1 };
                    let addresses = vec!["127.0.0.1".parse().unwrap()];
                    let (role, rank) = (start.replica.role, None);
                    let ready = Ready { role, rank, addresses, ports };
                    vec![Event::Ready { replica: start.replica, ready }]
                }
                Command::Start(start) => {
                    started.send((start.replica, output.clone())).await.unwrap();
                    vec![Event::Started { replica: start.replica, pid: None }]
                }
                Command::Signal { replicas, .. } => replicas.into_iter().map(ended).collect(),
                Command::Close => return,
                Command::Probe(_) => Vec::new(),
            };
            for event in events {
                say(&output, &event).await;
            }
        }
    }

    type DuplexEnd = std::sync::Arc<tokio::sync::Mutex<tokio::io::WriteHalf<DuplexStream>>>;

    fn ended(replica: ReplicaId) -> Event {
        Event::Exited { replica, code: 0, message: None }
    }

    async fn say(output: &DuplexEnd, event: &Event) {
        let line = encode(event).unwrap();
        output.lock().await.write_all(line.as_bytes()).await.unwrap();
    }

    fn node(name: &str) -> Node {
        Node {
            name: name.into(),
            address: "127.0.0.1".into(),
            nic: String::new(),
            paddle: "paddle".into(),
            workspace: "/nowhere".into(),
            directory: "/nowhere".into(),
            owns_workspace: true,
            env: BTreeMap::new(),
        }
    }

    /// Its supervisor was reported as lost before, and is not again.
    #[tokio::test]
    async fn whoever_is_started_on_a_lost_machine_is_lost_too() {
        let spec = JobSpec {
            trainers: 2,
            master: true,
            fault_tolerance: Some(FaultTolerance { min_trainers: 1, max_trainers: 4 }),
            ..JobSpec::default()
        };
        let submission = sample(spec);
        let plan = plan(&submission, vec![node("here"), node("gone")]).unwrap();
        let (started_sender, mut started) = mpsc::channel(8);
        let (mut hosts, patience) = (Vec::new(), Duration::from_secs(60));
        let opened = encode(&Event::Opened { version: VERSION }).unwrap();
        for name in ["here", "gone"] {
            let (near, mut far) = duplex(1 << 20);
            far.write_all(opened.as_bytes()).await.unwrap();
            if name == "here" {
                tokio::spawn(supervise(far, started_sender.clone()));
            }
            let (events, commands) = split(near);
            let host = Host::attach(name, Box::new(commands), Box::new(events), patience).await;
            hosts.push(host.unwrap());
        }
        let (sender, mut requests) = mpsc::channel(4);
        let mut record = JobRecord::new(&submission, now_ms());
        let mut watch = Nobody;
        let running = run(&plan, hosts, &mut record, &mut requests, &mut watch);
        let told = async {
            let mut trainers = vec![started.recv().await.unwrap()];
            sender.send(Request::Scale(4)).await.unwrap();
            // Trainer 3 would be on the other machine.
            trainers.push(started.recv().await.unwrap());
            for (replica, output) in trainers {
                say(&output, &ended(replica)).await;
            }
        };
        let ((), outcome) = tokio::join!(told, running);
        let Outcome::Over(verdict) = outcome.unwrap() else { panic!("{record:#?}") };
        assert_eq!(verdict.state, JobState::Succeeded, "{verdict:?} {record:#?}");
        let state = |rank| record.replica(ReplicaId::new(Role::Trainer, rank)).unwrap().state;
        assert_eq!([0, 2].map(state), [ReplicaState::Succeeded; 2]);
        assert_eq!([1, 3].map(state), [ReplicaState::Lost; 2]);
        let notes = record.notes.join("\n");
        assert!(notes.contains("the job goes on without trainer-3, since its machine"), "{notes}");
    }
}
