//! `paddlecloud registry`: keeps the credentials of an image registry in the cloud.

use crate::args::Globals;
use crate::cloud::connect;
use cli::{output::Output, prompt};
use contract::api::registry::Credentials;
use contract::{Error, Result, name};
use std::process::ExitCode;

/// Add registry secret on paddlecloud.
///
///   paddlecloud registry -name NAME -server ADDRESS -username USER
///
/// The password is asked for, or read from standard input. Given as a flag, everybody on this
/// machine can see it while the command runs.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, about = "Add registry secret on paddlecloud.")]
pub(crate) struct Args {
    /// What you call it, for `submit -registry`
    #[arg(long, value_name = "NAME")]
    name: String,
    /// The address of the registry
    #[arg(long, value_name = "ADDRESS")]
    server: String,
    /// The user there
    #[arg(long, value_name = "USER")]
    username: String,
    /// The password there [default: asked for]
    #[arg(long, value_name = "PASSWORD")]
    password: Option<String>,
}

pub(crate) fn run(globals: &Globals, args: &Args) -> Result<ExitCode> {
    name::check_registry(&args.name)?;
    for (flag, value) in [("-server", &args.server), ("-username", &args.username)] {
        if value.is_empty() {
            return Err(Error::invalid(format!("{flag} is empty")));
        }
    }
    let client = connect(globals)?;
    let password = match &args.password {
        Some(password) => password.clone(),
        None => prompt::password("password at the registry")?.expose().to_owned(),
    };
    if password.is_empty() {
        return Err(Error::invalid("the password is empty"));
    }
    let credentials =
        Credentials { server: args.server.clone(), username: args.username.clone(), password };
    client.put_registry(&args.name, &credentials)?;
    let mut output = Output::open();
    output.line(format_args!("registry: [{}] is added", args.name))?;
    output.close()?;
    Ok(ExitCode::SUCCESS)
}
