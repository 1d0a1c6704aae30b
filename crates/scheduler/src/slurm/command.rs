//! Calling Slurm's own commands: `sbatch`, `squeue`, `sacct`, `scontrol`, `scancel`. What they say
//! goes to standard error in words alone, so the words decide what kind of failure it is.

use super::state::{self, Phase, Told};
use contract::{Error, Kind, Result};
use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::timeout;

/// Slurm, as the variables of a place lead to it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slurm<'a> {
    pub(super) environment: &'a BTreeMap<String, String>,
}

/// How long a command may take. They try for some time themselves when the controller is busy.
const PATIENCE: Duration = Duration::from_secs(120);
/// Variables by which a user's shell, or an allocation that a command is called in, would change
/// what Slurm's commands do.
const CHANGING: [&str; 6] = ["SBATCH_", "SQUEUE_", "SACCT_", "SCONTROL_", "SCANCEL_", "SLURM_"];
/// Those of them by which Slurm is found and entered.
const LEADING: [&str; 3] = ["SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT"];
/// What commands say when the controller cannot be asked now.
const SILENCE: [&str; 7] = [
    "Unable to contact slurm controller",
    "Socket timed out",
    "Connection refused",
    "Communication connection failure",
    "Zero Bytes were transmitted",
    "Slurm backup controller in standby mode",
    "temporarily unable to accept job",
];
/// What they say where no Slurm is configured.
const UNCONFIGURED: [&str; 3] =
    ["Could not establish a configuration source", "cannot stat file", "ClusterName needs"];
/// What `sbatch` says of a job that asks for more time than it may.
const TOO_LONG: &str = "time limit";
/// What they say of a number that no job has.
const UNKNOWN: &str = "Invalid job id specified";

/// Whether a variable is passed on to Slurm's commands.
pub(super) fn is_passed_on(name: &str) -> bool {
    LEADING.contains(&name) || !CHANGING.iter().any(|prefix| name.starts_with(prefix))
}

impl Slurm<'_> {
    /// Submits a script, for jobs with these variables beside those of the place.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] if it may have been accepted all the same.
    pub(super) async fn submit(
        &self,
        script: &str,
        arguments: &[String],
        variables: &[(&str, String)],
    ) -> Result<u64> {
        let mut words = vec!["--parsable"];
        words.extend(arguments.iter().map(String::as_str));
        let said = match self.call("sbatch", &words, Some(script), variables).await {
            Ok(said) => said,
            Err(error) if says(&error, "partition") => {
                let known = self.call("sinfo", &["--noheader", "--format=%R"], None, &[]).await;
                let known = known.unwrap_or_default();
                let known: Vec<&str> = known.split_whitespace().collect();
                return Err(error.with("partitions", known.join(", ")));
            }
            Err(error) => return Err(error),
        };
        // `number;cluster` where there are several clusters.
        let number = said.trim().split(';').next().unwrap_or_default();
        number.parse().map_err(|_| {
            Error::new(Kind::Damaged, "sbatch prints no number of a job")
                .with("said", said.trim().escape_debug())
        })
    }

    /// The allocations of a name that have not ended, or only just, with their comments.
    pub(super) async fn named(&self, name: &str) -> Result<Vec<(u64, Told, String)>> {
        let format = format!("--format={}", state::QUEUE_FORMAT);
        let name = format!("--name={name}");
        let words = ["--noheader", "--states=all", &name, &format];
        state::parse_queue(&self.call("squeue", &words, None, &[]).await?)
    }

    /// How an allocation is. Those that have ended are told by the accounts, or, where none are
    /// kept, by the controller, which forgets them after a while.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] if the controller does not answer: that says nothing of the allocation.
    pub(super) async fn told(&self, id: u64) -> Result<Told> {
        let format = format!("--format={}", state::QUEUE_FORMAT);
        let number = id.to_string();
        let jobs = format!("--jobs={number}");
        let words = ["--noheader", "--states=all", &jobs, &format];
        let queued = match self.call("squeue", &words, None, &[]).await {
            Ok(text) => state::parse_queue(&text)?.into_iter().next().map(|(_, told, _)| told),
            Err(error) if says(&error, UNKNOWN) => None,
            Err(error) => return Err(error),
        };
        if let Some(told) = &queued
            && !matches!(told.phase, Phase::Ended(_))
        {
            return Ok(told.clone());
        }
        let words =
            ["--noheader", "--parsable2", "--allocations", "--format=State,ExitCode", &jobs];
        if let Ok(text) = self.call("sacct", &words, None, &[]).await
            && let Ok(Some(told)) = state::parse_accounts(&text)
            && matches!(told.phase, Phase::Ended(_))
        {
            return Ok(told);
        }
        match self.call("scontrol", &["show", "job", "--oneliner", &number], None, &[]).await {
            Ok(text) => state::parse_description(&text),
            Err(error) if says(&error, UNKNOWN) => Ok(queued.unwrap_or_else(Told::vanished)),
            Err(error) => Err(error),
        }
    }

    /// Ends an allocation. One that has ended already, or that nobody knows, is no error.
    pub(super) async fn cancel(&self, id: u64) -> Result<()> {
        match self.call("scancel", &["--quiet", &id.to_string()], None, &[]).await {
            Err(error) if !says(&error, UNKNOWN) && !says(&error, "already completing") => {
                Err(error)
            }
            _ => Ok(()),
        }
    }

    /// Gives an allocation that waits another time limit, in minutes. Users may lower theirs.
    pub(super) async fn limit(&self, id: u64, minutes: u64) -> Result<()> {
        let (job, limit) = (format!("JobId={id}"), format!("TimeLimit={minutes}"));
        self.call("scontrol", &["update", &job, &limit], None, &[]).await.map(|_| ())
    }

    /// Lets an allocation begin again, perhaps on other nodes.
    pub(super) async fn requeue(&self, id: u64) -> Result<()> {
        self.call("scontrol", &["requeue", &id.to_string()], None, &[]).await.map(|_| ())
    }

    async fn call(
        &self,
        program: &'static str,
        arguments: &[&str],
        input: Option<&str>,
        variables: &[(&str, String)],
    ) -> Result<String> {
        let mut command = self.command(program);
        command.args(arguments);
        command.envs(variables.iter().map(|(name, value)| (*name, value)));
        let stdin = if input.is_some() { Stdio::piped() } else { Stdio::null() };
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().map_err(|source| missing(program, source))?;
        if let (Some(mut pipe), Some(input)) = (child.stdin.take(), input) {
            // One that does not read its input says why.
            let _ = pipe.write_all(input.as_bytes()).await;
        }
        let output = timeout(PATIENCE, child.wait_with_output()).await.map_err(|_| {
            Error::new(Kind::Unavailable, "Slurm's controller does not answer")
                .with("command", program)
                .with("seconds", PATIENCE.as_secs())
        })?;
        let output = output.map_err(|source| Error::io("cannot wait for a command", source))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        if let Some(signal) = output.status.signal() {
            // It says nothing of what was asked, which may have been done.
            let message = "a command of Slurm was killed";
            return Err(Error::new(Kind::Unavailable, message)
                .with("command", program)
                .with("signal", signal));
        }
        Err(refusal(program, String::from_utf8_lossy(&output.stderr).trim()))
    }

    /// A command with the variables of the place, and in nobody's group: Ctrl-C is for launchers.
    pub(super) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let passed_on = self.environment.iter().filter(|(name, _)| is_passed_on(name));
        command.env_clear().envs(passed_on).process_group(0);
        command
    }
}

/// Whether a job was refused because it asks for more time than it may.
pub(super) fn is_too_long(error: &Error) -> bool {
    error.kind() == Kind::Invalid && says(error, TOO_LONG)
}

/// Whether Slurm said this.
fn says(error: &Error, words: &str) -> bool {
    error.context().any(|(key, said)| key == "said" && said.contains(words))
}

fn missing(program: &'static str, source: std::io::Error) -> Error {
    if source.kind() == std::io::ErrorKind::NotFound {
        let message = format!(
            "{program} is not in PATH: install Slurm's commands here, or use a machine that has \
             them"
        );
        return Error::new(Kind::NotFound, message).with("command", program);
    }
    Error::io("cannot run a command of Slurm", source).with("command", program)
}

fn refusal(program: &'static str, words: &str) -> Error {
    let has = |known: &[&str]| known.iter().any(|known| words.contains(known));
    let (kind, message) = if has(&SILENCE) {
        (Kind::Unavailable, "Slurm's controller does not answer: does slurmctld run?")
    } else if has(&UNCONFIGURED) {
        (Kind::NotFound, "no Slurm is configured here: set SLURM_CONF to its slurm.conf")
    } else if program == "sbatch" {
        (Kind::Invalid, "Slurm refuses the job")
    } else {
        (Kind::Unavailable, "a command of Slurm failed")
    };
    let words: Vec<&str> = words.lines().map(|line| strip(line, program)).collect();
    Error::new(kind, message).with("command", program).with("said", words.join("; "))
}

/// A line without who says it.
fn strip<'a>(line: &'a str, program: &str) -> &'a str {
    let line = line.trim();
    let line = line.strip_prefix(program).and_then(|line| line.strip_prefix(": ")).unwrap_or(line);
    line.strip_prefix("error: ").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the commands of 22.05 print.
    #[test]
    fn words_of_slurm_become_kinds_of_errors() {
        let check = |program, words| {
            let error = refusal(program, words);
            format!("{:?}: {error}", error.kind())
        };
        insta::assert_snapshot!(check("sbatch", "sbatch: error: invalid partition specified: nix\nsbatch: error: Batch job submission failed: Invalid partition name specified"), @"Invalid: Slurm refuses the job (command: sbatch, said: invalid partition specified: nix; Batch job submission failed: Invalid partition name specified)");
        insta::assert_snapshot!(check("sbatch", "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)"), @"Unavailable: Slurm's controller does not answer: does slurmctld run? (command: sbatch, said: Batch job submission failed: Unable to contact slurm controller (connect failure))");
        insta::assert_snapshot!(check("squeue", "squeue: fatal: Could not establish a configuration source"), @"NotFound: no Slurm is configured here: set SLURM_CONF to its slurm.conf (command: squeue, said: fatal: Could not establish a configuration source)");
        insta::assert_snapshot!(check("scontrol", "slurm_load_jobs error: Invalid job id specified"), @"Unavailable: a command of Slurm failed (command: scontrol, said: slurm_load_jobs error: Invalid job id specified)");
    }

    #[test]
    fn a_job_that_asks_for_too_much_time_is_known() {
        let words = "sbatch: error: Batch job submission failed: Requested time limit is invalid \
                     (missing or exceeds some limit)";
        assert!(is_too_long(&refusal("sbatch", words)));
        assert!(!is_too_long(&refusal("sbatch", "sbatch: error: invalid partition specified: x")));
    }

    #[test]
    fn variables_that_would_change_what_is_asked_are_not_passed_on() {
        let kept = ["PATH", "SLURM_CONF", "SLURM_JWT", "SLURMX", "OMP_NUM_THREADS"];
        let dropped = ["SBATCH_PARTITION", "SLURM_JOB_ID", "SQUEUE_FORMAT", "SLURM_NTASKS"];
        assert!(kept.iter().all(|name| is_passed_on(name)));
        assert!(!dropped.iter().any(|name| is_passed_on(name)));
    }
}
