//! Runs a plan and compares its outcome with what was asked for.

use crate::conductor::{self, Outcome};
use crate::plan::{Data, Fault, Plan};
use crate::trainer::Values;
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
    if let Some(problem) = miscount(plan, values) {
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
fn miscount(plan: &Plan, values: &Values) -> Option<String> {
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
            if *count < least || *count > least + repeats_max(plan) {
                return Some(format!(
                    "record {record} was applied {count} times to {name}, not {least} (to {} more)",
                    least + repeats_max(plan)
                ));
            }
        }
    }
    None
}

/// How often a record may have been applied once more than asked for.
fn repeats_max(plan: &Plan) -> f32 {
    let is_harmless = |fault: &Fault| matches!(fault, Fault::FullDisk(_) | Fault::SlowDisk(_));
    let faults = plan.faults.iter().filter(|(_, fault)| !is_harmless(fault)).count();
    if plan.min_trainers.is_some() {
        // The last step of a trainer that died may be in some shards only.
        return 2.0 * faults as f32;
    }
    match (plan.mode, plan.data) {
        // Every step is in all shards or in none, and goes on where it stopped.
        (Mode::Sync, Data::Static) => 0.0,
        // Tasks that were open at a fault.
        (Mode::Sync, Data::Master { .. }) => faults as f32,
        // Besides, shards cut at different moments.
        _ => 2.0 * faults as f32,
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
