//! The data plane of a job under faults: the real shards, queue and clients, on a network, a clock
//! and disks that a seed decides about.
//!
//! Everything runs in one paused single-threaded runtime, so time passes only when all wait, and a
//! seed gives the same run every time: `make simulate SEED=n` repeats one, `make simulate
//! SEEDS=10000` tries many. `plan` draws a job and its faults from a seed, `network` carries bytes
//! late or not at all, `conductor` starts and ends processes as docs/faults.md says launchers do,
//! `trainer` is the training loop with a model that counts, `witness` notes what may be trained twice,
//! and `check` compares the outcome.

mod check;
mod conductor;
mod network;
mod plan;
mod random;
mod trainer;
mod witness;

use plan::Plan;

/// How many seeds a run of all tests tries.
const SEEDS: u64 = 300;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} must be a number, not {text:?}")))
}

#[test]
fn every_seed_ends_with_the_model_that_was_asked_for() {
    let is_verbose = number("SIMULATION_SEED").is_some();
    let seeds = match number("SIMULATION_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SIMULATION_SEEDS").unwrap_or(SEEDS),
    };
    if is_verbose {
        tracing_subscriber::fmt().with_max_level(tracing::Level::DEBUG).without_time().init();
    }
    let (count, begun) = (seeds.end - seeds.start, std::time::Instant::now());
    let mut failures = Vec::new();
    for seed in seeds {
        let plan = Plan::draw(seed);
        let outcome = std::panic::catch_unwind(|| check::run(&plan));
        let problem = match outcome {
            Ok(Ok(story)) => {
                if is_verbose {
                    println!("{plan:#?}\n{story}");
                }
                continue;
            }
            Ok(Err(problem)) => problem,
            Err(_) => "panicked".to_owned(),
        };
        println!("seed {seed}: {problem}");
        if is_verbose {
            println!("{plan:#?}");
        }
        failures.push(seed);
    }
    let each = begun.elapsed() / u32::try_from(count.max(1)).unwrap_or(u32::MAX);
    println!("{count} seeds, {} failed, {each:?} each", failures.len());
    assert!(failures.is_empty(), "run `make simulate SEED={}` to see why", failures[0]);
}

#[test]
fn a_seed_gives_the_same_run_every_time() {
    for seed in 0..4 {
        let plan = Plan::draw(seed);
        assert_eq!(check::run(&plan), check::run(&plan), "seed {seed}");
    }
}
