//! The files of a job where they are no directory of this machine.
//!
//! A job must see `/pfs`, must have no credential, and must outlive this server. So its files are
//! mounted by the same `paddlecloud mount` that people use, outside of its sandbox, before it
//! starts; the sandbox is given the mounted directories as it is given plain ones elsewhere. The
//! mount is a process of its own with a token of the job's user, which only root can read: it can
//! reach that user's home and the public area, whatever is wrong with it, and it goes on when this
//! server is killed. It asks by a socket in the data directory, where the next server is found
//! again, which speaks no TLS and needs none: only root can enter, so that no job can wait for the
//! server's death to take its place and be given tokens.
//!
//! The other ways: a file system in the server's own process would go with it, and every job with
//! that; one mount for all users would need a token for all homes; a mount inside the sandbox would
//! need the token there.
//!
//! All that is known of a mount is its directory, `mounts/<datacenter>/<uid of the job>`. One that
//! is lost ends the job, which could only go on with errors, and the reason says so.

use super::row::JobRow;
use crate::Cloud;
use crate::blocking::blocking;
use crate::datacenters::Datacenter;
use crate::users;
use axum::Extension;
use axum::extract::ConnectInfo;
use contract::path::PfsPath;
use contract::{Error, Kind, Result};
use rustix::mount::{UnmountFlags, unmount};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::process::Command;

/// Where a job's files are on this machine.
#[derive(Debug, Clone)]
pub(super) struct Paths {
    /// Its user's home.
    pub(super) home: PathBuf,
    /// The public area.
    pub(super) public: PathBuf,
    /// Its package.
    pub(super) workspace: PathBuf,
}

/// How long it may take until files are mounted.
const READY: Duration = Duration::from_secs(60);
/// How long a mount may take to say that it is there.
const ANSWER: Duration = Duration::from_secs(10);
/// How long programs of a job wait for a server that is away.
const PATIENCE_SECONDS: u64 = 300;
/// What each mount may keep in memory.
const CACHE_MIB: u64 = 64;

/// Refuses jobs that would not see their files.
pub(super) fn check(datacenter: &Datacenter) -> Result<()> {
    let refuse = |message: &str| {
        let error = Error::new(Kind::Unsupported, message.to_owned());
        let error = error.with("datacenter", &datacenter.name);
        Err(match datacenter.config.store_url() {
            Some(url) => error.with("files", url),
            None => error,
        })
    };
    if !datacenter.config.is_mounted() {
        return match datacenter.config.store_url() {
            None => Ok(()),
            Some(_) => refuse(
                "this datacenter keeps files only and runs no jobs: its files are in a store that \
                 jobs cannot see as /pfs; use `backend: local` with `mount: true`, or a directory \
                 for `files:`",
            ),
        };
    }
    if datacenter.sandbox.is_none() {
        return refuse(
            "jobs of this datacenter see their files by a mount, which only jobs that are kept \
             apart can have: run the server as root on a kernel that permits it",
        );
    }
    Ok(())
}

impl Paths {
    /// Where they are in a directory of this machine.
    pub(super) fn plain(datacenter: &Datacenter, row: &JobRow) -> Result<Paths> {
        let path = PfsPath::parse(&row.spec.package, &row.datacenter)?;
        Ok(Paths {
            home: datacenter.store.home(&row.username),
            public: datacenter.store.public(),
            workspace: datacenter.store.locate(&path),
        })
    }

    /// What stands for them before there is a mount, for checks alone.
    pub(super) fn imagined(datacenter: &Datacenter, row: &JobRow) -> Result<Paths> {
        match datacenter.config.store_url() {
            None => Paths::plain(datacenter, row),
            Some(_) => {
                let root = datacenter.store.root().to_owned();
                Ok(Paths { home: root.clone(), public: root.clone(), workspace: root })
            }
        }
    }

    fn mounted(top: &Path, row: &JobRow) -> Result<Paths> {
        let path = PfsPath::parse(&row.spec.package, &row.datacenter)?;
        let below = top.join(&row.datacenter);
        let home = below.join("home").join(&row.username);
        let start = if path.owner().is_some() { home.clone() } else { below.join("public") };
        let workspace = path.components().iter().fold(start, |path, name| path.join(name));
        Ok(Paths { home, public: below.join("public"), workspace })
    }
}

/// Mounts the files of a job, unless that was done before.
pub(super) async fn mount(
    cloud: &Cloud,
    datacenter: &Datacenter,
    row: &JobRow,
    uid: u32,
) -> Result<Paths> {
    check(datacenter)?;
    let folder = folder(cloud, datacenter, row);
    let top = folder.join("pfs");
    if !is_there(cloud, datacenter, row).await {
        release(cloud, datacenter, row).await?;
        prepare(cloud, &folder, row)?;
        let token = users::service::add_job_token(cloud, &row.username, &row.uid).await?;
        start(cloud, &folder, uid, &token).await?;
    }
    Paths::mounted(&top, row)
}

/// Whether the files of a job are mounted and answered for.
pub(super) async fn is_there(cloud: &Cloud, datacenter: &Datacenter, row: &JobRow) -> bool {
    let top = folder(cloud, datacenter, row).join("pfs").join(&row.datacenter);
    // Only the mount has it; one without a process is an error.
    let look = blocking(move || Ok(fs::metadata(top).is_ok()));
    matches!(tokio::time::timeout(ANSWER, look).await, Ok(Ok(true)))
}

/// Where mounts reach the server.
fn socket(cloud: &Cloud) -> PathBuf {
    cloud.config.data_dir.join("mounts").join("socket")
}

/// Serves mounts until the server ends. Of several servers of one data directory one does it, and
/// another when that one has gone.
pub(crate) async fn serve(cloud: Arc<Cloud>) {
    if !cloud.datacenters.values().any(|datacenter| datacenter.config.is_mounted()) {
        return;
    }
    let mut stopping = cloud.stopping.clone();
    let path = socket(&cloud);
    loop {
        if let Err(error) = listen(&cloud, &path).await {
            tracing::warn!(error = error.chain(), "files of jobs cannot be mounted now");
        }
        tokio::select! {
            _ = stopping.wait_for(|stopping| *stopping) => return,
            () = tokio::time::sleep(ANSWER) => {}
        }
    }
}

/// Serves on the socket as long as it is this server's, unless another server is there.
async fn listen(cloud: &Arc<Cloud>, path: &Path) -> Result<()> {
    let refused = |source| {
        Error::io("cannot use the socket of mounts", source).with("socket", path.display())
    };
    if UnixStream::connect(path).await.is_ok() {
        return Ok(());
    }
    crate::files::make_private(path.parent().unwrap_or(path))?;
    match fs::remove_file(path) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            return Err(refused(source));
        }
        _ => {}
    }
    let listener = UnixListener::bind(path).map_err(refused)?;
    // Not an address that anybody else has: who asks too often from there stops no mount.
    let peer = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let app = crate::router::router(Arc::clone(cloud)).layer(Extension(ConnectInfo(peer)));
    let mut stopping = cloud.stopping.clone();
    let ended = async move {
        let _ = stopping.wait_for(|stopping| *stopping).await;
    };
    axum::serve(listener, app).with_graceful_shutdown(ended).await.map_err(refused)
}

/// Unmounts the files of a job, and revokes the token. Doing it again is no error.
pub(super) async fn release(cloud: &Cloud, datacenter: &Datacenter, row: &JobRow) -> Result<()> {
    let folder = folder(cloud, datacenter, row);
    users::service::revoke_of_job(cloud, &row.uid).await?;
    blocking(move || {
        // Its process ends by itself when nobody uses it any more.
        let _ = unmount(folder.join("pfs"), UnmountFlags::DETACH);
        let _ = fs::remove_dir(folder.join("pfs"));
        let _ = fs::remove_file(folder.join("config"));
        let _ = fs::remove_file(folder.join("log"));
        let _ = fs::remove_dir(&folder);
        Ok(())
    })
    .await
}

fn folder(cloud: &Cloud, datacenter: &Datacenter, row: &JobRow) -> PathBuf {
    cloud.config.data_dir.join("mounts").join(&datacenter.name).join(&row.uid)
}

/// The directory and the configuration of a mount.
fn prepare(cloud: &Cloud, folder: &Path, row: &JobRow) -> Result<()> {
    let refused = |source| {
        Error::io("the files of a job cannot be mounted", source).with("folder", folder.display())
    };
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(folder.join("pfs")).map_err(refused)?;
    let config = serde_json::json!({
        "datacenters": [{
            "name": row.datacenter,
            "username": row.username,
            // A name for requests; what is behind it is the socket.
            "endpoint": "http://localhost",
            "socket": socket(cloud).display().to_string(),
        }],
        "current-datacenter": row.datacenter,
    });
    // JSON is YAML, and nothing in a name ends it early.
    let mut options = fs::File::options();
    let file = options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = file.open(folder.join("config")).map_err(refused)?;
    std::io::Write::write_all(&mut file, config.to_string().as_bytes()).map_err(refused)
}

/// Starts the process, and waits until the files are there.
async fn start(cloud: &Cloud, folder: &Path, uid: u32, token: &str) -> Result<()> {
    let failed = |source| Error::io("the files of a job cannot be mounted", source);
    let log = fs::File::create(folder.join("log")).map_err(failed)?;
    let mut child = Command::new(&cloud.outside.paddlecloud)
        .arg("mount")
        .arg(format!("--config={}", folder.join("config").display()))
        .args([format!("--uid={uid}"), format!("--gid={uid}")])
        .args([format!("--timeout={PATIENCE_SECONDS}"), format!("--cachesize={CACHE_MIB}")])
        .args(["--allow-other", "--foreground", "--detached", "--"])
        .arg(folder.join("pfs"))
        .env_clear()
        .env("HOME", folder)
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("PADDLECLOUD_TOKEN", token)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .map_err(failed)?;
    let mut line = String::new();
    if let Some(output) = child.stdout.take() {
        let mut output = BufReader::new(output);
        let read = tokio::time::timeout(READY, output.read_line(&mut line)).await;
        read.map_err(|_| late())?.map_err(failed)?;
    }
    if line.is_empty() {
        let _ = child.wait().await;
        let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
        let why = log.trim_end().lines().next_back().unwrap_or("it does not say why").to_owned();
        let message = format!("the files of the job cannot be mounted: {why}");
        return Err(Error::new(Kind::Io, message));
    }
    // It is waited for, so that nothing of it is left in the table of processes.
    tokio::spawn(async move { child.wait().await });
    Ok(())
}

fn late() -> Error {
    let message = "the files of the job cannot be mounted: it takes too long";
    Error::new(Kind::Timeout, message)
}
