//! A server from its start to its end.

use crate::blocking::blocking;
use crate::config::{Config, Isolation, Location, OutsideUrl};
use crate::database::{self, Database};
use crate::datacenters::Outside;
use crate::datacenters::site::{Datacenter, Isolated};
use crate::files::blobs::Blobs;
use crate::files::{make_private, unusable};
use crate::http::connection::{Limited, Silence};
use crate::http::followers::Followers;
use crate::http::rate::Rate;
use crate::registries::vault::Vault;
use crate::users::admin;
use crate::users::throttle::Throttle;
use crate::{Cloud, cluster_train, health, jobs, once, packages, random, router};
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use contract::secret::Secret;
use contract::{Error, Kind, Result};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustix::fs::{FlockOperation, flock};
use scheduler::Backend;
use std::collections::BTreeMap;
use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, watch};

/// How long requests in progress may take when the server ends.
const GRACE: Duration = Duration::from_secs(5);
/// How long the head of a request may take to arrive.
const HEADER: Duration = Duration::from_secs(30);
/// How often what has become old is removed.
const SWEEP: Duration = Duration::from_secs(3600);

/// A server that was opened and does not serve yet.
pub struct Server {
    cloud: Arc<Cloud>,
    stop: watch::Sender<bool>,
    tls: Option<RustlsConfig>,
    password: Option<Secret>,
    /// Held while the server lives.
    _lock: Option<File>,
}

/// What people want to know of a server that has started.
#[derive(Debug, Clone)]
pub struct Started {
    /// The password of the first administrator, if they were added just now.
    pub admin_password: Option<Secret>,
    /// The file that keeps it.
    pub password_file: PathBuf,
    /// What people should know.
    pub notes: Vec<String>,
}

impl Server {
    /// Opens database and files, and adds the first administrator.
    pub async fn open(config: Config, outside: Outside) -> Result<Self> {
        Server::prepare(config, outside, None).await
    }

    /// As [`Server::open`], with `backend` for the jobs of all datacenters: what the service itself
    /// does can then be tried and measured alone.
    pub async fn open_on(
        config: Config,
        outside: Outside,
        backend: Arc<dyn Backend>,
    ) -> Result<Self> {
        Server::prepare(config, outside, Some(backend)).await
    }

    async fn prepare(
        mut config: Config,
        outside: Outside,
        backend: Option<Arc<dyn Backend>>,
    ) -> Result<Self> {
        config.check()?;
        // Read first: a server that cannot speak leaves nothing behind.
        let tls = config.tls.as_ref().map(|tls| tls_config(&tls.cert, &tls.key)).transpose()?;
        config.data_dir = real_directory(&config.data_dir)?;
        for own in &mut config.datacenters {
            if let Some(Location::Directory(path)) = &mut own.files {
                *path = real_directory(path)?;
            }
        }
        for outside in &mut config.stores {
            if let OutsideUrl::Directory(path) = &mut outside.url {
                *path = path.canonicalize().map_err(unusable(path))?;
            }
        }
        let data = config.data_dir.clone();
        let lock = match config.database {
            // A Postgres can be shared, with the data directory.
            Some(_) => None,
            None => Some(lock(&data)?),
        };
        let isolated = isolated(&config).await?;
        let database = match &config.database {
            Some(url) => Database::connect(&url.0).await?,
            None => Database::open_file(&data.join("cloud.db")).await?,
        };
        check_store(&database, &data).await?;
        let mut datacenters = BTreeMap::new();
        for own in &config.datacenters {
            let mut datacenter = Datacenter::open(&config, own, &outside, &isolated).await?;
            if let Some(backend) = &backend {
                datacenter.backend = Arc::clone(backend);
            }
            datacenters.insert(own.name.clone(), Arc::new(datacenter));
        }
        let (stop, stopping) = watch::channel(false);
        let limits = config.limits;
        let cloud = Arc::new(Cloud {
            blobs: Blobs::open(&data.join("blobs"), limits.package_bytes)?,
            vault: Vault::open(&data.join("secret.key"))?,
            usages: crate::files::usage::Usages::default(),
            operations: Default::default(),
            throttle: Throttle::default(),
            rate: Rate::new(limits.requests_per_second),
            connections: Limited::new(
                limits.connections,
                limits.connections_per_address,
                Silence::default(),
            ),
            followers: Arc::new(Followers::new(limits.followers)),
            revocations: watch::Sender::new(0),
            starts: Semaphore::new(limits.starts as usize),
            evaluations: Default::default(),
            nodes: Default::default(),
            opened: Default::default(),
            is_isolated: matches!(isolated, Isolated::Yes),
            stopping,
            address: std::sync::OnceLock::new(),
            identity: random::word::<20>()?,
            is_alone: lock.is_some(),
            metrics: health::recorder(),
            config,
            outside,
            database,
            datacenters,
        });
        let password = admin::ensure(&cloud).await?;
        Ok(Server { cloud, stop, tls, password, _lock: lock })
    }

    /// What people want to know.
    pub fn started(&self) -> Started {
        let notes = self.cloud.datacenters.values();
        let notes =
            notes.flat_map(|own| own.remarks.iter().map(|note| format!("{}: {note}", own.name)));
        Started {
            admin_password: self.password.clone(),
            password_file: self.cloud.config.data_dir.join(admin::FILE),
            notes: notes.collect(),
        }
    }

    /// Serves until `shutdown` turns true. Jobs go on after that.
    pub async fn run(self, listener: TcpListener, shutdown: watch::Receiver<bool>) -> Result<()> {
        let Server { cloud, stop, .. } = &self;
        if let Ok(address) = listener.local_addr() {
            // It is opened once.
            let _ = cloud.address.set(address);
        }
        let mut loops = tokio::task::JoinSet::new();
        for datacenter in cloud.datacenters.values() {
            loops.spawn(jobs::control::run(Arc::clone(cloud), Arc::clone(datacenter)));
        }
        loops.spawn(sweep(Arc::clone(cloud)));
        loops.spawn(jobs::mounts::serve(Arc::clone(cloud)));
        let handle = axum_server::Handle::<SocketAddr>::new();
        let (end, stop) = (handle.clone(), stop.clone());
        let mut shutdown = shutdown;
        loops.spawn(async move {
            // A sender that is gone wants the same.
            let _ = shutdown.wait_for(|stopping| *stopping).await;
            let _ = stop.send(true);
            end.graceful_shutdown(Some(GRACE));
        });
        let app =
            router::router(Arc::clone(cloud)).into_make_service_with_connect_info::<SocketAddr>();
        let refused = |source| Error::io("cannot serve", source);
        listener.set_nonblocking(true).map_err(refused)?;
        let limited = cloud.connections.clone();
        let served = match &self.tls {
            None => {
                let server = axum_server::from_tcp(listener).map_err(refused)?;
                let mut server = server.acceptor(limited).handle(handle);
                patient(server.http_builder());
                server.serve(app).await
            }
            Some(tls) => {
                let acceptor = RustlsAcceptor::new(tls.clone());
                let server = axum_server::from_tcp(listener).map_err(refused)?;
                let mut server = server.acceptor(acceptor.acceptor(limited)).handle(handle);
                patient(server.http_builder());
                server.serve(app).await
            }
        };
        // Loops end by themselves when they hear of it, and are not waited for without a limit.
        let _ = self.stop.send(true);
        let _ =
            tokio::time::timeout(GRACE, async { while loops.join_next().await.is_some() {} }).await;
        loops.abort_all();
        cloud.database.close().await;
        served.map_err(refused)
    }
}

/// A connection on which nobody asks for anything is closed after a while.
fn patient(builder: &mut hyper_util::server::conn::auto::Builder<TokioExecutor>) {
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER);
}

/// Removes what has become old, at the start, for servers that do not live long, and now and then.
async fn sweep(cloud: Arc<Cloud>) {
    let mut stopping = cloud.stopping.clone();
    loop {
        if let Err(error) = cloud.trim_audit().await {
            tracing::warn!(error = error.chain(), "old audit entries stay for now");
        }
        if let Err(error) = packages::service::sweep(&cloud).await {
            tracing::warn!(error = error.chain(), "old packages stay for now");
        }
        sweep_uploads(&cloud).await;
        let (old, age) = (Arc::clone(&cloud), cloud.config.limits.upload_hours);
        let age = Duration::from_secs(age.saturating_mul(3600));
        let _ = blocking(move || {
            cluster_train::source::sweep(&old, age);
            Ok(())
        })
        .await;
        tokio::select! {
            _ = stopping.wait_for(|stopping| *stopping) => return,
            () = tokio::time::sleep(SWEEP) => {}
        }
    }
}

/// Removes uploads that nobody continues.
async fn sweep_uploads(cloud: &Cloud) {
    let age = Duration::from_secs(cloud.config.limits.upload_hours.saturating_mul(3600));
    for (name, datacenter) in &cloud.datacenters {
        let staging = datacenter.staging.clone();
        let removed = crate::blocking::blocking(move || Ok(staging.sweep(age))).await.unwrap_or(0);
        let removed = match datacenter.files.sweep(age).await {
            Ok(more) => removed + more,
            Err(error) => {
                tracing::warn!(
                    datacenter = name,
                    error = error.chain(),
                    "what uploads left in the store stays for now"
                );
                removed
            }
        };
        if removed > 0 {
            tracing::info!(datacenter = name, removed, "removed uploads that nobody continued");
        }
    }
}

/// Keeps a second server from using the same files.
fn lock(data: &Path) -> Result<File> {
    let path = data.join("server.lock");
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(unusable(&path))?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
        let message = "another server uses this data directory: stop it, or use --data_dir";
        Error::new(Kind::Conflict, message).with("data_dir", data.display())
    })?;
    Ok(file)
}

/// A database belongs to one data directory: servers that share the one share the other.
async fn check_store(database: &Database, data: &Path) -> Result<()> {
    let path = data.join("id");
    let own = once::read_or_draw(&path, random::word::<20>)?;
    let mut write = database.write().await?;
    let row = sqlx::query("SELECT id FROM stores WHERE name = 'data'")
        .fetch_optional(write.connection())
        .await
        .map_err(database::failed)?;
    match row.as_ref().map(|row| database::text(row, "id")).transpose()? {
        Some(id) if id == own => Ok(()),
        Some(_) => {
            let message = "this database belongs to another data directory: servers that share a \
                           database share the data directory";
            Err(Error::new(Kind::Conflict, message).with("data_dir", data.display()))
        }
        None => {
            sqlx::query("INSERT INTO stores (name, id) VALUES ('data', $1)")
                .bind(own)
                .execute(write.connection())
                .await
                .map_err(database::failed)?;
            write.commit().await
        }
    }
}

/// Makes a directory for the server alone, and finds its real path: sandboxes follow no links.
fn real_directory(path: &Path) -> Result<PathBuf> {
    make_private(path)?;
    path.canonicalize().map_err(unusable(path))
}

/// Whether jobs can be kept apart on this machine.
async fn isolated(config: &Config) -> Result<Isolated> {
    let probed = blocking(|| Ok(scheduler::local::sandbox::probe())).await?;
    match (probed, config.isolation) {
        (Ok(()), _) => Ok(Isolated::Yes),
        (Err(why), Isolation::WhenPossible) => Ok(Isolated::No(why)),
        (Err(why), Isolation::Required) => {
            let message = format!("isolation is required, and not possible here: {why}");
            Err(Error::new(Kind::Unsupported, message))
        }
    }
}

fn tls_config(cert: &Path, key: &Path) -> Result<RustlsConfig> {
    use tokio_rustls::rustls;
    use tokio_rustls::rustls::pki_types::pem::PemObject;
    use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let read = |path: &Path| {
        std::fs::read(path).map_err(|source| {
            Error::io("cannot read a file for TLS", source).with("file", path.display())
        })
    };
    let refused = |path: &Path, what: &str| {
        Error::invalid(format!("not a PEM file with {what}")).with("file", path.display())
    };
    let certificates = CertificateDer::pem_slice_iter(&read(cert)?)
        .collect::<std::result::Result<Vec<_>, _>>()
        .ok()
        .filter(|all| !all.is_empty())
        .ok_or_else(|| refused(cert, "certificates"))?;
    let key_der =
        PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|_| refused(key, "a private key"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|source| Error::new(Kind::Unsupported, "TLS cannot be used").because(source))?
        .with_no_client_auth()
        .with_single_cert(certificates, key_der)
        .map_err(|source| {
            let message = "certificate and key do not fit each other";
            Error::invalid(message).with("file", cert.display()).because(source)
        })?;
    Ok(RustlsConfig::from_config(Arc::new(config)))
}

/// A new cloud for unit tests, which starts no jobs.
#[cfg(test)]
pub(crate) async fn empty_cloud(data_dir: &Path) -> Arc<Cloud> {
    let mut config = Config::from_yaml("{}").unwrap();
    config.data_dir = data_dir.to_owned();
    let outside = Outside {
        paddle: scheduler::jobs::Paddle { program: "/bin/false".into(), release: "0".to_owned() },
        paddlecloud: "/bin/false".into(),
        environment: BTreeMap::new(),
        exposed: Vec::new(),
        machine: "here".to_owned(),
        host: "here".to_owned(),
    };
    Server::open(config, outside).await.unwrap().cloud
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_for_tls_that_are_none_are_told_by_what_is_wrong_with_them() {
        let folder = tempfile::tempdir().unwrap();
        let (missing, empty) = (folder.path().join("missing"), folder.path().join("empty"));
        std::fs::write(&empty, "").unwrap();
        let why = |path: &Path| tls_config(path, path).err().unwrap();
        assert_eq!(why(&missing).kind(), Kind::NotFound);
        assert_eq!(why(&missing).message(), "cannot read a file for TLS");
        assert_eq!(why(&empty).message(), "not a PEM file with certificates");
    }
}
