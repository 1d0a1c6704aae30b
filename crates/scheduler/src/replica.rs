//! The name of a replica inside its job: role and rank.

use contract::role::Role;
use contract::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A replica of a job: `trainer-0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ReplicaId {
    /// What it is.
    pub role: Role,
    /// Its rank in its role.
    pub rank: u32,
}

impl ReplicaId {
    /// The replica of this role and rank.
    pub fn new(role: Role, rank: u32) -> Self {
        ReplicaId { role, rank }
    }

    /// Whether others wait until it says that it serves.
    pub fn is_server(self) -> bool {
        self.role != Role::Trainer
    }
}

impl fmt::Display for ReplicaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.role, self.rank)
    }
}

impl FromStr for ReplicaId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parse = || {
            let (role, rank) = text.rsplit_once('-')?;
            Some(ReplicaId { role: role.parse().ok()?, rank: rank.parse().ok()? })
        };
        parse().ok_or_else(|| {
            Error::invalid("not a replica: use its role and rank, such as trainer-0")
                .with("replica", text.escape_debug())
        })
    }
}

impl TryFrom<String> for ReplicaId {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<ReplicaId> for String {
    fn from(replica: ReplicaId) -> Self {
        replica.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_reads_back_from_its_name() {
        for role in Role::ALL {
            let replica = ReplicaId::new(role, 17);
            assert_eq!(replica.to_string().parse::<ReplicaId>().unwrap(), replica);
        }
        insta::assert_snapshot!(ReplicaId::new(Role::Trainer, 3), @"trainer-3");
    }

    #[test]
    fn what_is_no_replica_is_refused() {
        for text in ["", "trainer", "trainer-", "trainer--1", "boss-1", "trainer-x", "-1"] {
            assert!(text.parse::<ReplicaId>().is_err(), "{text}");
        }
    }
}
