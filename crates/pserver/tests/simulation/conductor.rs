//! Starts and ends the processes of a job as docs/faults.md asks of launchers, and does to them what
//! the plan says.

use crate::network::Network;
use crate::plan::{Data, Fault, Plan, Who};
use crate::trainer::{self, FIRST_PORT, LINE_BYTES, MASTER, Told, Values, small_limits};
use crate::witness::Witness;
use contract::Result;
use futures_util::future::join_all;
use master::dataset::Split;
use master::queue::Rules;
use master::server::Master;
use pserver::checkpoint::Which;
use pserver::server::{Checkpointing, Disk, ServerConfig, serve_port};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::task::{AbortHandle, LocalSet};
use tokio::time::{Instant, sleep, sleep_until};
use wire::Listener;

/// How long a job may take once nothing happens to it any more.
const PATIENCE: Duration = Duration::from_secs(1800);
/// How long a process takes to start.
const START: Duration = Duration::from_millis(150);
/// How long it takes until a person notices.
const NOTICED: Duration = Duration::from_secs(20);
/// More epochs than this are no progress.
const EPOCHS_MAX: u32 = 40;

/// How a job ended.
pub(crate) struct Outcome {
    /// What the trainers had in the end, by rank.
    pub(crate) results: Vec<Option<Values>>,
    /// What happened, and when.
    pub(crate) story: String,
    /// What trainers did with the tasks of a master.
    pub(crate) witness: Witness,
}

struct Conductor<'a> {
    plan: Arc<Plan>,
    folder: &'a Path,
    network: Arc<Network>,
    processes: BTreeMap<Who, Process>,
    /// Ranks of an elastic job that nobody is to have.
    vacant: BTreeSet<u32>,
    exits: UnboundedSender<Exit>,
    lives: u64,
    epochs: u32,
    /// When a person notices that a server was started alone.
    noticed: Option<Instant>,
    /// Trainers and the master that are to be started again, and when.
    starts: Vec<(Instant, Who)>,
    results: Arc<Mutex<Vec<Option<Values>>>>,
    witness: Arc<Mutex<Witness>>,
    begun: Instant,
    story: String,
}

struct Process {
    life: u64,
    task: AbortHandle,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    Succeeded,
    /// By itself, with an error.
    Failed,
    Killed,
}

struct Exit {
    who: Who,
    life: u64,
    outcome: Result<()>,
}

/// Runs a job to its end.
pub(crate) async fn run(plan: &Plan, folder: &Path) -> std::result::Result<Outcome, String> {
    let (exits, incoming) = unbounded_channel();
    let mut conductor = Conductor {
        plan: Arc::new(plan.clone()),
        folder,
        network: Network::new(plan.seed),
        processes: BTreeMap::new(),
        vacant: vacant_at_first(plan),
        exits,
        lives: 0,
        epochs: 0,
        noticed: None,
        starts: Vec::new(),
        results: Arc::new(Mutex::new(vec![None; plan.trainers as usize])),
        witness: Arc::default(),
        begun: Instant::now(),
        story: String::new(),
    };
    let ended = conductor.conduct(incoming).await;
    let story = std::mem::take(&mut conductor.story);
    conductor.kill_all(|_| true);
    // What was killed is gone when others had their turn.
    sleep(START).await;
    match ended {
        Ok(()) => {
            let results = conductor.results.lock().expect("nobody panics with it").clone();
            let witness = std::mem::take(&mut *conductor.witness());
            Ok(Outcome { results, story, witness })
        }
        Err(problem) => Err(format!("{problem}\n{story}")),
    }
}

fn vacant_at_first(plan: &Plan) -> BTreeSet<u32> {
    let last = plan.trainers - 1;
    let is_enough = plan.min_trainers.is_some_and(|least| (1..=last).contains(&least));
    (plan.begins_smaller && is_enough).then_some(last).into_iter().collect()
}

impl Conductor<'_> {
    async fn conduct(
        &mut self,
        mut exits: UnboundedReceiver<Exit>,
    ) -> std::result::Result<(), String> {
        if let Data::Master { .. } = self.plan.data {
            let lines: String =
                (0..self.plan.records()).map(|line| format!("{line:07}\n")).collect();
            std::fs::write(self.folder.join("data"), lines).map_err(|error| error.to_string())?;
            self.start(Who::Master, None);
        }
        self.start_epoch(None).await?;
        let mut faults = self.plan.faults.clone();
        faults.reverse();
        let mut end = self.begun + PATIENCE;
        loop {
            let fault = faults.last().map(|(moment, _)| self.begun + *moment);
            let start = self.starts.iter().map(|(moment, _)| *moment).min();
            let moments = [fault, start, self.noticed, Some(end)];
            let wake = moments.into_iter().flatten().min().unwrap_or(end);
            tokio::select! {
                biased;
                Some(exit) = exits.recv() => self.take(exit),
                () = sleep_until(wake) => {}
            }
            let now = Instant::now();
            if fault.is_some_and(|moment| moment <= now)
                && let Some((_, fault)) = faults.pop()
            {
                end = now + PATIENCE;
                self.strike(fault);
            }
            if now >= end {
                return Err(format!("not done {PATIENCE:?} after the last fault"));
            }
            if self.decide().await? {
                return Ok(());
            }
        }
    }

    /// Does what the state of the processes asks for. Whether the job is done.
    async fn decide(&mut self) -> std::result::Result<bool, String> {
        let has_ended_badly = |state| matches!(state, State::Failed | State::Killed);
        let servers = || self.states(|who| matches!(who, Who::Server(_)));
        let has_success = servers().any(|(_, state)| state == State::Succeeded);
        let is_noticed = self.noticed.is_some_and(|moment| moment <= Instant::now());
        if is_noticed || servers().any(|(_, state)| has_ended_badly(state)) {
            self.kill_all(|who| who != Who::Master);
            sleep(START).await;
            self.start_epoch(Some(Which::Common)).await?;
            return Ok(false);
        }
        if servers().all(|(_, state)| state == State::Succeeded) {
            return Ok(true);
        }
        let trainers = || self.states(|who| matches!(who, Who::Trainer(_)));
        // Killed behind its goodbye: it had finished.
        let is_done = |state| state == State::Succeeded || (state == State::Killed && has_success);
        if trainers().all(|(who, state)| is_done(state) || self.is_vacant(who)) {
            return Ok(true);
        }
        let is_wanted_no_more =
            |who, state| self.is_vacant(who) || matches!(who, Who::Trainer(_)) && is_done(state);
        let is_down = |(who, state): &(Who, State)| {
            has_ended_badly(*state)
                && !is_wanted_no_more(*who, *state)
                && !self.starts.iter().any(|(_, other)| other == who)
        };
        let down: Vec<_> = self.states(|_| true).filter(is_down).collect();
        let moment = Instant::now() + START;
        self.starts.extend(down.into_iter().map(|(who, _)| (moment, who)));
        let due: Vec<Who> =
            self.starts.extract_if(.., |(at, _)| *at <= Instant::now()).map(|it| it.1).collect();
        for who in due {
            self.start(who, None);
        }
        Ok(false)
    }

    fn is_vacant(&self, who: Who) -> bool {
        matches!(who, Who::Trainer(rank) if self.vacant.contains(&rank))
    }

    fn states(&self, is_wanted: impl Fn(Who) -> bool) -> impl Iterator<Item = (Who, State)> {
        let all = self.processes.iter().map(|(who, process)| (*who, process.state));
        all.filter(move |(who, _)| is_wanted(*who))
    }

    fn witness(&self) -> MutexGuard<'_, Witness> {
        self.witness.lock().expect("nobody panics with it")
    }

    async fn start_epoch(&mut self, restore: Option<Which>) -> std::result::Result<(), String> {
        self.epochs += 1;
        self.noticed = None;
        if self.epochs > EPOCHS_MAX {
            return Err(format!("{EPOCHS_MAX} epochs and no end"));
        }
        self.starts.retain(|(_, who)| *who == Who::Master);
        self.results.lock().expect("nobody panics with it").fill(None);
        for server in 0..self.plan.servers {
            self.start(Who::Server(server), restore);
        }
        sleep(START).await;
        for rank in 0..self.plan.trainers {
            if !self.vacant.contains(&rank) {
                self.start(Who::Trainer(rank), None);
            }
        }
        Ok(())
    }

    fn take(&mut self, exit: Exit) {
        let Exit { who, life, outcome } = exit;
        let Some(process) = self.processes.get_mut(&who).filter(|known| known.life == life) else {
            return;
        };
        if process.state == State::Killed {
            return;
        }
        process.state = match &outcome {
            Ok(()) => State::Succeeded,
            Err(_) => State::Failed,
        };
        if outcome.is_err() {
            self.witness().strike();
        }
        let text = match outcome {
            Ok(()) => "ends".to_owned(),
            Err(error) => format!("fails: {}", error.chain()),
        };
        self.network.forget(who);
        self.tell(who, &text);
    }

    fn strike(&mut self, fault: Fault) {
        if !fault.is_harmless() {
            self.witness().strike();
        }
        match fault {
            Fault::Kill(victims) => victims.into_iter().for_each(|who| self.kill(who)),
            Fault::Away(rank, time) => {
                let who = Who::Trainer(rank);
                let is_running = |process: &Process| process.state == State::Running;
                if self.processes.get(&who).is_some_and(is_running) {
                    self.kill(who);
                    self.starts.push((Instant::now() + time, who));
                }
            }
            Fault::Leave(rank) => {
                let left = self.plan.trainers as usize - self.vacant.len() - 1;
                // Trainer 0 writes the model, so it always comes back.
                let is_enough = self.plan.min_trainers.is_some_and(|least| left >= least as usize);
                if rank > 0 && is_enough && self.vacant.insert(rank) {
                    self.kill(Who::Trainer(rank));
                    self.starts.retain(|(_, who)| *who != Who::Trainer(rank));
                }
            }
            Fault::Join(rank) => {
                if self.vacant.remove(&rank) {
                    self.starts.push((Instant::now(), Who::Trainer(rank)));
                }
            }
            Fault::Meddle(server) => {
                let who = Who::Server(server);
                self.kill(who);
                self.start(who, Some(Which::Common));
                self.noticed = Some(Instant::now() + NOTICED);
            }
            Fault::Disconnect(who) => {
                self.tell(who, "is disconnected");
                self.network.disconnect(who);
            }
            Fault::Silence(who, time) => {
                self.tell(who, &format!("is silent for {time:?}"));
                self.network.silence(who, time);
            }
            Fault::Part(who, other, time) => {
                self.tell(who, &format!("is parted from {other:?} for {time:?}"));
                self.network.part(who, other, time);
            }
            Fault::FullDisk(time) => {
                self.tell(Who::Master, &format!("sees the disks full for {time:?}"));
                self.network.fill_disk(time);
            }
            Fault::SlowDisk(time) => {
                self.tell(Who::Master, &format!("sees slow disks for {time:?}"));
                self.network.slow_disk(time);
            }
        }
    }

    fn kill_all(&mut self, is_wanted: impl Fn(Who) -> bool) {
        self.witness().strike();
        let victims: Vec<Who> =
            self.processes.keys().copied().filter(|who| is_wanted(*who)).collect();
        victims.into_iter().for_each(|who| self.kill(who));
    }

    fn kill(&mut self, who: Who) {
        if let Some(process) = self.processes.get_mut(&who)
            && process.state == State::Running
        {
            process.state = State::Killed;
            process.task.abort();
            self.network.forget(who);
            self.network.disconnect(who);
            self.tell(who, "is killed");
        }
    }

    fn start(&mut self, who: Who, restore: Option<Which>) {
        self.lives += 1;
        let life = self.lives;
        self.tell(who, "starts");
        let (network, plan) = (Arc::clone(&self.network), Arc::clone(&self.plan));
        // Never the same, and not in the order of starts.
        let incarnation = (network.draw(u64::MAX) << 10) | life;
        let work: std::pin::Pin<Box<dyn Future<Output = Result<()>>>> = match who {
            Who::Master => {
                Box::pin(serve_master(plan, network, self.folder.to_owned(), incarnation))
            }
            Who::Server(server) => {
                let folder = plan.keeps_checkpoints.then(|| self.folder.join("checkpoints"));
                let mut config = ServerConfig::new(plan.trainers, incarnation);
                config.limits = small_limits();
                config.min_trainers = plan.min_trainers;
                config.restore = restore;
                config.checkpoint = folder.map(|folder| Checkpointing {
                    folder,
                    keep: plan.cuts_kept,
                    interval: Some(plan.cut_interval),
                    disk: Some(Arc::clone(&network) as Arc<dyn Disk>),
                });
                Box::pin(serve(plan, network, server, config))
            }
            Who::Trainer(rank) => {
                let (results, witness) = (Arc::clone(&self.results), Arc::clone(&self.witness));
                Box::pin(trainer::run(Told { plan, network, rank, incarnation, results, witness }))
            }
        };
        let exits = self.exits.clone();
        let task = tokio::task::spawn_local(async move {
            // Its own set, so that everything it started ends with it.
            let outcome = LocalSet::new().run_until(work).await;
            let _ = exits.send(Exit { who, life, outcome });
        });
        let process = Process { life, task: task.abort_handle(), state: State::Running };
        self.processes.insert(who, process);
    }

    fn tell(&mut self, who: Who, text: &str) {
        let seconds = self.begun.elapsed().as_secs_f32();
        tracing::info!(seconds, ?who, "{text}");
        self.story.push_str(&format!("{seconds:8.3} {who:?} {text}\n"));
    }
}

async fn serve(
    plan: Arc<Plan>,
    network: Arc<Network>,
    server: u32,
    config: ServerConfig,
) -> Result<()> {
    let (failed, has_failed) = watch::channel(false);
    let (_stop, stop) = watch::channel(false);
    let ports = (0..plan.dense_ports + plan.sparse_ports).map(|port| {
        let address = format!("server-{server}:{}", FIRST_PORT + port);
        let listener = Listener::Other(network.listen(Who::Server(server), address));
        let stops = [stop.clone(), has_failed.clone()];
        let (config, failed) = (&config, &failed);
        async move {
            serve_port(vec![listener], config, stops).await.inspect_err(|_| {
                failed.send_replace(true);
            })
        }
    });
    join_all(ports).await.into_iter().collect()
}

async fn serve_master(
    plan: Arc<Plan>,
    network: Arc<Network>,
    folder: std::path::PathBuf,
    incarnation: u64,
) -> Result<()> {
    let Data::Master { records_per_task } = plan.data else { return Ok(()) };
    let config = master::server::ServerConfig {
        limits: small_limits(),
        rules: Rules::default(),
        split: Split {
            pieces_per_task: Some(1),
            text_piece_bytes: records_per_task * LINE_BYTES,
            ..Split::default()
        },
        dataset: vec![folder.join("data").display().to_string()],
        state_dir: Some(folder.join("state")),
        ..master::server::ServerConfig::new(incarnation)
    };
    let listener = Listener::Other(network.listen(Who::Master, MASTER.to_owned()));
    let (_stop, stop) = watch::channel(false);
    Master::open(config)?.serve(vec![listener], stop).await.map(|_| ())
}
