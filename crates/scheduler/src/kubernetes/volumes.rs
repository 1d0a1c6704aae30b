//! What pods mount. Pure.

use crate::submission::{KubernetesPlace, Volume, VolumeSource};
use contract::{Error, Result};
use serde_json::{Value, json};
use std::path::{Component, Path};

/// Refuses volumes that no pod can have: the cluster would say so in words of its own, or not at all.
/// Some paths are the job's own.
pub(super) fn check(place: &KubernetesPlace, own: &[&str]) -> Result<()> {
    for (index, volume) in place.volumes.iter().enumerate() {
        let refuse = |why: &str| {
            let error = Error::invalid(format!("a volume cannot be mounted: {why}"));
            Err(error.with("field", "volumes").with("path", &volume.path))
        };
        let path = Path::new(&volume.path);
        let is_plain = |path: &Path| !path.components().any(|part| part == Component::ParentDir);
        if !path.is_absolute() || !is_plain(path) || path == Path::new("/") {
            return refuse("pods need an absolute path below / for it, without `..`");
        }
        if place.volumes[..index].iter().any(|other| Path::new(&other.path) == path) {
            return refuse("another one has the same path in the pods");
        }
        if own.iter().any(|own| Path::new(own) == path) {
            return refuse("the job's own program is there, choose another path");
        }
        let is_named = match &volume.source {
            VolumeSource::HostPath { path } => path.starts_with('/') && is_plain(Path::new(path)),
            VolumeSource::Claim { claim } => !claim.is_empty(),
            VolumeSource::Nfs { server, .. } => !server.is_empty(),
            VolumeSource::Cephfs { monitors, user, secret, .. } => {
                !(user.is_empty() || secret.is_empty() || monitors.iter().any(String::is_empty))
            }
        };
        if !is_named {
            return refuse("its source is not complete, or has `..` in it");
        }
    }
    Ok(())
}

/// Whether what is written to a path is kept.
pub(super) fn is_on_volume(place: &KubernetesPlace, path: &str) -> bool {
    volume_of(place, Path::new(path)).is_some_and(|volume| !volume.is_read_only)
}

/// The volume that a path of the pods is on: volumes may be mounted below others.
pub(super) fn volume_of<'a>(place: &'a KubernetesPlace, path: &Path) -> Option<&'a Volume> {
    let all = place.volumes.iter().filter(|volume| path.starts_with(&volume.path));
    all.max_by_key(|volume| Path::new(&volume.path).components().count())
}

/// The volumes of a pod, and where its container sees them.
pub(super) fn mounted(place: &KubernetesPlace) -> (Vec<Value>, Vec<Value>) {
    let (mut volumes, mut mounts) = (Vec::new(), Vec::new());
    for (index, volume) in place.volumes.iter().enumerate() {
        let name = format!("volume-{index}");
        let mut mount =
            json!({"name": name, "mountPath": volume.path, "readOnly": volume.is_read_only});
        if !volume.sub_path.is_empty() {
            mount["subPath"] = json!(volume.sub_path);
        }
        volumes.push(source(&name, volume));
        mounts.push(mount);
    }
    (volumes, mounts)
}

fn source(name: &str, volume: &Volume) -> Value {
    let read_only = volume.is_read_only;
    match &volume.source {
        VolumeSource::HostPath { path } => {
            json!({"name": name, "hostPath": {"path": path, "type": "DirectoryOrCreate"}})
        }
        VolumeSource::Claim { claim } => {
            json!({"name": name, "persistentVolumeClaim": {"claimName": claim, "readOnly": read_only}})
        }
        VolumeSource::Nfs { server, path } => {
            json!({"name": name, "nfs": {"server": server, "path": path, "readOnly": read_only}})
        }
        VolumeSource::Cephfs { monitors, path, user, secret } => json!({
            "name": name,
            "cephfs": {
                "monitors": monitors,
                "path": path,
                "user": user,
                "secretRef": {"name": secret},
                "readOnly": read_only,
            },
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(path: &str) -> Volume {
        Volume {
            source: VolumeSource::Claim { claim: "home".into() },
            path: path.into(),
            sub_path: String::new(),
            is_read_only: false,
            here: None,
        }
    }

    #[test]
    fn a_volume_may_be_of_any_kind() {
        let check = |source: VolumeSource, expected: Value| {
            let volume = Volume { source, ..claim("/pfs") };
            assert_eq!(super::source("volume-0", &volume), expected);
        };
        let cephfs = VolumeSource::Cephfs {
            monitors: vec!["10.0.0.1:6789".into()],
            path: "/pfs".into(),
            user: "paddle".into(),
            secret: "ceph".into(),
        };
        let expected = json!({
            "monitors": ["10.0.0.1:6789"],
            "path": "/pfs",
            "user": "paddle",
            "secretRef": {"name": "ceph"},
            "readOnly": false,
        });
        check(cephfs, json!({"name": "volume-0", "cephfs": expected}));
        let nfs = VolumeSource::Nfs { server: "nas".into(), path: "/pfs".into() };
        let expected = json!({"server": "nas", "path": "/pfs", "readOnly": false});
        check(nfs, json!({"name": "volume-0", "nfs": expected}));
    }

    #[test]
    fn a_volume_that_no_pod_can_have_is_refused() {
        let check = |change: fn(&mut Volume), words: &str| {
            let volumes = vec![claim("/pfs/dc1/home/wuyi"), claim("/data")];
            let mut place = KubernetesPlace { volumes, ..KubernetesPlace::default() };
            change(&mut place.volumes[1]);
            let refused = super::check(&place, &["/paddle/workspace"]);
            let error = refused.map_or_else(|error| error.to_string(), |()| String::new());
            assert!(error.contains(words) && error.is_empty() == words.is_empty(), "{error}");
        };
        check(|_| {}, "");
        check(|own| own.path = "/".into(), "an absolute path below /");
        check(|own| own.path = "/data/../etc".into(), "without `..`");
        check(|own| own.path = "/pfs/dc1/home/wuyi/".into(), "the same path in the pods");
        check(|own| own.path = "/paddle/workspace".into(), "the job's own program");
        check(|own| own.source = VolumeSource::Claim { claim: String::new() }, "not complete");
        check(|own| own.source = VolumeSource::HostPath { path: "/a/../b".into() }, "`..` in it");
    }
}
