//! How processes that somebody else starts, `mpirun` or `srun`, and the conductor of their job find
//! each other: the conductor listens, and every process looks for it, proves by a secret that it
//! belongs to this start, and says who it is.
//!
//! What is said afterwards is the place's own.

mod gate;
mod identity;
pub(crate) mod link;
pub(crate) mod supervisor;

pub(crate) use gate::{Arrival, collect, outer_address};
pub use link::Member;

use contract::secret::Secret;
use contract::{Error, Kind, Result};
use link::Link;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Where ranks find the conductor: `host:port` entries with commas between.
pub const CONDUCTOR: &str = "PADDLE_CONDUCTOR";
/// What proves to the conductor that a process is one of its ranks.
pub const KEY: &str = "PADDLE_CONDUCTOR_KEY";
/// Between two attempts to find the conductor.
const PAUSE: Duration = Duration::from_millis(100);

/// How a rank finds the conductor.
#[derive(Debug, Clone)]
pub struct Meeting {
    /// What proves that both belong to the same start.
    pub key: Secret,
    /// Where the conductor may be, as `host:port`, likeliest first.
    pub conductors: Vec<String>,
    /// How long it may take to find it.
    pub patience: Duration,
    /// Whether the ranks of the job may be started once more.
    pub may_repeat: bool,
}

impl Meeting {
    /// Looks for the conductor until it is found.
    ///
    /// # Errors
    /// It was not, in time.
    pub(crate) async fn find(&self, own: &Member) -> Result<Link> {
        let deadline = Instant::now() + self.patience;
        let mut last = Error::new(Kind::Unavailable, "no machine is known: give a --hostfile");
        loop {
            for address in &self.conductors {
                match timeout_at(deadline, link::dial(address, &self.key, own)).await {
                    Ok(Ok(link)) => return Ok(link),
                    Ok(Err(error)) => last = error,
                    Err(_) => {}
                }
            }
            if Instant::now() + PAUSE >= deadline {
                let message = "the conductor of the job was not found: is its port open to this \
                               machine, and is its machine in the hostfile?";
                return Err(Error::new(Kind::Timeout, message)
                    .with("tried", self.conductors.join(","))
                    .with("seconds", self.patience.as_secs())
                    .because(last));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// 256 random bits.
pub(crate) fn fresh_key() -> Result<Secret> {
    let mut bytes = [0_u8; 32];
    let random = ring::rand::SystemRandom::new();
    ring::rand::SecureRandom::fill(&random, &mut bytes)
        .map_err(|_| Error::new(Kind::Io, "no random numbers"))?;
    Ok(Secret::new(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()))
}

/// Every IPv4 address of this machine as `address:port`, those of the loopback interface last.
///
/// # Errors
/// The interfaces cannot be listed.
pub fn addresses(port: u16) -> Result<Vec<String>> {
    let interfaces = if_addrs::get_if_addrs()
        .map_err(|source| Error::io("cannot list network interfaces", source))?;
    let mut addresses: Vec<_> = interfaces.iter().map(if_addrs::Interface::ip).collect();
    addresses.retain(std::net::IpAddr::is_ipv4);
    // On machines of their own, ranks need the others; on this one, any will do.
    addresses.sort_by_key(std::net::IpAddr::is_loopback);
    addresses.dedup();
    Ok(addresses.iter().map(|address| format!("{address}:{port}")).collect())
}
