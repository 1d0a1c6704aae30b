//! What a place made of processes cannot do. Every field of a submission is honoured or refused
//! here by its name; nothing is dropped.

use crate::local::{self, sandbox};
use crate::slurm;
use crate::ssh::package::Manifest;
use crate::submission::{CLOUD, Package, Place, Submission, check_id};
use contract::api::cluster_train;
use contract::job::{JobSpec, Priority, Resources};
use contract::role::Role;
use contract::{Error, Kind, Result};
use std::path::{Component, Path};

/// Refuses the first field that cannot be honoured.
pub(super) fn check(submission: &Submission) -> Result<()> {
    let Submission { origin, spec, secrets, run_as, mounts, place, package, .. } = submission;
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
    // Slurm has both, and says itself which it does not have.
    let is_slurm = matches!(place, Place::Slurm(_));
    if !spec.queue.is_empty() && !is_slurm {
        return refuse("queue", &spec.queue, "it has no queues, jobs start at once");
    }
    if spec.priority != Priority::Normal && !is_slurm {
        let priority = spec.priority.to_string();
        return refuse("priority", &priority, "jobs start at once, so none goes before another");
    }
    if !spec.topology.is_empty() && spec.master {
        let why = "the data provider of a topology reads the files of its own list";
        return refuse("master", "true", why);
    }
    // A cloud says for every role what it counts as, also for one that the job does without.
    if let (Some(role), true) = (limited_without_replicas(spec), origin != CLOUD) {
        return refuse("resources", &role.to_string(), "the job has no replica of that role");
    }
    if spec.staged != secrets.contains_key(cluster_train::SECRET) {
        let why = "only the receiver of `paddle cluster_train` can tell where the data is";
        return refuse("staged", &spec.staged.to_string(), why);
    }
    let mut others = secrets.keys().filter(|name| *name != cluster_train::SECRET);
    if let Some(name) = others.next() {
        return refuse("secrets", name, "it fetches nothing that would need one");
    }
    if let (Some(run_as), false) = (run_as, matches!(place, Place::Local(_))) {
        let why = "replicas run as whoever submits the job";
        return refuse("run_as", &run_as.uid.to_string(), why);
    }
    if let (Some(mount), false) = (mounts.first(), matches!(place, Place::Local(_))) {
        let target = mount.target.to_string_lossy();
        return refuse("mounts", &target, "replicas see the machines' own directories");
    }
    if let Place::Ssh(_) = place {
        check_results(spec)?;
    }
    if let (Place::Slurm(_), Package::Dispatch(_)) = (place, package) {
        check_results(spec)?;
    }
    match place {
        Place::Local(local) => sandbox::check(submission, local)?,
        Place::Ssh(ssh) => {
            if ssh.hosts.is_empty() {
                return Err(Error::invalid("no machines: name at least one host"));
            }
            if !ssh.results.is_absolute() {
                let error = Error::invalid("results must be brought to an absolute path");
                return Err(error.with("results", ssh.results.display()));
            }
        }
        Place::Slurm(_) => slurm::check(submission)?,
        Place::Kubernetes(_) => {
            return Err(Error::invalid(
                "jobs on Kubernetes are pods, not processes of this backend",
            ));
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

/// Refuses directories that could not be brought back from machines of their own.
fn check_results(spec: &JobSpec) -> Result<()> {
    let is_inside = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    for (field, directory) in [("log_dir", &spec.log_dir), ("output_dir", &spec.output_dir)] {
        if !Path::new(directory).components().all(is_inside) {
            let message = "on other machines this is below the job's directory, and comes back to \
                           the same path here: use a relative one, without `..`";
            return Err(Error::invalid(message).with("field", field).with("value", directory));
        }
    }
    let has_name = |part: Component<'_>| matches!(part, Component::Normal(_));
    if !Path::new(&spec.log_dir).components().any(has_name) {
        let message = "logs need a directory of their own: name one below the job's";
        let error = Error::invalid(message).with("field", "log_dir");
        return Err(error.with("value", &spec.log_dir));
    }
    Ok(())
}

/// A role of which the job has none, and has said what each may use.
fn limited_without_replicas(spec: &JobSpec) -> Option<Role> {
    let mut unused = Role::ALL.into_iter().filter(|role| spec.replicas(*role) == 0);
    unused.find(|role| *spec.resources.of(*role) != Resources::default())
}

/// Refuses a topology whose file is not there, as far as this machine can know: a workspace on ssh
/// hosts is looked at when the hosts make it ready.
pub(super) fn check_topology(submission: &Submission) -> Result<()> {
    let topology = &submission.spec.topology;
    if topology.is_empty() {
        return Ok(());
    }
    let is_there = match (&submission.package, &submission.place) {
        (Package::Dispatch(manifest), _) => is_in_package(topology, manifest),
        (Package::Present(_), Place::Ssh(_) | Place::Kubernetes(_)) => true,
        (Package::Present(path), Place::Local(_)) => {
            let path = Path::new(path).join(topology);
            let path = local::plan::outside(&submission.mounts, &path).unwrap_or(path);
            path.is_file()
        }
        // Other machines may have a directory that this one does not.
        (Package::Present(path), Place::Mpi(_) | Place::Slurm(_)) => {
            !Path::new(path).is_dir() || Path::new(path).join(topology).is_file()
        }
    };
    if is_there { Ok(()) } else { Err(no_topology(topology)) }
}

/// What is said wherever the file of a topology is missed.
pub(crate) fn no_topology(topology: &str) -> Error {
    let message = "there is no such configuration in the package: topology is a path from the \
                   package's directory";
    Error::new(Kind::NotFound, message).with("topology", topology)
}

fn is_in_package(topology: &str, manifest: &Manifest) -> bool {
    // An absolute path is a file of the hosts.
    let path = Path::new(topology);
    let parts = path.components().filter(|part| *part != Component::CurDir);
    let parts: Vec<_> = parts.map(|part| part.as_os_str().to_string_lossy()).collect();
    path.is_absolute() || manifest.0.contains_key(&parts.join("/"))
}
