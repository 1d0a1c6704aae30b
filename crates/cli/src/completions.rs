//! What makes a shell complete the commands and flags of a command.

use crate::output::Output;
use contract::Result;
use std::process::ExitCode;

/// The shells that are known.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
#[expect(missing_docs, reason = "help pages would show it beside each name")]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Prints the completions of a command.
pub fn print(shell: Shell, mut command: clap::Command, name: &str) -> Result<ExitCode> {
    let shell = match shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    let mut output = Output::open();
    output.bytes(&script)?;
    output.close()?;
    Ok(ExitCode::SUCCESS)
}
