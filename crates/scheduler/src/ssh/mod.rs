//! Jobs on machines that are reached by ssh: the package is copied to each, replicas run on them in
//! turn, and the results come back.
//!
//! A host needs nothing but an ssh server and `paddle`. The conductor keeps one connection to each,
//! to a `paddle node` that makes directories ready and sends results; the job's processes are those
//! of a `paddle supervise` behind a second one. Both end when the conductor's side closes, however
//! that comes about, so nothing is left running.

pub mod command;
pub mod conf;
pub mod host;
pub mod message;
pub mod node;
pub mod package;
pub mod transfer;

mod earlier;
mod patience;
pub(crate) mod session;
mod site;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use contract::{Error, Kind, Result};
use futures_util::future::{join_all, try_join_all};
use sha2::{Digest, Sha256};
use tokio::time::timeout;

use crate::supervisor::{self, gpu};
pub(crate) use site::imagine;
pub use site::{Job, Site};

use command::{Connection, Reach};
use host::Host;
use message::{Prepare, Probed, Reply, Request};
use node::JOB_PREFIX;
use package::{Manifest, hexadecimal};
use session::{Session, wants_asking};

/// Where a host keeps its copies of packages, below `ROOT_DIR`.
pub(crate) const MIRRORS: &str = ".paddle_packages";
/// How long a supervisor may take to answer, once its host has been reached.
const SUPERVISOR_PATIENCE: Duration = Duration::from_secs(30);
/// How long `ssh` may take to read its configuration, which may run commands.
const RESOLVE: Duration = Duration::from_secs(30);

/// The longest directory for sockets. The system takes 107 bytes for the path of a socket, of which
/// our directory, the number of a host and what `ssh` adds for a moment need up to 37.
const SOCKETS_BYTES_MAX: usize = 70;

/// The directory for temporary files, unless sockets cannot be there.
fn for_sockets(temporary: PathBuf) -> PathBuf {
    match temporary.as_os_str().len() {
        ..=SOCKETS_BYTES_MAX => temporary,
        _ => PathBuf::from("/tmp"),
    }
}

/// Hosts that have been reached, in the order of their ranks.
pub struct Cluster {
    reach: Reach,
    hosts: Vec<Reached>,
    /// Hold the sockets by which connections are shared.
    controls: Vec<tempfile::TempDir>,
}

/// A host with its connection.
struct Reached {
    host: Host,
    /// Its place among the hosts of the job.
    place: usize,
    /// Where other connections to this host find the first one.
    control: PathBuf,
    session: Session,
}

impl Cluster {
    /// Connects to all hosts at once. Where a person can be asked for passwords (`may_ask`), hosts
    /// that want one follow, one after another.
    ///
    /// # Errors
    /// Names the first host that cannot be reached, with the words of `ssh`.
    pub async fn open(
        reach: Reach,
        hosts: &[Host],
        release: &str,
        may_ask: bool,
    ) -> Result<Cluster> {
        let controls = tempfile::Builder::new()
            .prefix("paddle-")
            .tempdir_in(for_sockets(std::env::temp_dir()))
            .map_err(|source| Error::io("cannot make a directory for connections", source))?;
        let control = |index: usize| controls.path().join(index.to_string());
        let first = hosts.iter().enumerate().map(|(index, host)| {
            let (reach, control) = (&reach, control(index));
            async move { Session::open(reach, host, &control, Connection::First, release).await }
        });
        let mut reached = Vec::new();
        for (place, session) in join_all(first).await.into_iter().enumerate() {
            let session = match session {
                Err(error) if may_ask && wants_asking(&error) => {
                    let (host, control) = (&hosts[place], control(place));
                    Session::open(&reach, host, &control, Connection::Asking, release).await?
                }
                session => session?,
            };
            let (host, control) = (hosts[place].clone(), control(place));
            reached.push(Reached { host, place, control, session });
        }
        Ok(Cluster { reach, hosts: reached, controls: vec![controls] })
    }

    /// As [`Cluster::open`], with those hosts that can be reached; why the others cannot be comes
    /// back too.
    pub async fn open_reachable(
        reach: Reach,
        hosts: &[Host],
        release: &str,
    ) -> Result<(Cluster, Vec<Error>)> {
        let one = |host| Cluster::open(reach.clone(), std::slice::from_ref(host), release, false);
        let mut all = Cluster::open(reach.clone(), &[], release, false).await?;
        let mut failed = Vec::new();
        for (place, opened) in join_all(hosts.iter().map(one)).await.into_iter().enumerate() {
            match opened {
                Ok(cluster) => {
                    let Cluster { hosts, controls, .. } = cluster;
                    all.hosts.extend(hosts.into_iter().map(|host| Reached { place, ..host }));
                    all.controls.extend(controls);
                }
                Err(error) => failed.push(error),
            }
        }
        Ok((all, failed))
    }

    /// Asks every host what it is.
    ///
    /// # Errors
    /// Names the host that has no such interface, or, if something will be copied, where `root_dir`
    /// cannot be written to.
    pub async fn probe(
        &mut self,
        nic: &str,
        root_dir: &str,
        will_copy: bool,
    ) -> Result<Vec<Probed>> {
        let (nic, root_dir) = (nic.to_owned(), root_dir.to_owned());
        let request = Request::Probe { nic, root_dir, will_copy };
        try_join_all(self.hosts.iter_mut().map(|Reached { session, .. }| async {
            match session.ask(&request).await? {
                Reply::Probed(probed) => Ok(probed),
                _ => Err(session.senseless()),
            }
        }))
        .await
    }

    /// How hosts reach each other: by the address of the interface that servers listen on, or else
    /// as ssh reaches them, aliases resolved.
    pub async fn addresses(&self, probed: &[Probed]) -> Result<Vec<String>> {
        let address = |(reached, probed): (&Reached, &Probed)| {
            let known = probed.address;
            let host = reached.host.clone();
            async move {
                match known {
                    Some(address) => Ok(address.to_string()),
                    None => resolve(&self.reach, &host).await,
                }
            }
        };
        try_join_all(self.hosts.iter().zip(probed).map(address)).await
    }

    /// Makes the job's directory ready on every host, and copies the package there if `source` is
    /// one. The directories come back.
    ///
    /// # Errors
    /// Names the host. What was copied elsewhere stays, and speeds the next attempt up.
    pub async fn prepare(
        &mut self,
        request: impl Fn(u32) -> Prepare,
        source: Option<&Source<'_>>,
        sent: &(dyn Fn(u64) + Sync),
    ) -> Result<Vec<String>> {
        let reach = &self.reach;
        try_join_all(self.hosts.iter_mut().map(|host| {
            let request = request(u32::try_from(host.place).unwrap_or(u32::MAX));
            async move { prepare_one(reach, host, request, source, sent).await }
        }))
        .await
    }

    /// As [`Cluster::prepare`], for a job that was there before. Hosts that fail are left out, and why
    /// comes back.
    pub async fn prepare_reachable(&mut self, request: impl Fn(u32) -> Prepare) -> Vec<Error> {
        let reach = &self.reach;
        let prepared = join_all(std::mem::take(&mut self.hosts).into_iter().map(|mut host| {
            let request = request(u32::try_from(host.place).unwrap_or(u32::MAX));
            async move {
                prepare_one(reach, &mut host, request, None, &|_| ()).await?;
                Ok(host)
            }
        }))
        .await;
        let mut failed = Vec::new();
        for host in prepared {
            match host {
                Ok(host) => self.hosts.push(host),
                Err(error) => failed.push(error),
            }
        }
        failed
    }

    /// Starts a supervisor on every host, for the job's directory and where jobs live there.
    pub async fn supervise(
        &self,
        directories: impl Iterator<Item = (&String, &str)>,
    ) -> Result<Vec<supervisor::host::Host>> {
        try_join_all(self.hosts.iter().zip(directories).map(|(reached, (directory, root_dir))| {
            let mut command = std::process::Command::new("ssh");
            let (paddle, gpus) = (&self.reach.paddle, format!("{root_dir}/{}", gpu::LOCKS));
            let words =
                [paddle, "supervise", "--namespace", "--directory", directory, "--gpus", &gpus];
            command
                .args(command::ssh(
                    &self.reach,
                    &reached.host,
                    &reached.control,
                    Connection::Shared,
                ))
                .arg(command::remote(&words));
            let name = reached.host.to_string();
            async move { supervisor::host::Host::open(&name, command, SUPERVISOR_PATIENCE).await }
        }))
        .await
    }

    /// Brings directories of the hosts' jobs here, `wanted` of each; what cannot be copied comes
    /// back as words. Hosts that fail do not keep others from delivering.
    pub async fn gather(&mut self, wanted: impl Fn(usize) -> Vec<Wanted>) -> Result<Vec<String>> {
        let gathered = join_all(self.hosts.iter_mut().map(|reached| {
            let wanted = wanted(reached.place);
            async move {
                let mut passed_over = Vec::new();
                for wanted in &wanted {
                    passed_over.extend(reached.session.gather(wanted).await?);
                }
                Ok(passed_over)
            }
        }));
        let gathered: Result<Vec<_>> = gathered.await.into_iter().collect();
        Ok(gathered?.concat())
    }

    /// Ends jobs that were left running, in one directory or in all of `root_dir`; for each host
    /// the directories where one ran.
    pub async fn kill(
        &mut self,
        root_dir: &str,
        directory: Option<&str>,
    ) -> Result<Vec<(Host, Vec<String>)>> {
        let request = Request::Kill {
            root_dir: root_dir.to_owned(),
            directory: directory.map(str::to_owned),
        };
        try_join_all(self.hosts.iter_mut().map(|Reached { host, session, .. }| async {
            match session.ask(&request).await? {
                Reply::Killed { directories } => Ok((host.clone(), directories)),
                _ => Err(session.senseless()),
            }
        }))
        .await
    }

    /// Closes all connections.
    pub async fn close(self) {
        join_all(self.hosts.into_iter().map(|reached| reached.session.close())).await;
    }
}

/// A directory to bring here.
#[derive(Debug)]
pub struct Wanted {
    /// Its path in the job's directory.
    pub name: String,
    /// Where it goes.
    pub to: PathBuf,
    /// Whether logs of an earlier job that are there already are removed.
    pub replaces: bool,
}

/// A package to copy.
#[derive(Debug)]
pub struct Source<'a> {
    /// Where it is here.
    pub root: &'a Path,
    /// What is in it.
    pub manifest: &'a Manifest,
    /// The hosts that can be brought up to date by rsync, which also saves parts of files.
    pub by_rsync: Vec<bool>,
}

/// The place on a host for copies of one package: one per directory it comes from, so that two
/// packages do not replace each other.
pub fn mirror(root_dir: &str, origin: &str) -> String {
    let mut name = hexadecimal(Sha256::new_with_prefix(origin));
    name.truncate(16);
    format!("{root_dir}/{MIRRORS}/{name}")
}

/// The name of a job's directory: when it was begun, in UTC, and what tells it from others of the
/// same second.
pub fn job_name(seconds: u64, id: &str) -> String {
    let mut mark = hexadecimal(Sha256::new_with_prefix(id));
    mark.truncate(4);
    format!("{}-{mark}", date(seconds))
}

fn date(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Days since 1970 → date, by the calendar's cycle of 400 years, counted from March.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{JOB_PREFIX}{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}")
}

async fn prepare_one(
    reach: &Reach,
    reached: &mut Reached,
    request: Prepare,
    source: Option<&Source<'_>>,
    sent: &(dyn Fn(u64) + Sync),
) -> Result<String> {
    if let (Some(source), Some(package)) = (source, &request.package)
        && source.by_rsync.get(request.node as usize) == Some(&true)
    {
        let arguments =
            command::rsync(reach, &reached.host, &reached.control, source.root, &package.mirror);
        let mut command = tokio::process::Command::new("rsync");
        command.args(arguments).kill_on_drop(true).stdin(std::process::Stdio::null());
        // Whatever it did, the host checks every file and asks for what is missing.
        match command.output().await {
            Ok(output) if output.status.success() => {}
            Ok(output) => tracing::warn!(
                host = reached.host.to_string(),
                said = String::from_utf8_lossy(&output.stderr).trim(),
                "rsync failed; copying without it"
            ),
            Err(error) => tracing::warn!(error = error.to_string(), "cannot run rsync"),
        }
    }
    reached.session.prepare(request, source, sent).await
}

/// The address that ssh would connect to. A name that only ssh can resolve, behind a jump host, is
/// left for the hosts to resolve.
async fn resolve(reach: &Reach, host: &Host) -> Result<String> {
    let mut command = tokio::process::Command::new("ssh");
    command.args(command::describe(reach, host)).kill_on_drop(true);
    let output = timeout(RESOLVE, command.output())
        .await
        .map_err(|_| {
            let message = "ssh takes too long to say how it reaches this host";
            Error::new(Kind::Timeout, message).with("host", host).with("seconds", RESOLVE.as_secs())
        })?
        .map_err(|source| Error::io("cannot run ssh: is it installed?", source))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let name = text.lines().find_map(|line| line.strip_prefix("hostname "));
    let name = name.unwrap_or(host.name()).trim().to_owned();
    let Ok(found) = tokio::net::lookup_host((name.as_str(), 0)).await else { return Ok(name) };
    let mut found: Vec<SocketAddr> = found.collect();
    // Servers listen on IPv4 unless they are told otherwise.
    found.sort_by_key(SocketAddr::is_ipv6);
    let first = found.first().map(|address| address.ip().to_string());
    first
        .ok_or_else(|| Error::new(Kind::Unavailable, "this host has no address").with("host", host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_lie_where_their_paths_are_short_enough() {
        let path = |bytes: usize| PathBuf::from(format!("/{}", "x".repeat(bytes - 1)));
        assert_eq!(for_sockets(path(70)), path(70));
        assert_eq!(for_sockets(path(71)), Path::new("/tmp"));
    }

    #[test]
    fn job_directories_are_named_after_their_moment() {
        assert_eq!(date(0), "JOB19700101000000");
        assert_eq!(date(951_782_399), "JOB20000228235959");
        assert_eq!(date(951_782_400), "JOB20000229000000");
        assert_eq!(date(1_794_801_600), "JOB20261116040000");
    }

    #[test]
    fn packages_of_different_places_have_mirrors_of_their_own() {
        insta::assert_snapshot!(mirror("/home/paddle", "a"), @"/home/paddle/.paddle_packages/ca978112ca1bbdca");
        assert_ne!(mirror("/r", "a"), mirror("/r", "b"));
    }
}
