//! `paddle jobs`: the jobs of this machine, and those that were left to a Kubernetes cluster.

pub(crate) mod everywhere;
pub(crate) mod find;

use crate::attach::follow::runtime;
use cli::output::{Format, Output};
use cli::summary::duration;
use contract::Result;
use contract::state::State;
use everywhere::open;
use find::ORIGIN;
use scheduler::Backend;
use scheduler::backend::JobSummary;
use std::io::Write;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

/// List the jobs that were launched on this machine
///
/// Shows jobs that run, and those that ended within the last day. A detached job stays in the list
/// until it is forgotten; other jobs leave it when they end, or a day later if their launcher was
/// killed.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Show all jobs, however long ago they ended
    #[arg(long, short)]
    all: bool,
    /// Remove jobs that have ended, with their records and kept output: id, beginning of it or name
    #[arg(long, value_name = "JOB", num_args = 1.., conflicts_with = "all")]
    forget: Vec<String>,
    /// Print as text or JSON
    #[arg(short, long, value_enum, default_value = "text")]
    output: Format,
}

/// How long a job that has ended is listed without `--all`.
const RECENT_MS: u64 = 24 * 3600 * 1000;
const REASON_CHARACTERS_MAX: usize = 60;

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let jobs = open()?;
    let runtime = runtime()?;
    if !args.forget.is_empty() {
        return runtime.block_on(async {
            for word in &args.forget {
                let found = find::find(&jobs, word).await;
                let job = found.map_err(|error| jobs.explain(word, error))?;
                jobs.forget(&job.id).await?;
            }
            Ok(ExitCode::SUCCESS)
        });
    }
    let now_ms = now_ms();
    let mut listed = runtime.block_on(jobs.list(ORIGIN, None))?;
    listed.sort_by(|a, b| b.began_ms.cmp(&a.began_ms).then_with(|| a.id.cmp(&b.id)));
    let count = listed.len();
    let is_recent = |job: &JobSummary| {
        !job.state.is_final()
            || job.ended_ms.is_none_or(|ended| ended.saturating_add(RECENT_MS) >= now_ms)
    };
    listed.retain(|job| args.all || is_recent(job));
    let mut output = Output::open();
    match args.output {
        Format::Json => output.json(&listed)?,
        Format::Text => {
            let header = ["JOB", "STATE", "PLACE", "TRAINERS", "PSERVERS", "AGE", "TIME", "REASON"];
            let rows: Vec<_> = listed.iter().map(|job| row(job, now_ms)).collect();
            output.table(&header, &rows)?;
        }
    }
    output.close()?;
    if listed.len() < count {
        let older = count - listed.len();
        // Where not even this can be written, there is nobody to tell.
        let _ = writeln!(std::io::stderr(), "{older} older: paddle jobs --all");
    }
    Ok(ExitCode::SUCCESS)
}

fn row(job: &JobSummary, now_ms: u64) -> Vec<String> {
    let ended_ms = job.ended_ms.unwrap_or(now_ms);
    vec![
        job.id.clone(),
        job.state.to_string(),
        job.place.clone(),
        job.trainers.to_string(),
        job.pservers.to_string(),
        duration(now_ms.saturating_sub(job.began_ms)),
        duration(ended_ms.saturating_sub(job.began_ms)),
        shortened(&job.reason),
    ]
}

fn shortened(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(REASON_CHARACTERS_MAX) {
        None => line.to_owned(),
        Some((end, _)) => format!("{}…", &line[..end]),
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
