//! The flags of `submit` as a job spec. Pure.

use crate::submit::Args;
use contract::job::{FaultTolerance, JobSpec, REPLICAS_MAX, Resources, RoleResources};
use contract::mode::Mode;
use contract::quantity::Quantity;
use contract::{Error, Result, name};
use std::collections::BTreeMap;

/// Restarts of a replica of a fault-tolerant job, if nobody says.
const RESTARTS: u32 = 10;

/// The job that was asked for, without who asks, where, and the package. What is left out is filled
/// in here, as the original does, and checked as far as it can be.
pub(crate) fn of(args: &Args) -> Result<JobSpec> {
    name::check_job_for_submit(&args.jobname).map_err(|error| error.with("flag", "-jobname"))?;
    check_counts(args)?;
    let spec = JobSpec {
        name: args.jobname.clone(),
        entry: args.entry.clone(),
        topology: args.topology.clone(),
        trainers: args.parallelism,
        pservers: if args.pservers == 0 { args.parallelism } else { args.pservers },
        master: args.faulttolerant,
        resources: RoleResources {
            trainer: resources(args.cpu, args.memory, args.gpu),
            pserver: resources(args.pscpu, args.psmemory, Quantity::ZERO),
            master: Resources::default(),
        },
        image: args.image.clone(),
        registry: args.registry.clone(),
        passes: Some(args.passes),
        queue: args.queue.clone(),
        priority: args.priority,
        time_limit_seconds: args.time_limit,
        fault_tolerance: fault_tolerance(args)?,
        restarts: args.restarts.unwrap_or(if args.faulttolerant { RESTARTS } else { 0 }),
        mode: if args.r#async { Mode::Async } else { Mode::Sync },
        // Nobody asked for the server of a job with one trainer, which may well train alone.
        allow_idle: args.allow_idle || (args.pservers == 0 && args.parallelism == 1),
        env: env(&args.env)?,
        ..JobSpec::default()
    };
    if spec.entry.is_empty() && spec.topology.is_empty() {
        let fix = "nothing to run: give -entry \"python train.py\", or -topology for a V1 \
                   configuration";
        return Err(Error::invalid(fix));
    }
    // With any user and place: those are known when the configuration is.
    let trial = JobSpec { user: "user".into(), datacenter: "datacenter".into(), ..spec.clone() };
    trial.check()?;
    Ok(spec)
}

/// What the spec would refuse under names that are not those of the flags.
fn check_counts(args: &Args) -> Result<()> {
    let least = args.min_instance.unwrap_or(1);
    let most = args.max_instance.unwrap_or(args.parallelism);
    let rules = [
        ("-parallelism", args.parallelism, 1, REPLICAS_MAX),
        ("-pservers", args.pservers, 0, REPLICAS_MAX),
        ("-passes", args.passes, 1, u32::MAX),
        ("-min_instance", least, 1, if args.faulttolerant { args.parallelism } else { u32::MAX }),
        (
            "-max_instance",
            most,
            if args.faulttolerant { args.parallelism } else { 1 },
            REPLICAS_MAX,
        ),
    ];
    match rules.iter().find(|(_, count, least, most)| !(least..=most).contains(&count)) {
        None => Ok(()),
        Some((flag, count, least, most)) => {
            let message = format!("bad {flag}: use a number from {least} to {most}");
            Err(Error::invalid(message).with("value", count))
        }
    }
}

fn resources(cpu: Quantity, memory: Quantity, gpu: Quantity) -> Resources {
    Resources { cpu: Some(cpu), memory: Some(memory), gpu }
}

fn fault_tolerance(args: &Args) -> Result<Option<FaultTolerance>> {
    if args.faulttolerant {
        return Ok(Some(FaultTolerance {
            min_trainers: args.min_instance.unwrap_or(1),
            max_trainers: args.max_instance.unwrap_or(args.parallelism),
        }));
    }
    // The original's own defaults mean nothing.
    let given = [("-min_instance", args.min_instance), ("-max_instance", args.max_instance)];
    match given.into_iter().find(|(_, count)| count.is_some_and(|count| count != 1)) {
        Some((flag, _)) => Err(Error::invalid(format!(
            "{flag} is for jobs whose size may change: add -faulttolerant"
        ))),
        None => Ok(None),
    }
}

fn env(pairs: &[String]) -> Result<BTreeMap<String, String>> {
    let pairs = pairs.iter().map(|pair| {
        let refuse = || Error::invalid("bad -env: write NAME=VALUE").with("value", pair);
        let (name, value) = pair.split_once('=').ok_or_else(refuse)?;
        Ok((name.to_owned(), value.to_owned()))
    });
    pairs.collect()
}
