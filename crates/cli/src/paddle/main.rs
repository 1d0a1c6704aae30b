//! The command `paddle`: argument parsing and dispatch; every verb has a file of its own.

mod args;
mod conduct;
mod kill;
mod launch;
mod master;
mod node;
mod pserver;
mod python;
mod recordio;
mod service;
mod supervise;
mod version;

use args::{Paddle, Verb};
use clap::{CommandFactory, Parser};
use contract::{Error, Result};
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = launch::flags::mark(std::env::args_os(), &Paddle::command());
    let paddle = Paddle::parse_from(arguments);
    cli::exit::run("paddle", || match paddle.verb {
        Verb::Version(args) => version::run(&args),
        Verb::Pserver(args) => pserver::run(&args),
        Verb::Master(args) => master::run(*args),
        Verb::Recordio(args) => recordio::run(args),
        Verb::Launch(args) => launch::run(&args),
        Verb::Kill(args) => kill::run(&args),
        Verb::Train(args) => python::run("paddle.v1.train", &args),
        Verb::DumpConfig(args) => python::run("paddle.utils.dump_config", &args),
        Verb::MakeDiagram(args) => python::run("paddle.utils.make_model_diagram", &args),
        Verb::MergeModel(args) => python::run("paddle.utils.merge_model", &args),
        Verb::Plotcurve(args) => python::run("paddle.utils.plotcurve", &args),
        Verb::Node => node::run(),
        Verb::Supervise(args) => supervise::run(&args),
        Verb::Conduct => conduct::run(),
    })
}

/// The file of this program, for verbs that start others of it.
fn this_program() -> Result<PathBuf> {
    std::env::current_exe().map_err(|source| Error::io("cannot find the program itself", source))
}
