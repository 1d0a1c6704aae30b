//! `paddlecloud events`: what the cloud saw of a job.

use crate::args::Globals;
use crate::cloud::connect;
use crate::view::{Table, View};
use cli::time;
use contract::Result;
use contract::api::job::Event;
use std::process::ExitCode;

/// List what the cloud saw of a job
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The job
    #[arg(value_name = "JOB")]
    job: String,
    #[command(flatten)]
    view: View,
}

pub(crate) fn run(globals: &Globals, args: &Args) -> Result<ExitCode> {
    let events = connect(globals)?.events(&args.job)?;
    args.view.show(&events, |events| table(events))?;
    Ok(ExitCode::SUCCESS)
}

fn table(events: &[Event]) -> Table {
    let row = |event: &Event| {
        vec![event.number.to_string(), time::moment(event.at_ms), event.text.clone()]
    };
    Table { header: &["NUM", "TIME", "EVENT"], narrow: 3, rows: events.iter().map(row).collect() }
}
