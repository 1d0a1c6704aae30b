//! The rules for jobs of other users on this machine, and whether it can keep them apart.

use super::plan::outside;
use crate::submission::{LocalPlace, Package, RunAs, Submission};
use crate::supervisor::message::Root;
use crate::supervisor::sandbox;
use contract::{Error, Kind, Result};
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

/// What replicas have of their own, and no mount may be.
const RESERVED: [&str; 3] = ["/dev", "/proc", "/sys"];
/// The most mounts of a job, and the most paths of a sandbox.
const PATHS_MAX: usize = 64;

/// Tries, until it succeeds once, what a sandbox needs of the kernel: root, namespaces, an overlay of
/// `/`.
///
/// # Errors
/// Why there can be none here.
pub fn probe() -> std::result::Result<(), String> {
    static FOUND: OnceLock<()> = OnceLock::new();
    if FOUND.get().is_none() {
        try_one()?;
        let _ = FOUND.set(());
    }
    Ok(())
}

fn try_one() -> std::result::Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("only root can keep the jobs of users apart: run it as root".to_owned());
    }
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    // Nobody's: only the kernel is asked.
    let run_as = RunAs { uid: 65534, gid: 65534 };
    sandbox::try_out(&Root::default(), run_as, directory.path())
}

/// Refuses what this machine cannot honour of a job of another user.
///
/// # Errors
/// The field and what is wrong with it.
pub(crate) fn check(submission: &Submission, place: &LocalPlace) -> Result<()> {
    let Submission { run_as, mounts, .. } = submission;
    let invalid = |field, value: String, message: &str| {
        Err(Error::invalid(message).with("field", field).with("value", value))
    };
    let unsupported = |field, message: &str| {
        let message = format!("{field} cannot be honoured on the local backend: {message}");
        Err(Error::new(Kind::Unsupported, message).with("field", field))
    };
    if let Some(RunAs { uid, gid }) = run_as {
        if [*uid, *gid].iter().any(|id| [0, u32::MAX].contains(id)) {
            let message = "replicas cannot run as root: use a user and a group of their own";
            return invalid("run_as", format!("{uid}:{gid}"), message);
        }
        if !rustix::process::geteuid().is_root() {
            return unsupported("run_as", "only root can run programs as another user");
        }
    }
    let Some(sandbox) = &place.sandbox else {
        return match mounts.first() {
            Some(_) => unsupported(
                "mounts",
                "without a sandbox replicas see the machine's own \
                                              directories",
            ),
            None => Ok(()),
        };
    };
    if run_as.is_none() {
        let message = "a sandbox needs run_as: root would not stay in it";
        return invalid("run_as", "none".to_owned(), message);
    }
    if mounts.len().max(sandbox.exposed.len()).max(sandbox.hidden.len()) > PATHS_MAX {
        let message = format!("a sandbox has at most {PATHS_MAX} paths of a kind");
        return invalid("sandbox", mounts.len().to_string(), &message);
    }
    let paths = sandbox.exposed.iter().chain(&sandbox.hidden);
    let mounted = mounts.iter().flat_map(|mount| [&mount.source, &mount.target]);
    for path in paths.chain(mounted) {
        if !is_plain(path) {
            let message = "paths of a sandbox and of mounts must be absolute, without . and ..";
            return invalid("sandbox", path.display().to_string(), message);
        }
    }
    let mut targets = BTreeSet::new();
    for mount in mounts {
        let target = mount.target.display().to_string();
        let is_reserved = RESERVED.iter().any(|reserved| mount.target.starts_with(reserved));
        if is_reserved || target == "/" {
            return invalid("mounts", target, "nothing can be mounted here");
        }
        if !targets.insert(&mount.target) {
            return invalid("mounts", target, "two mounts cannot have one target");
        }
        check_directory("mounts", &mount.source)?;
    }
    check_outputs(submission)?;
    probe().or_else(|why| unsupported("sandbox", &why))
}

/// What a job writes elsewhere than into its package and its mounts goes when it ends.
fn check_outputs(submission: &Submission) -> Result<()> {
    let Package::Present(package) = &submission.package else { return Ok(()) };
    let package = Path::new(package);
    if outside(&submission.mounts, package).is_none() {
        check_directory("package", package)?;
    }
    let spec = &submission.spec;
    let outputs = [
        ("log_dir", &spec.log_dir),
        ("output_dir", &spec.output_dir),
        ("checkpoint", &spec.checkpoint.dir),
    ];
    for (field, path) in outputs {
        let whole = package.join(path);
        let is_kept = is_plain(&whole)
            && (whole.starts_with(package) || outside(&submission.mounts, &whole).is_some());
        if !path.is_empty() && !is_kept {
            let message = format!("{field} must be in the package or in a mount of the job");
            return Err(Error::invalid(message).with("field", field).with("value", path));
        }
    }
    Ok(())
}

/// Links are refused where they would be followed with the rights of root.
fn check_directory(field: &'static str, path: &Path) -> Result<()> {
    let real = path.canonicalize().map_err(|source| {
        let error = Error::io(format!("a directory of {field} is not there"), source);
        error.with("field", field).with("directory", path.display())
    })?;
    if real != path || !real.is_dir() {
        let message =
            format!("{field} must be a directory that no link leads to: use its real path");
        return Err(Error::invalid(message).with("field", field).with("value", path.display()));
    }
    Ok(())
}

fn is_plain(path: &Path) -> bool {
    let is_known = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
    // Components pass over single dots, so the text is compared as well.
    let again: PathBuf = path.components().collect();
    path.is_absolute() && path.components().all(is_known) && again.as_os_str() == path.as_os_str()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::submission::{Place, Sandbox, sample};
    use contract::job::JobSpec;
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

    #[test]
    fn where_the_kernel_forbids_a_sandbox_no_job_that_asks_for_one_is_accepted() {
        let is_root = rustix::process::geteuid().is_root();
        // Rights belong to threads; this one gives up the one that makes namespaces.
        let thread = std::thread::spawn(move || {
            if is_root {
                let mut sets = capabilities(None).unwrap();
                sets.effective.remove(CapabilitySet::SYS_ADMIN);
                sets.permitted.remove(CapabilitySet::SYS_ADMIN);
                set_capabilities(None, sets).unwrap();
            }
            let folder = tempfile::tempdir().unwrap();
            let package = folder.path().canonicalize().unwrap();
            let mut submission = sample(JobSpec::default());
            submission.package = Package::Present(package.to_str().unwrap().to_owned());
            submission.run_as = Some(RunAs { uid: 1234, gid: 1234 });
            let Place::Local(place) = &mut submission.place else { panic!("not local") };
            place.sandbox = Some(Sandbox::default());
            let place = place.clone();
            (probe().unwrap_err(), check(&submission, &place).unwrap_err())
        });
        let (why, refused) = thread.join().unwrap();
        assert_eq!(refused.kind(), Kind::Unsupported);
        if is_root {
            assert!(why.contains("mount namespace"), "{why}");
            assert!(refused.to_string().contains(&why), "{refused}");
        } else {
            assert!(why.contains("run it as root"), "{why}");
        }
    }
}
