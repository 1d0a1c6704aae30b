//! What `paddle pserver` and `paddle master` share: flags, listeners, signals, the readiness line.

mod bind;

pub(crate) use bind::listen;

use contract::ready::Ready;
use contract::{Error, Kind, Result};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use tokio::sync::watch;

/// Flags of every server.
#[derive(Debug, clap::Args)]
#[group(skip)] // Its name is also that of the flags around it.
pub(crate) struct Args {
    /// Network interfaces to listen on, separated by commas [default: all addresses]
    #[arg(long, value_name = "NAMES", default_value = "")]
    nics: String,
    /// Serve Prometheus metrics over HTTP on this port, of the first interface of --nics
    #[arg(long = "metrics_port", alias = "metrics-port", value_name = "PORT")]
    metrics_port: Option<u16>,
    /// Speak TLS: file with the server's certificates (PEM)
    #[arg(long = "tls_cert", alias = "tls-cert", value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Speak TLS: file with the server's key (PEM)
    #[arg(long = "tls_key", alias = "tls-key", value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Let in only clients with a certificate of these authorities (PEM)
    #[arg(
        long = "tls_client_ca",
        alias = "tls-client-ca",
        value_name = "FILE",
        requires = "tls_cert"
    )]
    tls_client_ca: Option<PathBuf>,
}

impl Args {
    /// The addresses to listen on.
    pub(crate) fn addresses(&self) -> Result<Vec<IpAddr>> {
        bind::addresses(&self.nics)
    }

    /// How to speak TLS, if asked to.
    pub(crate) fn tls(&self) -> Result<Option<wire::tls::ServerConfig>> {
        let (Some(certificates), Some(key)) = (&self.tls_cert, &self.tls_key) else {
            return Ok(None);
        };
        let authorities = self.tls_client_ca.as_deref().map(read_pem).transpose()?;
        let (certificates_pem, key_pem) = (&read_pem(certificates)?, &read_pem(key)?);
        let identity = wire::tls::Identity { certificates_pem, key_pem };
        wire::tls::ServerConfig::new(identity, authorities.as_deref()).map(Some)
    }

    /// Begins to serve metrics, if asked to.
    pub(crate) fn serve_metrics(&self) -> Result<()> {
        let Some(port) = self.metrics_port else { return Ok(()) };
        let unspecified = IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);
        let address = (self.addresses()?.first().copied().unwrap_or(unspecified), port);
        metrics_exporter_prometheus::PrometheusBuilder::new()
            .with_http_listener(address)
            .install()
            .map_err(|source| {
                Error::new(Kind::Unavailable, "cannot serve metrics; choose another --metrics_port")
                    .with("port", port)
                    .because(source)
            })
    }
}

/// Reads a file of certificates or keys.
pub(crate) fn read_pem(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path)
        .map_err(|source| Error::io("cannot read TLS file", source).with("file", path.display()))
}

/// A folder of the environment, where empty means none.
pub(crate) fn folder(path: &str) -> Option<PathBuf> {
    (!path.is_empty()).then(|| PathBuf::from(path))
}

/// One JSON line for launchers, on standard output; one for people, in the log.
pub(crate) fn announce(ready: &Ready) -> Result<()> {
    say(&ready.render()?)?;
    tracing::info!(
        port = ready.ports.first,
        dense = ready.ports.dense,
        sparse = ready.ports.sparse,
        "listening"
    );
    Ok(())
}

/// Prints a line for the launcher.
pub(crate) fn say(line: &str) -> Result<()> {
    let mut output = cli::output::Output::open();
    output.line(line)?;
    output.close()
}

/// Turns true at SIGTERM or SIGINT.
pub(crate) fn stop_on_signal() -> Result<watch::Receiver<bool>> {
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

/// Tells this life of the server from earlier ones.
pub(crate) fn fresh_incarnation() -> Result<u64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes)
        .map_err(|source| Error::new(Kind::Io, "no random numbers").because(source))?;
    Ok(u64::from_le_bytes(bytes))
}
