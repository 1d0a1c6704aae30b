//! A rank's side of an MPI job: it finds the conductor, and lets it command a supervisor on this
//! machine until the conductor has no more to say.

use super::link::{self, Member};
use crate::supervisor::message;
use contract::secret::Secret;
use contract::{Error, Kind, Result};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::time::{Instant, timeout, timeout_at};

/// How a rank finds the conductor.
#[derive(Debug, Clone)]
pub struct Meeting {
    /// What proves that both belong to the same start.
    pub key: Secret,
    /// Where the conductor may be, as `host:port`, likeliest first.
    pub conductors: Vec<String>,
    /// How long it may take to find it.
    pub patience: Duration,
    /// Whether the ranks of the job may be started once more.
    pub may_repeat: bool,
}

/// Between two attempts to find the conductor.
const PAUSE: Duration = Duration::from_millis(100);
/// How long the end of a supervisor is waited for.
const END: Duration = Duration::from_secs(30);

/// Finds the conductor and does what it says. `hidden` are variables that programs must not see.
///
/// # Errors
/// The conductor was not found. Losing it later is its way to say that the job is over.
pub async fn join(meeting: &Meeting, own: &Member, hidden: &[&str]) -> Result<()> {
    let link = find(meeting, own).await?;
    let refused = |source| Error::io("cannot start a supervisor", source);
    let mut command = Command::new(&own.paddle);
    command.args(["supervise", "--namespace", "--directory"]).arg(&own.directory);
    for name in hidden {
        command.env_remove(name);
    }
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // What is said to everybody in the group, as mpirun does, is said to this process.
        .process_group(0)
        .spawn()
        .map_err(refused)?;
    let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(Error::new(Kind::Io, "a supervisor has no pipe"));
    };
    let events = tokio::spawn(link::send_lines(output, link.sender));
    // Ends with the input of the supervisor closed, which ends everything it runs.
    let heard = link::receive_lines(link.receiver, input).await;
    end(&mut child).await?;
    // Its last words are on their way, if anybody still listens.
    let _ = timeout(END, events).await;
    let close = message::encode(&message::Command::Close)?;
    let is_over = match heard {
        Ok(last) => last == close.as_bytes(),
        Err(error) => {
            tracing::info!(error = error.chain(), "the conductor is gone");
            false
        }
    };
    if is_over || !meeting.may_repeat {
        forget(&own.directory);
    }
    Ok(())
}

/// Removes what a rank kept for the next time it is started. What cannot be removed is in nobody's
/// way: no other job has this directory.
fn forget(directory: &Path) {
    let _ = std::fs::remove_dir_all(directory);
    // Shared by the ranks of this machine: gone with the last of them.
    let _ = directory.parent().map(std::fs::remove_dir);
}

async fn find(meeting: &Meeting, own: &Member) -> Result<link::Link> {
    let deadline = Instant::now() + meeting.patience;
    let mut last = Error::new(Kind::Unavailable, "no machine is known: give a --hostfile");
    loop {
        for address in &meeting.conductors {
            match timeout_at(deadline, link::dial(address, &meeting.key, own)).await {
                Ok(Ok(link)) => return Ok(link),
                Ok(Err(error)) => last = error,
                Err(_) => {}
            }
        }
        if Instant::now() + PAUSE >= deadline {
            let message = "the conductor of the job was not found: is its port open to this \
                           machine, and is its machine in the hostfile?";
            return Err(Error::new(Kind::Timeout, message)
                .with("tried", meeting.conductors.join(","))
                .with("seconds", meeting.patience.as_secs())
                .because(last));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn end(child: &mut Child) -> Result<()> {
    match timeout(END, child.wait()).await {
        Ok(status) => {
            status.map(|_| ()).map_err(|source| Error::io("cannot wait for the supervisor", source))
        }
        Err(_) => Err(Error::new(Kind::Timeout, "the supervisor of this rank does not end")),
    }
}
