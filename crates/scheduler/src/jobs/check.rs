//! What a place made of processes cannot do. Every field of a submission is honoured or refused
//! here by its name; nothing is dropped.

use crate::submission::{Package, Place, Submission, check_id};
use contract::job::Priority;
use contract::{Error, Kind, Result};

/// Refuses the first field that cannot be honoured.
pub(super) fn check(submission: &Submission) -> Result<()> {
    let Submission { spec, secrets, run_as, mounts, place, package, .. } = submission;
    spec.check()?;
    check_id(&submission.id)?;
    let refuse = |field: &'static str, value: &str, why: &str| {
        let message = format!("{field} cannot be honoured on the {} backend: {why}", place.name());
        Err(Error::new(Kind::Unsupported, message).with("field", field).with("value", value))
    };
    if !spec.image.is_empty() {
        return refuse("image", &spec.image, "its replicas are processes, not containers");
    }
    if !spec.registry.is_empty() {
        return refuse("registry", &spec.registry, "it fetches no images");
    }
    if !spec.queue.is_empty() {
        return refuse("queue", &spec.queue, "it has no queues, jobs start at once");
    }
    if spec.priority != Priority::Normal {
        let priority = spec.priority.to_string();
        return refuse("priority", &priority, "jobs start at once, so none goes before another");
    }
    if let Some((name, _)) = secrets.first_key_value() {
        return refuse("secrets", name, "it fetches nothing that would need one");
    }
    if let Some(run_as) = run_as {
        return refuse(
            "run_as",
            &run_as.uid.to_string(),
            "replicas run as whoever submits the job",
        );
    }
    if let Some(mount) = mounts.first() {
        let target = mount.target.to_string_lossy();
        return refuse("mounts", &target, "replicas see the machine's own directories");
    }
    match place {
        Place::Local(_) => {}
        Place::Ssh(ssh) => {
            if ssh.hosts.is_empty() {
                return Err(Error::invalid("no machines: name at least one host"));
            }
            if !ssh.results.is_absolute() {
                let error = Error::invalid("results must be brought to an absolute path");
                return Err(error.with("results", ssh.results.display()));
            }
        }
        Place::Mpi(mpi) => {
            if mpi.ranks == 0 {
                return Err(Error::invalid("an mpi job needs at least one rank: use -n N"));
            }
            if let Package::Dispatch(_) = package {
                let why = "mpirun starts programs that are on every machine already";
                return refuse("package", "dispatch", why);
            }
        }
    }
    if let (Package::Present(path), false) = (package, matches!(place, Place::Ssh(_)))
        && !path.starts_with('/')
    {
        return Err(Error::invalid("the package must be an absolute path").with("package", path));
    }
    Ok(())
}
