//! Runs a plan and compares its outcome with what was asked for.

use crate::conductor::{self, Outcome};
use crate::plan::{Data, Plan};
use crate::trainer::Values;
use crate::witness::Witness;
use contract::mode::Mode;

/// What happened, or what is wrong.
pub(crate) fn run(plan: &Plan) -> Result<String, String> {
    let outcome = simulate(plan)?;
    let complain = |problem: String| Err(format!("{problem}\n{}", outcome.story));
    let Some(values) = outcome.results.first().and_then(Option::as_ref) else {
        return complain("trainer 0 did not come to its end".to_owned());
    };
    for (rank, other) in outcome.results.iter().enumerate() {
        // A trainer that was away at the end has nothing.
        let is_absent = plan.min_trainers.is_some() && other.is_none();
        if plan.mode == Mode::Sync && !is_absent && other.as_ref() != Some(values) {
            return complain(format!("trainers 0 and {rank} have different values in the end"));
        }
    }
    if let Some(problem) = miscount(plan, values, &outcome.witness) {
        return complain(problem);
    }
    if plan.mode == Mode::Sync && plan.data == Data::Static && !plan.faults.is_empty() {
        let undisturbed = simulate(&plan.undisturbed())?;
        if undisturbed.results != outcome.results {
            return complain("values differ from those of an undisturbed run".to_owned());
        }
    }
    Ok(outcome.story)
}

/// How often records were applied, if not as often as they should have been.
fn miscount(plan: &Plan, values: &Values, witness: &Witness) -> Option<String> {
    let counters = values.iter().filter(|(name, _)| !name.starts_with("chaos"));
    let counters: Vec<_> = counters.collect();
    let (_, first) = counters.first()?;
    for (name, counts) in &counters {
        for (record, count) in counts.iter().enumerate() {
            let is_whole = plan.mode == Mode::Sync && plan.min_trainers.is_none();
            if is_whole && *count != first[record] {
                return Some(format!(
                    "shards of different times: record {record} was applied {count} times to \
                     {name}, {} times to others",
                    first[record]
                ));
            }
            let least = plan.passes as f32;
            let most = least
                + match plan.data {
                    Data::Static => repeats_max(plan),
                    Data::Master { .. } => witness.repeats_max(record as u64) as f32,
                };
            if !(least..=most).contains(count) {
                return Some(format!(
                    "record {record} was applied {count} times to {name}, not {least} to {most}"
                ));
            }
        }
    }
    None
}

/// How often a record of data that nobody deals out may have been applied once more than asked for.
fn repeats_max(plan: &Plan) -> f32 {
    match plan.mode {
        // Every step is in all shards or in none, and goes on where it stopped.
        Mode::Sync => 0.0,
        // Shards cut at different moments.
        _ => 2.0 * plan.faults.iter().filter(|(_, fault)| !fault.is_harmless()).count() as f32,
    }
}

fn simulate(plan: &Plan) -> Result<Outcome, String> {
    let place = std::path::Path::new("/dev/shm");
    let place = if place.is_dir() { place.to_owned() } else { std::env::temp_dir() };
    let folder = tempfile::tempdir_in(place).map_err(|error| error.to_string())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .map_err(|error| error.to_string())?;
    let set = tokio::task::LocalSet::new();
    set.block_on(&runtime, conductor::run(plan, folder.path()))
}
