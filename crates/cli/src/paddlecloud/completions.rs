//! `paddlecloud completions`: what makes a shell complete the commands and flags.

use clap::CommandFactory;
use cli::output::Output;
use contract::Result;
use std::process::ExitCode;

/// Print the completions of a shell
///
/// For bash:  paddlecloud completions bash > ~/.local/share/bash-completion/completions/paddlecloud
/// For zsh:   paddlecloud completions zsh > "${fpath[1]}/_paddlecloud"
/// For fish:  paddlecloud completions fish > ~/.config/fish/completions/paddlecloud.fish
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, about = "Print the completions of a shell")]
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
    let mut command = crate::args::Paddlecloud::command();
    clap_complete::generate(shell, &mut command, "paddlecloud", &mut script);
    let mut output = Output::open();
    output.bytes(&script)?;
    output.close()?;
    Ok(ExitCode::SUCCESS)
}
