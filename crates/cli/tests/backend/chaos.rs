//! Random kills of everything that runs a job, on every place that is made of processes: a detached
//! job is found again and finishes, a leashed one is gone, never two run at a time, and nothing is
//! left.
//!
//! `PADDLE_CHAOS_ROUNDS` sets the number of rounds (20), `PADDLE_CHAOS_SEED` the seed (the time).
//! `make chaos-jobs` runs 200. A round that fails prints its seed. `training` does the same to jobs
//! that train.
//!
//! A fault comes at a random time and waits for somebody to strike. Trainers do not end before the
//! last one has struck; in some rounds only before the last one comes, so that it meets the end of
//! the job, or nobody. The summary says how many struck.

mod fault;
mod trainer;
mod training;

use super::job::{Harness, Job, signal};
use super::places::{Local, Mpi, Slurm, Ssh};
use contract::state::{JobState, State};
use scheduler::backend::Backend;
use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

/// The variable by which this program is told to submit a job and wait.
const SUBMITTER: &str = "PADDLE_CHAOS_SUBMITTER";
/// This test, as that program knows it.
const TEST: &str = "backend::chaos::jobs_survive_kills_of_submitter_conductor_and_supervisor";
const TRAINERS: u32 = 2;

/// Takes a lock for its life, so that two of one rank would be noticed, and works until the faults
/// of its round are over.
const SCRIPT: &str = "exec 9> $MARKER/lock-$PADDLE_TRAINER_ID; \
                      flock -n 9 || echo two of $PADDLE_TRAINER_ID >> $MARKER/two; \
                      until [ -e $MARKER/may-end ]; do sleep 0.02; done; \
                      echo $PADDLE_TRAINER_ID >> $MARKER/finished";

/// Numbers that follow from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok())
}

/// The seed of the first round; the time, if none is given.
fn seed() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    number("PADDLE_CHAOS_SEED").unwrap_or(now.as_nanos() as u64)
}

#[test]
fn jobs_survive_kills_of_submitter_conductor_and_supervisor() {
    if std::env::var_os(SUBMITTER).is_some() {
        return submit();
    }
    let seed = seed();
    let rounds = number("PADDLE_CHAOS_ROUNDS").unwrap_or(20);
    let mut places: Vec<(&str, Box<dyn Harness>)> =
        vec![("local", Box::new(Local { isolates: true }))];
    if let Some(ssh) = Ssh::find() {
        places.push(("ssh", Box::new(ssh)));
    }
    if let Some(mpi) = Mpi::find() {
        places.push(("mpi", Box::new(mpi)));
    }
    if let Some(slurm) = Slurm::find() {
        places.push(("slurm", Box::new(slurm)));
    }
    let (mut struck, mut missed) = (BTreeMap::new(), 0);
    for round in 0..rounds {
        let own_seed = seed.wrapping_add(round);
        let (name, place) = &places[(own_seed % places.len() as u64) as usize];
        let note = format!("round {round} on {name}: PADDLE_CHAOS_SEED={own_seed}\n");
        std::io::stderr().write_all(note.as_bytes()).unwrap();
        for (victim, has_struck) in play(place.as_ref(), &mut Dice(own_seed)) {
            match has_struck {
                true => *struck.entry(victim).or_insert(0) += 1,
                false => missed += 1,
            }
        }
    }
    let all: u64 = struck.values().sum();
    let note = format!("{rounds} rounds from seed {seed}: {all} faults struck, {missed} missed");
    std::io::stderr().write_all(format!("{note}: {struck:?}\n").as_bytes()).unwrap();
    assert!(rounds < 20 || all >= 3 * missed, "most faults must strike: {note}");
}

/// One job and its faults: whom each was for, and whether it met anybody.
fn play(place: &dyn Harness, dice: &mut Dice) -> Vec<(&'static str, bool)> {
    let is_leashed = dice.below(4) == 0;
    let job = Job::new(place, TRAINERS, SCRIPT).with(|spec| spec.restarts = 20);
    let mut submitter = Some(spawn_submitter(&job, is_leashed));
    let kills = 1 + dice.below(3);
    let is_late = dice.below(4) == 0;
    let may_end = || std::fs::write(job.folder().join("may-end"), "").unwrap();
    // The conductor of a leashed job is a part of its submitter.
    let mut victims = match is_leashed {
        true => vec!["submitter", "supervise"],
        false => vec!["submitter", "--guarded", "conduct", "supervise"],
    };
    let mut faults = Vec::new();
    for number in 1..=kills {
        let is_last_late = is_late && number == kills;
        if is_last_late {
            may_end();
        }
        std::thread::sleep(Duration::from_millis(dice.below(900)));
        let at = dice.below(victims.len() as u64) as usize;
        if victims[at] == "submitter" {
            let ended = submitter.as_mut().and_then(|child| child.try_wait().unwrap());
            faults.push((victims.remove(at), ended.is_none()));
            kill(submitter.take());
            if is_leashed {
                break;
            }
            // Whoever did not hear the answer asks again.
            job.try_submit().unwrap();
        } else {
            faults.push((victims[at], strike(&job, victims[at], is_last_late, dice)));
        }
    }
    if is_leashed {
        kill(submitter.take());
        job.assert_nothing_is_left();
        if job.directory().exists() {
            let record = job.await_end();
            assert!(record.state.is_final(), "{record:#?}");
        }
    } else {
        may_end();
        job.try_submit().unwrap();
        let record = job.await_end();
        assert_eq!(record.state, JobState::Succeeded, "{record:#?}");
        let finished = std::fs::read_to_string(job.folder().join("finished")).unwrap();
        for rank in 0..TRAINERS {
            let rank = rank.to_string();
            assert!(finished.lines().any(|line| line == rank), "{finished}");
        }
        kill(submitter);
    }
    assert!(!job.folder().join("two").exists(), "two of one rank ran at the same time");
    faults
}

/// Kills one of the processes with this word, once there is one; `false` if the job, which may,
/// ended before.
fn strike(job: &Job<'_>, word: &str, may_miss: bool, dice: &mut Dice) -> bool {
    let mut has_struck = false;
    job.wait_until(&format!("somebody to kill: {word}"), || {
        let found = job.processes_running(word);
        has_struck =
            !found.is_empty() && signal(found[dice.below(found.len() as u64) as usize], "KILL");
        let finished = std::fs::read_to_string(job.folder().join("finished"));
        let is_over = finished.is_ok_and(|text| text.lines().count() >= TRAINERS as usize);
        has_struck || (may_miss && is_over)
    });
    has_struck
}

fn kill(submitter: Option<Child>) {
    if let Some(mut submitter) = submitter {
        // It may have ended by itself.
        let _ = submitter.kill();
        submitter.wait().unwrap();
    }
}

fn spawn_submitter(job: &Job<'_>, is_leashed: bool) -> Child {
    let file = job.folder().join("submission.json");
    std::fs::write(&file, serde_json::to_vec(&job.submission).unwrap()).unwrap();
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", TEST])
        .env(SUBMITTER, &file)
        .env("PADDLE_CHAOS_ROOT", &job.jobs.root)
        .env("PADDLE_CHAOS_LEASHED", if is_leashed { "1" } else { "" })
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The other process: submits the job, and waits for its end.
fn submit() {
    let read = |name: &str| std::env::var(name).unwrap();
    let submission: scheduler::Submission =
        serde_json::from_slice(&std::fs::read(read(SUBMITTER)).unwrap()).unwrap();
    let paddle = scheduler::jobs::Paddle {
        program: env!("CARGO_BIN_EXE_paddle").into(),
        release: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let jobs = scheduler::jobs::Jobs { root: read("PADDLE_CHAOS_ROOT").into(), paddle };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let _leash = match read("PADDLE_CHAOS_LEASHED").is_empty() {
            false => Some(jobs.submit_leashed(&submission, None).await.unwrap()),
            true => {
                jobs.submit(&submission, None).await.unwrap();
                None
            }
        };
        while !jobs.observe(&submission.id).await.unwrap().state.is_final() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
}
