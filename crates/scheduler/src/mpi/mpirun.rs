//! `mpirun` as a process of the conductor: its command line, and its life under a supervisor, which
//! ends it when the conductor is gone.

use crate::jobs::Paddle;
use crate::local;
use crate::meeting::{CONDUCTOR, KEY, Meeting};
use crate::replica::ReplicaId;
use crate::submission::{MpiPlace, Submission};
use crate::supervisor::host::{Host, Hosts, Report};
use crate::supervisor::message::{Command, Confinement, Event, Start};
use contract::role::Role;
use contract::{Error, Kind, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::timeout;

/// How long a supervisor on this machine may take to answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long `mpirun` may take to notice that its ranks have ended, before it is killed.
const END: Duration = Duration::from_secs(10);
/// How much of what it prints is kept for an error.
const WORDS_BYTES_MAX: usize = 4096;

/// A running `mpirun`.
pub(super) struct Mpirun {
    hosts: Hosts,
    /// The end of what it printed.
    words: Vec<u8>,
    code: Option<i32>,
}

impl Mpirun {
    /// Starts it.
    pub(super) async fn start(
        place: &MpiPlace,
        submission: &Submission,
        directory: &Path,
        paddle: &Paddle,
        meeting: &Meeting,
    ) -> Result<Mpirun> {
        let folder = directory.join("mpirun");
        std::fs::create_dir_all(&folder).map_err(|source| {
            Error::io("cannot make a directory for mpirun", source).with("path", folder.display())
        })?;
        let hostfile = hostfile(place, &folder)?;
        let is_told = place.environment.contains_key("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM");
        let is_root = rustix::process::getuid().is_root() && !is_told;
        let rank = rank_command(submission, directory, paddle);
        let argv = argv(place, hostfile.as_deref(), is_root, &rank);
        let command = local::supervise(paddle, &folder, false, &place.environment);
        let mut hosts = Hosts::new(vec![Host::open("mpirun", command, PATIENCE).await?]);
        let env = [
            (KEY.to_owned(), meeting.key.expose().to_owned()),
            (CONDUCTOR.to_owned(), meeting.conductors.join(",")),
        ];
        let start = Start {
            replica: ReplicaId::new(Role::Trainer, 0),
            attempt: 0,
            argv,
            env: BTreeMap::from(env),
            directory: folder.clone(),
            log: folder.join("mpirun.log"),
            is_server: false,
            metrics: None,
            memory_bytes_max: None,
            cpu_milli_max: None,
            preamble: Vec::new(),
            confinement: Confinement::default(),
            stopped_seconds_max: None,
        };
        hosts.send(0, &Command::Start(Box::new(start))).await?;
        Ok(Mpirun { hosts, words: Vec::new(), code: None })
    }

    /// Runs until it ends, and says why that is a failure.
    async fn ended(&mut self) -> Error {
        loop {
            match self.hosts.next().await {
                Report::Event(Event::Log { output, .. }) => {
                    self.words.extend(output.decode());
                    let surplus = self.words.len().saturating_sub(WORDS_BYTES_MAX);
                    self.words.drain(..surplus);
                }
                Report::Event(Event::Exited { code, message, .. }) => {
                    self.code = Some(code);
                    let (kind, what) = match code {
                        127 => {
                            (Kind::NotFound, "mpirun is not in PATH: install Open MPI".to_owned())
                        }
                        _ => {
                            let what = message.unwrap_or_else(|| "mpirun ended".to_owned());
                            (Kind::Unavailable, what)
                        }
                    };
                    return Error::new(kind, what).with("exit_code", code);
                }
                Report::Event(_) => {}
                Report::Lost { why, .. } => return Error::new(Kind::Unavailable, why),
            }
        }
    }

    /// The error, with what it printed last.
    pub(super) async fn explain(&mut self, error: Error) -> Error {
        // What it says about ranks that fail comes a moment later.
        let _ = timeout(Duration::from_secs(1), self.ended()).await;
        explained(error, String::from_utf8_lossy(&self.words).trim())
    }

    /// Its ranks have been told to end: waits for it, and kills it if it does not.
    pub(super) async fn close(mut self) {
        if self.code.is_none() {
            let _ = timeout(END, self.ended()).await;
        }
        self.hosts.close().await;
    }
}

/// The end of an `mpirun`, if there is one; for ever without.
pub(super) async fn ended(mpirun: &mut Option<Mpirun>) -> Error {
    match mpirun {
        Some(mpirun) => mpirun.ended().await,
        None => std::future::pending().await,
    }
}

fn hostfile(place: &MpiPlace, folder: &Path) -> Result<Option<PathBuf>> {
    if place.hostfile.is_empty() {
        return Ok(None);
    }
    let path = folder.join("machines");
    std::fs::write(&path, &place.hostfile).map_err(|source| {
        Error::io("cannot write the hostfile", source).with("path", path.display())
    })?;
    Ok(Some(path))
}

/// What it says about machines that are too small is meant for those who run it themselves.
fn explained(error: Error, words: &str) -> Error {
    let error = match words.contains("not enough slots") {
        true => {
            let message = "mpirun has fewer slots than -n asks for: use fewer ranks, name machines \
                           with slots=N in --hostfile, or give --mpirun_args=--oversubscribe";
            Error::new(error.kind(), message)
        }
        false => error,
    };
    if words.is_empty() { error } else { error.with("mpirun", words) }
}

/// What each rank runs. Its directory is the same when `mpirun` runs again, and no other job's.
fn rank_command(submission: &Submission, directory: &Path, paddle: &Paddle) -> Vec<String> {
    let mut command = vec![paddle.program.to_string_lossy().into_owned(), "rank".to_owned()];
    let ranks = super::ranks(directory);
    command.push(format!("--directory={}", ranks.display()));
    command.push(format!("--patience={}", submission.spec.ready_seconds));
    if let crate::submission::Place::Mpi(place) = &submission.place
        && !place.nic.is_empty()
    {
        command.push(format!("--nics={}", place.nic));
    }
    command
}

/// The command line. Secrets are exported by name: their values are in the environment alone.
fn argv(place: &MpiPlace, hostfile: Option<&Path>, is_root: bool, rank: &[String]) -> Vec<String> {
    let mut argv = vec!["mpirun".to_owned()];
    if let Some(hostfile) = hostfile {
        argv.extend(["-hostfile".to_owned(), hostfile.to_string_lossy().into_owned()]);
    }
    argv.extend(["-n".to_owned(), place.ranks.to_string()]);
    if is_root {
        argv.push("--allow-run-as-root".to_owned());
    }
    for name in [CONDUCTOR, KEY] {
        argv.extend(["-x".to_owned(), name.to_owned()]);
    }
    argv.extend_from_slice(&place.mpirun_arguments);
    argv.extend_from_slice(rank);
    argv
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::submission::MpiStart;

    #[test]
    fn too_few_slots_are_explained_by_our_flags() {
        let ended = || Error::new(Kind::Unavailable, "mpirun ended").with("exit_code", 1);
        insta::assert_snapshot!(explained(ended(), ""), @"mpirun ended (exit_code: 1)");
        insta::assert_snapshot!(explained(ended(), "no host"), @"mpirun ended (exit_code: 1, mpirun: no host)");
        let words = "There are not enough slots available in the system";
        insta::assert_snapshot!(explained(ended(), words), @"mpirun has fewer slots than -n asks for: use fewer ranks, name machines with slots=N in --hostfile, or give --mpirun_args=--oversubscribe (mpirun: There are not enough slots available in the system)");
    }

    #[test]
    fn mpirun_is_told_names_of_variables_only() {
        let place = MpiPlace {
            ranks: 3,
            hostfile: "node-1\n".into(),
            mpirun_arguments: vec!["--map-by".into(), "node".into()],
            nic: String::new(),
            port: 0,
            start: MpiStart::Mpirun,
            environment: BTreeMap::new(),
        };
        let rank = ["paddle".to_owned(), "rank".to_owned()];
        let line = argv(&place, Some(Path::new("machines")), true, &rank).join(" ");
        insta::assert_snapshot!(line, @"mpirun -hostfile machines -n 3 --allow-run-as-root -x PADDLE_CONDUCTOR -x PADDLE_CONDUCTOR_KEY --map-by node paddle rank");
    }
}
