//! `paddlecloud delete`: removes a registry, or an ended job from history.

use crate::args::Globals;
use crate::cloud::connect;
use cli::output::Output;
use contract::Result;
use std::process::ExitCode;

/// Delete the specify resource.
///
///   paddlecloud delete registry NAME
///   paddlecloud delete job NAME        (one that has ended, with its logs)
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, about = "Delete the specify resource.")]
pub(crate) struct Args {
    /// What to delete
    #[arg(value_enum, value_name = "RESOURCE")]
    resource: Resource,
    /// Its name
    #[arg(value_name = "NAME")]
    name: String,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Resource {
    Registry,
    Job,
}

pub(crate) fn run(globals: &Globals, args: &Args) -> Result<ExitCode> {
    let client = connect(globals)?;
    let what = match args.resource {
        Resource::Registry => {
            client.delete_registry(&args.name)?;
            "registry"
        }
        Resource::Job => {
            client.delete_job(&args.name)?;
            "job"
        }
    };
    let mut output = Output::open();
    output.line(format_args!("{what}: [{}] is deleted", args.name))?;
    output.close()?;
    Ok(ExitCode::SUCCESS)
}
