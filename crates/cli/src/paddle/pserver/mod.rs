//! `paddle pserver`: flags and environment → listeners and a configuration → the server.

mod args;
mod bind;

pub(crate) use args::Args;

use ::pserver::checkpoint::{self, Which};
use ::pserver::server::{self, Checkpointing, ServerConfig};
use contract::env::Environment;
use contract::port::Ports;
use contract::ready::Ready;
use contract::role::Role;
use contract::{Error, Kind, Result};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tokio::sync::watch;

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let environment = Environment::parse(|name| std::env::var(name).ok())?;
    let log_dir = args.log_dir.clone().or_else(|| folder(&environment.log_dir));
    cli::logging::start(log_dir.as_deref(), "paddle_pserver2.INFO")?;
    let config = configure(args, &environment)?;
    if let Some(port) = args.metrics_port {
        serve_metrics(port)?;
    }
    let wanted = Ports {
        first: args.port.unwrap_or(environment.ports.first),
        dense: args.ports_num.unwrap_or(environment.ports.dense),
        sparse: args.ports_num_for_sparse.unwrap_or(environment.ports.sparse),
    };
    let addresses = bind::addresses(&args.nics)?;
    let (ports, listeners) = bind::listen(&addresses, wanted)?;
    let stop = stop_on_signal()?;
    announce(&Ready { role: Role::Pserver, rank: args.index, addresses, ports })?;
    server::run(listeners, &config, &stop)?;
    tracing::info!("the server has ended");
    Ok(ExitCode::SUCCESS)
}

fn configure(args: &Args, environment: &Environment) -> Result<ServerConfig> {
    let trainers = args.num_gradient_servers.unwrap_or(environment.trainers);
    let timeout = Duration::try_from_secs_f64(args.trainer_timeout).map_err(|_| {
        Error::invalid("not a number of seconds").with("trainer_timeout", args.trainer_timeout)
    })?;
    let mut config = ServerConfig {
        preset: args.index.zip(args.servers),
        token: environment.token.clone(),
        tls: tls(args)?,
        trainer_timeout: timeout,
        ..ServerConfig::new(trainers, fresh_incarnation()?)
    };
    if let Some(memory) = args.memory_max {
        config.table_bytes_max = usize::try_from(memory.bytes()).unwrap_or(usize::MAX);
    }
    let checkpoint_dir = args.checkpoint_dir.clone();
    let Some(folder) = checkpoint_dir.or_else(|| folder(&environment.checkpoint_dir)) else {
        config.check()?;
        return Ok(config);
    };
    std::fs::create_dir_all(&folder).map_err(|source| {
        Error::io("cannot keep checkpoints here", source).with("checkpoint_dir", folder.display())
    })?;
    config.checkpoint = Some(Checkpointing {
        folder: folder.clone(),
        keep: args.checkpoint_keep.into(),
        interval: (args.checkpoint_interval > 0)
            .then(|| Duration::from_secs(args.checkpoint_interval)),
    });
    if let Some(which) = &args.restore {
        let which = match which.as_str() {
            "latest" => Which::Latest,
            number => Which::Cut(number.parse().map_err(|_| {
                Error::invalid("name a checkpoint by its number, or say --restore for the newest")
                    .with("restore", number)
            })?),
        };
        // What cannot be restored is said now, not when the first trainer joins.
        checkpoint::list(&folder)?;
        config.restore = Some(checkpoint::Directory { folder, which });
    }
    config.check()?;
    Ok(config)
}

/// A folder of the environment, where empty means none.
fn folder(path: &str) -> Option<PathBuf> {
    (!path.is_empty()).then(|| PathBuf::from(path))
}

fn tls(args: &Args) -> Result<Option<wire::tls::ServerConfig>> {
    let (Some(certificates), Some(key)) = (&args.tls_cert, &args.tls_key) else { return Ok(None) };
    let read = |path: &Path| {
        std::fs::read(path).map_err(|source| {
            Error::io("cannot read TLS file", source).with("file", path.display())
        })
    };
    let authorities = args.tls_client_ca.as_deref().map(read).transpose()?;
    let (certificates_pem, key_pem) = (&read(certificates)?, &read(key)?);
    let identity = wire::tls::Identity { certificates_pem, key_pem };
    wire::tls::ServerConfig::new(identity, authorities.as_deref()).map(Some)
}

/// One JSON line for launchers, on standard output; one for people, in the log.
fn announce(ready: &Ready) -> Result<()> {
    let mut output = cli::output::Output::open();
    output.line(ready.render()?)?;
    output.close()?;
    tracing::info!(
        port = ready.ports.first,
        dense = ready.ports.dense,
        sparse = ready.ports.sparse,
        "listening"
    );
    Ok(())
}

/// Turns true at SIGTERM or SIGINT.
fn stop_on_signal() -> Result<watch::Receiver<bool>> {
    use tokio::signal::unix::{SignalKind, signal};
    let refused = |source| Error::io("cannot wait for signals", source);
    let (sender, receiver) = watch::channel(false);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(refused)?;
    let (mut terminate, mut interrupt) = {
        let _context = runtime.enter();
        (
            signal(SignalKind::terminate()).map_err(refused)?,
            signal(SignalKind::interrupt()).map_err(refused)?,
        )
    };
    let wait = move || {
        runtime.block_on(async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        });
        tracing::info!("stopping: asked to by a signal");
        // Nobody listens any more when the server has ended by itself.
        let _ = sender.send(true);
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(wait).map_err(refused)?;
    Ok(receiver)
}

fn serve_metrics(port: u16) -> Result<()> {
    let address = (std::net::Ipv4Addr::UNSPECIFIED, port);
    metrics_exporter_prometheus::PrometheusBuilder::new()
        .with_http_listener(address)
        .install()
        .map_err(|source| {
            Error::new(Kind::Unavailable, "cannot serve metrics; choose another --metrics_port")
                .with("port", port)
                .because(source)
        })
}

/// Tells this life of the server from earlier ones.
fn fresh_incarnation() -> Result<u64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes)
        .map_err(|source| Error::new(Kind::Io, "no random numbers").because(source))?;
    Ok(u64::from_le_bytes(bytes))
}
