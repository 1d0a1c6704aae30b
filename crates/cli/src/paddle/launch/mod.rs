//! `paddle launch`: flags become a job, the job is submitted, and followed to its end.

mod args;
mod dry_run;
mod earlier;
mod kubernetes;
mod mpi;
pub(crate) mod reach;
mod slurm;
mod ssh;
mod submission;
mod trainer;

pub(crate) use args::Args;

use crate::attach::follow::{Followed, Hold, follow, runtime};
use crate::attach::view::{Look, View};
use crate::attach::{code, places, signals};
use crate::jobs::find;
use cli::output::{Format, Output};
use cli::program::Missing;
use contract::Result;
use contract::state::JobState;
use scheduler::Backend;
use scheduler::jobs::Jobs;
use scheduler::submission::Place;
use std::io::Write;
use std::process::ExitCode;
use submission::{Built, Refusal};

const COMMAND: &str = "paddle launch";

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if args.mpi.mpi {
        return mpi::run_rank(args);
    }
    let built = match submission::build(args) {
        Ok(built) => built,
        Err(refusal) => return refuse(refusal),
    };
    if let Place::Kubernetes(place) = &built.submission.place {
        return kubernetes::run(args, &built, place);
    }
    let jobs = find::open()?;
    // What can be known to be wrong is said before anything is started.
    let mut plan = jobs.plan(&built.submission)?;
    if args.dry_run {
        // Those that an elastic job may get later are not started.
        let trainers = built.submission.spec.trainers;
        plan.replicas.retain(|one| one.id.is_server() || one.id.rank < trainers);
        let script = match &built.submission.place {
            Place::Slurm(_) => Some(scheduler::slurm::preview(&built.submission, &jobs.paddle)?),
            _ => None,
        };
        return dry_run::print(&plan, script.as_deref(), args.output.format());
    }
    earlier::check(&built.submission)?;
    runtime()?.block_on(async {
        if args.detach {
            return detach(args, &jobs, &built).await;
        }
        attached(args, &jobs, &built).await
    })
}

fn refuse(refusal: Refusal) -> Result<ExitCode> {
    match refusal {
        Refusal::Error(error) => Err(error),
        Refusal::Missing(Missing { code, error }) => {
            cli::exit::report("paddle", &error);
            Ok(ExitCode::from(code))
        }
    }
}

/// Leaves the job to itself, and says how to find it again.
async fn detach(args: &Args, jobs: &Jobs, built: &Built) -> Result<ExitCode> {
    jobs.submit(&built.submission, built.package.as_deref()).await?;
    let id = &built.submission.id;
    let mut output = Output::open();
    match args.output.format() {
        Format::Json => output.json(&jobs.observe(id).await?)?,
        Format::Text => output.line(id)?,
    }
    output.close()?;
    if !args.quiet {
        let hint = format!(
            "{COMMAND}: the job runs on without this command\n  \
             follow it    paddle attach {id}\n  \
             its output   paddle logs {id}\n  \
             end it       paddle kill {id}\n"
        );
        // Where not even this can be written, there is nobody to tell.
        let _ = std::io::stderr().write_all(hint.as_bytes());
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs the job on a leash, and shows it. It ends with this process.
async fn attached(args: &Args, jobs: &Jobs, built: &Built) -> Result<ExitCode> {
    let Built { submission, package } = built;
    let id = &submission.id;
    // A signal that comes meanwhile waits: what was begun is ended like any other job.
    let mut stops = signals::listen()?;
    let mut leash = jobs.submit_leashed(submission, package.as_deref()).await?;
    let mut view = View::new(Look {
        command: COMMAND,
        is_quiet: args.quiet,
        format: args.output.format(),
        // A rank writes to a terminal of mpirun's own, whoever reads that.
        may_use_terminal: !args.mpi.mpi,
    });
    let followed = follow(jobs, id, &mut view, &mut stops, Hold::Leash(&mut leash)).await?;
    let Followed::Ended(mut record, stop) = followed else {
        return Ok(ExitCode::FAILURE);
    };
    if let Some(stop) = stop.filter(|_| record.state == JobState::Killed) {
        record.exit_code = Some(stop.exit_code);
    }
    view.finish(&record, &places::of(submission, &record))?;
    drop(leash);
    forget(jobs, id).await;
    Ok(code(&record))
}

/// Nobody asks for a job again that ended before its launcher's eyes.
async fn forget(jobs: &Jobs, id: &str) {
    if let Err(error) = jobs.forget(id).await {
        cli::exit::report(COMMAND, &error.with("forget", id));
    }
}
