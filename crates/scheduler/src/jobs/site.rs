//! The machines of a job that were reached, whatever kind of place they are.

use super::directory::JobDirectory;
use crate::plan::Node;
use crate::record::Verdict;
use crate::slurm::Doubt;
use crate::submission::{Package, Place, Submission};
use crate::supervisor::host::Host;
use crate::{local, mpi, slurm, ssh};
use contract::{Error, Result};
use std::path::PathBuf;
use tokio::sync::watch;

/// The program that conducts jobs, and whose servers and supervisors are started here.
#[derive(Debug, Clone)]
pub struct Paddle {
    /// Its file.
    pub program: PathBuf,
    /// Its release; other machines must have the same.
    pub release: String,
}

/// How far a job is that has to wait for its machines.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    /// For what it waits, in words; empty if it does not.
    pub waiting: String,
    /// When the machines were given to it, in milliseconds since 1970.
    pub granted_ms: Option<u64>,
    /// How the job ends, if whoever gives machines has decided that.
    pub fate: Option<Verdict>,
}

/// A job whose machines are to be reached.
pub(super) struct Opening<'a> {
    pub(super) submission: &'a Submission,
    pub(super) directory: &'a JobDirectory,
    pub(super) paddle: &'a Paddle,
    pub(super) began_ms: u64,
    /// Whether the job has been there before.
    pub(super) is_again: bool,
    /// Whether this conductor has tried already, in vain.
    pub(super) is_retry: bool,
    /// Whether replicas may have run: what is in their workspace is theirs.
    pub(super) has_run: bool,
    /// Whether it may get machines if it has none: one that is over only looks for those it had.
    pub(super) may_allocate: bool,
    pub(super) progress: &'a watch::Sender<Progress>,
}

/// Machines that have been reached.
pub(super) enum Site {
    Local,
    Ssh(ssh::Site),
    Mpi(mpi::Site),
    Slurm(slurm::Site),
}

impl Site {
    /// Reaches the machines of a job, makes its directories ready on them, and starts a supervisor
    /// on each.
    pub(super) async fn open(opening: &Opening<'_>) -> Result<(Site, Vec<Node>, Vec<Host>)> {
        let Opening { submission, directory, paddle, began_ms, is_again, .. } = *opening;
        match &submission.place {
            Place::Local(place) => {
                let node = local::node(submission, directory.path(), paddle)?;
                let host = local::open(place, &node, paddle).await?;
                Ok((Site::Local, vec![node], vec![host]))
            }
            Place::Ssh(place) => {
                let job = ssh::Job { place, submission, package: directory.package(), began_ms };
                // A copy that an attempt has made is whole; a workspace may not have got its files yet.
                let is_ready = match &submission.package {
                    Package::Dispatch(_) => is_again || opening.is_retry,
                    Package::Present(_) => opening.has_run,
                };
                let (site, nodes, hosts) = ssh::Site::open(&job, paddle, is_ready).await?;
                Ok((Site::Ssh(site), nodes, hosts))
            }
            Place::Mpi(place) => {
                let (site, nodes, hosts) =
                    mpi::Site::open(place, submission, directory.path(), paddle).await?;
                Ok((Site::Mpi(site), nodes, hosts))
            }
            Place::Slurm(place) => {
                let job = slurm::Job {
                    place,
                    submission,
                    directory: directory.path(),
                    package: directory.package(),
                    paddle,
                    began_ms,
                    is_again,
                    may_allocate: opening.may_allocate,
                    is_leashed: directory.is_leashed(),
                    progress: opening.progress,
                };
                let (site, nodes, hosts) = slurm::Site::open(&job).await?;
                Ok((Site::Slurm(site), nodes, hosts))
            }
            Place::Kubernetes(_) => Err(no_machines()),
        }
    }

    /// Brings what the job produced to where it was asked for. The sentences say what could not be
    /// brought.
    pub(super) async fn deliver(&mut self, submission: &Submission) -> Result<Vec<String>> {
        match self {
            Site::Local | Site::Mpi(_) => Ok(Vec::new()),
            Site::Ssh(site) => site.deliver(submission).await,
            Site::Slurm(site) => match &submission.place {
                Place::Slurm(place) => site.deliver(submission, &place.results).await,
                _ => Ok(Vec::new()),
            },
        }
    }

    /// What whoever gives the machines did to the job while it ran, if that explains that replicas
    /// were lost or failed.
    pub(super) async fn fate(
        &mut self,
        submission: &Submission,
        directory: &JobDirectory,
        doubt: Doubt,
    ) -> Option<Verdict> {
        match (self, &submission.place) {
            (Site::Slurm(site), Place::Slurm(place)) => {
                site.fate(place, submission, directory.path(), doubt).await
            }
            _ => None,
        }
    }

    /// The round is over; machines that are kept for the next one stay.
    pub(super) async fn close(self) {
        match self {
            Site::Local => {}
            Site::Ssh(site) => site.close().await,
            Site::Mpi(site) => site.close().await,
            Site::Slurm(site) => site.close().await,
        }
    }

    /// The job is over. Whether machines that were given to it are given back.
    pub(super) async fn end(self) -> bool {
        match self {
            Site::Slurm(site) => site.end().await,
            site => {
                site.close().await;
                true
            }
        }
    }
}

/// The machines as far as they are known before any is reached.
pub(super) fn imagine(submission: &Submission, paddle: &Paddle) -> Result<Vec<Node>> {
    match &submission.place {
        Place::Local(_) => {
            let nowhere = PathBuf::from("<job>");
            Ok(vec![local::node(submission, &nowhere, paddle)?])
        }
        Place::Ssh(place) => ssh::imagine(place, submission),
        Place::Mpi(place) => Ok(mpi::imagine(place, submission, paddle)),
        Place::Slurm(place) => Ok(slurm::imagine(place, submission, paddle)),
        Place::Kubernetes(_) => Err(no_machines()),
    }
}

fn no_machines() -> Error {
    Error::invalid("jobs on Kubernetes are pods, not processes of this backend")
}
