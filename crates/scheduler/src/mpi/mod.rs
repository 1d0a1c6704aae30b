//! Jobs under `mpirun`, or Slurm's `srun`: each rank brings a parameter server and a trainer.
//!
//! `mpirun` starts the same command everywhere and tells each process its rank, but not where the
//! others are, and which rank is on which machine depends on its version and options. So the ranks
//! find out: rank 0 listens on a port, the others look for it on the machines of the hostfile. Then
//! rank 0 conducts the whole job, exactly as over ssh, and every other rank is a supervisor that
//! does what it is told. Servers therefore live until the last trainer anywhere is done.

pub mod hostfile;
pub mod plan;
pub mod rank;

mod link;
mod relay;
mod seal;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use contract::secret::Secret;
use contract::{Error, Kind, Result};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use crate::supervisor::host::Host;
use link::{Link, Party};
use plan::Member;
use rank::Rank;

pub use relay::follow;
pub use seal::token;

/// The port on which rank 0 listens for the others, just below that of the servers.
pub const DEFAULT_PORT: u16 = contract::port::DEFAULT - 1;
/// Connections that may be making themselves known at the same time, beyond those expected.
const STRANGERS_MAX: usize = 64;
/// Between two attempts to find rank 0.
const PAUSE: Duration = Duration::from_millis(100);

/// How the ranks of a start find each other.
#[derive(Debug, Clone)]
pub struct Meeting {
    /// Which process this is.
    pub rank: Rank,
    /// What proves that another process is of the same start.
    pub key: Secret,
    /// Where rank 0 listens.
    pub port: u16,
    /// Machines on which rank 0 may be, likeliest first.
    pub machines: Vec<String>,
    /// How long they may take.
    pub patience: Duration,
}

impl Meeting {
    fn party(&self) -> Party {
        Party { job: self.rank.job.clone(), size: self.rank.size, key: self.key.clone() }
    }
}

/// The others, as rank 0 sees them: who they are, and the supervisor of each.
pub struct Gathering {
    /// All ranks in order, rank 0 included.
    pub members: Vec<Member>,
    /// The supervisors of ranks 1 and up.
    pub hosts: Vec<Host>,
}

/// Rank 0: waits for all others. `own` is rank 0's own introduction.
///
/// # Errors
/// Names the ranks that did not come.
pub async fn gather(meeting: &Meeting, mut own: Member) -> Result<Gathering> {
    let size = meeting.rank.size as usize;
    let mut links: Vec<Option<(Link, Member)>> = (1..size).map(|_| None).collect();
    if size > 1 {
        collect(meeting, &mut links).await?;
    }
    let links: Vec<_> = links.into_iter().flatten().collect();
    // The address by which others have reached rank 0 is its own, and that of ranks beside it.
    let outer =
        links.iter().map(|(link, _)| link.local.ip()).find(|address| !address.is_loopback());
    let outer = outer.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    if own.address.is_empty() {
        own.address = outer.to_string();
    }
    let (mut members, mut hosts) = (vec![own], Vec::new());
    for (link, mut member) in links {
        if member.address.is_empty() {
            let seen = link.peer.ip().to_canonical();
            member.address = if seen.is_loopback() { outer } else { seen }.to_string();
        }
        hosts.push(relay::host(&member.machine, link).await?);
        members.push(member);
    }
    Ok(Gathering { members, hosts })
}

async fn collect(meeting: &Meeting, links: &mut [Option<(Link, Member)>]) -> Result<()> {
    let deadline = Instant::now() + meeting.patience;
    let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, meeting.port));
    let listener = TcpListener::bind(address).await.map_err(|source| {
        let message = "rank 0 cannot listen for the others: choose another --mpi_port";
        Error::io(message, source).with("port", meeting.port)
    })?;
    let (sender, mut arrivals) = mpsc::channel(links.len());
    let slots = std::sync::Arc::new(tokio::sync::Semaphore::new(links.len() + STRANGERS_MAX));
    let party = meeting.party();
    while links.iter().any(Option::is_none) {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                let Ok(slot) = std::sync::Arc::clone(&slots).try_acquire_owned() else { continue };
                let (party, sender) = (party.clone(), sender.clone());
                tokio::spawn(async move {
                    match meet(stream, &party).await {
                        Ok(arrival) => drop(sender.send(arrival).await),
                        Err(error) => tracing::warn!(error = error.chain(), "a caller was refused"),
                    }
                    drop(slot);
                });
            }
            Some((link, member)) = arrivals.recv() => {
                let slot = &mut links[link.rank as usize - 1];
                if slot.is_none() {
                    *slot = Some((link, member));
                }
            }
            () = tokio::time::sleep_until(deadline) => return Err(missing(meeting, links)),
        }
    }
    Ok(())
}

async fn meet(stream: tokio::net::TcpStream, party: &Party) -> Result<(Link, Member)> {
    let mut link = Link::accept(stream, party).await?;
    let line = link.receiver.receive().await?.unwrap_or_default();
    let member = serde_json::from_str(&line).map_err(|source| {
        let message = "a rank introduced itself in words that are not known: use matching releases";
        Error::new(Kind::Unsupported, message).with("rank", link.rank).because(source)
    })?;
    Ok((link, member))
}

fn missing(meeting: &Meeting, links: &[Option<(Link, Member)>]) -> Error {
    let absent = links.iter().zip(1..).filter(|(link, _)| link.is_none());
    let absent: Vec<String> = absent.map(|(_, rank)| rank.to_string()).collect();
    let message = "not all ranks have reached rank 0: is its port open to their machines, and is \
                   its machine in their hostfile?";
    Error::new(Kind::Timeout, message)
        .with("missing", absent.join(","))
        .with("port", meeting.port)
        .with("seconds", meeting.patience.as_secs())
}

/// Every other rank: looks for rank 0 until it is found.
async fn find(meeting: &Meeting) -> Result<Link> {
    let deadline = Instant::now() + meeting.patience;
    let party = meeting.party();
    let mut last = Error::new(Kind::Unavailable, "no machine is known: give a --hostfile");
    loop {
        for machine in &meeting.machines {
            let attempt = dial(machine, meeting, &party);
            match timeout_at(deadline, attempt).await {
                Ok(Ok(link)) => return Ok(link),
                Ok(Err(error)) => last = error.with("machine", machine),
                Err(_) => {}
            }
        }
        if Instant::now() + PAUSE >= deadline {
            let message = "rank 0 was not found on any machine of the hostfile";
            return Err(Error::new(Kind::Timeout, message)
                .with("machines", meeting.machines.join(","))
                .with("port", meeting.port)
                .because(last));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn dial(machine: &str, meeting: &Meeting, party: &Party) -> Result<Link> {
    let addresses = tokio::net::lookup_host((machine, meeting.port))
        .await
        .map_err(|source| Error::io("cannot resolve a machine of the hostfile", source))?;
    let mut last = Error::new(Kind::NotFound, "a machine of the hostfile has no address");
    for address in addresses.filter(SocketAddr::is_ipv4) {
        match Link::dial(address, meeting.rank.rank, party).await {
            Ok(link) => return Ok(link),
            Err(error) => last = error,
        }
    }
    Err(last)
}
