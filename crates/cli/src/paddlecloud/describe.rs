//! `paddlecloud describe`: everything about one job.

use crate::args::Globals;
use crate::cloud::connect;
use crate::get::workers;
use crate::view::{View, capital, perhaps};
use cli::time;
use contract::Result;
use contract::api::job::JobDetail;
use contract::job::Resources;
use indicatif::HumanBytes;
use std::process::ExitCode;
use std::time::Duration;

/// Print everything about a job
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The job
    #[arg(value_name = "JOB")]
    job: String,
    #[command(flatten)]
    view: View,
}

pub(crate) fn run(globals: &Globals, args: &Args) -> Result<ExitCode> {
    let detail = connect(globals)?.job(&args.job)?;
    args.view.tell(&detail, |output| {
        for (name, value) in lines(&detail) {
            output.line(format_args!("{name:<12} {}", value.replace('\n', " ")))?;
        }
        output.line("")?;
        args.view.print(output, &detail.workers, |rows| workers(rows))
    })?;
    Ok(ExitCode::SUCCESS)
}

/// What there is to say, a line each; what is not set is left out.
fn lines(detail: &JobDetail) -> Vec<(&'static str, String)> {
    let JobDetail { job, spec, package, notes, .. } = detail;
    let mut lines = vec![
        ("name:", job.name.clone()),
        ("uid:", job.uid.clone()),
        ("user:", job.user.clone()),
        ("datacenter:", job.datacenter.clone()),
        ("state:", capital(job.state)),
    ];
    let mut add = |name, value: String| {
        if !value.is_empty() {
            lines.push((name, value));
        }
    };
    add("reason:", job.reason.clone());
    add("exit code:", job.exit_code.map(|code| code.to_string()).unwrap_or_default());
    add("submitted:", time::moment(job.submitted_ms));
    add("started:", time::perhaps(job.started_ms));
    add("ended:", time::perhaps(job.ended_ms));
    if let (Some(started), Some(ended)) = (job.started_ms, job.ended_ms) {
        add("took:", time::span(Duration::from_millis(ended.saturating_sub(started))));
    }
    add("command:", spec.command());
    add("topology:", spec.topology.clone());
    add("trainers:", format!("{}, each {}", spec.trainers, resources(&spec.resources.trainer)));
    add("pservers:", format!("{}, each {}", spec.pservers, resources(&spec.resources.pserver)));
    if let Some(tolerance) = spec.fault_tolerance {
        add(
            "elastic:",
            format!("{} to {} trainers", tolerance.min_trainers, tolerance.max_trainers),
        );
    }
    add("passes:", spec.passes.map(|passes| passes.to_string()).unwrap_or_default());
    add("mode:", spec.mode.to_string());
    add("queue:", job.queue.clone());
    add("priority:", spec.priority.to_string());
    let limit = spec.time_limit_seconds.map(|seconds| time::span(Duration::from_secs(seconds)));
    add("time limit:", limit.unwrap_or_default());
    add("image:", spec.image.clone());
    add("registry:", spec.registry.clone());
    let env: Vec<_> = spec.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    add("env:", env.join(" "));
    add("package:", spec.package.clone());
    if let Some(package) = package {
        let (files, bytes) = (package.files, HumanBytes(package.bytes));
        add("digest:", format!("{} ({files} files, {bytes})", package.digest));
    }
    for note in notes {
        add("note:", note.clone());
    }
    lines
}

fn resources(resources: &Resources) -> String {
    let Resources { cpu, memory, gpu } = resources;
    let gpu = if gpu.count() == Some(0) { String::new() } else { format!(", gpu {gpu}") };
    format!("cpu {}, memory {}{gpu}", perhaps(*cpu), perhaps(*memory))
}
