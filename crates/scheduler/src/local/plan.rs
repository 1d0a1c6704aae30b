//! What a replica may see and use of its machine. Pure.

use crate::plan::{MASTER_STATE, Node};
use crate::replica::ReplicaId;
use crate::slurm;
use crate::submission::{Mount, Place, Submission};
use crate::supervisor::message::{Confinement, Root};
use contract::role::Role;
use std::path::{Path, PathBuf};

/// The files by which programs of the original know who they are.
const TRAINER_ID: &str = "/trainer_id";
const TRAINER_COUNT: &str = "/trainer_count";

/// The confinement of a replica. On places but this machine jobs use the machines as they are, all
/// but the GPUs.
pub(crate) fn confinement(submission: &Submission, node: &Node, id: ReplicaId) -> Confinement {
    let spec = &submission.spec;
    let gpus = match &submission.place {
        Place::Slurm(_) => slurm::devices(spec, id.role),
        _ => spec.resources.of(id.role).gpu.count().unwrap_or(0),
    };
    let gpus = match u32::try_from(gpus).unwrap_or(u32::MAX) {
        // Those who run their own programs use what the machine has.
        0 if submission.run_as.is_none() => None,
        count => Some(count),
    };
    let Place::Local(place) = &submission.place else {
        return Confinement { gpus, ..Confinement::default() };
    };
    let root = place.sandbox.as_ref().map(|sandbox| {
        let mut root =
            Root { sandbox: sandbox.clone(), mounts: submission.mounts.clone(), ..Root::default() };
        if outside(&submission.mounts, &node.workspace).is_none() {
            root.kept.push(node.workspace.clone());
        }
        match id.role {
            Role::Master => root.kept.push(node.directory.join(MASTER_STATE)),
            Role::Trainer => {
                root.files.insert(TRAINER_ID.into(), format!("{}\n", id.rank));
                root.files.insert(TRAINER_COUNT.into(), format!("{}\n", spec.trainers_max()));
            }
            Role::Pserver => {}
        }
        root
    });
    Confinement { run_as: submission.run_as, root, gpus, ..Confinement::default() }
}

/// Where a path that replicas see through a mount is on the machine; `None` if no mount has it.
pub(crate) fn outside(mounts: &[Mount], path: &Path) -> Option<PathBuf> {
    let innermost = mounts
        .iter()
        .filter(|mount| path.starts_with(&mount.target))
        .max_by_key(|mount| mount.target.components().count())?;
    let rest = path.strip_prefix(&innermost.target).ok()?;
    Some(innermost.source.join(rest))
}
