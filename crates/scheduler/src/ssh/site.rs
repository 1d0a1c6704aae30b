//! The ssh hosts of one job: how they become the machines of a plan, and how results come back.

use super::command::Reach;
use super::message::{Package as PackageRequest, Prepare, Probed};
use super::{Cluster, Source, Wanted, job_name, mirror};
use crate::jobs::Paddle;
use crate::plan::Node;
use crate::submission::{Package, SshPlace, Submission};
use crate::supervisor;
use contract::{Error, Result};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A job for ssh hosts.
#[derive(Debug)]
pub struct Job<'a> {
    /// The hosts.
    pub place: &'a SshPlace,
    /// What was submitted.
    pub submission: &'a Submission,
    /// Where the files of a dispatched package are.
    pub package: PathBuf,
    /// When the job was submitted.
    pub began_ms: u64,
}

/// Hosts that have been reached.
pub struct Site {
    cluster: Cluster,
    results: PathBuf,
}

/// How job directories are named, for a job that will not be begun.
const JOB_NAME: &str = "JOB%Y%m%d%H%M%S";

impl Site {
    /// Connects to all hosts, makes the job's directory ready on each, and starts a supervisor.
    ///
    /// # Errors
    /// Names the host.
    pub async fn open(
        job: &Job<'_>,
        paddle: &Paddle,
        is_again: bool,
    ) -> Result<(Site, Vec<Node>, Vec<supervisor::host::Host>)> {
        let place = job.place;
        let reach = job.reach();
        let mut cluster =
            Cluster::open(reach, &place.hosts, &paddle.release, place.may_ask).await?;
        let is_dispatched = matches!(job.submission.package, Package::Dispatch(_));
        let probed = cluster.probe(&place.nic, &place.root_dir, is_dispatched).await?;
        let addresses = cluster.addresses(&probed).await?;
        check_addresses(place, &addresses)?;
        let directories = job.prepare(&mut cluster, &probed, is_again).await?;
        let roots = probed.iter().map(|host| host.root_dir.as_str());
        let supervisors = cluster.supervise(directories.iter().zip(roots)).await?;
        let nodes = addresses.into_iter().zip(&directories).zip(&probed).zip(&place.hosts);
        let nodes = nodes.map(|(((address, directory), probed), host)| {
            node(place, host.to_string(), address, directory, &probed.search_path)
        });
        let site = Site { cluster, results: place.results.clone() };
        Ok((site, nodes.collect(), supervisors))
    }

    /// Connects to those hosts of a job that was there which can be reached, to bring their results;
    /// why the others cannot be comes back too.
    ///
    /// # Errors
    /// The job's directory cannot be used on one that is reached.
    pub async fn open_reachable(job: &Job<'_>, paddle: &Paddle) -> Result<(Site, Vec<Error>)> {
        let place = job.place;
        let reach = job.reach();
        let opened = Cluster::open_reachable(reach, &place.hosts, &paddle.release).await?;
        let (mut cluster, mut failed) = opened;
        // Nothing is changed there: the directory is only named.
        let request = |node: u32| Prepare {
            directory: job.directory(),
            node,
            nodes: u32::try_from(place.hosts.len()).unwrap_or(u32::MAX),
            trainers: job.submission.spec.trainers,
            is_again: true,
            log_dir: job.submission.spec.log_dir.clone(),
            shard_train_list: false,
            topology: String::new(),
            package: None,
        };
        failed.extend(cluster.prepare_reachable(request).await);
        Ok((Site { cluster, results: place.results.clone() }, failed))
    }

    /// Brings logs of all hosts, and the output of the first, here; in words what could not be
    /// copied.
    pub async fn deliver(&mut self, submission: &Submission) -> Result<Vec<String>> {
        let (log_dir, output_dir) = (&submission.spec.log_dir, &submission.spec.output_dir);
        let results = self.results.clone();
        let wanted = |node: usize| {
            let to = results.join(log_dir).join(node.to_string());
            let mut wanted = vec![Wanted { name: log_dir.clone(), to, replaces: true }];
            if node == 0 {
                let to = results.join(output_dir);
                wanted.push(Wanted { name: output_dir.clone(), to, replaces: false });
            }
            wanted
        };
        let passed_over = self.cluster.gather(wanted).await?;
        Ok(passed_over.into_iter().map(|what| format!("not brought here: {what}")).collect())
    }

    /// Closes all connections.
    pub async fn close(self) {
        self.cluster.close().await;
    }
}

impl Job<'_> {
    fn reach(&self) -> Reach {
        Reach {
            config: self.place.ssh_config.clone(),
            paddle: self.place.paddle.clone(),
            patience: Duration::from_secs(self.submission.spec.ready_seconds),
        }
    }

    /// Where the job is on every host.
    pub(crate) fn directory(&self) -> String {
        match &self.submission.package {
            Package::Present(path) => path.clone(),
            Package::Dispatch(_) => {
                let name = job_name(self.began_ms / 1000, &self.submission.id);
                format!("{}/{name}", self.place.root_dir)
            }
        }
    }

    async fn prepare(
        &self,
        cluster: &mut Cluster,
        probed: &[Probed],
        is_again: bool,
    ) -> Result<Vec<String>> {
        let manifest = match &self.submission.package {
            Package::Dispatch(manifest) => Some(manifest),
            Package::Present(_) => None,
        };
        let has_rsync = manifest.is_some() && has_command("rsync");
        let source = manifest.map(|manifest| Source {
            root: &self.package,
            manifest,
            by_rsync: probed.iter().map(|host| has_rsync && host.has_rsync).collect(),
        });
        let spec = &self.submission.spec;
        // Packages of one job's name share a mirror, so that only what changed is sent.
        let origin = format!("{} {}", self.submission.origin, spec.name);
        let request = |node: u32| Prepare {
            directory: self.directory(),
            node,
            nodes: u32::try_from(probed.len()).unwrap_or(u32::MAX),
            trainers: spec.trainers,
            is_again,
            log_dir: spec.log_dir.clone(),
            shard_train_list: self.place.shard_train_list,
            topology: spec.topology.clone(),
            package: manifest.map(|manifest| PackageRequest {
                mirror: mirror(&probed[node as usize].root_dir, &origin),
                manifest: manifest.clone(),
            }),
        };
        cluster.prepare(request, source.as_ref(), &|_| ()).await
    }
}

fn node(place: &SshPlace, name: String, address: String, directory: &str, search: &str) -> Node {
    let mut env = BTreeMap::new();
    if !place.ld_library_path.is_empty() {
        env.insert("LD_LIBRARY_PATH".to_owned(), place.ld_library_path.clone());
    }
    if let Some((folder, _)) = place.paddle.rsplit_once('/') {
        // What is installed beside a paddle that is not in PATH, its python above all, is meant.
        env.insert("PATH".to_owned(), format!("{folder}:{search}"));
    }
    Node {
        name,
        address,
        nic: place.nic.clone(),
        paddle: place.paddle.clone(),
        workspace: PathBuf::from(directory),
        directory: PathBuf::from(directory),
        owns_workspace: true,
        env,
    }
}

/// The hosts as far as they are known before any is reached.
pub(crate) fn imagine(place: &SshPlace, submission: &Submission) -> Result<Vec<Node>> {
    let directory = match &submission.package {
        Package::Present(path) => path.clone(),
        Package::Dispatch(_) => format!("{}/{JOB_NAME}", place.root_dir),
    };
    let node = |host: &super::host::Host| {
        node(place, host.to_string(), host.name().to_owned(), &directory, "$PATH")
    };
    Ok(place.hosts.iter().map(node).collect())
}

/// Loopback addresses mean another machine on every machine.
fn check_addresses(place: &SshPlace, addresses: &[String]) -> Result<()> {
    let is_loopback = |address: &&String| {
        *address == "localhost"
            || address.parse().is_ok_and(|address: IpAddr| address.is_loopback())
    };
    let loopbacks = addresses.iter().filter(is_loopback).count();
    let found = place.hosts.iter().zip(addresses).find(|(_, address)| is_loopback(address));
    match found {
        Some((host, address)) if loopbacks < addresses.len() => {
            let message = "the other hosts cannot reach this one: name it by an address that they \
                           know";
            Err(Error::invalid(message).with("host", host).with("address", address))
        }
        _ => Ok(()),
    }
}

/// Whether a command is in one of the usual places.
fn has_command(name: &str) -> bool {
    ["/usr/bin", "/usr/local/bin", "/bin"].iter().any(|place| Path::new(place).join(name).is_file())
}
