//! `paddlecloud completions`: what makes a shell complete the commands and flags.

use clap::CommandFactory;
use cli::completions::{self, Shell};
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

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    completions::print(args.shell, crate::args::Paddlecloud::command(), "paddlecloud")
}
