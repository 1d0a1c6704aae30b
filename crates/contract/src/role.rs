//! The three roles of a job. How many replicas of each there are is `job`'s affair.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Error, Result, word};

/// What a replica does in its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Holds a shard of the parameters.
    Pserver,
    /// Runs the user's program.
    Trainer,
    /// Hands out the data tasks of a fault-tolerant job.
    Master,
}

impl Role {
    /// Every role, in the order in which they are started.
    pub const ALL: [Role; 3] = [Role::Master, Role::Pserver, Role::Trainer];

    /// The spelling of `TRAINING_ROLE`, which Fluid programs compare as text.
    pub fn fluid(self) -> &'static str {
        match self {
            Role::Pserver => "PSERVER",
            Role::Trainer => "TRAINER",
            Role::Master => "MASTER",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Reads `pserver` as well as `PSERVER`; Fluid manifests also say `WORKER` for a trainer.
impl FromStr for Role {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.to_ascii_lowercase().as_str() {
            "worker" => Ok(Role::Trainer),
            text => word::parse("role", text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_reads_back_from_both_spellings() {
        for role in Role::ALL {
            assert_eq!(role.to_string().parse::<Role>().unwrap(), role);
            assert_eq!(role.fluid().parse::<Role>().unwrap(), role);
        }
        assert_eq!("WORKER".parse::<Role>().unwrap(), Role::Trainer);
    }

    #[test]
    fn an_unknown_role_is_refused_with_the_known_ones() {
        insta::assert_snapshot!(
            "boss".parse::<Role>().unwrap_err(),
            @"not a role: unknown variant `boss`, expected one of `pserver`, `trainer`, `master`"
        );
    }
}
