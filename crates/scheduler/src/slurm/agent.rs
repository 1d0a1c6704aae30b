//! The agent of a job on one node of its allocation. `srun` starts one on each. It finds the
//! conductor, and for it runs a supervisor, makes directories ready and sends results; in the next
//! round of the job it does so again. It ends with the job, and with it the allocation.
//!
//! That the connection is lost means that the conductor died, or the way to it. The agent ends what
//! it runs in any case, and looks for another conductor for a while: a short one, where the job ends
//! with its submitter.

use super::link::{self, BYTES, LINE, Outgoing, WORD, Word};
use crate::meeting::link::Link;
use crate::meeting::supervisor::{self, END, Supervisor};
use crate::meeting::{Meeting, Member};
use crate::ssh::node;
use contract::Result;
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::{AsyncWriteExt, BufReader, DuplexStream};
use tokio::process::{Child, ChildStdin};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// What an agent is told by its command line and its environment.
#[derive(Debug)]
pub struct Agent {
    /// How it finds the conductor the first time.
    pub meeting: Meeting,
    /// How long it looks for another conductor when it has lost one.
    pub linger: Duration,
    /// How it introduces itself.
    pub own: Member,
    /// What is this agent's alone, with the directory of its supervisor in it.
    pub directory: PathBuf,
    /// What it knows of its node.
    pub config: node::Config,
    /// Variables that programs must not see.
    pub hidden: Vec<String>,
}

/// What is buffered between the connection and the answers about this node.
const PIPE_BYTES: usize = 256 << 10;

/// How the time with one conductor ended.
#[derive(Debug, PartialEq, Eq)]
enum Left {
    /// It said that another round follows.
    Again,
    /// It said that the job is over.
    Over { removes: Option<PathBuf> },
    /// Nothing more came.
    Lost,
}

impl Agent {
    /// Serves the conductors of the job until it is over.
    ///
    /// # Errors
    /// The first conductor was not found. That there is no other one later is the job's end.
    pub async fn run(mut self) -> Result<()> {
        let mut link = self.meeting.find(&self.own).await?;
        let directory = loop {
            match self.attend(link).await? {
                Left::Over { removes } => break removes,
                Left::Lost => self.meeting.patience = self.linger,
                Left::Again => {}
            }
            match self.meeting.find(&self.own).await {
                Ok(found) => link = found,
                Err(error) => {
                    tracing::info!(error = error.chain(), "no other conductor has come");
                    break None;
                }
            }
        };
        // What cannot be removed is in nobody's way: no other job has these directories.
        if let Some(directory) = directory {
            let _ = disk::remove_tree(&directory);
        }
        let _ = disk::remove_tree(&self.directory);
        // Shared by agents of nodes that share their files: gone with the last of them.
        let _ = self.directory.parent().map(std::fs::remove_dir);
        Ok(())
    }

    /// Does what one conductor says.
    async fn attend(&self, link: Link) -> Result<Left> {
        let Link { sender, mut receiver } = link;
        let (outgoing, frames) = mpsc::channel(16);
        let sending = tokio::spawn(link::send(frames, sender));
        let mut requests = self.answer(outgoing.clone());
        let mut supervisor: Option<Supervised> = None;
        let left = loop {
            let Ok(Some(frame)) = receiver.next().await else { break Left::Lost };
            match frame.header.kind {
                BYTES => {
                    // A request that failed was answered, and is the last.
                    let _ = link::deliver(&mut requests, &frame.body).await;
                }
                LINE => {
                    if let Some(supervisor) = &mut supervisor {
                        supervisor.tell(&frame.body).await;
                    }
                }
                WORD => match serde_json::from_slice(&frame.body) {
                    Ok(Word::Supervise) => {
                        supervisor = Some(self.supervise(outgoing.clone())?);
                    }
                    Ok(Word::Again) => break Left::Again,
                    Ok(Word::Over { removes }) => break Left::Over { removes },
                    Err(_) => break Left::Lost,
                },
                _ => break Left::Lost,
            }
        };
        drop(requests);
        if let Some(supervisor) = supervisor {
            supervisor.end().await?;
        }
        // Its last words are on their way, if anybody still listens.
        drop(outgoing);
        let _ = timeout(END, sending).await;
        Ok(left)
    }

    /// Answers what the conductor asks about this node.
    fn answer(&self, outgoing: mpsc::Sender<Outgoing>) -> DuplexStream {
        let (requests, incoming) = tokio::io::duplex(PIPE_BYTES);
        let (mut replies, answered) = tokio::io::duplex(PIPE_BYTES);
        tokio::spawn(link::forward_bytes(answered, outgoing));
        let config = self.config.clone();
        tokio::spawn(async move {
            let mut incoming = BufReader::new(incoming);
            // What goes wrong was answered; a connection that broke is met elsewhere.
            let _ = node::run(&config, &mut incoming, &mut replies).await;
        });
        requests
    }

    fn supervise(&self, outgoing: mpsc::Sender<Outgoing>) -> Result<Supervised> {
        // What Slurm ends it tells every process: programs have until Slurm kills all to save
        // what they have.
        let Supervisor { child, input, output } =
            Supervisor::start(&self.own, &self.directory, &self.hidden, &["--patient"])?;
        tokio::spawn(link::forward_lines(output, outgoing));
        Ok(Supervised { child, input: Some(input) })
    }
}

/// A supervisor of this node.
struct Supervised {
    child: Child,
    /// `None` once it was told to end.
    input: Option<ChildStdin>,
}

impl Supervised {
    /// Passes a line on; an empty one is the last.
    async fn tell(&mut self, line: &[u8]) {
        if line.is_empty() {
            self.input = None;
        }
        if let Some(input) = &mut self.input
            && (input.write_all(line).await.is_err() || input.flush().await.is_err())
        {
            // It has died, which its silence tells the conductor.
            self.input = None;
        }
    }

    /// Ends everything that it runs.
    async fn end(mut self) -> Result<()> {
        self.input = None;
        supervisor::end(self.child).await
    }
}
