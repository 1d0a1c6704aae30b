//! `paddle pserver`: flags and environment → listeners and a configuration → the server.

mod args;

pub(crate) use args::Args;

use crate::service::{self, folder};
use ::pserver::checkpoint::{Directory, Which, newest};
use ::pserver::server::{self, Checkpointing, ServerConfig};
use contract::env::Environment;
use contract::port::Ports;
use contract::ready::Ready;
use contract::role::Role;
use contract::{Error, Kind, Result};
use std::process::ExitCode;
use std::time::Duration;

/// Between two checkpoints, where nobody says how long.
const CHECKPOINT_INTERVAL_SECONDS: u64 = 600;

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let environment = Environment::parse(|name| std::env::var(name).ok())?;
    let log_dir = args.log_dir.clone().or_else(|| folder(&environment.log_dir));
    cli::logging::start(log_dir.as_deref(), "paddle_pserver2.INFO")?;
    let config = configure(args, &environment)?;
    match check_restore(&config) {
        Err(error) if error.kind() != Kind::Io && !error.kind().is_retryable() => {
            // Whoever starts servers again does not try this a second time: there is nothing else
            // that was asked for.
            cli::exit::report("paddle", &error);
            return Ok(ExitCode::from(cli::exit::ASKED_WRONGLY));
        }
        checked => checked?,
    }
    args.service.serve_metrics()?;
    let wanted = Ports {
        first: args.port.unwrap_or(environment.ports.first),
        dense: args.ports_num.unwrap_or(environment.ports.dense),
        sparse: args.ports_num_for_sparse.unwrap_or(environment.ports.sparse),
    };
    let addresses = args.service.addresses()?;
    let (ports, listeners) = service::listen(&addresses, wanted)?;
    let stop = service::stop_on_signal()?;
    service::announce(&Ready { role: Role::Pserver, rank: args.index, addresses, ports })?;
    let farewell = server::run(listeners, &config, &stop)?;
    service::say(&farewell.render()?)?;
    tracing::info!("the server has ended");
    Ok(ExitCode::SUCCESS)
}

/// The memory of this machine: a model that is larger must be refused, not killed half-way.
fn machine_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    info.totalram.saturating_mul(info.mem_unit.into())
}

fn configure(args: &Args, environment: &Environment) -> Result<ServerConfig> {
    let trainers = args.num_gradient_servers.unwrap_or(environment.trainers);
    let timeout = Duration::try_from_secs_f64(args.trainer_timeout).map_err(|_| {
        Error::invalid("not a number of seconds").with("trainer_timeout", args.trainer_timeout)
    })?;
    let mut config = ServerConfig {
        preset: args.index.zip(args.servers),
        min_trainers: args.min_trainers,
        token: environment.token.clone(),
        tls: args.service.tls()?,
        trainer_timeout: timeout,
        ..ServerConfig::new(trainers, service::fresh_incarnation()?)
    };
    let memory = args.memory_max.map_or_else(machine_bytes, contract::quantity::Quantity::bytes);
    config.table_bytes_max = usize::try_from(memory).unwrap_or(usize::MAX);
    let checkpoint_dir = args.checkpoint_dir.clone();
    let told = (!environment.restore.is_empty()).then_some(environment.restore.as_str());
    config.restore = args.restore.as_deref().or(told).map(which).transpose()?;
    let Some(folder) = checkpoint_dir.or_else(|| folder(&environment.checkpoint_dir)) else {
        if let Some(Which::Latest | Which::Cut(1..)) = config.restore {
            let message = "there is no folder to restore from: give --checkpoint_dir, or begin \
                           anew, without --restore and PADDLE_RESTORE";
            return Err(Error::invalid(message));
        }
        config.check()?;
        return Ok(config);
    };
    std::fs::create_dir_all(&folder).map_err(|source| {
        Error::io("cannot keep checkpoints here", source).with("checkpoint_dir", folder.display())
    })?;
    let interval = args.checkpoint_interval.or(environment.checkpoint_interval_seconds);
    let interval = interval.unwrap_or(CHECKPOINT_INTERVAL_SECONDS);
    config.checkpoint = Some(Checkpointing {
        folder,
        keep: args.checkpoint_keep.into(),
        interval: (interval > 0).then(|| Duration::from_secs(interval)),
        disk: None,
    });
    config.check()?;
    Ok(config)
}

/// What cannot be restored, or gone on with, is said at once, not when the first trainer joins.
fn check_restore(config: &ServerConfig) -> Result<()> {
    let Some(Checkpointing { folder, .. }) = &config.checkpoint else { return Ok(()) };
    newest(folder)?;
    match config.restore {
        Some(which) => Directory { folder: folder.clone(), which }.check(),
        None => Ok(()),
    }
}

fn which(text: &str) -> Result<Which> {
    match text {
        "latest" => Ok(Which::Latest),
        "common" => Ok(Which::Common),
        number => number.parse().map(Which::Cut).map_err(|_| {
            Error::invalid("name a checkpoint by its number, or say --restore for the newest")
                .with("restore", number)
        }),
    }
}
