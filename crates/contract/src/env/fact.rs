//! Each fact of an [`Environment`] as text: under which names, how written, how read.
//!
//! The rows are read from top to bottom, so that a row may correct what an earlier one concluded:
//! the list of servers says how many there are, unless their number is given too.

use std::str::FromStr;

use super::Environment;
use crate::port::{Endpoint, parse_endpoints, render_endpoints};
use crate::secret::Secret;
use crate::{Error, Result};

/// One fact: its names, and how it becomes text and is read from it.
pub(super) struct Fact {
    /// All are set; the first that has a value is read.
    pub(super) names: &'static [&'static str],
    /// Read, never set, where none of the names has a value.
    pub(super) fallbacks: &'static [&'static str],
    /// Empty for no value.
    pub(super) render: fn(&Environment) -> String,
    /// Never sees an empty value.
    pub(super) parse: fn(&mut Environment, &str) -> Result<()>,
}

pub(super) const FACTS: &[Fact] = &[
    fact(&["PADDLE_JOB_NAME"], |e| e.job.clone(), |e, v| text(&mut e.job, v)),
    fact(&["PADDLE_CLOUD_USERNAME"], |e| e.user.clone(), |e, v| text(&mut e.user, v)),
    fact(
        &["PADDLE_CLOUD_CURRENT_DATACENTER"],
        |e| e.datacenter.clone(),
        |e, v| text(&mut e.datacenter, v),
    ),
    fact(&["TRAINER_PACKAGE"], |e| e.package.clone(), |e, v| text(&mut e.package, v)),
    fact(&["ENTRY"], |e| e.entry.clone(), |e, v| text(&mut e.entry, v)),
    fact(&["TOPOLOGY"], |e| e.topology.clone(), |e, v| text(&mut e.topology, v)),
    fact(
        &["PADDLE_INIT_NUM_PASSES"],
        |e| optional(e.passes.as_ref()),
        |e, v| number(e.passes.insert(0), v),
    ),
    fact(&["PADDLE_MODE"], |e| e.mode.to_string(), |e, v| set(&mut e.mode, v.parse())),
    fact(
        &["TRAINING_ROLE", "PADDLE_TRAINING_ROLE"],
        |e| e.role.fluid().to_owned(),
        |e, v| set(&mut e.role, v.parse()),
    ),
    fact(
        &["PADDLE_INIT_TRAINER_ID", "PADDLE_TRAINER_ID"],
        |e| optional(e.rank.as_ref()),
        |e, v| number(e.rank.insert(0), v),
    )
    .or(&[
        "OMPI_COMM_WORLD_RANK",
        "PMI_RANK",
        "SLURM_PROCID",
        "VC_TASK_INDEX",
        "VK_TASK_INDEX",
        "JOB_COMPLETION_INDEX",
    ]),
    fact(&["PADDLE_ATTEMPT"], |e| e.attempt.to_string(), |e, v| number(&mut e.attempt, v)),
    fact(&["PADDLE_INIT_USE_GPU"], |e| flag(e.use_gpu), |e, v| set(&mut e.use_gpu, boolean(v))),
    fact(
        &["PADDLE_INIT_TRAINER_COUNT"],
        |e| e.threads.to_string(),
        |e, v| number(&mut e.threads, v),
    )
    .or(&["CPU_NUM"]),
    fact(&["POD_IP", "PADDLE_CURRENT_IP"], |e| e.address.clone(), |e, v| text(&mut e.address, v)),
    fact(&["POD_NAME"], |e| e.pod_name.clone(), |e, v| text(&mut e.pod_name, v)),
    fact(&["NAMESPACE"], |e| e.namespace.clone(), |e, v| text(&mut e.namespace, v)),
    fact(&["PADDLE_LOG_DIR"], |e| e.log_dir.clone(), |e, v| text(&mut e.log_dir, v)),
    fact(&["PADDLE_OUTPUT_DIR"], |e| e.output_dir.clone(), |e, v| text(&mut e.output_dir, v)),
    fact(
        &["PADDLE_CHECKPOINT_DIR"],
        |e| e.checkpoint_dir.clone(),
        |e, v| text(&mut e.checkpoint_dir, v),
    ),
    fact(
        &["PADDLE_CHECKPOINT_INTERVAL"],
        |e| optional(e.checkpoint_interval_seconds.as_ref()),
        |e, v| number(e.checkpoint_interval_seconds.insert(0), v),
    ),
    fact(&["PADDLE_RESTORE"], |e| e.restore.clone(), |e, v| text(&mut e.restore, v)),
    fact(
        &["PADDLE_INIT_NUM_GRADIENT_SERVERS", "TRAINERS", "PADDLE_TRAINERS_NUM"],
        |e| e.trainers.to_string(),
        |e, v| number(&mut e.trainers, v),
    )
    .or(&["PADDLE_TRAINERS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"]),
    fact(
        &["PADDLE_TRAINER_IPS"],
        |e| render_endpoints(&e.trainer_hosts),
        |e, v| set(&mut e.trainer_hosts, parse_endpoints(v)),
    )
    .or(&["VC_TRAINER_HOSTS"]),
    fact(&["PADDLE_PSERVER_IPS"], |e| servers(e, Endpoint::without_port), find_servers)
        .or(&["VC_PSERVER_HOSTS"]),
    fact(
        &["PADDLE_PSERVERS_IP_PORT_LIST"],
        |e| servers(e, |server| server.with_port(e.ports.first)),
        find_servers,
    ),
    fact(&["PADDLE_INIT_PSERVERS"], |e| servers(e, Endpoint::clone), find_servers),
    fact(
        &["PSERVERS", "PADDLE_PSERVERS_NUM"],
        |e| e.pservers.to_string(),
        |e, v| number(&mut e.pservers, v),
    )
    .or(&["PADDLE_PSERVERS"]),
    fact(
        &["PADDLE_MASTER_ENDPOINT"],
        |e| optional(e.master.as_ref()),
        |e, v| set(&mut e.master, v.parse().map(Some)),
    ),
    fact(
        &["PADDLE_INIT_PORT", "PADDLE_PORT"],
        |e| e.ports.first.to_string(),
        |e, v| number(&mut e.ports.first, v),
    ),
    fact(
        &["PADDLE_INIT_PORTS_NUM"],
        |e| e.ports.dense.to_string(),
        |e, v| number(&mut e.ports.dense, v),
    ),
    fact(
        &["PADDLE_INIT_PORTS_NUM_FOR_SPARSE"],
        |e| e.ports.sparse.to_string(),
        |e, v| number(&mut e.ports.sparse, v),
    ),
    fact(&["PADDLE_IS_LOCAL"], |e| flag(e.is_local), |e, v| set(&mut e.is_local, boolean(v))),
    fact(
        &["PADDLE_CLUSTER_TRAIN"],
        |e| flag(!e.is_local),
        |e, v| set(&mut e.is_local, boolean(v).map(|is_cluster| !is_cluster)),
    ),
    fact(
        &["FLAGS_rpc_deadline"],
        |e| optional(e.rpc_deadline_ms.as_ref()),
        |e, v| number(e.rpc_deadline_ms.insert(0), v),
    ),
    fact(
        &["PADDLE_JOB_TOKEN"],
        |e| e.token.as_ref().map_or_else(String::new, |token| token.expose().to_owned()),
        |e, v| set(&mut e.token, Ok(Some(Secret::new(v)))),
    ),
];

const fn fact(
    names: &'static [&'static str],
    render: fn(&Environment) -> String,
    parse: fn(&mut Environment, &str) -> Result<()>,
) -> Fact {
    Fact { names, fallbacks: &[], render, parse }
}

impl Fact {
    const fn or(self, fallbacks: &'static [&'static str]) -> Fact {
        Fact { fallbacks, ..self }
    }
}

fn optional<T: ToString>(value: Option<&T>) -> String {
    value.map_or_else(String::new, T::to_string)
}

fn flag(value: bool) -> String {
    u8::from(value).to_string()
}

fn servers(environment: &Environment, form: impl Fn(&Endpoint) -> Endpoint) -> String {
    let servers: Vec<_> = environment.pserver_endpoints.iter().map(form).collect();
    render_endpoints(&servers)
}

fn find_servers(environment: &mut Environment, value: &str) -> Result<()> {
    environment.pserver_endpoints = parse_endpoints(value)?;
    environment.pservers = environment.pserver_endpoints.len() as u32;
    environment.is_local = environment.pserver_endpoints.is_empty();
    Ok(())
}

fn set<T>(field: &mut T, value: Result<T>) -> Result<()> {
    *field = value?;
    Ok(())
}

fn text(field: &mut String, value: &str) -> Result<()> {
    set(field, Ok(value.to_owned()))
}

fn number<T: FromStr>(field: &mut T, value: &str) -> Result<()> {
    let max = u64::MAX >> (u64::BITS as usize - 8 * size_of::<T>());
    let refuse = |_| Error::invalid(format!("expected a whole number from 0 to {max}"));
    set(field, value.trim().parse().map_err(refuse))
}

fn boolean(value: &str) -> Result<bool> {
    match value.trim().to_ascii_lowercase().as_str() {
        "1" | "true" | "t" | "yes" | "y" | "on" => Ok(true),
        "0" | "false" | "f" | "no" | "n" | "off" => Ok(false),
        _ => Err(Error::invalid("expected 1, true, yes or on, or 0, false, no or off")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{SetBy, VARIABLES, Variable};
    use super::*;

    #[test]
    fn every_variable_belongs_to_one_fact() {
        let count = |name| {
            let names = FACTS.iter().flat_map(|fact| fact.names.iter().chain(fact.fallbacks));
            names.filter(|known| **known == name).count()
        };
        let of_jobs = |known: &&Variable| {
            let apart = [SetBy::CommandUser, SetBy::Supervisor, SetBy::ReceiverSecret];
            !apart.contains(&known.set_by)
        };
        for variable in VARIABLES.iter().filter(of_jobs) {
            assert_eq!(count(variable.name), 1, "{}", variable.name);
        }
    }

    #[test]
    fn every_fact_is_documented_and_fallbacks_are_not_ours_to_set() {
        let set_by = |name: &&str| super::super::variable(name).map(|known| known.set_by);
        for fact in FACTS {
            assert!(fact.names.iter().all(|name| set_by(name).is_some()), "{:?}", fact.names);
            for name in fact.fallbacks {
                assert!(matches!(set_by(name), Some(SetBy::Cluster | SetBy::User)), "{name}");
            }
        }
    }
}
