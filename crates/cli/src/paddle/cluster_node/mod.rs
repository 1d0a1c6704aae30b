//! `paddle cluster_node`: the trainer of a job of `paddle cluster_train`, on every place the same. It
//! makes a workspace, fetches its share of the data into it, runs the hook, waits until all nodes are
//! so far, trains, and sends the results. Started by conductors, in the job's package.

mod ending;
mod hook;
mod results;
mod trainer;
mod workspace;

use client::Receiver;
use contract::api::cluster_train::Stage;
use contract::env::STAGE;
use contract::{Error, Kind, Result};
use ending::Ending;
use results::Results;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use workspace::Workspace;

#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// --config=FILE and other flags of `paddle train`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "FLAGS")]
    flags: Vec<String>,
}

/// How often it is asked whether the other nodes are ready, and how often it is said who is not.
const ASK: Duration = Duration::from_secs(1);
const SAY: Duration = Duration::from_secs(30);
/// How long the other nodes are waited for. They fetch as much as this one; what is left is their
/// hook, which may install programs.
const OTHERS_MAX: Duration = Duration::from_secs(4 * 3600);

/// Runs the node to its end; the exit code is that of the training.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let rank = rank()?;
    let about = |error: Error| error.with("node", rank);
    let flag = Arc::new(AtomicBool::new(false));
    let receiver = Receiver::open(&stage()?, rank, Arc::clone(&flag), say)?;
    let share = receiver.share().map_err(about)?;
    let workspace = Workspace::make(rank, share.nodes, &args.flags).map_err(about)?;
    // Before this there is nothing to send, and a signal ends the process.
    let ending = Ending::listen(flag)?;
    let results = Results::new(receiver, &workspace, &share.save_dir, rank);
    let ended = workspace
        .stage(results.receiver(), &share)
        .and_then(|()| hook::run(&workspace, &results, &ending))
        .and_then(|()| try_results(&workspace, &results))
        .and_then(|()| wait_for_others(|| results.receiver().ready(), &ending, OTHERS_MAX))
        .and_then(|()| trainer::train(&workspace, &args.flags, &results, &ending));
    if let Err(error) = &ended {
        // Whoever looks at the results finds the reason there, too.
        let _ = workspace.note(&format!("paddle: {}\n", error.chain()));
    }
    let sent = results.send_all();
    workspace.clean();
    match (ended, sent) {
        (Err(error), _) => {
            // Another code would say that somebody has called this program in a wrong way.
            cli::exit::report("paddle", &about(error));
            Ok(ExitCode::FAILURE)
        }
        (Ok(0), Err(error)) => Err(about(error)),
        (Ok(code), Err(error)) => {
            say(&format!("results are missing: {}", error.chain()));
            Ok(exit(code))
        }
        (Ok(code), Ok(())) => Ok(exit(code)),
    }
}

/// Sends what there is before the training: that results cannot be written is not to be found out
/// at its end.
fn try_results(workspace: &Workspace, results: &Results) -> Result<()> {
    workspace.note("cluster_node: the workspace is ready\n")?;
    results.send_all().map_err(|error| {
        let message = "results cannot be sent, so the training does not begin";
        Error::new(error.kind(), message).because(error)
    })
}

fn exit(code: i32) -> ExitCode {
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

/// A line of the log.
fn say(line: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "cluster_node: {line}");
}

fn rank() -> Result<u32> {
    let text = std::env::var("PADDLE_INIT_TRAINER_ID").unwrap_or_default();
    text.parse().map_err(|_| {
        let message = "cluster_node is started by jobs of `paddle cluster_train`, not by people";
        Error::invalid(message).with("PADDLE_INIT_TRAINER_ID", text)
    })
}

fn stage() -> Result<Stage> {
    let text = std::env::var(STAGE).unwrap_or_default();
    // Without the value: it has a secret.
    serde_json::from_str(&text).map_err(|_| {
        let message = format!(
            "{STAGE} does not say where the data is: cluster_node is started by jobs of `paddle \
             cluster_train`"
        );
        Error::invalid(message)
    })
}

/// Servers wait ten minutes for a trainer; the data of one may take longer than that of another.
fn wait_for_others(
    ask: impl Fn() -> Result<Vec<u32>>,
    ending: &Ending,
    patience: Duration,
) -> Result<()> {
    let began = Instant::now();
    let mut said = began;
    loop {
        ending.check("while waiting for other nodes")?;
        let awaited = ask()?;
        if awaited.is_empty() {
            return Ok(());
        }
        let ranks = || awaited.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        if began.elapsed() >= patience {
            let message = "other nodes still fetch data or run their hook, and were waited for \
                           long enough: see their logs";
            return Err(Error::new(Kind::Timeout, message)
                .with("nodes", ranks())
                .with("seconds", patience.as_secs()));
        }
        if said.elapsed() >= SAY {
            said = Instant::now();
            say(&format!("waiting for nodes {}, which fetch data or run their hook", ranks()));
        }
        std::thread::sleep(ASK);
    }
}

fn unusable(path: &std::path::Path) -> impl Fn(std::io::Error) -> Error + '_ {
    move |source| {
        let kind = source.kind();
        let error = Error::io("the workspace cannot be made", source).with("path", path.display());
        match kind {
            std::io::ErrorKind::StorageFull => {
                Error::new(Kind::LimitExceeded, "the node's disk is full").because(error)
            }
            _ => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_never_get_ready_are_named_in_the_end() {
        let ending = Ending(Arc::default());
        let wait =
            |awaited: &[u32]| wait_for_others(|| Ok(awaited.to_vec()), &ending, Duration::ZERO);
        wait(&[]).unwrap();
        insta::assert_snapshot!(wait(&[1, 3]).unwrap_err(), @"other nodes still fetch data or run their hook, and were waited for long enough: see their logs (nodes: 1, 3, seconds: 0)");
    }
}
