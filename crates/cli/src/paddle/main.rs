//! The command `paddle`: argument parsing and dispatch; every verb has a file of its own.

mod args;
mod master;
mod pserver;
mod recordio;
mod service;
mod version;

use args::{Paddle, Verb};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let paddle = Paddle::parse();
    cli::exit::run("paddle", || match paddle.verb {
        Verb::Version(args) => version::run(&args),
        Verb::Pserver(args) => pserver::run(&args),
        Verb::Master(args) => master::run(*args),
        Verb::Recordio(args) => recordio::run(args),
    })
}
