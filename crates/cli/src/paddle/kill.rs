//! `paddle kill`: ends a job of this machine, or what a launcher left behind on ssh hosts.

use super::launch::reach::Reach;
use crate::attach::follow::runtime;
use crate::jobs::{everywhere, find};
use cli::output::{Format, Output};
use contract::state::{JobState, State};
use contract::{Error, Kind, Result};
use scheduler::Backend;
use scheduler::ssh::conf::check_directory;
use serde::Serialize;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// End a job of this machine, or jobs that were left running on ssh hosts
///
/// With JOB: asks the replicas of that job to end, as Ctrl-C does, and waits until they have; with
/// --force they are killed at once.
///
/// With --conf or --hosts: a launcher ends its job itself, also when it is killed. This is for a
/// launcher that cannot: its machine or the network is gone. Only jobs below ROOT_DIR are ended, or
/// the one that --job names; other processes of the same hosts are not touched.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The job: its id, the beginning of it, or its name for the newest of that name that runs
    #[arg(value_name = "JOB", conflicts_with_all = ["conf", "hosts"])]
    id: Option<String>,
    /// Kill its replicas at once
    #[arg(long, short, requires = "id")]
    force: bool,
    #[command(flatten)]
    reach: Reach,
    /// The directory of the only job to end [default: all jobs of ROOT_DIR]
    #[arg(long, alias = "job_workspace", value_name = "DIR", conflicts_with = "id")]
    job: Option<String>,
    /// Print as text or JSON
    #[arg(short, long, value_enum, default_value = "text")]
    output: Format,
}

/// How long the end of a job is waited for, beyond the time that its replicas are given.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(50);

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    cli::logging::start(None, "")?;
    match &args.id {
        Some(word) => kill_here(args, word),
        None => kill_on_hosts(args),
    }
}

fn kill_here(args: &Args, word: &str) -> Result<ExitCode> {
    let jobs = everywhere::open()?;
    let record = runtime()?.block_on(async {
        let id = find::find_running(&jobs, word).await?.id;
        let grace = Duration::from_secs(jobs.submission(&id).await?.spec.grace_seconds);
        let mut record = jobs.observe(&id).await?;
        jobs.kill(&id, args.force).await?;
        let deadline = Instant::now() + PATIENCE + grace;
        while !record.state.is_final() {
            if Instant::now() >= deadline {
                let message = "the job was told to end and has not ended yet: look with `paddle \
                               attach`, or use --force";
                return Err(Error::new(Kind::Timeout, message).with("job", id));
            }
            tokio::time::sleep(PAUSE).await;
            match jobs.observe(&id).await {
                // It ended before its launcher's eyes, which has removed it.
                Err(error) if error.kind() == Kind::NotFound => record.state = JobState::Killed,
                observed => record = observed?,
            }
        }
        Ok(record)
    })?;
    let mut output = Output::open();
    match args.output {
        Format::Json => output.json(&record)?,
        Format::Text => output.line(format_args!("{}: {}", record.id, record.state))?,
    }
    output.close()?;
    Ok(ExitCode::SUCCESS)
}

#[derive(Serialize)]
struct Row {
    host: String,
    killed: Vec<String>,
}

fn kill_on_hosts(args: &Args) -> Result<ExitCode> {
    if let Some(job) = &args.job {
        check_directory(job)?;
    }
    if args.reach.conf.is_none() && args.reach.hosts.is_none() {
        let message = "say what to end: a job of `paddle jobs`, or --conf FILE or --hosts LIST for \
                       what was left on ssh hosts";
        return Err(Error::invalid(message));
    }
    let conf = args.reach.conf()?;
    let killed = runtime()?.block_on(async {
        let mut cluster = args.reach.open(&conf.hosts).await?;
        let killed = cluster.kill(&conf.root_dir, args.job.as_deref()).await;
        cluster.close().await;
        killed
    })?;
    let rows = killed.into_iter().map(|(host, killed)| Row { host: host.to_string(), killed });
    let rows: Vec<Row> = rows.collect();
    let mut output = Output::open();
    match args.output {
        Format::Json => output.json(&rows)?,
        Format::Text => {
            for Row { host, killed } in &rows {
                let what =
                    if killed.is_empty() { "nothing ran".to_owned() } else { killed.join(", ") };
                output.line(format_args!("{host}: {what}"))?;
            }
        }
    }
    output.close()?;
    Ok(ExitCode::SUCCESS)
}
