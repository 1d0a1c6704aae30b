//! The verbs that are Python programs: `paddle train`, `dump_config`, `make_diagram`, `merge_model`,
//! `plotcurve`. They run in the environment that this command is installed in; everything about
//! their arguments, help included, is theirs.

use contract::{Error, Result};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
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

/// The interpreter beside a program, else that of `PATH`.
fn interpreter(program: &Path) -> PathBuf {
    let beside = program.parent().map(|folder| folder.join("python3"));
    beside.filter(|python| python.is_file()).unwrap_or_else(|| PathBuf::from("python3"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interpreter_is_the_one_beside_the_command() {
        let folder = tempfile::tempdir().unwrap();
        let paddle = folder.path().join("paddle");
        assert_eq!(interpreter(&paddle), PathBuf::from("python3"));
        std::fs::write(folder.path().join("python3"), "").unwrap();
        assert_eq!(interpreter(&paddle), folder.path().join("python3"));
    }
}
