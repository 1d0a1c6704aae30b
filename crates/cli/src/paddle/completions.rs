//! `paddle completions`: what makes a shell complete the commands and flags of `paddle`.

use clap::CommandFactory;
use cli::completions::{self, Shell};
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

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    completions::print(args.shell, crate::args::Paddle::command(), "paddle")
}
