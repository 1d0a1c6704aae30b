//! Rounds of training with real processes: servers, trainers, the master and what runs them are
//! killed and stopped, one, two or all of a host at a time, and the model must be what was asked for.
//!
//! `PADDLE_CHAOS_TRAINING_ROUNDS` sets the number of rounds (10), `PADDLE_CHAOS_SEED` the seed (the
//! time). `make chaos` runs 100. A round that fails prints its seed, and `make chaos ROUNDS=1 SEED=…`
//! repeats it: what is struck, and at which step. Processes are elsewhere in that step each time.

use super::fault::{self, Kind, Moment};
use super::trainer::{self, FILE_RECORDS, Gate, Told, Values};
use super::{Dice, number, seed};
use crate::backend::job::{Harness, Job};
use crate::backend::places::{Local, Ssh};
use contract::job::FaultTolerance;
use contract::mode::Mode;
use contract::state::{JobState, State};
use scheduler::JobRecord;
use scheduler::submission::Place;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The variable by which this program is told to be a trainer.
const TRAINER: &str = "PADDLE_CHAOS_TRAINER";
/// This test, as that program knows it.
const TEST: &str = "backend::chaos::training::training_survives_kills_and_stops";
const TRAINERS: u32 = 2;
/// Nothing may take longer, the 60 s after which something that hangs is given up included.
pub(super) const DEADLINE: Duration = Duration::from_secs(600);

#[test]
fn training_survives_kills_and_stops() {
    if let Ok(told) = std::env::var(TRAINER) {
        return trainer::run(&serde_json::from_str(&told).unwrap());
    }
    let asked = number("PADDLE_CHAOS_TRAINING_ROUNDS");
    let (first, rounds) = (seed(), asked.unwrap_or(10));
    let mut places: Vec<(&str, Box<dyn Harness>)> = vec![
        ("local", Box::new(Local { isolates: true })),
        ("local without namespace", Box::new(Local { isolates: false })),
    ];
    if let Some(ssh) = Ssh::find() {
        places.push(("ssh", Box::new(ssh)));
    }
    let begun = Instant::now();
    let mut counts = Counts::default();
    // Rounds in which something hangs for good take minutes: only those who ask for rounds get them.
    let seeds = (0..).map(|number| first.wrapping_add(number));
    let seeds = seeds.filter(|seed| asked.is_some() || !is_patient(*seed));
    for (round, own_seed) in seeds.take(rounds as usize).enumerate() {
        let (name, place) = &places[(own_seed % places.len() as u64) as usize];
        let mut story = format!("round {round} on {name}: make chaos ROUNDS=1 SEED={own_seed}\n");
        counts.add(name);
        let (mut dice, own) = (Dice(own_seed), Instant::now());
        let outcome =
            play(place.as_ref(), &mut dice, is_patient(own_seed), &mut counts, &mut story);
        eprintln!("{story}  {:.1} s", own.elapsed().as_secs_f32());
        if let Err(problem) = outcome {
            panic!("{problem}\n{story}");
        }
    }
    let each = begun.elapsed() / rounds.max(1) as u32;
    eprintln!("{rounds} rounds from seed {first}, all struck, none wrong, {each:?} each: {counts}");
}

/// Whether something may hang for good in the round of a seed.
fn is_patient(seed: u64) -> bool {
    seed % 4 == 3
}

/// How many rounds were of which sort; a round counts in several.
#[derive(Default)]
struct Counts(BTreeMap<String, u32>);

impl Counts {
    fn add(&mut self, sort: &str) {
        *self.0.entry(sort.to_owned()).or_default() += 1;
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let all: Vec<String> =
            self.0.iter().map(|(sort, count)| format!("{sort} {count}")).collect();
        f.write_str(&all.join(", "))
    }
}

/// What a round is about.
pub(super) struct Setting {
    pub(super) told: Told,
    pub(super) is_elastic: bool,
    /// Whether machines are reached by ssh.
    pub(super) is_elsewhere: bool,
    /// Seconds between checkpoints; the default is longer than a round.
    interval: Option<u64>,
}

impl Setting {
    fn draw(dice: &mut Dice, folder: &std::path::Path) -> Setting {
        let is_dealt = dice.below(2) == 0;
        let is_elastic = is_dealt && dice.below(2) == 0;
        let shapes = dice.below(3);
        let batches = 40;
        let mode = if dice.below(4) == 0 { Mode::Async } else { Mode::Sync };
        let interval = [None, Some(1)][dice.below(2) as usize];
        let told = Told {
            has_dense: shapes != 0,
            has_sparse: shapes != 1,
            mode,
            is_dealt,
            passes: 2,
            batches,
            records: batches * u64::from(TRAINERS),
            // Long enough for some checkpoints.
            step_ms: if interval.is_some() { 40 } else { 15 },
            dies_at_goodbye: dice.below(4) == 0,
            folder: folder.to_owned(),
        };
        Setting { told, is_elastic, is_elsewhere: false, interval }
    }

    fn count(&self, counts: &mut Counts) {
        counts.add(match (self.told.has_dense, self.told.has_sparse) {
            (true, true) => "mixed",
            (true, false) => "dense",
            _ => "sparse only",
        });
        counts.add(if self.interval.is_some() { "short interval" } else { "default interval" });
        if self.told.dies_at_goodbye {
            counts.add("killed behind the goodbye");
        }
        counts.add(if self.told.mode == Mode::Sync { "sync" } else { "async" });
        counts.add(match (self.told.is_dealt, self.is_elastic) {
            (_, true) => "elastic",
            (true, _) => "master",
            _ => "own data",
        });
    }

    /// Of the job's replicas, those that start in any case.
    fn replicas(&self) -> u64 {
        u64::from(2 * TRAINERS) + u64::from(self.told.is_dealt)
    }
}

/// One job and what happens to it.
fn play(
    place: &dyn Harness,
    dice: &mut Dice,
    is_patient: bool,
    counts: &mut Counts,
    story: &mut String,
) -> Result<(), String> {
    let program = std::env::current_exe().unwrap();
    let program = [program.to_str().unwrap(), "--exact", TEST, "--nocapture"];
    let mut job = Job::of(place, TRAINERS, &program);
    let is_elsewhere = matches!(job.submission.place, Place::Ssh(_));
    let setting = Setting { is_elsewhere, ..Setting::draw(dice, job.folder()) };
    let told = &setting.told;
    let folder = job.folder().to_str().unwrap().to_owned();
    job = job.with(|spec| {
        spec.restarts = 30;
        spec.mode = told.mode;
        spec.checkpoint.dir = format!("{folder}/checkpoints");
        spec.checkpoint.interval_seconds = setting.interval;
        spec.env.insert(TRAINER.to_owned(), serde_json::to_string(&told).unwrap());
        if told.is_dealt {
            spec.master = true;
            spec.data.files = vec![format!("{folder}/data-*")];
            spec.data.chunks_per_task = Some(1);
            spec.data.passes = 0;
        }
        if setting.is_elastic {
            spec.fault_tolerance =
                Some(FaultTolerance { min_trainers: 1, max_trainers: TRAINERS + 1 });
        }
    });
    for file in 0..told.records / FILE_RECORDS {
        let lines: String = (0..FILE_RECORDS).map(|line| format!("{line:07}\n")).collect();
        std::fs::write(job.folder().join(format!("data-{file:04}")), lines).unwrap();
    }
    story.push_str(&format!(
        "  {told:?}, elastic {}, interval {:?}\n",
        setting.is_elastic, setting.interval
    ));
    setting.count(counts);
    let moments = Moment::draw(dice, told, setting.replicas());
    job.try_submit().unwrap();
    for moment in moments {
        let fault = (moment, Kind::draw(dice, is_patient));
        fault::strike(&job, &setting, fault, dice, story)?;
        counts.add(fault.1.words());
        counts.add(moment.words());
    }
    fault::open(told, Gate::LastPass);
    fault::open(told, Gate::Goodbye);
    let record = await_end(&job)?;
    if record.state != JobState::Succeeded {
        let logs: Vec<String> =
            record.replicas.iter().map(|one| tail(&job, &one.replica.to_string())).collect();
        return Err(format!("not succeeded: {record:#?}\n{}", logs.join("\n")));
    }
    let bytes = std::fs::read(told.result()).map_err(|error| format!("no result: {error}"))?;
    let values: Values = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
    check(told, &values, setting.is_elastic, &record)
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
