//! `paddlecloud submit`: sends the package, as far as the server lacks it, and hands the job in.

use crate::args::Globals;
use crate::cloud::{connect, say};
use crate::view::View;
use crate::{logs, spec, wait};
use cli::output::{Unit, progress};
use client::{Client, Package, Progress};
use contract::Result;
use contract::job::Priority;
use contract::quantity::Quantity;
use indicatif::{HumanBytes, ProgressBar};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

/// Submit job to PaddlePaddle Cloud.
///
/// PACKAGE is the directory of the program. If it is here, its files are sent, only those that the
/// server does not have; `.git`, `.paddle` and `__pycache__` are left out. A path that begins
/// with /pfs/ is in the cloud already and used as it is.
///
///   paddlecloud submit -jobname my-job -parallelism 2 -pservers 2 -entry "python train.py" ./ctr
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, about = "Submit job to PaddlePaddle Cloud.")]
pub(crate) struct Args {
    /// The directory of the program, here or below /pfs/
    #[arg(value_name = "PACKAGE")]
    pub(crate) package: String,
    /// The job's name: letters, digits, `-` and `.`
    #[arg(long, value_name = "NAME", default_value = "paddle-cluster-job")]
    pub(crate) jobname: String,
    /// How many trainers
    #[arg(long, value_name = "N", default_value = "1", value_parser = cli::number::parse::<u32>)]
    pub(crate) parallelism: u32,
    /// Cores of a trainer
    #[arg(long, value_name = "CORES", default_value = "1")]
    pub(crate) cpu: Quantity,
    /// Devices of a trainer
    #[arg(long, value_name = "N", default_value = "0")]
    pub(crate) gpu: Quantity,
    /// Memory of a trainer: a number with Ki, Mi or Gi
    #[arg(long, value_name = "BYTES", default_value = "1Gi")]
    pub(crate) memory: Quantity,
    /// How many parameter servers; 0 for as many as trainers
    #[arg(long, value_name = "N", default_value = "0", value_parser = cli::number::parse::<u32>)]
    pub(crate) pservers: u32,
    /// Servers that no trainer used, and trainers without data, are fine
    #[arg(long = "allow_idle")]
    pub(crate) allow_idle: bool,
    /// Cores of a parameter server
    #[arg(long, value_name = "CORES", default_value = "1")]
    pub(crate) pscpu: Quantity,
    /// Memory of a parameter server
    #[arg(long, value_name = "BYTES", default_value = "1Gi")]
    pub(crate) psmemory: Quantity,
    /// The command that a trainer runs in the package: "python train.py"
    #[arg(long, value_name = "COMMAND", default_value = "", hide_default_value = true)]
    pub(crate) entry: String,
    /// The V1 configuration that is trained, instead of an entry
    #[arg(long, value_name = "FILE", default_value = "", hide_default_value = true)]
    pub(crate) topology: String,
    /// How often to go through the data
    #[arg(long, value_name = "N", default_value = "1", value_parser = cli::number::parse::<u32>)]
    pub(crate) passes: u32,
    /// The container image, where jobs run in containers
    #[arg(long, value_name = "IMAGE", default_value = "", hide_default_value = true)]
    pub(crate) image: String,
    /// The registry of the image, as `paddlecloud registry -name` called it
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub(crate) registry: String,
    /// Go on when replicas die: trainers get their data from a master
    #[arg(long)]
    pub(crate) faulttolerant: bool,
    /// The fewest trainers of a fault-tolerant job [default: 1]
    #[arg(long = "min_instance", value_name = "N", value_parser = cli::number::parse::<u32>)]
    pub(crate) min_instance: Option<u32>,
    /// The most trainers of a fault-tolerant job [default: as many as it begins with]
    #[arg(long = "max_instance", value_name = "N", value_parser = cli::number::parse::<u32>)]
    pub(crate) max_instance: Option<u32>,
    /// How often a replica may be started again [default: 0; 10 for a fault-tolerant job]
    #[arg(long, value_name = "N", value_parser = cli::number::parse::<u32>)]
    pub(crate) restarts: Option<u32>,
    /// The queue it is sent to [default: the datacenter's own]
    #[arg(
        long,
        alias = "where",
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) queue: String,
    /// Which of two waiting jobs goes first: low, normal or high
    #[arg(long, value_name = "PRIORITY", default_value = "normal")]
    pub(crate) priority: Priority,
    /// End it after this time, such as 90m [default: no limit]
    #[arg(long = "time_limit", value_name = "TIME", value_parser = cli::duration::parse_seconds)]
    pub(crate) time_limit: Option<u64>,
    /// A variable for every replica: NAME=VALUE; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) env: Vec<String>,
    /// Updates wait for the gradients of all trainers (the default)
    #[arg(long, conflicts_with = "async")]
    pub(crate) sync: bool,
    /// Every gradient is applied as it arrives
    #[arg(long)]
    pub(crate) r#async: bool,
    /// Then print its logs until it has ended; the exit code tells how
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Then wait until it has ended; the exit code tells how
    #[arg(long)]
    pub(crate) wait: bool,
    #[command(flatten)]
    pub(crate) view: View,
}

pub(crate) fn run(globals: &Globals, args: &Args) -> Result<ExitCode> {
    // What is wrong with the job itself is told before anything is read or sent.
    let mut spec = spec::of(args)?;
    let is_remote = args.package.starts_with("/pfs/");
    let package = match is_remote {
        true => None,
        false => Some(Package::scan(&local(&args.package))?),
    };
    let client = connect(globals)?;
    spec.user = client.username()?;
    spec.datacenter = client.datacenter_name()?;
    if is_remote {
        spec.package = client.pfs_path(&args.package)?.to_string();
    }
    spec.check()?;
    let digest = match &package {
        Some(package) => Some(upload(&client, package)?),
        None => None,
    };
    let job = client.submit(&spec, digest)?;
    args.view.tell(&job, |output| output.line(format_args!("{} submitted.", job.name)))?;
    after(&client, &job.name, &job.uid, args.follow, args.wait)
}

/// What comes after a job was handed in.
pub(crate) fn after(
    client: &Client,
    name: &str,
    uid: &str,
    follow: bool,
    wait: bool,
) -> Result<ExitCode> {
    if !follow && !wait {
        say(&format!("look with `paddlecloud logs -f {name}` and `paddlecloud why {name}`"));
        return Ok(ExitCode::SUCCESS);
    }
    if follow {
        logs::follow_all(client, uid)?;
    }
    let detail = client.wait(uid, None, |_| Ok(()))?;
    wait::tell(&detail)
}

/// Sends what the server lacks, with a bar on a terminal.
pub(crate) fn upload(client: &Client, package: &Package) -> Result<String> {
    for folder in &package.empty_folders {
        say(&format!("the empty directory {folder} is not sent"));
    }
    let bar: Arc<Bar> = Arc::default();
    let shown: Arc<dyn Progress> = bar.clone();
    let digest = client.upload(package, &shown)?;
    let (files, bytes) = bar.finish();
    let all = package.manifest.files.len();
    say(&format!("sent {files} of {all} files ({})", HumanBytes(bytes)));
    Ok(digest)
}

/// The package's path; `~` is left to the shell.
fn local(package: &str) -> PathBuf {
    Path::new(if package.is_empty() { "." } else { package }).to_owned()
}

#[derive(Default)]
struct Bar(Mutex<(usize, u64, Option<ProgressBar>)>);

impl Bar {
    fn finish(&self) -> (usize, u64) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bar) = state.2.take() {
            bar.finish_and_clear();
        }
        (state.0, state.1)
    }
}

impl Progress for Bar {
    fn begin(&self, files: usize, bytes: u64) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 += files;
        state.1 += bytes;
        state.2 = Some(progress(bytes, Unit::Bytes));
    }

    fn sent(&self, bytes: u64) {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bar) = &state.2 {
            bar.inc(bytes);
        }
    }
}
