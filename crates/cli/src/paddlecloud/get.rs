//! `paddlecloud get`: tables of jobs, workers, quotas, registries and queues.

use crate::args::Globals;
use crate::cloud::{connect, say};
use crate::view::{Table, View, capital, clear, perhaps};
use cli::output::Output;
use cli::time;
use client::{Client, Rows, Which};
use contract::api::cluster::{Datacenter, Queue, clock};
use contract::api::job::{Job, Worker};
use contract::api::quota::Quota;
use contract::api::registry::Registry;
use contract::api::user::AuditEntry;
use contract::job::Priority;
use contract::{Error, Result};
use std::process::ExitCode;
use std::time::Duration;

/// Print resources
///
///   paddlecloud get jobs
///   paddlecloud get workers my-job
///   paddlecloud get quota
///   paddlecloud get registry
///   paddlecloud get queues
///   paddlecloud get audit       (administrators: who did what)
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, about = "Print resources")]
pub(crate) struct Args {
    /// What to print
    #[arg(value_enum, value_name = "RESOURCE")]
    resource: Resource,
    /// The job whose workers, or the user whose quota, is printed
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// All jobs, not only the newest
    #[arg(long, short)]
    all: bool,
    /// Only jobs that have not ended
    #[arg(long)]
    active: bool,
    /// Jobs of this user, or of everybody with '*' (administrators)
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Print again whenever something has changed
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    view: View,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Resource {
    #[value(alias = "job")]
    Jobs,
    #[value(alias = "worker")]
    Workers,
    Quota,
    #[value(alias = "registries")]
    Registry,
    #[value(alias = "queue")]
    Queues,
    Audit,
}

/// Jobs that are shown without `-all`.
const NEWEST: usize = 100;
/// Jobs that are shown at all.
const JOBS_MAX: usize = 100_000;
/// Between two looks.
const PAUSE: Duration = Duration::from_secs(2);

pub(crate) fn run(globals: &Globals, args: &Args) -> Result<ExitCode> {
    check(args)?;
    let client = connect(globals)?;
    if !args.watch {
        let mut output = Output::open();
        print(&client, args, &mut output)?;
        output.close()?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut shown = None;
    loop {
        let answer = client.patiently(|| fetch(&client, args))?;
        if shown.as_ref() != Some(&answer) {
            let mut output = Output::open();
            clear(&mut output)?;
            answer.print(args.view, &mut output)?;
            output.close()?;
            shown = Some(answer);
        }
        std::thread::sleep(PAUSE);
    }
}

fn check(args: &Args) -> Result<()> {
    let is_narrowed = args.active || args.user.is_some();
    if is_narrowed && args.resource != Resource::Jobs {
        return Err(Error::invalid("-active and -user are for `get jobs`: leave them out"));
    }
    match (args.resource, &args.name) {
        (Resource::Workers, None) => {
            Err(Error::invalid("whose workers? write `paddlecloud get workers JOB`"))
        }
        (Resource::Workers | Resource::Quota, _) | (_, None) => Ok(()),
        (Resource::Jobs, Some(name)) => Err(Error::invalid(format!(
            "`get jobs` prints all of them: for one write `paddlecloud describe {name}`"
        ))),
        (_, Some(name)) => {
            Err(Error::invalid("this takes no name: leave it out").with("name", name))
        }
    }
}

/// What the server has, of one kind.
#[derive(Debug, PartialEq)]
enum Answer {
    Jobs(Rows<Job>),
    Workers(Vec<Worker>),
    Quota(Quota),
    Registries(Vec<Registry>),
    Queues(Vec<Datacenter>),
    Audit(Vec<AuditEntry>),
}

fn print(client: &Client, args: &Args, output: &mut Output) -> Result<()> {
    fetch(client, args)?.print(args.view, output)
}

fn fetch(client: &Client, args: &Args) -> Result<Answer> {
    let name = args.name.as_deref();
    Ok(match args.resource {
        Resource::Jobs => {
            let which = Which { is_active: args.active, user: args.user.clone() };
            Answer::Jobs(client.jobs(&which, if args.all { JOBS_MAX } else { NEWEST })?)
        }
        Resource::Workers => Answer::Workers(client.workers(name.unwrap_or_default())?),
        Resource::Quota => Answer::Quota(client.quota(name)?),
        Resource::Registry => Answer::Registries(client.registries()?),
        Resource::Queues => Answer::Queues(client.datacenters()?),
        Resource::Audit => {
            Answer::Audit(client.audit(if args.all { JOBS_MAX } else { NEWEST })?.rows)
        }
    })
}

impl Answer {
    fn print(&self, view: View, output: &mut Output) -> Result<()> {
        match self {
            Answer::Jobs(found) => {
                if found.has_more {
                    say(&format!("only the newest {}: use -all for all", found.rows.len()));
                }
                found.notes.iter().for_each(|note| say(&format!("not shown: {note}")));
                view.print(output, &found.rows, |rows| jobs(rows))
            }
            Answer::Workers(rows) => view.print(output, rows, |rows| workers(rows)),
            Answer::Quota(quota) => view.print(output, quota, quota_rows),
            Answer::Registries(rows) => view.print(output, rows, |rows| registries(rows)),
            Answer::Queues(rows) => view.print(output, rows, |rows| queues(rows)),
            Answer::Audit(rows) => view.print(output, rows, |rows| audit(rows)),
        }
    }
}

fn jobs(jobs: &[Job]) -> Table {
    let row = |(number, job): (usize, &Job)| {
        vec![
            number.to_string(),
            job.name.clone(),
            job.succeeded.to_string(),
            job.failed.to_string(),
            time::perhaps(job.started_ms),
            time::perhaps(job.ended_ms),
            job.active.to_string(),
            capital(job.state),
            format!("{}/{}", job.pservers_ready, job.pservers),
            job.trainers.to_string(),
            time::moment(job.submitted_ms),
            job.queue.clone(),
            perhaps(job.exit_code),
            job.uid.clone(),
            job.user.clone(),
            job.reason.clone(),
        ]
    };
    Table {
        header: &[
            "NUM",
            "NAME",
            "SUCC",
            "FAIL",
            "START",
            "COMP",
            "ACTIVE",
            "STATE",
            "PSERVERS",
            "TRAINERS",
            "SUBMITTED",
            "QUEUE",
            "EXIT",
            "UID",
            "USER",
            "REASON",
        ],
        narrow: 9,
        rows: jobs.iter().enumerate().map(row).collect(),
    }
}

pub(crate) fn workers(workers: &[Worker]) -> Table {
    let row = |worker: &Worker| {
        vec![
            worker.name.clone(),
            capital(worker.state),
            time::perhaps(worker.started_ms),
            perhaps(worker.exit_code),
            worker.message.clone(),
            worker.role.to_string(),
            worker.host.clone(),
            worker.attempt.to_string(),
            time::perhaps(worker.ended_ms),
        ]
    };
    Table {
        header: &[
            "NAME",
            "STATUS",
            "START",
            "EXIT_CODE",
            "MSG",
            "ROLE",
            "HOST",
            "RESTARTS",
            "COMP",
        ],
        narrow: 5,
        rows: workers.iter().map(row).collect(),
    }
}

fn quota_rows(quota: &Quota) -> Table {
    let Quota { limits, used, .. } = quota;
    let row = |name: &str, limit: Option<String>, used: String| {
        vec![name.to_owned(), limit.unwrap_or_else(|| "unlimited".to_owned()), used]
    };
    let text = |limit: Option<contract::quantity::Quantity>| limit.map(|limit| limit.to_string());
    let count = |limit: Option<u32>| limit.map(|limit| limit.to_string());
    Table {
        header: &["RESOURCE", "LIMIT", "USED"],
        narrow: 3,
        rows: vec![
            row("Memory", text(limits.memory), used.memory.to_string()),
            row("CPU", text(limits.cpu), used.cpu.to_string()),
            row("GPU", text(limits.gpu), used.gpu.to_string()),
            row("MaxParallelism", count(limits.replicas), used.replicas.to_string()),
            row("Jobs", count(limits.jobs), used.jobs.to_string()),
            row("Disk", text(limits.disk), cli::size::human(used.disk_bytes)),
        ],
    }
}

fn registries(registries: &[Registry]) -> Table {
    let row = |(number, registry): (usize, &Registry)| {
        vec![
            number.to_string(),
            registry.name.clone(),
            time::moment(registry.created_ms),
            registry.server.clone(),
            registry.username.clone(),
        ]
    };
    Table {
        header: &["ID", "NAME", "DATA", "SERVER", "USERNAME"],
        narrow: 5,
        rows: registries.iter().enumerate().map(row).collect(),
    }
}

fn queues(datacenters: &[Datacenter]) -> Table {
    let rows = datacenters.iter().flat_map(|datacenter| {
        datacenter.queues.iter().map(|queue| {
            vec![
                queue.name.clone(),
                datacenter.name.clone(),
                queue.time_limit_seconds_max.map_or_else(|| "unlimited".to_owned(), clock),
                queue.kind.word().to_owned(),
                queue.nodes_max.map_or_else(|| "unlimited".to_owned(), |most| most.to_string()),
                priorities(queue),
                datacenter.backend.clone(),
            ]
        })
    });
    Table {
        header: &[
            "NAME",
            "DATACENTER",
            "TIME_LIMIT",
            "NODES",
            "MAX_NODES",
            "PRIORITIES",
            "BACKEND",
        ],
        narrow: 4,
        rows: rows.collect(),
    }
}

/// The priorities of a queue, of which none means all.
fn priorities(queue: &Queue) -> String {
    match queue.priorities.is_empty() {
        true => "all".to_owned(),
        false => queue.priorities.iter().map(Priority::to_string).collect::<Vec<_>>().join(","),
    }
}

fn audit(entries: &[AuditEntry]) -> Table {
    let row = |entry: &AuditEntry| {
        vec![
            time::moment(entry.at_ms),
            entry.user.clone(),
            entry.action.clone(),
            entry.object.clone(),
            entry.outcome.clone(),
            entry.address.clone(),
        ]
    };
    Table {
        header: &["TIME", "USER", "ACTION", "OBJECT", "OUTCOME", "ADDRESS"],
        narrow: 5,
        rows: entries.iter().map(row).collect(),
    }
}
