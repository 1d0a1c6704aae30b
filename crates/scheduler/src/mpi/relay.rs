//! Between a link and a supervisor: at rank 0 a link is made to look like a supervisor's pipe, and
//! at the other ranks a real supervisor does what comes through it.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use contract::secret::Secret;
use contract::{Error, Kind, Result};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::timeout;

use super::link::{Link, Receiver, Sender};
use super::plan::{Member, complete};
use super::{Meeting, find};
use crate::supervisor::host::Host;
use crate::supervisor::message;

/// How long a supervisor far away may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long the end of a supervisor is waited for.
const END: Duration = Duration::from_secs(30);
/// What is buffered between a link and whoever reads it.
const PIPE_BYTES: usize = 64 << 10;

/// Rank 0's end: the supervisor at the other end of a link.
pub(super) async fn host(machine: &str, link: Link) -> Result<Host> {
    let Link { mut sender, mut receiver, .. } = link;
    let (commands, command_lines) = tokio::io::duplex(PIPE_BYTES);
    let (mut event_lines, events) = tokio::io::duplex(PIPE_BYTES);
    tokio::spawn(async move {
        let mut lines = BufReader::new(command_lines).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            if sender.send(&line).await.is_err() {
                return;
            }
        }
    });
    tokio::spawn(async move {
        while let Ok(Some(mut line)) = receiver.receive().await {
            line.push('\n');
            if event_lines.write_all(line.as_bytes()).await.is_err() {
                return;
            }
        }
    });
    Host::attach(machine, Box::new(commands), Box::new(events), PATIENCE).await
}

/// Every other rank: finds rank 0 and does what it says until it has no more to say.
///
/// # Errors
/// Rank 0 was not found, or was lost; then nothing runs here any more.
pub async fn follow(
    meeting: &Meeting,
    own: &Member,
    directory: &Path,
    token: &Secret,
) -> Result<()> {
    let mut link = find(meeting).await?;
    let introduction = serde_json::to_string(own)
        .map_err(|source| Error::invalid("cannot write an introduction").because(source))?;
    link.sender.send(&introduction).await?;
    let refused = |source| Error::io("cannot start a supervisor", source);
    let mut child = Command::new(&own.paddle)
        .args(["supervise", "--namespace", "--directory"])
        .arg(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // What is said to everybody in the group, as mpirun does, is said to this process.
        .process_group(0)
        .spawn()
        .map_err(refused)?;
    let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(Error::new(Kind::Io, "a supervisor has no pipe"));
    };
    let Link { sender, receiver, .. } = link;
    let events = tokio::spawn(forward_events(BufReader::new(output), sender));
    let heard = forward_commands(receiver, input, token).await;
    end(&mut child).await?;
    // Its last words are on their way, if anybody still listens.
    let _ = timeout(END, events).await;
    heard
}

/// Ends with the input of the supervisor closed, which ends everything it runs.
async fn forward_commands(
    mut receiver: Receiver,
    mut input: ChildStdin,
    token: &Secret,
) -> Result<()> {
    while let Some(line) = receiver.receive().await? {
        let mut command: message::Command = message::decode(&line)?;
        if let message::Command::Start(start) = &mut command {
            complete(&mut start.env, token);
        }
        let line = message::encode(&command)?;
        if input.write_all(line.as_bytes()).await.is_err() {
            // It has died; rank 0 hears of that by the end of its events.
            return Err(Error::new(Kind::Unavailable, "the supervisor of this rank has died"));
        }
    }
    Ok(())
}

async fn forward_events(output: BufReader<tokio::process::ChildStdout>, mut sender: Sender) {
    let mut lines = output.lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if sender.send(&line).await.is_err() {
            return;
        }
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
