//! `paddlecloud version`.

use crate::args::Globals;
use crate::cloud::connect;
use cli::output::Output;
use contract::Result;
use std::process::ExitCode;

/// Print the version of this command, and of the server
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Ask the server for its version, too
    #[arg(long)]
    server: bool,
}

pub(crate) fn run(globals: &Globals, args: &Args) -> Result<ExitCode> {
    let mut output = Output::open();
    output.line(format_args!("paddlecloud {}", env!("CARGO_PKG_VERSION")))?;
    if args.server {
        let client = connect(globals)?;
        let whoami = client.whoami()?;
        let endpoint = &client.datacenter().endpoint;
        output.line(format_args!("server {} ({endpoint})", whoami.server_version))?;
    }
    output.close()?;
    Ok(ExitCode::SUCCESS)
}
