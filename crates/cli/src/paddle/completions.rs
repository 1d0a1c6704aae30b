//! `paddle completions`: what makes a shell complete the commands and flags of `paddle`.

use clap::CommandFactory;
use cli::output::Output;
use contract::Result;
use std::process::ExitCode;

/// Print the completions of a shell
///
/// For bash:  paddle completions bash > ~/.local/share/bash-completion/completions/paddle
/// For zsh:   paddle completions zsh > "${fpath[1]}/_paddle"
/// For fish:  paddle completions fish > ~/.config/fish/completions/paddle.fish
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let shell = match args.shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut crate::args::Paddle::command(), "paddle", &mut script);
    let mut output = Output::open();
    output.bytes(&script)?;
    output.close()?;
    Ok(ExitCode::SUCCESS)
}
