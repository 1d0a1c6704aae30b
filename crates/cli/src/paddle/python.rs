//! The verbs that are Python programs: `paddle train`, `dump_config`, `make_diagram`, `merge_model`,
//! `plotcurve`. They run in the environment that this command is installed in; everything about
//! their arguments, help included, is theirs.

use cli::python::interpreter;
use contract::{Error, Result};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// Arguments of the program; --help lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<OsString>,
}

/// Becomes the Python program `module`: its exit code and signals are those of this process.
pub(crate) fn run(module: &str, args: &Args) -> Result<ExitCode> {
    let program = std::env::current_exe()
        .map_err(|source| Error::io("cannot find the program itself", source))?;
    let python = interpreter(&program);
    // Without -P a file paddle.py in the current directory would hide the package.
    let failed = Command::new(&python).args(["-P", "-m", module]).args(&args.arguments).exec();
    Err(Error::io("cannot run Python; install the package with pip into an environment", failed)
        .with("python", python.display()))
}
