//! The command `paddlecloud`: argument parsing and dispatch; every verb has a file of its own.

mod args;
mod cat;
mod cloud;
mod completions;
mod cp;
mod datacenter;
mod dataset;
mod delete;
mod describe;
mod du;
mod events;
mod file;
mod get;
mod help;
mod kill;
mod login;
mod logs;
mod ls;
mod mkdir;
mod mount;
mod moving;
mod mv;
mod pfs;
mod publish;
mod registry;
mod resubmit;
mod rm;
mod scale;
#[cfg(feature = "server")]
mod serve;
mod spec;
mod stat;
mod submit;
mod sync;
mod token;
mod tree;
mod user;
mod version;
mod view;
mod wait;
mod why;

use args::{Paddlecloud, Verb};
use clap::{CommandFactory, FromArgMatches};
use contract::Result;
use std::process::ExitCode;

fn main() -> ExitCode {
    let command = Paddlecloud::command();
    let screen = help::screen(&command);
    let command = command.override_help(screen);
    let words = cli::one_dash::normalise(std::env::args_os(), &command);
    let parsed = command
        .try_get_matches_from(words)
        .and_then(|matches| Paddlecloud::from_arg_matches(&matches));
    match parsed {
        Ok(paddlecloud) => cli::exit::run("paddlecloud", || run(paddlecloud)),
        Err(error) => help::explain(&error),
    }
}

fn run(paddlecloud: Paddlecloud) -> Result<ExitCode> {
    let Paddlecloud { globals, verb } = paddlecloud;
    let Some(verb) = verb else { return help::bare() };
    match verb {
        #[cfg(feature = "server")]
        Verb::Serve(args) => serve::run(&args),
        Verb::Submit(args) => submit::run(&globals, &args),
        Verb::Resubmit(args) => resubmit::run(&globals, &args),
        Verb::Get(args) => get::run(&globals, &args),
        Verb::Logs(args) => logs::run(&globals, &args),
        Verb::Why(args) => why::run(&globals, &args),
        Verb::Describe(args) => describe::run(&globals, &args),
        Verb::Events(args) => events::run(&globals, &args),
        Verb::Wait(args) => wait::run(&globals, &args),
        Verb::Scale(args) => scale::run(&globals, &args),
        Verb::Kill(args) => kill::run(&globals, &args),
        Verb::Delete(args) => delete::run(&globals, &args),
        Verb::Registry(args) => registry::run(&globals, &args),
        Verb::Dataset(args) => dataset::run(&globals, &args),
        Verb::Login(args) => login::run(&globals, &args),
        Verb::Logout => login::logout(&globals),
        Verb::Datacenter(args) => datacenter::run(&globals, &args),
        Verb::User(args) => user::run(&globals, &args),
        Verb::Token(args) => token::run(&globals, &args),
        Verb::Cat(args) => cat::run(&globals, &args),
        Verb::Cp(args) => cp::run(&globals, &args),
        Verb::Du(args) => du::run(&globals, &args),
        Verb::File(args) => file::run(&globals, &args),
        Verb::Ls(args) => ls::run(&globals, &args),
        Verb::Mkdir(args) => mkdir::run(&globals, &args),
        Verb::Mount(args) => mount::run(&globals, &args),
        Verb::Mv(args) => mv::run(&globals, &args),
        Verb::Publish(args) => publish::run(&globals, &args),
        Verb::Rm(args) => rm::run(&globals, &args),
        Verb::Stat(args) => stat::run(&globals, &args),
        Verb::Sync(args) => sync::run(&globals, &args),
        Verb::Tree(args) => tree::run(&globals, &args),
        Verb::Commands => help::commands(),
        Verb::Flags => help::flags(),
        Verb::Help(args) => help::run(&args),
        Verb::Completions(args) => completions::run(&args),
        Verb::Version(args) => version::run(&globals, &args),
    }
}
