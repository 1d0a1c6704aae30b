//! What makes a shell complete the commands and flags of a command.

use crate::output::Output;
use contract::Result;
use std::process::ExitCode;

/// A shell that completions are made for.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
#[expect(missing_docs, reason = "the help page would repeat the names")]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Prints the completions of a command.
///
/// # Errors
/// Standard output cannot be written to.
pub fn print(shell: Shell, mut command: clap::Command) -> Result<ExitCode> {
    let shell = match shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let (mut script, name) = (Vec::new(), command.get_name().to_owned());
    clap_complete::generate(shell, &mut command, name, &mut script);
    let mut output = Output::open();
    output.bytes(&script)?;
    output.close()?;
    Ok(ExitCode::SUCCESS)
}
