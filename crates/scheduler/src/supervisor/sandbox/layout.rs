//! What of the machine appears where in the root of a replica, and in which order it is mounted.
//! Pure.
//!
//! The root itself is an overlay of the machine's `/`. An overlay has no mounts of the machine, so
//! they are added, to be read only. Then directories are covered by empty ones: those that are to
//! be hidden, and those that the replica's user may not enter, although something below them is to
//! be seen. What is to be seen is mounted over that. Outer paths come before inner ones, so the
//! innermost rule decides.

use crate::submission::Mount;
use std::path::{Path, PathBuf};

/// A directory, or another file, that appears in the root of a replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    /// Where it is outside; `None` for an empty directory.
    pub(super) source: Option<PathBuf>,
    /// Where the replica sees it.
    pub(super) target: PathBuf,
    pub(super) is_read_only: bool,
    pub(super) kind: Kind,
}

/// What a step is for: of two steps at one path the later kind decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// A mount of the machine. It is left out if it cannot be shown.
    Machine,
    /// Readable for the replica's user.
    Exposed,
    /// An empty directory.
    Cover,
    /// A mount of the job, or a directory that it writes to.
    Own,
}

/// Always empty, but for the mounts of the job.
const PFS: &str = "/pfs";
/// What the root has of its own.
const PRIVATE: [&str; 6] = ["/proc", "/sys", "/dev", "/run", "/tmp", "/var/tmp"];

/// What is asked for, with what is known of the machine.
pub(super) struct Wish<'a> {
    /// What is readable: where it is, and where it is seen.
    pub(super) exposed: &'a [(PathBuf, PathBuf)],
    pub(super) hidden: &'a [PathBuf],
    pub(super) mounts: &'a [Mount],
    /// Directories that stay writable where they are.
    pub(super) kept: &'a [PathBuf],
    /// Where the machine has mounts.
    pub(super) machine: &'a [PathBuf],
}

/// The steps to the root of a replica. `may_enter` says whether its user may enter a directory of
/// the machine.
pub(super) fn layout(wish: &Wish<'_>, may_enter: impl Fn(&Path) -> bool) -> Vec<Step> {
    let needed = wish.exposed.iter().map(|(_, target)| target).chain(wish.kept);
    let closed = needed.filter_map(|path| closed_parent(path, &may_enter));
    let mut covers: Vec<PathBuf> =
        wish.hidden.iter().cloned().chain(closed).chain([PathBuf::from(PFS)]).collect();
    covers.sort();
    covers.dedup();

    let step = |source: &Path, target: &Path, is_read_only, kind| Step {
        source: Some(source.to_owned()),
        target: target.to_owned(),
        is_read_only,
        kind,
    };
    let exposed = wish.exposed.iter();
    let exposed = exposed.map(|(source, target)| step(source, target, true, Kind::Exposed));
    let kept = wish.kept.iter().map(|path| step(path, path, false, Kind::Own));
    let mounts = wish.mounts.iter();
    let mounts =
        mounts.map(|mount| step(&mount.source, &mount.target, mount.is_read_only, Kind::Own));
    let shown: Vec<Step> = exposed.chain(kept).chain(mounts).collect();

    let is_private = |path: &Path| PRIVATE.iter().any(|private| path.starts_with(private));
    let root = step(Path::new("/"), Path::new("/"), true, Kind::Machine);
    let mut steps = below(&root, wish.machine, &covers);
    steps.retain(|step| !is_private(&step.target));
    for shown in shown {
        steps.extend(below(&shown, wish.machine, &covers));
        steps.push(shown);
    }
    let cover =
        |target: PathBuf| Step { source: None, target, is_read_only: true, kind: Kind::Cover };
    steps.extend(covers.into_iter().map(cover));
    steps.sort_by_key(|step| (step.target.components().count(), step.kind));
    steps
}

/// The outermost directory on the way to a path that must be covered so that the path is reached.
fn closed_parent(path: &Path, may_enter: &impl Fn(&Path) -> bool) -> Option<PathBuf> {
    let parents: Vec<&Path> = path.ancestors().skip(1).collect();
    parents.into_iter().rev().find(|parent| !may_enter(parent)).map(Path::to_owned)
}

/// The mounts of the machine below what a step shows, but for those that are covered.
fn below(shown: &Step, machine: &[PathBuf], covers: &[PathBuf]) -> Vec<Step> {
    let Some(source) = &shown.source else { return Vec::new() };
    let inner = |mount: &PathBuf| {
        let rest = mount.strip_prefix(source).ok().filter(|rest| !rest.as_os_str().is_empty())?;
        let target = shown.target.join(rest);
        let is_covered = covers.iter().any(|cover| {
            let is_inside = cover.starts_with(&shown.target);
            is_inside && target.starts_with(cover)
        });
        let step = Step {
            source: Some(mount.clone()),
            target,
            is_read_only: shown.is_read_only,
            kind: Kind::Machine,
        };
        (!is_covered).then_some(step)
    };
    machine.iter().filter_map(inner).collect()
}

/// Where the machine has mounts, from the text of `/proc/self/mountinfo`.
pub(super) fn mount_points(text: &str) -> Vec<PathBuf> {
    let point = |line: &str| line.split(' ').nth(4).map(|field| PathBuf::from(unescape(field)));
    let mut points: Vec<PathBuf> = text.lines().filter_map(point).collect();
    points.sort();
    points.dedup();
    points
}

/// Spaces and backslashes are octal numbers there.
fn unescape(field: &str) -> String {
    let mut parts = field.split('\\');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                text.push(char::from(code));
                text.push_str(&part[3..]);
            }
            None => text.push_str(part),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(paths: &[&str]) -> Vec<PathBuf> {
        paths.iter().map(PathBuf::from).collect()
    }

    fn shown(wish: &Wish<'_>, closed: &[&str]) -> Vec<String> {
        let steps = layout(wish, |path| !closed.iter().any(|closed| Path::new(closed) == path));
        let line = |step: &Step| {
            let source =
                step.source.as_ref().map_or("nothing".to_owned(), |s| s.display().to_string());
            let mode = if step.is_read_only { "ro" } else { "rw" };
            format!("{} = {source} {mode}", step.target.display())
        };
        steps.iter().map(line).collect()
    }

    #[test]
    fn outer_paths_come_first_and_covered_mounts_are_left_out() {
        let wish = Wish {
            exposed: &["/closed/venv", "/opt"].map(|path| (path.into(), path.into())),
            hidden: &paths(&["/srv/cloud", "/opt/keys"]),
            mounts: &[Mount {
                source: "/srv/cloud/pfs/home/wuyi".into(),
                target: "/pfs/dc/home/wuyi".into(),
                is_read_only: false,
            }],
            kept: &paths(&["/srv/cloud/jobs/7/package"]),
            machine: &paths(&[
                "/",
                "/data",
                "/dev/shm",
                "/opt/keys/more",
                "/opt/local",
                "/srv/cloud/pfs",
                "/srv/cloud/pfs/home/wuyi/big",
            ]),
        };
        insta::assert_snapshot!(shown(&wish, &["/closed"]).join("\n"), @r"
        /data = /data ro
        /opt = /opt ro
        /closed = nothing ro
        /pfs = nothing ro
        /opt/local = /opt/local ro
        /opt/local = /opt/local ro
        /closed/venv = /closed/venv ro
        /opt/keys = nothing ro
        /srv/cloud = nothing ro
        /pfs/dc/home/wuyi = /srv/cloud/pfs/home/wuyi rw
        /pfs/dc/home/wuyi/big = /srv/cloud/pfs/home/wuyi/big rw
        /srv/cloud/jobs/7/package = /srv/cloud/jobs/7/package rw
        ");
    }

    #[test]
    fn mount_points_are_read_with_their_spaces() {
        let text = "22 27 0:21 / /proc rw - proc proc rw\n\
                    23 27 8:1 / /my\\040disk rw - ext4 /dev/sda rw\n23 short";
        assert_eq!(mount_points(text), paths(&["/my disk", "/proc"]));
    }
}
