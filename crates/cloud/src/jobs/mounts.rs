//! The files of a job where they are no directory of this machine.
//!
//! A job must see `/pfs`, must have no credential, and must outlive this server. So its files are
//! mounted by the same `paddlecloud mount` that people use, outside of its sandbox, before it
//! starts; the sandbox is given the mounted directories as it is given plain ones elsewhere. The
//! mount is a process of its own with a token of the job's user, which only root can read: it can
//! reach that user's home and the public area, whatever is wrong with it, and it goes on when this
//! server is killed; the next one is found under the same address.
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
use contract::api::user::NewToken;
use contract::path::PfsPath;
use contract::{Error, Kind, Result};
use rustix::mount::{UnmountFlags, unmount};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
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
/// The longest life of a token; it is revoked when its job has ended.
const TOKEN_SECONDS: u64 = 366 * 24 * 3600;
/// What each mount may keep in memory.
const CACHE_MIB: u64 = 64;

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
    if datacenter.sandbox.is_none() {
        let message = "jobs of this datacenter see their files by a mount, which only jobs that are \
                       kept apart can have: run the server as root on a kernel that permits it";
        return Err(Error::new(Kind::Unsupported, message).with("datacenter", &datacenter.name));
    }
    if cloud.config.tls.is_some() {
        let message = "files are mounted over plain HTTP on this machine, and the server speaks TLS \
                       alone: put a proxy with the certificate in front of it";
        return Err(Error::new(Kind::Unsupported, message).with("datacenter", &datacenter.name));
    }
    let folder = folder(cloud, datacenter, row);
    let top = folder.join("pfs");
    if !is_there(cloud, datacenter, row).await {
        release(cloud, datacenter, row).await?;
        prepare(cloud, &folder, row)?;
        let new = NewToken { label: label(row), ttl_seconds: TOKEN_SECONDS };
        let token = users::service::add_token(cloud, &row.username, &new).await?.token;
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

/// Unmounts the files of a job, and revokes the token. Doing it again is no error.
pub(super) async fn release(cloud: &Cloud, datacenter: &Datacenter, row: &JobRow) -> Result<()> {
    let folder = folder(cloud, datacenter, row);
    let label = label(row);
    for token in users::service::tokens(cloud, &row.username).await? {
        if token.label == label {
            match users::service::revoke(cloud, &row.username, &token.id).await {
                Err(error) if error.kind() != Kind::NotFound => return Err(error),
                _ => {}
            }
        }
    }
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

fn label(row: &JobRow) -> String {
    format!("files of job {}", row.uid)
}

/// The directory and the configuration of a mount.
fn prepare(cloud: &Cloud, folder: &Path, row: &JobRow) -> Result<()> {
    let refused = |source| {
        Error::io("the files of a job cannot be mounted", source).with("folder", folder.display())
    };
    let address = cloud.address.get().copied();
    let address = address.ok_or_else(|| Error::new(Kind::Unavailable, "the server is starting"))?;
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(folder.join("pfs")).map_err(refused)?;
    let config = serde_json::json!({
        "datacenters": [{
            "name": row.datacenter,
            "username": row.username,
            "endpoint": format!("http://{}", reachable(address)),
        }],
        "current-datacenter": row.datacenter,
    });
    // JSON is YAML, and nothing in a name ends it early.
    let mut options = fs::File::options();
    let file = options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = file.open(folder.join("config")).map_err(refused)?;
    std::io::Write::write_all(&mut file, config.to_string().as_bytes()).map_err(refused)
}

/// The address by which this machine reaches a listener.
pub(crate) fn reachable(mut address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    address
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_on_all_addresses_is_reached_on_this_machine() {
        let check = |listen: &str, expect: &str| {
            assert_eq!(reachable(listen.parse().unwrap()).to_string(), expect);
        };
        check("0.0.0.0:8080", "127.0.0.1:8080");
        check("[::]:8080", "[::1]:8080");
        check("10.1.2.3:80", "10.1.2.3:80");
    }
}
