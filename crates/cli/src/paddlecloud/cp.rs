//! `paddlecloud cp`: copies files to the cloud, from it, and inside it.

use crate::args::Globals;
use crate::cloud::connect;
use crate::moving::MovingArgs;
use client::{Client, Options, Plan};
use contract::{Error, Result};
use std::process::ExitCode;

/// upload or download files
///
///   paddlecloud cp SRC... /pfs/DATACENTER/home/USER/DEST     upload
///   paddlecloud cp /pfs/DATACENTER/home/USER/SRC... DEST     download
///   paddlecloud cp /pfs/... /pfs/...                         copy inside the cloud
///
/// Works as the system's own cp: directories need -r; a DEST that is a directory, or ends with a
/// slash, takes the sources in. Patterns in paths of the cloud are expanded there. What was
/// interrupted goes on where it was; of a large file that is there already, only the chunks that
/// differ are sent. Permissions and times are kept.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, about = "upload or download files")]
pub(crate) struct Args {
    /// Sources, then the destination
    #[arg(value_name = "PATH", required = true, num_args = 2..)]
    paths: Vec<String>,
    /// Copy directories with everything in them
    #[arg(short, long, alias = "R")]
    recursive: bool,
    /// Do not replace files that are there
    #[arg(short = 'n', long = "no-clobber")]
    no_clobber: bool,
    #[command(flatten)]
    moving: MovingArgs,
}

pub(crate) fn run(globals: &Globals, args: &Args) -> Result<ExitCode> {
    let Some((to, sources)) = args.paths.split_last() else {
        return Err(Error::invalid("what is copied where? write `paddlecloud cp SRC DEST`"));
    };
    let mut options = args.moving.options()?;
    options.if_absent = args.no_clobber;
    let client = connect(globals)?;
    let plan = client.plan_copy(sources, to, args.recursive)?;
    carry_out(&client, plan, &args.moving, &options)
}

/// Does what was planned, and shows how it goes.
pub(crate) fn carry_out(
    client: &Client,
    plan: Plan,
    moving: &MovingArgs,
    options: &Options,
) -> Result<ExitCode> {
    let shown = moving.watch(plan.direction, &plan.items);
    client.carry_out(plan, options, &shown)?;
    shown.finish()
}
