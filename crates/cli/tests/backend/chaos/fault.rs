//! The faults of a round: when they strike, whom, and what they do.
//!
//! A fault waits for its moment, which is a count of steps or of processes and never a time, and then
//! until there is somebody to strike. Trainers do not end before all faults have struck
//! (`trainer.rs`), so every fault strikes.

use super::Dice;
use super::trainer::{Gate, Told};
use super::training::{DEADLINE, Setting};
use crate::backend::job::{Job, signal};
use crate::backend::processes::processes_with;
use contract::state::{ReplicaState, State};
use std::time::{Duration, Instant};

/// When a fault strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// When so many replicas have a process.
    Starting(u64),
    /// When trainers have begun so many steps.
    Training(u64),
    /// When trainer 0 has written the result, and nobody but the others has left.
    Ending,
}

/// Whom a fault strikes, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Process,
    TwoProcesses,
    Conductor,
    Supervisor,
    ProcessAndConductor,
    Host,
    StoppedForAWhile,
    StoppedForGood,
    LauncherStoppedForGood,
}

impl Kind {
    const ALL: [Kind; 7] = [
        Kind::Process,
        Kind::TwoProcesses,
        Kind::Conductor,
        Kind::Supervisor,
        Kind::ProcessAndConductor,
        Kind::Host,
        Kind::StoppedForAWhile,
    ];

    /// A stop for good, which takes minutes, only where a round may take so long.
    pub(super) fn draw(dice: &mut Dice, is_patient: bool) -> Kind {
        match dice.below(if is_patient { 4 } else { 2 }) {
            2 => Kind::StoppedForGood,
            3 => Kind::LauncherStoppedForGood,
            _ => Kind::ALL[dice.below(Kind::ALL.len() as u64) as usize],
        }
    }

    /// This kind in the summary.
    pub(super) fn words(self) -> &'static str {
        match self {
            Kind::Process => "process killed",
            Kind::TwoProcesses => "two at once killed",
            Kind::Conductor => "conductor killed",
            Kind::Supervisor => "supervisor killed",
            Kind::ProcessAndConductor => "process and conductor killed",
            Kind::Host => "host killed",
            Kind::StoppedForAWhile => "process stopped for seconds",
            Kind::StoppedForGood => "process stopped for good",
            Kind::LauncherStoppedForGood => "conductor or supervisor stopped for good",
        }
    }
}

impl Moment {
    /// The moments of a round's faults, in order.
    pub(super) fn draw(dice: &mut Dice, told: &Told, replicas: u64) -> Vec<Moment> {
        let steps = told.passes * told.records;
        let mut moments = Vec::new();
        for number in 0..1 + dice.below(2) {
            moments.push(match dice.below(6) {
                0 if number == 0 => Moment::Starting(1 + dice.below(replicas)),
                1 => Moment::Ending,
                _ => Moment::Training(dice.below(steps)),
            });
        }
        moments.sort_by_key(|moment| match moment {
            Moment::Starting(count) => (0, *count),
            Moment::Training(steps) => (1, *steps),
            Moment::Ending => (2, 0),
        });
        moments
    }

    pub(super) fn words(self) -> &'static str {
        match self {
            Moment::Starting(_) => "while starting",
            Moment::Training(_) => "while training",
            Moment::Ending => "while ending",
        }
    }

    fn has_come(self, job: &Job<'_>, told: &Told) -> bool {
        match self {
            Moment::Starting(count) => running(job).len() as u64 >= count,
            Moment::Training(steps) => {
                std::fs::metadata(told.progress()).is_ok_and(|file| file.len() >= steps)
            }
            Moment::Ending => told.result().exists(),
        }
    }
}

/// Lets a fault strike, and tells it. Gates that it does not need are opened first.
pub(super) fn strike(
    job: &Job<'_>,
    setting: &Setting,
    (moment, kind): (Moment, Kind),
    dice: &mut Dice,
    story: &mut String,
) -> Result<(), String> {
    if moment == Moment::Ending {
        open(&setting.told, Gate::LastPass);
    }
    await_that(job, &format!("{moment:?}"), || moment.has_come(job, &setting.told))?;
    let word = match kind {
        Kind::StoppedForAWhile | Kind::StoppedForGood | Kind::LauncherStoppedForGood => "STOP",
        _ => "KILL",
    };
    let mut victims = Vec::new();
    await_that(job, &format!("somebody for {kind:?}"), || {
        victims = choose(job, setting, kind, dice);
        // Who ended in this moment is not struck; if all did, others are chosen.
        victims.retain(|(_, pid)| signal(*pid, word));
        !victims.is_empty()
    })?;
    let names: Vec<&str> = victims.iter().map(|(name, _)| name.as_str()).collect();
    story.push_str(&format!("  {moment:?}: {word} {}\n", names.join(", ")));
    if kind == Kind::StoppedForAWhile {
        // The length of the stop is what is tried, not a way to wait for anything.
        std::thread::sleep(Duration::from_millis(dice.below(3000)));
        for (_, pid) in &victims {
            signal(*pid, "CONT");
        }
    }
    Ok(())
}

pub(super) fn open(told: &Told, gate: Gate) {
    std::fs::write(told.gate(gate), b"").unwrap();
}

/// Looks again and again. The job may not end meanwhile.
fn await_that(job: &Job<'_>, what: &str, mut is_so: impl FnMut() -> bool) -> Result<(), String> {
    let deadline = Instant::now() + DEADLINE;
    while !is_so() {
        let record = job.observe();
        if record.state.is_final() {
            return Err(format!("ended before {what}: {record:#?}"));
        }
        if Instant::now() > deadline {
            return Err(format!("waited in vain for {what}: {record:#?}"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// The replicas that have a process, by name.
fn running(job: &Job<'_>) -> Vec<(String, u32)> {
    let runs = |state| matches!(state, ReplicaState::Running | ReplicaState::Starting);
    let record = job.observe();
    let replicas = record.replicas.iter().filter(|one| runs(one.state));
    let all: Vec<_> =
        replicas.filter_map(|one| Some((one.replica.to_string(), one.pid?))).collect();
    // What the record says may be of a moment ago: only processes of this job are ever struck.
    let alive = job.processes();
    all.into_iter().filter(|(_, pid)| alive.contains(pid)).collect()
}

fn choose(job: &Job<'_>, setting: &Setting, kind: Kind, dice: &mut Dice) -> Vec<(String, u32)> {
    let named = |words: &[&str]| -> Vec<(String, u32)> {
        let of = |word: &&str| {
            let name = word.trim_start_matches('-').to_owned();
            job.processes_running(word).into_iter().map(move |pid| (name.clone(), pid))
        };
        words.iter().flat_map(of).collect()
    };
    let mut one_of = |mut list: Vec<(String, u32)>| {
        let at = dice.below(list.len().max(1) as u64) as usize;
        if at < list.len() { vec![list.swap_remove(at)] } else { Vec::new() }
    };
    let pair = |first: Vec<(String, u32)>, second: Vec<(String, u32)>| match first == second {
        _ if first.is_empty() || second.is_empty() => Vec::new(),
        true => Vec::new(),
        false => [first, second].concat(),
    };
    match kind {
        Kind::Process => one_of(running(job)),
        Kind::StoppedForAWhile => one_of([running(job), named(&["conduct", "supervise"])].concat()),
        Kind::TwoProcesses => {
            let all = running(job);
            pair(one_of(all.clone()), one_of(all))
        }
        // Half of them are the conductor's guard.
        Kind::Conductor => one_of(named(&["conduct"])),
        Kind::Supervisor => one_of(named(&["supervise"])),
        Kind::ProcessAndConductor => pair(one_of(running(job)), one_of(named(&["conduct"]))),
        Kind::Host => of_host(job, dice),
        Kind::StoppedForGood => one_of(running(job)),
        Kind::LauncherStoppedForGood => {
            // Of a supervisor's two processes, that which does the work: the other one only waits
            // for its end, and on another machine nobody can let it go on to see that.
            let keeper = if setting.is_elsewhere { "--keeper" } else { "supervise" };
            one_of(named(&["conduct", keeper]))
        }
    }
}

/// Everything of a machine; where there is only one, the whole job.
fn of_host(job: &Job<'_>, dice: &mut Dice) -> Vec<(String, u32)> {
    let host = job.harness.workspace(job.folder(), dice.below(2) as u32);
    let all = processes_with(host.to_str().unwrap()).into_iter();
    all.map(|pid| (format!("{pid} of a host"), pid)).collect()
}
