//! A rank's side of an MPI job: it finds the conductor, and lets it command a supervisor on this
//! machine until the conductor has no more to say.

use crate::meeting::supervisor::{self, END, Supervisor};
use crate::meeting::{Meeting, Member, link};
use crate::supervisor::message;
use contract::Result;
use std::path::Path;
use tokio::time::timeout;

/// Finds the conductor and does what it says. `hidden` are variables that programs must not see.
///
/// # Errors
/// The conductor was not found. Losing it later is its way to say that the job is over.
pub async fn join(meeting: &Meeting, own: &Member, hidden: &[&str]) -> Result<()> {
    let link = meeting.find(own).await?;
    let Supervisor { child, input, output } = Supervisor::start(own, jobs_of(own), hidden, &[])?;
    let events = tokio::spawn(link::send_lines(output, link.sender));
    // Ends with the input of the supervisor closed, which ends everything it runs.
    let heard = link::receive_lines(link.receiver, input).await;
    supervisor::end(child).await?;
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

/// The directories of jobs on this machine: the ranks of one start have a directory each, in one of
/// theirs in that of all ranks.
fn jobs_of(own: &Member) -> &Path {
    own.directory.ancestors().nth(3).unwrap_or(&own.directory)
}

/// Removes what a rank kept for the next time it is started. What cannot be removed is in nobody's
/// way: no other job has this directory.
fn forget(directory: &Path) {
    let _ = std::fs::remove_dir_all(directory);
    // Shared by the ranks of this machine: gone with the last of them.
    let _ = directory.parent().map(std::fs::remove_dir);
}
