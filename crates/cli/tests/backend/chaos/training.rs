//! Rounds of training with real processes: servers, trainers, the master and what runs them are
//! killed and stopped, one, two or all of a host at a time, and the model must be what was asked for.
//!
//! `PADDLE_CHAOS_TRAINING_ROUNDS` sets the number of rounds (10), `PADDLE_CHAOS_SEED` the seed (the
//! time). `make chaos` runs 100. A round that fails prints its seed, and `make chaos ROUNDS=1 SEED=…`
//! repeats what it draws; moments are by the clock, so that the processes may be elsewhere.

use super::trainer::{self, FILE_RECORDS, Told, Values};
use super::{Dice, number, seed};
use crate::backend::job::{Harness, Job, signal};
use crate::backend::places::{Local, Ssh};
use contract::job::FaultTolerance;
use contract::mode::Mode;
use contract::state::{JobState, ReplicaState, State};
use scheduler::JobRecord;
use std::time::{Duration, Instant};

/// The variable by which this program is told to be a trainer.
const TRAINER: &str = "PADDLE_CHAOS_TRAINER";
/// This test, as that program knows it.
const TEST: &str = "backend::chaos::training::training_survives_kills_and_stops";
const TRAINERS: u32 = 2;
/// Nothing may take longer, the 60 s after which something that hangs is given up included.
const DEADLINE: Duration = Duration::from_secs(600);

#[test]
fn training_survives_kills_and_stops() {
    if let Ok(told) = std::env::var(TRAINER) {
        return trainer::run(&serde_json::from_str(&told).unwrap());
    }
    let (first, rounds) = (seed(), number("PADDLE_CHAOS_TRAINING_ROUNDS").unwrap_or(10));
    let mut places: Vec<(&str, Box<dyn Harness>)> = vec![
        ("local", Box::new(Local { isolates: true })),
        ("local without namespace", Box::new(Local { isolates: false })),
    ];
    if let Some(ssh) = Ssh::find() {
        places.push(("ssh", Box::new(ssh)));
    }
    let begun = Instant::now();
    for round in 0..rounds {
        let own_seed = first.wrapping_add(round);
        let (name, place) = &places[(own_seed % places.len() as u64) as usize];
        let mut story = format!("round {round} on {name}: make chaos ROUNDS=1 SEED={own_seed}\n");
        let outcome = play(place.as_ref(), &mut Dice(own_seed), &mut story);
        eprint!("{story}");
        if let Err(problem) = outcome {
            panic!("{problem}\n{story}");
        }
    }
    eprintln!("{rounds} rounds, none wrong, {:?} each", begun.elapsed() / rounds.max(1) as u32);
}

/// One job and what happens to it.
fn play(place: &dyn Harness, dice: &mut Dice, story: &mut String) -> Result<(), String> {
    let is_dealt = dice.below(2) == 0;
    let is_elastic = is_dealt && dice.below(2) == 0;
    let shapes = dice.below(3);
    let batches = 40;
    let mode = if dice.below(4) == 0 { Mode::Async } else { Mode::Sync };
    let told = |result| Told {
        has_dense: shapes != 0,
        has_sparse: shapes != 1,
        mode,
        is_dealt,
        passes: 2,
        batches,
        records: batches * u64::from(TRAINERS),
        step_ms: 15,
        result,
    };
    let program = std::env::current_exe().unwrap();
    let program = [program.to_str().unwrap(), "--exact", TEST, "--nocapture"];
    let mut job = Job::of(place, TRAINERS, &program);
    let told = told(job.folder().join("result.json"));
    let folder = job.folder().to_str().unwrap().to_owned();
    // The default, which this round does not live to see, or one that it does.
    let interval = [None, Some(1)][dice.below(2) as usize];
    job = job.with(|spec| {
        spec.restarts = 30;
        spec.mode = told.mode;
        spec.checkpoint.dir = format!("{folder}/checkpoints");
        spec.checkpoint.interval_seconds = interval;
        spec.env.insert(TRAINER.to_owned(), serde_json::to_string(&told).unwrap());
        if is_dealt {
            spec.master = true;
            spec.data.files = vec![format!("{folder}/data-*")];
            spec.data.chunks_per_task = Some(1);
            spec.data.passes = 0;
        }
        if is_elastic {
            spec.fault_tolerance =
                Some(FaultTolerance { min_trainers: 1, max_trainers: TRAINERS + 1 });
        }
    });
    for file in 0..told.records / FILE_RECORDS {
        let lines: String = (0..FILE_RECORDS).map(|line| format!("{line:07}\n")).collect();
        std::fs::write(job.folder().join(format!("data-{file:04}")), lines).unwrap();
    }
    story.push_str(&format!("  {told:?}, elastic {is_elastic}, interval {interval:?}\n"));
    job.try_submit().unwrap();
    let faults = 1 + dice.below(2);
    for _ in 0..faults {
        std::thread::sleep(Duration::from_millis(dice.below(3500)));
        strike(&job, dice, is_elastic, story);
    }
    let record = await_end(&job)?;
    if record.state != JobState::Succeeded {
        let logs: Vec<String> =
            record.replicas.iter().map(|one| tail(&job, &one.replica.to_string())).collect();
        return Err(format!("not succeeded: {record:#?}\n{}", logs.join("\n")));
    }
    let bytes = std::fs::read(&told.result).map_err(|error| format!("no result: {error}"))?;
    let values: Values = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
    check(&told, &values, is_elastic, &record)
}

fn tail(job: &Job<'_>, replica: &str) -> String {
    let text = job.text(replica);
    let lines: Vec<&str> = text.lines().collect();
    format!("{replica}:\n{}", lines[lines.len().saturating_sub(12)..].join("\n"))
}

fn await_end(job: &Job<'_>) -> Result<JobRecord, String> {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let record = job.observe();
        if record.state.is_final() {
            job.assert_nothing_is_left();
            return Ok(record);
        }
        if Instant::now() > deadline {
            let log = std::fs::read_to_string(job.directory().join("conductor.log"));
            return Err(format!("hangs: {record:#?}\n{}", log.unwrap_or_default()));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Kills or stops something.
fn strike(job: &Job<'_>, dice: &mut Dice, is_elastic: bool, story: &mut String) {
    let record = job.observe();
    let runs = |state| matches!(state, ReplicaState::Running | ReplicaState::Starting);
    let replicas: Vec<(String, u32)> = record
        .replicas
        .iter()
        .filter(|one| runs(one.state))
        .filter_map(|one| Some((one.replica.to_string(), one.pid?)))
        .collect();
    let runners: Vec<(String, u32)> = ["conduct", "--guarded", "supervise"]
        .iter()
        .flat_map(|word| job.processes_running(word).into_iter().map(|pid| (word.to_string(), pid)))
        .collect();
    let any = |list: &[(String, u32)], dice: &mut Dice| {
        list.get(dice.below(list.len().max(1) as u64) as usize).cloned()
    };
    let kind = dice.below(7);
    let victims: Vec<(String, u32)> = match kind {
        0 => any(&replicas, dice).into_iter().collect(),
        1 => [any(&replicas, dice), any(&replicas, dice)].into_iter().flatten().collect(),
        2 => any(&runners, dice).into_iter().collect(),
        3 => [any(&replicas, dice), any(&runners, dice)].into_iter().flatten().collect(),
        // Everything of a machine; where there is only one, the whole job.
        4 => {
            let host = job.harness.workspace(job.folder(), dice.below(TRAINERS.into()) as u32);
            let is_there = |pid: &u32| {
                let read = |name| std::fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
                let text = [read("environ"), read("cmdline")].concat();
                String::from_utf8_lossy(&text).contains(host.to_str().unwrap())
            };
            let all = job.processes().into_iter().filter(is_there);
            all.map(|pid| ("of a host".to_owned(), pid)).collect()
        }
        5 => any(&replicas, dice).or_else(|| any(&runners, dice)).into_iter().collect(),
        // For good. A master that hangs is waited for for ten minutes, and the servers of an
        // elastic job wait as long for trainers: too long for a round.
        _ => {
            let may_hang = |(name, _): &&(String, u32)| match is_elastic {
                true => name.starts_with("trainer") && !name.ends_with("-0"),
                false => !name.starts_with("master"),
            };
            any(&replicas.iter().filter(may_hang).cloned().collect::<Vec<_>>(), dice)
                .into_iter()
                .collect()
        }
    };
    let word = if kind < 5 { "KILL" } else { "STOP" };
    for (name, pid) in &victims {
        story.push_str(&format!("  {word} {name}\n"));
        signal(*pid, word);
    }
    if kind == 5 {
        std::thread::sleep(Duration::from_millis(dice.below(3000)));
        for (_, pid) in &victims {
            signal(*pid, "CONT");
        }
    }
}

fn check(told: &Told, values: &Values, is_elastic: bool, record: &JobRecord) -> Result<(), String> {
    let is_exact = told.mode == Mode::Sync && !told.is_dealt;
    let attempts: u32 = record.replicas.iter().map(|replica| replica.attempt).sum();
    // Each new process, and each return to a checkpoint, may train open tasks or a batch again.
    let more = if is_exact { 0 } else { attempts + 2 * record.rounds + record.conductors };
    let counters = || values.iter().filter(|(name, _)| !name.starts_with("drift"));
    for (name, counts) in counters() {
        for (at, count) in counts.iter().enumerate() {
            let (least, most) = (told.passes as f32, told.passes as f32 + more as f32);
            if !(least..=most).contains(count) {
                return Err(format!(
                    "record {at} was applied {count} times to {name}, not {least} to {most}"
                ));
            }
            let first = counters().next().map_or(*count, |(_, first)| first[at]);
            if told.mode == Mode::Sync && !is_elastic && *count != first {
                return Err(format!("shards of different times: record {at}: {count}, {first}"));
            }
        }
    }
    let expected = is_exact.then(|| expected(told));
    for (name, found) in values.iter().filter(|(name, _)| name.starts_with("drift")) {
        if expected.as_ref().is_some_and(|expected| expected != found) {
            return Err(format!("{name} differs from a run in which nothing happened: {found:?}"));
        }
    }
    Ok(())
}

/// What depends on the order, computed here: in step, every trainer with its own records.
fn expected(told: &Told) -> Vec<f32> {
    let mut values = vec![0.0_f32; told.records as usize];
    for _ in 0..told.passes {
        for batch in 0..told.batches {
            let before = values.clone();
            for rank in 0..u64::from(TRAINERS) {
                let record = rank * told.batches + batch;
                let (own, other) = (record as usize, ((record + 1) % told.records) as usize);
                values[own] = before[own] - trainer::drift(record, before[own], before[other]);
            }
        }
    }
    values
}
