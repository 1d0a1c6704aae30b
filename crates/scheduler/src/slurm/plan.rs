//! The script that Slurm runs for a job, and what is asked for it. Pure.
//!
//! The script starts an agent on every node and waits for all of them. A job that may be started
//! again keeps its nodes when an agent dies: all agents are then started once more.

use crate::plan;
use crate::submission::{Package, Place, SlurmPlace, Submission};
use contract::job::{JobSpec, Priority};
use contract::quote::quote;
use contract::role::Role;
use contract::{Error, Kind, Result};

/// What an agent exits with that did not find the conductor: to start it again is of no use.
pub const NO_CONDUCTOR: u8 = 3;
/// What the script exits with where there is no `paddle`, as shells do.
pub const NO_PADDLE: i32 = 127;
/// How long agents look for a submitter that they have lost, and that nobody replaces.
const LEASHED_LINGER_SECONDS: u64 = 5;
/// How much less important a job of priority low is than others; the scale is Slurm's.
const NICE: u32 = 10_000;
/// Options of `sbatch` that a job sets itself.
const OWN: [&str; 23] = [
    "-J",
    "--job-name",
    "--comment",
    "-N",
    "--nodes",
    "-n",
    "--ntasks",
    "--ntasks-per-node",
    "-o",
    "--output",
    "-e",
    "--error",
    "-D",
    "--chdir",
    "--export",
    "--wrap",
    "-a",
    "--array",
    "-W",
    "--wait",
    "--parsable",
    "--requeue",
    "--no-requeue",
];

/// What the script needs beside the submission.
#[derive(Debug)]
pub(super) struct Batch<'a> {
    pub(super) place: &'a SlurmPlace,
    pub(super) submission: &'a Submission,
    /// By which the allocation is found again, and no other is mistaken for it.
    pub(super) mark: &'a str,
    /// The command `paddle` on the nodes.
    pub(super) paddle: &'a str,
    /// Whether the job ends with its submitter.
    pub(super) is_leashed: bool,
    /// Whether time for `--grace` is asked for, if there is some.
    pub(super) asks_for_grace: bool,
}

/// What is asked of Slurm for a job with a time limit, in its whole minutes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Minutes {
    /// For the limit itself.
    pub(super) least: u64,
    /// With the time that programs have to save what they have when the limit has struck: Slurm
    /// would strike at the same moment, and leave them its `KillWait`.
    pub(super) with_grace: u64,
}

/// Slurm's own limit is later than ours by so much at least, beside the grace.
const MARGIN_SECONDS: u64 = 60;

/// The time that a job needs, if that is limited.
pub(super) fn minutes(spec: &JobSpec) -> Option<Minutes> {
    let limit = spec.time_limit_seconds?;
    let all = limit.saturating_add(spec.grace_seconds).saturating_add(MARGIN_SECONDS);
    Some(Minutes { least: limit.div_ceil(60), with_grace: all.div_ceil(60) })
}

/// How many nodes a job has: those of the place, or one for each server and trainer.
pub(super) fn nodes(place: &SlurmPlace, spec: &JobSpec) -> u32 {
    match place.nodes {
        0 => spec.trainers.max(spec.pservers).max(1),
        nodes => nodes,
    }
}

/// The text by which an allocation is recognised.
pub(super) fn comment(submission: &Submission, mark: &str) -> Result<String> {
    let mut digest = submission.digest()?;
    digest.truncate(16);
    let origin: String = submission.origin.chars().map(plain).collect();
    Ok(format!("paddle id={} origin={origin} digest={digest} mark={mark}", submission.id))
}

fn plain(c: char) -> char {
    if c.is_ascii_alphanumeric() || "-_.@:".contains(c) { c } else { '_' }
}

/// The script, with what is asked of Slurm in its first lines.
pub(super) fn script(batch: &Batch<'_>) -> Result<String> {
    let Batch { place, submission, .. } = batch;
    let spec = &submission.spec;
    let nodes = nodes(place, spec);
    let Demand { cpus, memory_mib, gpus } = demand(spec, nodes);
    let restarts = plan::policy(spec).restarts;
    let mut options = vec![
        format!("--job-name={}", submission.id),
        format!("--comment=\"{}\"", comment(submission, batch.mark)?),
        format!("--nodes={nodes}"),
        "--ntasks-per-node=1".to_owned(),
        format!("--cpus-per-task={cpus}"),
    ];
    options.extend(memory_mib.map(|memory| format!("--mem={memory}M")));
    if gpus > 0 {
        let kind = if place.gpu_type.is_empty() { "" } else { ":" };
        options.push(format!("--gres=gpu{kind}{}:{gpus}", place.gpu_type));
    }
    options.extend(minutes(spec).map(|Minutes { least, with_grace }| {
        format!("--time={}", if batch.asks_for_grace { with_grace } else { least })
    }));
    let given = [
        ("--partition", partition(place, spec)),
        ("--account", &place.account),
        ("--qos", qos(place, spec.priority)),
        ("--constraint", &place.constraint),
        ("--reservation", &place.reservation),
    ];
    let given = given.iter().filter(|(_, value)| !value.is_empty());
    options.extend(given.map(|(name, value)| format!("{name}={value}")));
    if is_nice(place, spec.priority) {
        options.push(format!("--nice={NICE}"));
    }
    options.push(format!("--output=\"{}\"", output(submission)));
    options.push("--open-mode=append".to_owned());
    options.push("--chdir=/".to_owned());
    options.push("--export=ALL".to_owned());
    options.push(if restarts > 0 { "--requeue" } else { "--no-requeue" }.to_owned());
    let options: String = options.iter().map(|option| format!("#SBATCH {option}\n")).collect();
    let agent = quote(&agent(batch));
    let paddle = quote(&[batch.paddle.to_owned()]);
    Ok(format!(
        "#!/bin/sh\n\
         {options}\
         # An agent on every node runs what the conductor of the job says, which is where the job\n\
         # was submitted. With the last agent the allocation ends.\n\
         command -v {paddle} > /dev/null || {{ echo 'paddle is not here: {paddle}' >&2; exit {NO_PADDLE}; }}\n\
         starts=0\n\
         while :; do\n    \
             srun --nodes={nodes} --ntasks={nodes} --ntasks-per-node=1 --cpus-per-task={cpus} \
         --mpi=none --input=none --kill-on-bad-exit=1 \\\n        {agent}\n    \
             code=$?\n    \
             starts=$((starts + 1))\n    \
             case $code in 0 | {NO_CONDUCTOR}) exit $code ;; esac\n    \
             [ $starts -le {restarts} ] || exit $code\n\
         done\n"
    ))
}

/// What an agent is started with.
fn agent(batch: &Batch<'_>) -> Vec<String> {
    let Batch { place, submission, .. } = batch;
    let patience = submission.spec.ready_seconds;
    // Nobody takes over a job that ends with its submitter, who may only try again.
    let linger = if batch.is_leashed { LEASHED_LINGER_SECONDS } else { patience };
    let mut words = vec![batch.paddle.to_owned(), "agent".to_owned()];
    words.push(format!("--directory={}/{AGENTS}/{}", place.root_dir, batch.mark));
    words.push(format!("--patience={patience}"));
    words.push(format!("--linger={linger}"));
    if !place.nic.is_empty() {
        words.push(format!("--nics={}", place.nic));
    }
    words
}

/// Below the root directory of a node: what the agents of running jobs keep.
const AGENTS: &str = ".paddle_agents";

/// Where the script's own output goes: beside the logs where these are on a file system that all
/// nodes share, else to a directory that every node has.
fn output(submission: &Submission) -> String {
    let is_safe = |path: &str| !path.contains(['"', '\\', '\n', '%']);
    let shared = match &submission.package {
        Package::Present(path) => Some(format!("{path}/{}/slurm-%j.log", submission.spec.log_dir)),
        Package::Dispatch(_) => None,
    };
    let name = shared.filter(|path| is_safe(&path.replace("%j", "")));
    name.unwrap_or_else(|| "/tmp/paddle-slurm-%j.log".to_owned())
}

/// Where the script's own output is found.
pub(super) fn output_of(submission: &Submission, id: u64) -> String {
    output(submission).replace("%j", &id.to_string())
}

fn partition<'a>(place: &'a SlurmPlace, spec: &'a JobSpec) -> &'a str {
    if place.partition.is_empty() { &spec.queue } else { &place.partition }
}

fn qos(place: &SlurmPlace, priority: Priority) -> &str {
    place.qos_of.get(&priority).unwrap_or(&place.qos)
}

/// A user may make a job less important, not more.
fn is_nice(place: &SlurmPlace, priority: Priority) -> bool {
    priority == Priority::Low && !place.qos_of.contains_key(&priority)
}

/// What the busiest node of a job has to have.
#[derive(Debug, PartialEq, Eq)]
struct Demand {
    cpus: u64,
    /// Absent where a replica may use any amount.
    memory_mib: Option<u64>,
    gpus: u64,
}

fn demand(spec: &JobSpec, nodes: u32) -> Demand {
    let mut most = Demand { cpus: 1, memory_mib: Some(0), gpus: 0 };
    for node in 0..nodes {
        let (mut cpu_milli, mut memory, mut gpus) = (0_u64, Some(0_u64), 0_u64);
        for role in Role::ALL {
            let count =
                if role == Role::Trainer { spec.trainers_max() } else { spec.replicas(role) };
            let count = u64::from((node..count).step_by(nodes as usize).count() as u32);
            let resources = spec.resources.of(role);
            let of_one =
                resources.cpu.map_or_else(|| cpus(spec, role) * 1000, |cpu| cpu.cores_milli());
            cpu_milli = cpu_milli.saturating_add(of_one.saturating_mul(count));
            if count > 0 {
                let own = resources.memory.map(|memory| memory.bytes().saturating_mul(count));
                memory = memory.zip(own).map(|(all, own)| all.saturating_add(own));
            }
            gpus = gpus.saturating_add(devices(spec, role).saturating_mul(count));
        }
        most.cpus = most.cpus.max(cpu_milli.div_ceil(1000));
        most.memory_mib =
            most.memory_mib.zip(memory).map(|(most, all)| most.max(all.div_ceil(1 << 20)));
        most.gpus = most.gpus.max(gpus);
    }
    most
}

/// Processors of a replica that does not say how many: one for each of its threads.
fn cpus(spec: &JobSpec, role: Role) -> u64 {
    match role {
        Role::Trainer if !spec.uses_gpu() => spec.trainer_count().into(),
        Role::Trainer | Role::Pserver | Role::Master => 1,
    }
}

/// GPUs of one replica.
pub(crate) fn devices(spec: &JobSpec, role: Role) -> u64 {
    match spec.resources.of(role).gpu.count() {
        Some(0) | None if role == Role::Trainer && spec.uses_gpu() => spec.trainer_count().into(),
        count => count.unwrap_or(0),
    }
}

/// Whether an argument of `sbatch` is an option that a job sets itself, also where it is abbreviated
/// (`--nod=4`), or has its value attached (`-N4`).
fn is_own(argument: &str) -> bool {
    let name = argument.split('=').next().unwrap_or_default();
    match name.starts_with("--") {
        true => OWN.iter().any(|own| own.starts_with(name)),
        false => OWN.iter().any(|own| !own.starts_with("--") && name.starts_with(own)),
    }
}

/// Refuses what cannot be honoured, by its name.
pub(crate) fn check(submission: &Submission) -> Result<()> {
    let Place::Slurm(place) = &submission.place else { return Ok(()) };
    let spec = &submission.spec;
    let refuse = |field: &'static str, value: &str, why: &str| {
        let message = format!("{field} cannot be honoured on the slurm backend: {why}");
        Err(Error::new(Kind::Unsupported, message).with("field", field).with("value", value))
    };
    let words = [
        ("partition", &place.partition),
        ("account", &place.account),
        ("qos", &place.qos),
        ("constraint", &place.constraint),
        ("reservation", &place.reservation),
        ("gpu_type", &place.gpu_type),
        ("queue", &spec.queue),
    ];
    let words = words.into_iter().chain(place.qos_of.values().map(|qos| ("qos", qos)));
    for (field, value) in words {
        let is_odd = |c: char| c.is_whitespace() || c.is_control() || "\"'\\".contains(c);
        if value.contains(is_odd) {
            let error = Error::invalid(format!("{field}: no spaces, quotes or backslashes"));
            return Err(error.with("value", value.escape_debug()));
        }
    }
    if !spec.queue.is_empty() && !place.partition.is_empty() && spec.queue != place.partition {
        let why = "a queue is a partition here, and another one was named";
        return refuse("queue", &spec.queue, why);
    }
    if spec.priority == Priority::High && !place.qos_of.contains_key(&Priority::High) {
        let why = "Slurm lets nobody raise the priority of his own jobs: name a QOS for it";
        return refuse("priority", "high", why);
    }
    let replicas = spec.trainers_max().max(spec.pservers).max(1);
    if place.nodes > replicas {
        let why =
            format!("with {replicas} trainers or servers some nodes would have nothing to do");
        return refuse("nodes", &place.nodes.to_string(), &why);
    }
    for argument in &place.sbatch_arguments {
        if is_own(argument) || !argument.starts_with('-') {
            let why = match is_own(argument) {
                true => "the job sets this option itself",
                false => "write options with their values as --name=value",
            };
            return refuse("sbatch_arguments", argument, why);
        }
    }
    if place.shard_train_list && matches!(submission.package, Package::Present(_)) {
        let why = "nodes share the one list of their directory: send the package";
        return refuse("shard_train_list", "true", why);
    }
    if !place.results.is_absolute() {
        let error = Error::invalid("results must be brought to an absolute path");
        return Err(error.with("results", place.results.display()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::submission::sample;
    use contract::job::{Resources, RoleResources};
    use contract::quantity::Quantity;

    fn place() -> SlurmPlace {
        SlurmPlace {
            root_dir: "~/paddle_jobs".into(),
            results: "/home/paddle/JOB".into(),
            ..SlurmPlace::default()
        }
    }

    fn submission(place: SlurmPlace, spec: JobSpec) -> Submission {
        Submission { place: Place::Slurm(place), ..sample(spec) }
    }

    fn render(submission: &Submission, is_leashed: bool) -> String {
        let Place::Slurm(place) = &submission.place else { panic!("not on Slurm") };
        let mark = "0123456789abcdef";
        let text = script(&Batch {
            place,
            submission,
            mark,
            paddle: "/opt/paddle",
            is_leashed,
            asks_for_grace: true,
        });
        // The digest follows from all of the submission.
        let text = text.unwrap();
        let (before, after) = text.split_once("digest=").unwrap();
        format!("{before}digest=…{}", &after[16..])
    }

    #[test]
    fn a_small_job_asks_for_no_more_than_it_has_to() {
        let spec = JobSpec { trainers: 2, pservers: 2, ..JobSpec::default() };
        insta::assert_snapshot!(render(&submission(place(), spec), true));
    }

    #[test]
    fn every_field_is_in_the_script() {
        let place = SlurmPlace {
            nodes: 2,
            partition: "gpu".into(),
            account: "ads".into(),
            qos: "normal".into(),
            qos_of: [(Priority::High, "urgent".to_owned())].into(),
            constraint: "a100&ib".into(),
            reservation: "friday".into(),
            gpu_type: "a100".into(),
            nic: "ib0".into(),
            ..place()
        };
        let memory = |gib: u64| Some(Quantity::from_milli((gib << 30) * 1000));
        let trainer = Resources {
            cpu: Some(Quantity::from_milli(2500)),
            memory: memory(4),
            gpu: Quantity::whole(2),
        };
        let pserver = Resources { memory: memory(1), ..Resources::default() };
        let spec = JobSpec {
            trainers: 3,
            pservers: 2,
            resources: RoleResources { trainer, pserver, ..RoleResources::default() },
            priority: Priority::High,
            time_limit_seconds: Some(1801),
            restarts: 2,
            ..JobSpec::default()
        };
        let submission = submission(place, spec);
        check(&submission).unwrap();
        insta::assert_snapshot!(render(&submission, false));
    }

    #[test]
    fn slurm_strikes_when_programs_have_had_their_grace() {
        let limited = |limit, grace_seconds| {
            let spec =
                JobSpec { time_limit_seconds: Some(limit), grace_seconds, ..JobSpec::default() };
            minutes(&spec).map(|Minutes { least, with_grace }| (least, with_grace))
        };
        assert_eq!(limited(7200, 600), Some((120, 131)));
        assert_eq!(limited(60, 10), Some((1, 3)));
        assert_eq!(minutes(&JobSpec::default()), None);
    }

    #[test]
    fn a_node_is_asked_for_what_its_replicas_need_together() {
        let spec = JobSpec { trainers: 5, pservers: 2, threads: Some(4), ..JobSpec::default() };
        // Three trainers of four threads and one server on the first node.
        let expected = Demand { cpus: 13, memory_mib: None, gpus: 0 };
        assert_eq!(demand(&spec, 2), expected);
        let spec = JobSpec { use_gpu: Some(true), ..spec };
        let expected = Demand { cpus: 4, memory_mib: None, gpus: 12 };
        assert_eq!(demand(&spec, 2), expected);
    }

    #[test]
    fn what_cannot_be_honoured_is_refused_by_name() {
        let refused = |change: &dyn Fn(&mut SlurmPlace, &mut JobSpec)| {
            let (mut place, mut spec) = (place(), JobSpec { pservers: 1, ..JobSpec::default() });
            change(&mut place, &mut spec);
            check(&submission(place, spec)).unwrap_err().to_string()
        };
        insta::assert_snapshot!(refused(&|_, spec| spec.priority = Priority::High), @"priority cannot be honoured on the slurm backend: Slurm lets nobody raise the priority of his own jobs: name a QOS for it (field: priority, value: high)");
        insta::assert_snapshot!(refused(&|place, _| place.nodes = 4), @"nodes cannot be honoured on the slurm backend: with 1 trainers or servers some nodes would have nothing to do (field: nodes, value: 4)");
        insta::assert_snapshot!(refused(&|place, _| place.partition = "a b".into()), @"partition: no spaces, quotes or backslashes (value: a b)");
        insta::assert_snapshot!(refused(&|place, _| place.sbatch_arguments = vec!["--wrap=ls".into()]), @"sbatch_arguments cannot be honoured on the slurm backend: the job sets this option itself (field: sbatch_arguments, value: --wrap=ls)");
        for argument in ["-N4", "--nod=4", "-oX", "-N", "--n=3"] {
            let error = refused(&|place, _| place.sbatch_arguments = vec![argument.into()]);
            assert!(error.contains("the job sets this option itself"), "{argument}: {error}");
        }
        insta::assert_snapshot!(refused(&|place, spec| { place.partition = "a".into(); spec.queue = "b".into(); }), @"queue cannot be honoured on the slurm backend: a queue is a partition here, and another one was named (field: queue, value: b)");
        insta::assert_snapshot!(refused(&|place, _| place.shard_train_list = true), @"shard_train_list cannot be honoured on the slurm backend: nodes share the one list of their directory: send the package (field: shard_train_list, value: true)");
    }
}
