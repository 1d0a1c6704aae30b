//! How much of a datacenter a job takes, in whole numbers that can be added up and compared.

use contract::api::quota::{Limits, Usage};
use contract::job::{JobSpec, RoleResources};
use contract::quantity::Quantity;
use contract::role::Role;
use contract::{Error, Kind, Result};

/// An amount of everything that is counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Need {
    pub(crate) cpu_milli: u64,
    pub(crate) memory_bytes: u64,
    pub(crate) gpu_milli: u64,
    pub(crate) replicas: u64,
}

/// What a replica counts as where its job does not say.
const CPU: Quantity = Quantity::whole(1);
const MEMORY_MILLI: u64 = (1 << 30) * 1000;

/// Gives every replica whose job does not say how much it needs what it counts as.
pub(crate) fn fill(resources: &mut RoleResources) {
    let RoleResources { trainer, pserver, master } = resources;
    for own in [trainer, pserver, master] {
        own.cpu.get_or_insert(CPU);
        own.memory.get_or_insert(Quantity::from_milli(MEMORY_MILLI));
    }
}

impl Need {
    /// What a job takes while it runs, with `trainers` of them.
    pub(crate) fn of(spec: &JobSpec, trainers: u32) -> Need {
        let mut need = Need::default();
        for role in Role::ALL {
            let count = match role {
                Role::Trainer => trainers.into(),
                role => u64::from(spec.replicas(role)),
            };
            let resources = spec.resources.of(role);
            let cpu = resources.cpu.unwrap_or(CPU);
            let memory = resources.memory.unwrap_or(Quantity::from_milli(MEMORY_MILLI));
            need = need.plus(Need {
                cpu_milli: cpu.cores_milli().saturating_mul(count),
                memory_bytes: memory.bytes().saturating_mul(count),
                gpu_milli: resources.gpu.cores_milli().saturating_mul(count),
                replicas: count,
            });
        }
        need
    }

    /// The sum.
    pub(crate) fn plus(self, other: Need) -> Need {
        Need {
            cpu_milli: self.cpu_milli.saturating_add(other.cpu_milli),
            memory_bytes: self.memory_bytes.saturating_add(other.memory_bytes),
            gpu_milli: self.gpu_milli.saturating_add(other.gpu_milli),
            replicas: self.replicas.saturating_add(other.replicas),
        }
    }

    /// Each kind with its word, its amount, and its limit.
    fn kinds(self, limits: &Limits) -> [(&'static str, u64, Option<u64>); 4] {
        [
            ("cpu", self.cpu_milli, limits.cpu.map(Quantity::cores_milli)),
            ("memory", self.memory_bytes, limits.memory.map(Quantity::bytes)),
            ("gpu", self.gpu_milli, limits.gpu.map(Quantity::cores_milli)),
            ("replicas", self.replicas, limits.replicas.map(u64::from)),
        ]
    }

    /// Whether it stays within limits.
    pub(crate) fn fits(self, limits: &Limits) -> bool {
        self.kinds(limits).iter().all(|(_, amount, limit)| limit.is_none_or(|most| *amount <= most))
    }

    /// The first kind of which there is too little, in words, for a job that needs `self` where
    /// `used` is in use.
    pub(crate) fn shortage(self, used: Need, limits: &Limits) -> Option<String> {
        let all = used.plus(self).kinds(limits);
        let (own, used) = (self.kinds(limits), used.kinds(limits));
        let index = all.iter().position(|(_, sum, limit)| limit.is_some_and(|most| *sum > most))?;
        let (word, _, limit) = all[index];
        let show = |amount| show(word, amount);
        Some(format!(
            "it needs {} {word}, {} of {} are in use",
            show(own[index].1),
            show(used[index].1),
            show(limit.unwrap_or(0))
        ))
    }

    /// Refuses what could not run even if nothing else did.
    pub(crate) fn check_possible(self, limits: &Limits, whose: &str) -> Result<()> {
        for (word, amount, limit) in self.kinds(limits) {
            if let Some(most) = limit.filter(|most| amount > *most) {
                let message = format!(
                    "the job needs {} {word} in all, and {whose} is {}: ask for less",
                    show(word, amount),
                    show(word, most)
                );
                return Err(Error::new(Kind::LimitExceeded, message).with("field", word));
            }
        }
        Ok(())
    }

    /// The largest part of a capacity that it takes, in millionths.
    pub(crate) fn share(self, capacity: &Limits) -> u64 {
        let part = |(_, amount, limit): &(&str, u64, Option<u64>)| {
            limit.map_or(0, |most| {
                u64::try_from(u128::from(*amount) * 1_000_000 / u128::from(most.max(1)))
                    .unwrap_or(u64::MAX)
            })
        };
        let kinds = self.kinds(capacity);
        let share = kinds.iter().map(part).max().unwrap_or(0);
        // Without any limit, replicas tell who uses more.
        if kinds.iter().all(|(_, _, limit)| limit.is_none()) { self.replicas } else { share }
    }

    /// For the API.
    pub(crate) fn usage(self, jobs: u32) -> Usage {
        Usage {
            cpu: Quantity::from_milli(self.cpu_milli),
            memory: Quantity::from_milli(self.memory_bytes.saturating_mul(1000)),
            gpu: Quantity::from_milli(self.gpu_milli),
            replicas: u32::try_from(self.replicas).unwrap_or(u32::MAX),
            jobs,
            disk_bytes: 0,
        }
    }
}

/// As people write it: nobody has `8Ki` cores, or `98736336Ki` bytes.
fn show(word: &str, amount: u64) -> String {
    match word {
        "memory" => memory(amount),
        "replicas" => amount.to_string(),
        _ if amount.is_multiple_of(1000) => (amount / 1000).to_string(),
        _ => Quantity::from_milli(amount).to_string(),
    }
}

/// Exact where that is short, else to a tenth of its largest unit.
fn memory(bytes: u64) -> String {
    const SHORT: usize = 6;
    const UNITS: [(&str, u32); 4] = [("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)];
    let exact = Quantity::from_milli(bytes.saturating_mul(1000)).to_string();
    match UNITS.into_iter().find(|(_, shift)| bytes >> shift > 0) {
        Some((unit, shift)) if exact.len() > SHORT => {
            format!("{:.1}{unit}", bytes as f64 / (1_u64 << shift) as f64)
        }
        _ => exact,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_counts_with_all_its_replicas() {
        let mut spec = JobSpec { trainers: 10, pservers: 3, ..JobSpec::default() };
        spec.resources.trainer.cpu = Some(Quantity::whole(2));
        let need = Need::of(&spec, 10);
        assert_eq!((need.cpu_milli, need.replicas, need.memory_bytes), (23_000, 13, 13 << 30));
    }

    #[test]
    fn what_is_short_is_said_with_numbers() {
        let limits = Limits { cpu: Some(Quantity::whole(4)), ..Limits::default() };
        let need = Need { cpu_milli: 2500, memory_bytes: 1 << 40, gpu_milli: 0, replicas: 2 };
        let used = Need { cpu_milli: 2000, ..Need::default() };
        assert_eq!(need.shortage(Need::default(), &limits), None);
        insta::assert_snapshot!(need.shortage(used, &limits).unwrap(), @"it needs 2500m cpu, 2 of 4 are in use");
        let error = used.plus(need).check_possible(&limits, "your quota").unwrap_err();
        insta::assert_snapshot!(error, @"the job needs 4500m cpu in all, and your quota is 4: ask for less (field: cpu)");
    }

    #[test]
    fn amounts_are_shown_as_people_write_them() {
        let shown = [0, 512 << 20, 3 << 30, 98_736_336 << 10, 102_401 << 30]
            .map(|bytes| show("memory", bytes));
        assert_eq!(shown, ["0", "512Mi", "3Gi", "94.2Gi", "100.0Ti"]);
        assert_eq!([8_192_000, 2500].map(|milli| show("cpu", milli)), ["8192", "2500m"]);
    }
}
