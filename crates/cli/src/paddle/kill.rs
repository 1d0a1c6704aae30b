//! `paddle kill`: ends what a launcher left behind on ssh hosts.

use super::launch::ssh::Reach;
use cli::output::{Format, Output};
use contract::{Error, Result};
use scheduler::ssh::conf::check_directory;
use serde::Serialize;
use std::process::ExitCode;

/// End jobs that were left running on ssh hosts
///
/// A launcher ends its job itself, also when it is killed. This is for a launcher that cannot: its
/// machine or the network is gone. Only jobs below ROOT_DIR are ended, or the one that --job names;
/// other processes of the same hosts are not touched.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    #[command(flatten)]
    reach: Reach,
    /// The directory of the only job to end [default: all jobs of ROOT_DIR]
    #[arg(long, alias = "job_workspace", value_name = "DIR")]
    job: Option<String>,
    /// Print as text or JSON
    #[arg(short, long, value_enum, default_value = "text")]
    output: Format,
}

#[derive(Serialize)]
struct Row {
    host: String,
    killed: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    cli::logging::start(None, "")?;
    if let Some(job) = &args.job {
        check_directory(job)?;
    }
    let conf = args.reach.conf()?;
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|source| Error::io("cannot start a runtime", source))?;
    let killed = runtime.block_on(async {
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
