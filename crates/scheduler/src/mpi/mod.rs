//! Jobs under `mpirun`, or Slurm's `srun`: each rank brings a machine.
//!
//! `mpirun` starts the same command everywhere and tells each process its rank, but not where the
//! others are, and it ends all of them when it loses one. So it only starts supervisors: every rank
//! looks for the conductor ([`join`]), which is outside of `mpirun`, does what it says, and ends
//! with it. When a rank is lost the conductor may run `mpirun` again.

pub mod hostfile;
pub mod rank;

mod join;
mod mpirun;

pub use join::join;

use crate::jobs::Paddle;
use crate::meeting::{self, Arrival, Meeting, Member, collect, outer_address};
use crate::plan::Node;
use crate::submission::{MpiPlace, MpiStart, Package, Submission};
use crate::supervisor::host::Host;
use contract::{Error, Result};
use mpirun::Mpirun;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::TcpListener;

/// The port on which the conductor waits for ranks that somebody else's `mpirun` started, just
/// below that of the servers.
pub const DEFAULT_PORT: u16 = contract::port::DEFAULT - 1;
/// The directory, beside those of jobs, in which ranks keep theirs.
pub const RANKS: &str = ".ranks";

/// Ranks that have been reached.
pub struct Site {
    mpirun: Option<Mpirun>,
}

impl Site {
    /// Starts the ranks, if that is asked for, and waits for all of them.
    ///
    /// # Errors
    /// Names the ranks that did not come, with what `mpirun` said.
    pub async fn open(
        place: &MpiPlace,
        submission: &Submission,
        directory: &Path,
        paddle: &Paddle,
    ) -> Result<(Site, Vec<Node>, Vec<Host>)> {
        let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, place.port));
        let refused = |source| {
            let message = "the conductor cannot listen for the ranks: choose another --mpi_port";
            Error::io(message, source).with("port", place.port)
        };
        let listener = TcpListener::bind(address).await.map_err(refused)?;
        let port = listener.local_addr().map_err(refused)?.port();
        let patience = Duration::from_secs(submission.spec.ready_seconds);
        let (key, mut mpirun) = match &place.start {
            MpiStart::Joined { key } => (key.clone(), None),
            MpiStart::Mpirun => {
                let (key, conductors) = (meeting::fresh_key()?, meeting::addresses(port)?);
                let meeting = Meeting { key: key.clone(), conductors, patience, may_repeat: true };
                let mpirun = Mpirun::start(place, submission, directory, paddle, &meeting).await?;
                (key, Some(mpirun))
            }
        };
        let arrivals = tokio::select! {
            arrivals = collect(&listener, &key, place.ranks, patience, std::future::ready(())) => arrivals,
            why = mpirun::ended(&mut mpirun) => Err(why),
        };
        let arrivals = match arrivals {
            Ok(arrivals) => arrivals,
            Err(error) => {
                return Err(match &mut mpirun {
                    Some(mpirun) => mpirun.explain(error).await,
                    None => error,
                });
            }
        };
        let (mut nodes, mut hosts) = (Vec::new(), Vec::new());
        let outer = outer_address(&arrivals);
        for Arrival { link, mut member, peer, .. } in arrivals {
            if member.address.is_empty() {
                member.address = if peer.is_loopback() { outer } else { peer }.to_string();
            }
            hosts.push(link.into_host(&member.machine).await?);
            nodes.push(node(place, submission, member));
        }
        Ok((Site { mpirun }, nodes, hosts))
    }

    /// Waits for the end of `mpirun`, whose ranks end with their links.
    pub async fn close(self) {
        if let Some(mpirun) = self.mpirun {
            mpirun.close().await;
        }
    }
}

/// Where the ranks of a job keep what they need when `mpirun` runs again, beside its directory on
/// each machine.
fn ranks(job: &Path) -> PathBuf {
    job.with_file_name(RANKS).join(job.file_name().unwrap_or_default())
}

/// Removes what killed ranks of a job have left on this machine.
pub(crate) fn forget_ranks(job: &Path) {
    // Most jobs have none.
    let _ = std::fs::remove_dir_all(ranks(job));
}

fn node(place: &MpiPlace, submission: &Submission, member: Member) -> Node {
    let workspace = match &submission.package {
        Package::Present(path) => PathBuf::from(path),
        Package::Dispatch(_) => PathBuf::new(),
    };
    Node {
        name: format!("{} (rank {})", member.machine, member.rank),
        address: member.address,
        nic: place.nic.clone(),
        paddle: member.paddle,
        workspace,
        directory: member.directory,
        owns_workspace: false,
        env: BTreeMap::new(),
    }
}

/// The ranks as far as they are known before `mpirun` has run: by their names.
pub(crate) fn imagine(place: &MpiPlace, submission: &Submission, paddle: &Paddle) -> Vec<Node> {
    let member = |rank| Member {
        rank,
        size: place.ranks,
        machine: "<machine>".to_owned(),
        address: format!("rank-{rank}"),
        paddle: paddle.program.to_string_lossy().into_owned(),
        directory: format!("<job>/rank-{rank}").into(),
    };
    (0..place.ranks).map(|rank| node(place, submission, member(rank))).collect()
}
