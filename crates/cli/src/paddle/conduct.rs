//! `paddle conduct`: runs one job of the local backend to its end, whoever has submitted it. Reads
//! the submission, token included, from standard input. Started by the backend, not by people.

use super::launch::signals;
use contract::{Error, Result};
use scheduler::{Submission, local};
use std::process::ExitCode;

pub(crate) fn run() -> Result<ExitCode> {
    cli::logging::start(None, "")?;
    // Out of the submitter's session: what ends that must not end the job.
    rustix::process::setsid()
        .map_err(|errno| Error::io("cannot leave the session", errno.into()))?;
    let submission: Submission = serde_json::from_reader(std::io::stdin().lock())
        .map_err(|source| Error::invalid("not a submission").with("line", source.line()))?;
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|source| Error::io("cannot start a runtime", source))?;
    let paddle = super::this_program()?;
    runtime.block_on(async {
        let stops = signals::listen()?;
        local::conduct(&submission, &paddle, stops).await
    })?;
    Ok(ExitCode::SUCCESS)
}
