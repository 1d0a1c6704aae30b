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
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

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
        let text = tried.output.trim();
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

/// The configuration and Python files beside it and in `thirdparty/<name>`, but no private paddle:
/// its compiled half stays behind.
fn copied(manifest: &Manifest) -> Vec<(String, PackageFile)> {
    let is_private = |path: &str| {
        let mut parts = path.split('/').skip(2);
        path.starts_with("thirdparty/") && matches!(parts.next(), Some("paddle" | "recordio"))
    };
    let mut bytes = 0;
    manifest
        .files
        .iter()
        .filter(|(path, _)| !path.contains('/') || (path.ends_with(".py") && !is_private(path)))
        .take_while(|(_, file)| {
            bytes += file.bytes;
            bytes <= COPIED_BYTES_MAX
        })
        .map(|(path, file)| (path.clone(), file.clone()))
        .collect()
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
