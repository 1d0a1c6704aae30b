//! `paddle attach`: follows a job that runs without us; and what `paddle launch` and `paddle logs`
//! use of that.

pub(crate) mod follow;
pub(crate) mod places;
pub(crate) mod signals;
pub(crate) mod view;

use crate::jobs::{everywhere, find};
use cli::output::Format;
use contract::Result;
use contract::state::JobState;
use follow::{Followed, Hold, follow, runtime};
use scheduler::JobRecord;
use std::process::ExitCode;
use view::{Look, View};

/// Follow a detached job to its end
///
/// Shows everything that its replicas have printed and still print. The exit code is the job's.
/// Ctrl-C ends the following, not the job; `paddle kill JOB` ends the job.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The job: its id, the beginning of it, or its name for the newest of that name
    #[arg(value_name = "JOB")]
    job: String,
    /// Do not show what replicas print
    #[arg(long, short)]
    quiet: bool,
    /// With json, standard output has the job's record at the end
    #[arg(short, long, value_enum, default_value = "text")]
    output: Format,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let jobs = everywhere::open()?;
    runtime()?.block_on(async {
        let id = find::find(&jobs, &args.job).await?.id;
        let mut stops = signals::listen()?;
        let mut view = View::new(Look {
            command: "paddle attach",
            is_quiet: args.quiet,
            format: args.output,
            may_use_terminal: true,
        });
        match follow(&jobs, &id, &mut view, &mut stops, Hold::None).await? {
            Followed::Ended(record, _) => {
                view.finish(&record, &places::of(&jobs.submission(&id).await?, &record))?;
                Ok(code(&record))
            }
            Followed::Left(stop) => {
                view.leave();
                view.say(&format!("the job goes on: paddle attach {id}"));
                Ok(ExitCode::from(u8::try_from(stop.exit_code).unwrap_or(1)))
            }
        }
    })
}

/// The exit code of a job that has ended.
pub(crate) fn code(record: &JobRecord) -> ExitCode {
    let code = record.exit_code.unwrap_or(i32::from(record.state != JobState::Succeeded));
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
