//! The machines of a job that were reached, whatever kind of place they are.

use super::directory::JobDirectory;
use crate::plan::Node;
use crate::submission::{Place, Submission};
use crate::supervisor::host::Host;
use crate::{local, mpi, ssh};
use contract::{Error, Result};
use std::path::PathBuf;

/// The program that conducts jobs, and whose servers and supervisors are started here.
#[derive(Debug, Clone)]
pub struct Paddle {
    /// Its file.
    pub program: PathBuf,
    /// Its release; other machines must have the same.
    pub release: String,
}

/// Machines that have been reached.
pub(super) enum Site {
    Local,
    Ssh(ssh::Site),
    Mpi(mpi::Site),
}

impl Site {
    /// Reaches the machines of a job, makes its directories ready on them, and starts a supervisor
    /// on each. With `is_again` the job has been there before.
    pub(super) async fn open(
        submission: &Submission,
        directory: &JobDirectory,
        paddle: &Paddle,
        began_ms: u64,
        is_again: bool,
    ) -> Result<(Site, Vec<Node>, Vec<Host>)> {
        match &submission.place {
            Place::Local(place) => {
                let node = local::node(submission, directory.path(), paddle)?;
                let host = local::open(place, &node, paddle).await?;
                Ok((Site::Local, vec![node], vec![host]))
            }
            Place::Ssh(place) => {
                let job = ssh::Job { place, submission, package: directory.package(), began_ms };
                let (site, nodes, hosts) = ssh::Site::open(&job, paddle, is_again).await?;
                Ok((Site::Ssh(site), nodes, hosts))
            }
            Place::Mpi(place) => {
                let (site, nodes, hosts) =
                    mpi::Site::open(place, submission, directory.path(), paddle).await?;
                Ok((Site::Mpi(site), nodes, hosts))
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
        }
    }

    pub(super) async fn close(self) {
        match self {
            Site::Local => {}
            Site::Ssh(site) => site.close().await,
            Site::Mpi(site) => site.close().await,
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
        Place::Kubernetes(_) => Err(no_machines()),
    }
}

fn no_machines() -> Error {
    Error::invalid("jobs on Kubernetes are pods, not processes of this backend")
}
