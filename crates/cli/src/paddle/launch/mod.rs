//! `paddle launch`: a program on one machine or many, watched from here to its end.

mod args;
mod copies;
mod dry_run;
pub(crate) mod flags;
mod local;
mod mpi;
pub(crate) mod signals;
pub(crate) mod ssh;
mod view;

pub(crate) use args::Args;
use args::Place;

use contract::state::JobState;
use contract::{Error, Result};
use scheduler::conductor::plan::JobPlan;
use scheduler::conductor::{self, record::JobRecord};
use scheduler::supervisor::host::Host;
use std::path::PathBuf;
use std::process::ExitCode;
use view::View;

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    match (args.place()?, args.mpi.mpi) {
        (_, true) => mpi::run_rank(args),
        (Place::Mpi, false) => mpi::run_mpirun(args),
        (Place::Ssh, false) => ssh::run(args),
        (Place::Local, false) => run_here(args),
    }
}

fn run_here(args: &Args) -> Result<ExitCode> {
    let paddle = super::this_program()?;
    let submission = local::submission(args)?;
    let plan = scheduler::local::plan::plan(&submission, &paddle)?;
    if args.dry_run {
        return dry_run::print(&plan, args.output);
    }
    let state_file = local::prepare(&submission)?;
    let open = async {
        let may_isolate = !args.no_pid_namespace;
        Ok(vec![scheduler::local::open(&paddle, &submission.directory, may_isolate).await?])
    };
    let record = watch(args, &plan, state_file, open)?;
    Ok(code(&record))
}

/// Runs a plan on the supervisors that `open` reaches, shows it, and reports how it ended.
fn watch(
    args: &Args,
    plan: &JobPlan,
    state_file: PathBuf,
    open: impl Future<Output = Result<Vec<Host>>>,
) -> Result<JobRecord> {
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|source| Error::io("cannot start a runtime", source))?;
    let mut view = View::new(args, plan, state_file);
    let record = runtime.block_on(async {
        let stops = signals::listen()?;
        conductor::run(plan, open.await?, stops, &mut view).await
    })?;
    view.finish(&record)?;
    Ok(record)
}

/// The program's own exit code, or that of the signal that ended us.
fn code(record: &JobRecord) -> ExitCode {
    let code = record.exit_code.unwrap_or(i32::from(record.state != JobState::Succeeded));
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
