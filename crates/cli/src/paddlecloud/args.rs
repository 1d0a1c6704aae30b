//! The verbs of `paddlecloud`. Their own arguments are beside their code.
//!
//! Flags are described with two dashes; `cli::one_dash` lets people write one.

use crate::{
    cat, completions, cp, datacenter, dataset, delete, describe, du, events, file, get, help, kill,
    login, logs, ls, mkdir, mount, mv, publish, registry, resubmit, rm, scale, stat, submit, sync,
    token, tree, user, version, wait, why,
};
use clap::{Parser, Subcommand};
use std::path::PathBuf;

/// Submits jobs to a cloud and looks after them.
#[derive(Debug, Parser)]
#[command(name = "paddlecloud", version, disable_help_subcommand = true, args_override_self = true)]
pub(crate) struct Paddlecloud {
    #[command(flatten)]
    pub(crate) globals: Globals,
    #[command(subcommand)]
    pub(crate) verb: Option<Verb>,
}

/// What every verb takes.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Globals {
    /// The configuration file [default: ~/.paddle/config]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Top-level flags")]
    pub(crate) config: Option<PathBuf>,
    /// The datacenter of the configuration [default: its current-datacenter]
    #[arg(long, global = true, value_name = "NAME", help_heading = "Top-level flags")]
    pub(crate) datacenter: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Cat(cat::Args),
    /// list all command names
    Commands,
    Completions(completions::Args),
    Cp(cp::Args),
    Datacenter(datacenter::Args),
    Dataset(dataset::Args),
    Delete(delete::Args),
    Describe(describe::Args),
    Du(du::Args),
    Events(events::Args),
    File(file::Args),
    /// list the top-level flags
    Flags,
    Get(get::Args),
    Help(help::Args),
    Kill(kill::Args),
    Login(login::Args),
    /// Forget the login, here and on the server
    Logout,
    Logs(logs::Args),
    Ls(ls::Args),
    Mkdir(mkdir::Args),
    Mount(mount::Args),
    Mv(mv::Args),
    Publish(publish::Args),
    Registry(registry::Args),
    Resubmit(resubmit::Args),
    Rm(rm::Args),
    Scale(scale::Args),
    #[cfg(feature = "server")]
    Serve(crate::serve::ServeArgs),
    Stat(stat::Args),
    Submit(Box<submit::Args>),
    Sync(sync::Args),
    Token(token::Args),
    Tree(tree::Args),
    User(user::Args),
    Version(version::Args),
    Wait(wait::Args),
    Why(why::Args),
}
