//! `paddle master`: flags and environment → a listener and a configuration → the server.

mod args;
mod status;

pub(crate) use args::Args;

use crate::service::{self, folder};
use ::master::PORT;
use ::master::dataset::Split;
use ::master::queue::Rules;
use ::master::server::{Master, ServerConfig};
use args::{Serve, Verb};
use contract::Result;
use contract::env::Environment;
use contract::port::Ports;
use contract::ready::{Farewell, Ready};
use contract::role::Role;
use std::process::ExitCode;

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let environment = Environment::parse(|name| std::env::var(name).ok())?;
    match args.verb {
        Some(Verb::Status(args)) => status::run(&args, environment),
        None => serve(args.serve, environment),
    }
}

fn serve(args: Serve, environment: Environment) -> Result<ExitCode> {
    let log_dir = args.log_dir.clone().or_else(|| folder(&environment.log_dir));
    cli::logging::start(log_dir.as_deref(), "paddle_master.INFO")?;
    args.service.serve_metrics()?;
    let told = environment.master.as_ref().map_or(PORT, |endpoint| endpoint.port_or(PORT));
    let wanted = Ports { first: args.port.unwrap_or(told), dense: 1, sparse: 0 };
    let addresses = args.service.addresses()?;
    let config = configure(args, environment)?;
    // Bound first: a port that is taken is said before any file is looked at.
    let (ports, listeners) = service::listen(&addresses, wanted)?;
    let master = Master::open(config)?;
    let stop = service::stop_on_signal()?;
    service::announce(&Ready { role: Role::Master, rank: None, addresses, ports })?;
    let trainers_joined = master.run(listeners.into_iter().flatten().collect(), &stop)?;
    let farewell = Farewell { trainers_joined, was_stopped: true, ..Farewell::default() };
    service::say(&farewell.render()?)?;
    tracing::info!("the master has ended");
    Ok(ExitCode::SUCCESS)
}

fn configure(args: Serve, environment: Environment) -> Result<ServerConfig> {
    let config = ServerConfig {
        token: environment.token,
        tls: args.service.tls()?,
        rules: Rules {
            lease: args.task_timeout,
            failures_max: args.task_timeout_max,
            passes: args.passes,
            shuffle_seed: args.shuffle_seed,
            ..Rules::default()
        },
        split: Split {
            pieces_per_task: args.chunk_per_task,
            text_piece_bytes: args.chunk_bytes.bytes(),
            trainers: args.trainers.unwrap_or(environment.trainers),
        },
        dataset: args.dataset,
        state_dir: args.state_dir,
        ..ServerConfig::new(service::fresh_incarnation()?)
    };
    config.check()?;
    Ok(config)
}
