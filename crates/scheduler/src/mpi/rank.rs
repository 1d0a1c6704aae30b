//! Which of its siblings a process is, from what MPI launchers and Slurm put into its environment.
//! Pure: the caller looks variables up.

use contract::secret::Secret;
use contract::{Error, Result};

/// A process among those that one `mpirun` or `srun` started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rank {
    /// Its number, from 0.
    pub rank: u32,
    /// How many there are.
    pub size: u32,
    /// Its number among those on the same machine.
    pub local_rank: u32,
    /// How many are on the same machine, if that is known.
    pub local_size: Option<u32>,
    /// What tells this start from all others, if anything does.
    pub job: String,
    /// A random number that all of them have and others do not.
    pub key: Option<Secret>,
}

/// The names that one launcher uses; empty for what it does not tell.
struct Names {
    rank: &'static str,
    size: &'static str,
    local_rank: &'static str,
    local_size: &'static str,
    job: &'static str,
    key: &'static str,
}

const LAUNCHERS: [Names; 3] = [
    Names {
        rank: "OMPI_COMM_WORLD_RANK",
        size: "OMPI_COMM_WORLD_SIZE",
        local_rank: "OMPI_COMM_WORLD_LOCAL_RANK",
        local_size: "OMPI_COMM_WORLD_LOCAL_SIZE",
        job: "PMIX_NAMESPACE",
        // 128 random bits, which Open MPI makes for every start, for network cards that want a key.
        key: "OMPI_MCA_orte_precondition_transports",
    },
    Names {
        rank: "PMI_RANK",
        size: "PMI_SIZE",
        local_rank: "MPI_LOCALRANKID",
        local_size: "MPI_LOCALNRANKS",
        job: "PMI_JOBID",
        key: "",
    },
    Names {
        rank: "SLURM_PROCID",
        size: "SLURM_NTASKS",
        local_rank: "SLURM_LOCALID",
        local_size: "",
        job: "SLURM_JOB_ID",
        key: "",
    },
];

/// Reads the environment of a process that MPI or Slurm started.
///
/// # Errors
/// It was started by neither, or a variable makes no sense.
pub fn find(lookup: impl Fn(&str) -> Option<String>) -> Result<Rank> {
    let value = |name: &str| lookup(name).filter(|value| !name.is_empty() && !value.is_empty());
    let Some(names) = LAUNCHERS.iter().find(|names| value(names.rank).is_some()) else {
        let tried: Vec<_> = LAUNCHERS.iter().map(|names| names.rank).collect();
        let message = "this process has no rank: start it by mpirun, or let --backend mpi do that";
        return Err(Error::invalid(message).with("looked_for", tried.join(", ")));
    };
    let number = |name: &'static str| match value(name) {
        None => Ok(None),
        Some(text) => text.trim().parse().map(Some).map_err(|_| {
            Error::invalid("expected a whole number").with("variable", name).with("value", text)
        }),
    };
    let (rank, size) = (number(names.rank)?.unwrap_or(0), number(names.size)?);
    let Some(size) = size.filter(|size| rank < *size) else {
        return Err(Error::invalid("the rank must be below the number of processes")
            .with(names.rank, rank)
            .with(names.size, value(names.size).unwrap_or_default()));
    };
    let local_size = number(names.local_size)?;
    Ok(Rank {
        rank,
        size,
        local_rank: number(names.local_rank)?.unwrap_or(0),
        local_size: if size == 1 { Some(1) } else { local_size },
        job: value(names.job).unwrap_or_default(),
        key: value(names.key).map(Secret::new),
    })
}

impl Rank {
    /// Whether all processes are on one machine.
    pub fn is_alone(&self) -> bool {
        self.local_size == Some(self.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(variables: &[(&str, &str)]) -> Result<Rank> {
        let known = |name: &str| variables.iter().find(|(known, _)| *known == name);
        find(|name| known(name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn the_rank_is_found_under_open_mpi_mpich_and_slurm() {
        let rank = check(&[
            ("OMPI_COMM_WORLD_RANK", "2"),
            ("OMPI_COMM_WORLD_SIZE", "3"),
            ("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
            ("PMIX_NAMESPACE", "575864833"),
            ("OMPI_MCA_orte_precondition_transports", "18f1275ad781b1eb-8f1b66e96da84abd"),
            ("SLURM_PROCID", "0"),
        ])
        .unwrap();
        assert_eq!((rank.rank, rank.size, rank.local_rank), (2, 3, 1));
        assert!(rank.job == "575864833" && rank.key.is_some() && !rank.is_alone());
        let rank = check(&[("PMI_RANK", "0"), ("PMI_SIZE", "1")]).unwrap();
        assert!(rank.is_alone() && rank.key.is_none());
        let variables = [("SLURM_PROCID", "3"), ("SLURM_NTASKS", "4"), ("SLURM_LOCALID", "1")];
        assert_eq!(check(&variables).unwrap().local_rank, 1);
    }

    #[test]
    fn a_process_without_a_rank_is_told_how_to_get_one() {
        insta::assert_snapshot!(check(&[]).unwrap_err(), @"this process has no rank: start it by mpirun, or let --backend mpi do that (looked_for: OMPI_COMM_WORLD_RANK, PMI_RANK, SLURM_PROCID)");
        insta::assert_snapshot!(check(&[("PMI_RANK", "one")]).unwrap_err(), @"expected a whole number (variable: PMI_RANK, value: one)");
        insta::assert_snapshot!(check(&[("PMI_RANK", "1"), ("PMI_SIZE", "1")]).unwrap_err(), @"the rank must be below the number of processes (PMI_RANK: 1, PMI_SIZE: 1)");
    }
}
