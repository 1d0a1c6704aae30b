//! `paddle cluster_train` and its companions `cluster_status`, `cluster_log` and `cluster_kill`: the
//! client of a receiver, which is a `paddlecloud serve`.

mod receivers;

use cli::cluster_train::{Wanted, help, parse};
use cli::output::Output;
use cli::{prefix, time};
use client::{Client, Package, Progress, Results, Seen};
use contract::api::cluster_train::{Accepted, Amount, ClusterTrain};
use contract::api::job::{JobDetail, Kill};
use contract::api::log::LogQuery;
use contract::role::Role;
use contract::state::{JobState, State};
use contract::{Error, Kind, Result};
use indicatif::HumanBytes;
use receivers::{Receivers, say};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct TrainArgs {
    /// Flags, of this command and of `paddle train`; --help lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "FLAGS")]
    words: Vec<OsString>,
}

/// A job of `paddle cluster_train`.
#[derive(Debug, clap::Args)]
pub(crate) struct JobArgs {
    /// The job's id, as cluster_train printed it, or its name
    #[arg(value_name = "JOB")]
    job: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct LogArgs {
    #[command(flatten)]
    job: JobArgs,
    /// Go on until the job has ended
    #[arg(long, short)]
    follow: bool,
    /// List the files that nodes have sent so far, below this directory of the results
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = "")]
    files: Option<String>,
    /// Print a file that a node has sent, such as log/rank-00000/paddle_trainer.INFO
    #[arg(long, value_name = "PATH", conflicts_with = "files")]
    file: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct KillArgs {
    /// The job's id, or its name; `qdel ID`, as the original had it, is understood too
    #[arg(value_name = "JOB", required = true, num_args = 1..=2)]
    words: Vec<String>,
}

/// How often it is said that a receiver is waited for.
const SAY: Duration = Duration::from_secs(15);
/// How often it is said why a training that is followed prints nothing.
const REMIND: Duration = Duration::from_secs(60);

/// Shows nothing: programs are small.
struct Silent;

impl Progress for Silent {
    fn begin(&self, _: usize, _: u64) {}
    fn sent(&self, _: u64) {}
}

/// Sends a training to a receiver.
pub(crate) fn train(args: &TrainArgs) -> Result<ExitCode> {
    let words = args.words.iter().map(|word| {
        word.to_str().map(str::to_owned).ok_or_else(|| {
            Error::invalid("a word of the command line is no UTF-8").with("word", word.display())
        })
    });
    let words: Vec<String> = words.collect::<Result<_>>()?;
    let Some(wanted) = parse(&words)? else {
        let mut output = Output::open();
        output.bytes(help().as_bytes())?;
        output.close()?;
        return Ok(ExitCode::SUCCESS);
    };
    let (_folder, package, config) = package(&wanted)?;
    let client = Receivers::read()?.first()?;
    let shown: Arc<dyn Progress> = Arc::new(Silent);
    let digest = client.upload(&package, &shown)?;
    let mut number = [0; 16];
    getrandom::fill(&mut number)
        .map_err(|source| Error::new(Kind::Io, "no random numbers").because(source))?;
    // A queue says where it is; without one the datacenter of the configuration is meant.
    let is_named = wanted.queue.is_empty() && !client.datacenter().name.is_empty();
    let datacenter = if is_named { client.datacenter_name()? } else { String::new() };
    let asked = ClusterTrain {
        request: number.iter().map(|byte| format!("{byte:02x}")).collect(),
        job_name: wanted.job_name,
        submitter: wanted.submitter,
        package: digest,
        config,
        queue: wanted.queue,
        datacenter,
        num_nodes: wanted.num_nodes,
        time_limit_seconds: wanted.time_limit_seconds,
        priority: wanted.priority,
        use_gpu: wanted.use_gpu,
        flags: wanted.flags,
    };
    let accepted = patiently(|| client.cluster_train(&asked))?;
    tell(&client, &asked, &accepted)?;
    Ok(ExitCode::SUCCESS)
}

/// Waits for the receiver, and says now and then that it does.
fn patiently<T>(ask: impl FnOnce() -> Result<T>) -> Result<T> {
    let (over, is_over) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while let Err(RecvTimeoutError::Timeout) = is_over.recv_timeout(SAY) {
                say("waiting for the receiver, which executes the configuration and looks for the data");
            }
        });
        let answer = ask();
        drop(over);
        answer
    })
}

/// The configuration, and `thirdparty/<name>`, as they go to the receiver.
fn package(wanted: &Wanted) -> Result<(tempfile::TempDir, Package, String)> {
    let refused = |source| Error::io("cannot put the package together", source);
    let real = |path: &Path, flag: &'static str| {
        std::fs::canonicalize(path).map_err(|source| {
            Error::io("there is no such file", source)
                .with("flag", flag)
                .with("path", path.display())
        })
    };
    let odd = |path: &Path| {
        Error::invalid("the name of the file is no UTF-8").with("path", path.display())
    };
    let folder = tempfile::tempdir().map_err(refused)?;
    let config = real(&wanted.config, "--config")?;
    if !config.is_file() {
        let message = "--config is a file: the V1 configuration";
        return Err(Error::invalid(message).with("config", wanted.config.display()));
    }
    let name = wanted.config.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| odd(&wanted.config))?.to_owned();
    // Links: the package is read through them.
    std::os::unix::fs::symlink(&config, folder.path().join(&name)).map_err(refused)?;
    if let Some(thirdparty) = &wanted.thirdparty {
        let real = real(thirdparty, "--thirdparty")?;
        if !real.is_dir() {
            let message = "--thirdparty is a directory";
            return Err(Error::invalid(message).with("thirdparty", thirdparty.display()));
        }
        let base = real.file_name().and_then(|name| name.to_str()).ok_or_else(|| odd(&real))?;
        if base.contains(':') {
            let message = "the name of the directory must not have a colon, which separates \
                           directories in PATH: rename it";
            return Err(Error::invalid(message).with("thirdparty", thirdparty.display()));
        }
        let target = folder.path().join("thirdparty");
        std::fs::create_dir(&target).map_err(refused)?;
        std::os::unix::fs::symlink(&real, target.join(base)).map_err(refused)?;
    }
    // The paths that it names are those of links.
    let package = Package::scan(folder.path()).map_err(|error| match &wanted.thirdparty {
        Some(thirdparty) => error.with("thirdparty", thirdparty.display()),
        None => error,
    })?;
    for empty in &package.empty_folders {
        say(&format!("the empty directory {empty} is not sent"));
    }
    Ok((folder, package, name))
}

/// In the words of the original, so that scripts find them.
fn tell(client: &Client, asked: &ClusterTrain, accepted: &Accepted) -> Result<()> {
    let Accepted { job, output_path, train, test, notes } = accepted;
    let count = |number: u64, what: &str| match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    };
    let amount =
        |data: &Amount| format!("{} ({})", count(data.files, "file"), HumanBytes(data.bytes));
    let place = match asked.queue.as_str() {
        "" => format!("datacenter {}", job.datacenter),
        queue => format!("queue {queue}"),
    };
    let mut output = Output::open();
    output.line(format_args!("jobid={}", job.uid))?;
    let receiver = &client.datacenter().endpoint;
    output.line(format_args!(
        "[INFO] {} was accepted by {receiver}: {} in {place}",
        job.name,
        count(asked.num_nodes.into(), "node")
    ))?;
    output.line(format_args!(
        "[INFO] data: {} to train, {} to test",
        amount(train),
        amount(test)
    ))?;
    output.line(format_args!("[INFO] results: {output_path}"))?;
    for note in notes {
        output.line(format_args!("[NOTE] {note}"))?;
    }
    let uid = &job.uid;
    output.line(format_args!("[INFO] to look, pls run: paddle cluster_status {uid}"))?;
    output.line(format_args!("[INFO] to see the log, pls run: paddle cluster_log -f {uid}"))?;
    output.line(format_args!("[INFO] to stop, pls run: paddle cluster_kill {uid}"))?;
    output.close()
}

/// The job, and a client of its datacenter.
fn find(job: &str) -> Result<(Client, JobDetail)> {
    Receivers::read()?.find(job, |client| find_at(client, job))
}

/// The same at one receiver, in any of its datacenters.
fn find_at(mut client: Client, job: &str) -> Result<(Client, JobDetail)> {
    let mut last = None;
    for datacenter in client.datacenters()? {
        client = client.within(&datacenter.name);
        match client.job(job) {
            Err(error) if error.kind() == Kind::NotFound => last = Some(error),
            found => return Ok((client, found?)),
        }
    }
    Err(last.unwrap_or_else(|| Error::new(Kind::NotFound, "there is no such job").with("job", job)))
}

/// How a training is.
pub(crate) fn status(args: &JobArgs) -> Result<ExitCode> {
    let (client, detail) = find(&args.job)?;
    let job = &detail.job;
    let mut output = Output::open();
    output.line(format_args!("jobid={} name={} state={}", job.uid, job.name, job.state))?;
    output.line(client.why(&job.uid)?.sentence)?;
    let rows: Vec<Vec<String>> = detail
        .workers
        .iter()
        .map(|worker| {
            let code = worker.exit_code.map_or_else(String::new, |code| code.to_string());
            let started = worker.started_ms.map_or_else(String::new, time::moment);
            vec![
                worker.name.clone(),
                worker.host.clone(),
                worker.state.to_string(),
                code,
                started,
                worker.message.clone(),
            ]
        })
        .collect();
    output.table(&["NODE", "HOST", "STATE", "CODE", "STARTED", "MESSAGE"], &rows)?;
    output.close()?;
    Ok(match job.state {
        JobState::Failed | JobState::Killed => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    })
}

/// What nodes printed, or what they have sent.
pub(crate) fn log(args: &LogArgs) -> Result<ExitCode> {
    let (client, detail) = find(&args.job.job)?;
    let uid = &detail.job.uid;
    let mut output = Output::open();
    if let Some(path) = args.file.as_deref().or(args.files.as_deref()) {
        match client.results(uid, path)? {
            Results::File(file) => file.read(|piece| output.bytes(piece))?,
            Results::Directory(entries) => {
                for entry in entries {
                    let mark = if entry.is_directory() { "/" } else { "" };
                    output.line(format_args!("{:>12}  {}{mark}", entry.bytes, entry.path))?;
                }
            }
        }
        output.close()?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut lines = Lines::default();
    if args.follow {
        let mut follow = client.follow(uid, &LogQuery::default())?;
        let is_running = detail.job.state == JobState::Running;
        let mut waits = (!is_running && !detail.job.state.is_final()).then(Waits::default);
        waits.iter_mut().for_each(|waits| waits.tell(&client, uid));
        while let Some(seen) = follow.see()? {
            match seen {
                Seen::Piece(piece) => {
                    waits = None;
                    lines.print(&piece.worker, &piece.text, &mut output)?;
                    output.flush()?;
                }
                Seen::Lost(why) => say(&format!("{why}; trying again")),
                Seen::Back => say("the receiver is back"),
                Seen::Quiet => waits.iter_mut().for_each(|waits| waits.tell(&client, uid)),
            }
        }
        lines.finish(&mut output)?;
        output.close()?;
        let ended = client.wait(uid, None, |_| Ok(()))?;
        say(&format!("{}: {}", ended.job.state, client.why(uid)?.sentence));
        return Ok(match ended.job.state {
            JobState::Succeeded => ExitCode::SUCCESS,
            _ => ExitCode::FAILURE,
        });
    }
    let query = LogQuery::default();
    client.logs(uid, &query, |piece| lines.print(&piece.worker, &piece.text, &mut output))?;
    lines.finish(&mut output)?;
    output.close()?;
    Ok(ExitCode::SUCCESS)
}

/// A training that has printed nothing so far: it may wait in a queue for hours.
#[derive(Default)]
struct Waits(Option<Instant>);

impl Waits {
    /// Says why, now and then. What cannot be asked now is said later.
    fn tell(&mut self, client: &Client, uid: &str) {
        let is_due = self.0.is_none_or(|said| said.elapsed() >= REMIND);
        if is_due && let Ok(why) = client.why(uid) {
            say(&why.sentence);
            self.0 = Some(Instant::now());
        }
    }
}

/// Lines of several nodes, each with its name in front.
#[derive(Default)]
struct Lines(BTreeMap<String, String>);

impl Lines {
    fn print(&mut self, worker: &str, text: &str, output: &mut Output) -> Result<()> {
        let text = self.0.remove(worker).unwrap_or_default() + text;
        for line in text.split_inclusive('\n') {
            match line.strip_suffix('\n') {
                Some(line) => output.line(format_args!("{}{line}", name(worker)))?,
                None => drop(self.0.insert(worker.to_owned(), line.to_owned())),
            }
        }
        Ok(())
    }

    fn finish(&mut self, output: &mut Output) -> Result<()> {
        for (worker, line) in std::mem::take(&mut self.0) {
            output.line(format_args!("{}{line}", name(&worker)))?;
        }
        Ok(())
    }
}

fn name(worker: &str) -> String {
    let rank = worker.rsplit('-').next().and_then(|rank| rank.parse().ok()).unwrap_or(0);
    let role = if worker.contains("-pserver-") { Role::Pserver } else { Role::Trainer };
    prefix::named(worker, (role, rank), 0, prefix::wants_colour(&std::io::stdout()))
}

/// Ends a training.
pub(crate) fn kill(args: &KillArgs) -> Result<ExitCode> {
    let job = match &args.words[..] {
        [job] => job,
        [word, job] if matches!(word.as_str(), "qdel" | "deljob" | "scancel") => job,
        _ => {
            let message =
                "cluster_kill takes the id of a job: a receiver runs no commands of users";
            return Err(Error::invalid(message).with("words", args.words.join(" ")));
        }
    };
    let (client, detail) = find(job)?;
    let uid = &detail.job.uid;
    let is_over = detail.job.state.is_final();
    let killed = if is_over { detail.job.clone() } else { client.kill(uid, &Kill::default())? };
    let mut output = Output::open();
    match is_over {
        true => output.line(format_args!("{uid} has ended before: {}", killed.state))?,
        false => output.line(format_args!("{uid} is being ended"))?,
    }
    output.close()?;
    Ok(ExitCode::SUCCESS)
}
