//! The command `paddle`: argument parsing and dispatch; every verb has a file of its own.

mod agent;
mod args;
mod attach;
mod cluster_node;
mod cluster_train;
mod completions;
mod conduct;
mod jobs;
mod kill;
mod launch;
mod logs;
mod master;
mod node;
mod pserver;
mod python;
mod rank;
mod recordio;
mod scale;
mod service;
mod supervise;
mod usage;
mod version;

use args::Verb;
use contract::{Error, Result};
use std::process::ExitCode;

fn main() -> ExitCode {
    let verb = Verb::read();
    cli::exit::run("paddle", || match verb {
        Verb::Version(args) => version::run(&args),
        Verb::Pserver(args) => pserver::run(&args),
        Verb::Master(args) => master::run(*args),
        Verb::Recordio(args) => recordio::run(args),
        Verb::ClusterTrain(args) => cluster_train::train(&args),
        Verb::ClusterStatus(args) => cluster_train::status(&args),
        Verb::ClusterLog(args) => cluster_train::log(&args),
        Verb::ClusterKill(args) => cluster_train::kill(&args),
        Verb::ClusterNode(args) => cluster_node::run(&args),
        Verb::ClusterConfig(args) => python::run("paddle.v1.cluster_config", &args),
        Verb::Launch(args) => launch::run(&args),
        Verb::Jobs(args) => jobs::run(&args),
        Verb::Attach(args) => attach::run(&args),
        Verb::Logs(args) => logs::run(&args),
        Verb::Kill(args) => kill::run(&args),
        Verb::Scale(args) => scale::run(&args),
        Verb::Train(args) => python::run("paddle.v1.train", &args),
        Verb::DumpConfig(args) => python::run("paddle.utils.dump_config", &args),
        Verb::MakeDiagram(args) => python::run("paddle.utils.make_model_diagram", &args),
        Verb::MergeModel(args) => python::run("paddle.utils.merge_model", &args),
        Verb::Plotcurve(args) => python::run("paddle.utils.plotcurve", &args),
        Verb::Usage(_) => usage::run(),
        Verb::Completions(args) => completions::run(&args),
        Verb::Conduct(args) => conduct::run(&args),
        Verb::Supervise(args) => supervise::run(&args),
        Verb::Node => node::run(),
        Verb::Rank(args) => rank::run(&args),
        Verb::Agent(args) => agent::run(&args),
    })
}

/// This program, for verbs that start others of it.
fn this_program() -> Result<scheduler::jobs::Paddle> {
    let program = std::env::current_exe()
        .map_err(|source| Error::io("cannot find the program itself", source))?;
    Ok(scheduler::jobs::Paddle { program, release: env!("CARGO_PKG_VERSION").to_owned() })
}
