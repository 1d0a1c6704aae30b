//! Learns what a configuration asks for, by executing it. It is the program of somebody whom the
//! server does not trust, so it runs as that user in the sandbox of jobs, without a network, and with
//! little time, memory, output and few processes ([`scheduler::local::trial`]).

use crate::Cloud;
use crate::blocking::blocking;
use crate::files::{make_private, unusable};
use crate::random;
use contract::api::package::{Manifest, PackageFile};
use contract::{Error, Kind, Result};
use scheduler::local::trial::{Allowance, Apart, Trial, run};
use scheduler::submission::{Mount, RunAs, Sandbox};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Whose configuration is evaluated when: each may use a core and 1 GiB, so few at the same time, and
/// one of each user, who else could keep all others waiting.
pub(crate) struct Turns {
    few: Arc<Semaphore>,
    users: Mutex<HashMap<String, Arc<Semaphore>>>,
}

/// Held while a configuration is evaluated.
pub(super) struct Turn {
    _own: OwnedSemaphorePermit,
    _one_of_few: OwnedSemaphorePermit,
}

/// Configurations that are evaluated at the same time.
const EVALUATIONS: usize = 2;

impl Default for Turns {
    fn default() -> Self {
        Turns { few: Arc::new(Semaphore::new(EVALUATIONS)), users: Mutex::default() }
    }
}

impl Turns {
    /// Waits for the turn of a user.
    pub(super) async fn wait(&self, username: &str) -> Result<Turn> {
        let own = {
            let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
            // Those of whom nothing is evaluated, and nothing waits.
            users.retain(|_, own| Arc::strong_count(own) > 1);
            let own = users.entry(username.to_owned());
            Arc::clone(own.or_insert_with(|| Arc::new(Semaphore::new(1))))
        };
        let stopping = |_| Error::new(Kind::Unavailable, "the server is stopping");
        let own = own.acquire_owned().await.map_err(stopping)?;
        let one_of_few = Arc::clone(&self.few).acquire_owned().await.map_err(stopping)?;
        Ok(Turn { _own: own, _one_of_few: one_of_few })
    }
}

/// What a configuration says.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Evaluated {
    /// The arguments of `cluster_config(...)`.
    #[serde(default)]
    pub(super) cluster: Map<String, Value>,
    /// What went wrong behind that line, where the data was missed perhaps.
    #[serde(default)]
    pub(super) problem: Option<String>,
    /// Flags of the command line that the receiver has to know.
    #[serde(default)]
    pub(super) said: Map<String, Value>,
    /// Why it cannot be trained.
    #[serde(default)]
    pub(super) refused: Option<String>,
}

/// What the answer begins with, among what the configuration prints.
const MARK: &str = "paddle-cluster-config: ";
/// Where the sandbox shows the package.
const SHOWN: &str = "/pfs/package";
/// A configuration that needs more does more than describe a network.
const ALLOWANCE: Allowance = Allowance {
    time: Duration::from_secs(30),
    memory_bytes: 1 << 30,
    output_bytes: 1 << 20,
    processes: 64,
};
/// Python files of the package, which the configuration may import. Others stay behind.
const COPIED_BYTES_MAX: u64 = 64 << 20;
/// How much of what a configuration printed is told to its user.
const TOLD_CHARACTERS_MAX: usize = 2000;

/// Executes a configuration of a package.
///
/// # Errors
/// It is hostile, broken, or does not call `cluster_config`.
pub(super) async fn evaluate(
    cloud: &Cloud,
    username: &str,
    uid: u32,
    manifest: &Manifest,
    arguments: &[String],
) -> Result<Evaluated> {
    let top = cloud.config.data_dir.join(super::source::SCRATCH);
    make_private(&top)?;
    let folder = tempfile::tempdir_in(&top).map_err(unusable(&top))?;
    let (package, machine) = (folder.path().join("package"), folder.path().join("machine"));
    {
        let (blobs, username) = (cloud.blobs.clone(), username.to_owned());
        let (files, package) = (copied(manifest), package.clone());
        blocking(move || {
            files.iter().try_for_each(|(path, file)| {
                let target = package.join(path);
                readable_folders(&package, &target)?;
                let mut content = std::fs::File::create_new(&target).map_err(unusable(&target))?;
                blobs.copy(&username, file, &mut content)?;
                std::fs::set_permissions(&target, PermissionsExt::from_mode(0o644))
                    .map_err(unusable(&target))
            })
        })
        .await?;
    }
    let is_apart = cloud.is_isolated;
    let directory = if is_apart { PathBuf::from(SHOWN) } else { package.clone() };
    let trial = Trial {
        argv: command(cloud, arguments),
        env: environment(cloud, manifest, &directory),
        directory,
        apart: is_apart.then(|| Apart {
            run_as: RunAs { uid, gid: uid },
            sandbox: sandbox(cloud),
            mounts: vec![Mount { source: package, target: SHOWN.into(), is_read_only: true }],
        }),
        allowance: ALLOWANCE,
    };
    let refused = |why: &str| {
        Error::invalid(format!("the configuration cannot be evaluated: {why}"))
            .with("field", "config")
    };
    let tried =
        run(&cloud.outside.paddle, &machine, &trial).await.map_err(|error| match error.kind() {
            Kind::LimitExceeded => refused(error.message()),
            _ => error,
        })?;
    let answer = tried.output.lines().rev().find_map(|line| line.strip_prefix(MARK));
    let answer: Option<Evaluated> = answer.and_then(|json| serde_json::from_str(json).ok());
    let evaluated = answer.ok_or_else(|| {
        // Its answer has secrets: `fs_ugi`.
        let lines = tried.output.lines().filter(|line| !line.starts_with(MARK));
        let text = lines.collect::<Vec<_>>().join("\n");
        let text = text.trim();
        let skipped = text.chars().count().saturating_sub(TOLD_CHARACTERS_MAX);
        let told: String = text.chars().skip(skipped).collect();
        let code = tried.code;
        refused(&format!("it ended with code {code}, and printed: {told}"))
    })?;
    match &evaluated.refused {
        Some(why) => Err(refused(why)),
        None if evaluated.cluster.is_empty() => {
            let why = "it does not call cluster_config(work_dir=…): call it at its beginning";
            Err(refused(why))
        }
        None => Ok(evaluated),
    }
}

/// The configuration and Python files beside it and in `thirdparty/<name>`, as far as they are not
/// too large, the configuration's own first. Nothing of a package that has a compiled part: half of
/// it would hide the whole one that the server has, such as its numpy or its paddle.
fn copied(manifest: &Manifest) -> Vec<(String, PackageFile)> {
    let compiled: BTreeSet<&str> = manifest
        .files
        .keys()
        .filter(|path| path.ends_with(".so") || path.contains(".so."))
        .filter_map(|path| package_of(path))
        .chain(["paddle", "recordio"])
        .collect();
    let is_half = |path: &str| package_of(path).is_some_and(|package| compiled.contains(package));
    let (own, sent): (Vec<_>, Vec<_>) =
        manifest.files.iter().partition(|(path, _)| !path.contains('/'));
    let sent = sent.into_iter().filter(|(path, _)| path.ends_with(".py") && !is_half(path));
    let mut bytes = 0;
    own.into_iter()
        .chain(sent)
        .take_while(|(_, file)| {
            bytes += file.bytes;
            bytes <= COPIED_BYTES_MAX
        })
        .map(|(path, file)| (path.clone(), file.clone()))
        .collect()
}

/// The package of Python in `thirdparty/<name>` that a file is in: a directory.
fn package_of(path: &str) -> Option<&str> {
    let mut parts = path.strip_prefix("thirdparty/")?.split('/').skip(1);
    let package = parts.next()?;
    parts.next().map(|_| package)
}

/// Makes the folders of a file, for the sandbox's user to enter.
fn readable_folders(top: &Path, file: &Path) -> Result<()> {
    let mut folder = file.parent();
    let mut made = Vec::new();
    while let Some(path) = folder.filter(|path| path.starts_with(top)) {
        made.push(path.to_owned());
        folder = path.parent();
    }
    for path in made.iter().rev() {
        std::fs::create_dir_all(path).map_err(unusable(path))?;
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).map_err(unusable(path))?;
    }
    Ok(())
}

fn command(cloud: &Cloud, arguments: &[String]) -> Vec<String> {
    let program = cloud.outside.paddle.program.to_string_lossy().into_owned();
    [program, "cluster_config".to_owned()].into_iter().chain(arguments.iter().cloned()).collect()
}

fn environment(cloud: &Cloud, manifest: &Manifest, directory: &Path) -> BTreeMap<String, String> {
    let mut environment = cloud.outside.environment.clone();
    let mut places = vec![directory.display().to_string()];
    let below = manifest
        .files
        .keys()
        .find_map(|path| path.strip_prefix("thirdparty/").and_then(|rest| rest.split_once('/')));
    places.extend(below.map(|(name, _)| format!("{}/thirdparty/{name}", directory.display())));
    places.extend(environment.get("PYTHONPATH").cloned());
    environment.insert("PYTHONPATH".to_owned(), places.join(":"));
    // Pools of threads would count as processes.
    for name in ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"] {
        environment.insert(name.to_owned(), "1".to_owned());
    }
    environment.insert("HOME".to_owned(), "/tmp".to_owned());
    environment.insert("PYTHONDONTWRITEBYTECODE".to_owned(), "1".to_owned());
    environment
}

/// As jobs see this machine: without anything that is the server's or other users'.
fn sandbox(cloud: &Cloud) -> Sandbox {
    let directories = cloud.config.datacenters.iter().filter_map(|own| match &own.files {
        Some(crate::config::Location::Directory(path)) => Some(path.clone()),
        _ => None,
    });
    let stores = cloud.config.stores.iter().filter_map(|store| match &store.url {
        crate::config::OutsideUrl::Directory(path) => Some(path.clone()),
        crate::config::OutsideUrl::Store(_) => None,
    });
    let hidden = std::iter::once(cloud.config.data_dir.clone()).chain(directories).chain(stores);
    Sandbox { exposed: cloud.outside.exposed.clone(), hidden: hidden.collect() }
}

/// A name for what nobody needs later.
pub(super) fn moment() -> Result<String> {
    let now = jiff::Timestamp::now();
    Ok(format!("{}_{}", now.strftime("%Y%m%d%H%M%S"), random::word::<4>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_user_with_many_configurations_keeps_nobody_waiting() {
        let turns = Arc::new(Turns::default());
        let first = turns.wait("eve").await.unwrap();
        let many: Vec<_> = (0..EVALUATIONS + 1)
            .map(|_| {
                let turns = Arc::clone(&turns);
                tokio::spawn(async move { turns.wait("eve").await.map(drop) })
            })
            .collect();
        // All of them wait.
        while turns
            .users
            .lock()
            .unwrap()
            .values()
            .any(|own| Arc::strong_count(own) < many.len() + 2)
        {
            tokio::task::yield_now().await;
        }
        drop(turns.wait("wu").await.unwrap());
        assert!(many.iter().all(|one| !one.is_finished()));
        drop(first);
        for one in many {
            one.await.unwrap().unwrap();
        }
        drop(turns.wait("wu").await.unwrap());
        assert_eq!(turns.users.lock().unwrap().len(), 1, "the others are forgotten");
    }

    #[test]
    fn what_is_copied_hides_no_whole_package_by_half_of_it() {
        let paths = [
            "zconf.py",
            "thirdparty/own/before_hook.sh",
            "thirdparty/own/PIL/Image.py",
            "thirdparty/own/PIL/_imaging.so",
            "thirdparty/own/numpy.libs/libblas.so.0",
            "thirdparty/own/numpy/__init__.py",
            "thirdparty/own/numpy/core/_multiarray.cpython-311.so",
            "thirdparty/own/paddle/__init__.py",
            "thirdparty/own/mine/__init__.py",
            "thirdparty/own/provider.py",
            "thirdparty/own/fast.so",
        ];
        let file = PackageFile { sha256: String::new(), bytes: 1, is_executable: false };
        let files = paths.iter().map(|path| ((*path).to_owned(), file.clone())).collect();
        let copied: Vec<String> =
            copied(&Manifest { files }).into_iter().map(|(path, _)| path).collect();
        let expected =
            ["zconf.py", "thirdparty/own/mine/__init__.py", "thirdparty/own/provider.py"];
        assert_eq!(copied, expected);
    }
}
