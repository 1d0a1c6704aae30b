//! The jobs of this machine: where they are kept, and the one that somebody means.

use contract::state::State;
use contract::{Error, Kind, Result};
use scheduler::backend::JobSummary;
use scheduler::jobs::Jobs;
use scheduler::jobs::directory::JobDirectory;
use scheduler::submission::check_id;
use scheduler::{Backend, Submission};
use std::path::PathBuf;

/// Whose jobs `paddle launch` submits.
pub(crate) const ORIGIN: &str = "launch";
const JOBS_DIR: &str = "PADDLE_JOBS_DIR";

/// The jobs of this user on this machine.
pub(crate) fn open() -> Result<Jobs> {
    // A job that cannot be read is said to be passed over.
    cli::logging::start(None, "")?;
    let root = match std::env::var_os(JOBS_DIR).filter(|path| !path.is_empty()) {
        Some(path) => std::path::absolute(PathBuf::from(path))
            .map_err(|source| Error::io("cannot find the directory of jobs", source))?,
        None => std::env::home_dir()
            .filter(|home| !home.as_os_str().is_empty())
            .ok_or_else(|| Error::invalid("there is no home to keep jobs in: set PADDLE_JOBS_DIR"))?
            .join(".paddle/jobs"),
    };
    if root.to_str().is_none() {
        let error = Error::invalid("the directory of jobs must have a name in UTF-8");
        return Err(error.with(JOBS_DIR, root.display()));
    }
    Ok(Jobs { root, paddle: crate::this_program()? })
}

/// What was asked for when a job was submitted.
pub(crate) fn submission(jobs: &Jobs, id: &str) -> Result<Submission> {
    check_id(id)?;
    JobDirectory::new(jobs.root.join(id)).submission()
}

/// The job that `word` means: its id, its name (then the newest of that name), or the beginning of
/// one id. Other jobs, whose clusters may not answer, are not asked about an id.
pub(crate) async fn find(jobs: &dyn Backend, word: &str) -> Result<JobSummary> {
    if let Some(job) = of_id(jobs, word).await? {
        return Ok(job);
    }
    choose(jobs.list(ORIGIN, None).await?, word)
}

/// As [`find`], for what is done to jobs that run: of a name, the newest that does.
pub(crate) async fn find_running(jobs: &dyn Backend, word: &str) -> Result<JobSummary> {
    if let Some(job) = of_id(jobs, word).await? {
        return Ok(job);
    }
    let all = jobs.list(ORIGIN, None).await?;
    let runs = |job: &&JobSummary| job.name == word && !job.state.is_final();
    match all.iter().filter(runs).max_by_key(|job| job.began_ms) {
        Some(job) => Ok(job.clone()),
        // The beginning of an id never outweighs a name.
        None => choose(all, word),
    }
}

async fn of_id(jobs: &dyn Backend, word: &str) -> Result<Option<JobSummary>> {
    if check_id(word).is_err() {
        return Ok(None);
    }
    match jobs.observe(word).await {
        Ok(record) => Ok(Some(record.into())),
        Err(error) if error.kind() == Kind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn choose(all: Vec<JobSummary>, word: &str) -> Result<JobSummary> {
    if let Some(job) = all.iter().find(|job| job.id == word) {
        return Ok(job.clone());
    }
    if let Some(job) = all.iter().filter(|job| job.name == word).max_by_key(|job| job.began_ms) {
        return Ok(job.clone());
    }
    let mut begun = all.into_iter().filter(|job| !word.is_empty() && job.id.starts_with(word));
    match (begun.next(), begun.next()) {
        (Some(job), None) => Ok(job),
        (Some(first), Some(second)) => {
            let message = "more than one job begins so: write more of its id";
            let begun = [first.id, second.id].into_iter().chain(begun.map(|job| job.id));
            let begun: Vec<String> = begun.take(5).collect();
            Err(Error::invalid(message).with("job", word).with("jobs", begun.join(", ")))
        }
        (None, _) => {
            let message = "there is no such job on this machine: `paddle jobs --all` lists them";
            Err(Error::new(Kind::NotFound, message).with("job", word))
        }
    }
}
