//! What is in a directory: every file with its checksum, so that two machines can tell what one of
//! them lacks.
//!
//! Owners and times are not part of it; whether a file is executable is. A link is kept if it stays
//! inside the directory, also when followed; one that leads out would mean something else on
//! another machine, and is refused.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use contract::{Error, Kind, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The content of a directory, by path with `/` between the parts. Sorted, so a directory comes
/// before what is in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Manifest(pub BTreeMap<String, Entry>);

/// One thing in a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// A directory.
    Directory,
    /// A file.
    File {
        /// Its length.
        bytes: u64,
        /// The SHA-256 of its content, in hexadecimal digits.
        sha256: String,
        /// Whether it can be executed.
        is_executable: bool,
    },
    /// A symbolic link.
    Link {
        /// What it points to, relative to the directory that it is in.
        target: String,
    },
}

/// The most things in a package.
pub const ENTRIES_MAX: usize = 1 << 18;
const PIECE_BYTES: usize = 256 << 10;

impl Manifest {
    /// Reads and sums up a directory, without what is at the paths of it that `skip` names.
    pub fn scan(root: &Path, skip: &[&str]) -> Result<Manifest> {
        Manifest::scan_with(root, skip, &mut Err)
    }

    /// As [`Manifest::scan`] of everything, but passes over what cannot be copied: its second part
    /// says what and why.
    pub fn scan_what_can_be_copied(root: &Path) -> Result<(Manifest, Vec<Error>)> {
        let mut passed_over = Vec::new();
        let manifest = Manifest::scan_with(root, &[], &mut |error| {
            passed_over.push(error);
            Ok(())
        })?;
        Ok((manifest, passed_over))
    }

    fn scan_with(
        root: &Path,
        skip: &[&str],
        refuse: &mut dyn FnMut(Error) -> Result<()>,
    ) -> Result<Manifest> {
        let refused = |source| {
            Error::io("cannot read the directory", source).with("directory", root.display())
        };
        let root = fs::canonicalize(root).map_err(refused)?;
        if !root.is_dir() {
            let error = Error::invalid("this must be a directory, not a file");
            return Err(error.with("path", root.display()));
        }
        let skip: Vec<PathBuf> = skip.iter().filter_map(|path| normal(Path::new(path))).collect();
        let mut manifest = Manifest::default();
        let mut folders = vec![PathBuf::new()];
        while let Some(folder) = folders.pop() {
            for item in fs::read_dir(root.join(&folder)).map_err(refused)? {
                let name = folder.join(item.map_err(refused)?.file_name());
                if skip.contains(&name) {
                    continue;
                }
                match entry(&root, &name) {
                    Err(error) => refuse(error)?,
                    Ok((text, entry)) => {
                        if entry == Entry::Directory {
                            folders.push(name);
                        }
                        manifest.0.insert(text, entry);
                        manifest.check_size()?;
                    }
                }
            }
        }
        Ok(manifest)
    }

    /// Whether it can be made into a directory: nothing in it leads out. It comes from another
    /// process, so it is checked before it is believed.
    pub fn check(&self) -> Result<()> {
        self.check_size()?;
        for (path, entry) in &self.0 {
            let damaged =
                |what| Err(Error::new(Kind::Damaged, what).with("path", path.escape_debug()));
            if path.is_empty() || Path::new(path).components().any(|part| !is_name(part)) {
                return damaged("a path of the package leads out of it");
            }
            // Nothing may lie behind a link or inside a file.
            let folder = path.rsplit_once('/').map(|(folder, _)| self.0.get(folder));
            if folder.is_some_and(|folder| folder != Some(&Entry::Directory)) {
                return damaged("a path of the package is not in a directory of it");
            }
            if let Entry::Link { target } = entry
                && !stays_inside(Path::new(path), Path::new(target))
            {
                return damaged("a link of the package leads out of it");
            }
        }
        Ok(())
    }

    /// The files that are not in `other` as they are here.
    pub fn files_missing_in(&self, other: &Manifest) -> Vec<String> {
        let is_missing = |(path, entry): &(&String, &Entry)| {
            matches!(entry, Entry::File { .. }) && other.0.get(*path) != Some(*entry)
        };
        self.0.iter().filter(is_missing).map(|(path, _)| path.clone()).collect()
    }

    /// The sum of the lengths of some of its files.
    pub fn bytes_of<'a>(&self, paths: impl IntoIterator<Item = &'a String>) -> u64 {
        let bytes = |path: &String| match self.0.get(path) {
            Some(Entry::File { bytes, .. }) => *bytes,
            _ => 0,
        };
        paths.into_iter().map(bytes).sum()
    }

    fn check_size(&self) -> Result<()> {
        if self.0.len() <= ENTRIES_MAX {
            return Ok(());
        }
        let message = "the package has too many files: pack the data into fewer";
        Err(Error::new(Kind::LimitExceeded, message).with("files_max", ENTRIES_MAX))
    }
}

/// One thing of a directory, by its name as a manifest has it.
fn entry(root: &Path, name: &Path) -> Result<(String, Entry)> {
    let refused = |source| {
        Error::io("cannot read a part of the package", source).with("path", name.display())
    };
    let Some(text) = name.to_str() else {
        let error = Error::invalid("a file name is not UTF-8: rename the file");
        return Err(error.with("path", name.display()));
    };
    let path = root.join(name);
    let metadata = path.symlink_metadata().map_err(refused)?;
    let kind = metadata.file_type();
    let entry = if kind.is_dir() {
        Entry::Directory
    } else if kind.is_symlink() {
        link(root, name)?
    } else if kind.is_file() {
        let (bytes, sha256) = digest(&path).map_err(refused)?;
        let is_executable = metadata.permissions().mode() & 0o100 != 0;
        Entry::File { bytes, sha256, is_executable }
    } else {
        let what = "neither file, directory nor link: keep it out of the package";
        return Err(Error::invalid(what).with("path", name.display()));
    };
    Ok((text.to_owned(), entry))
}

/// The length of a file and the checksum of its content.
fn digest(path: &Path) -> std::io::Result<(u64, String)> {
    let mut file = fs::File::open(path)?;
    let (mut hash, mut bytes) = (Sha256::new(), 0);
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok((bytes, hexadecimal(hash))),
            count => {
                hash.update(&piece[..count]);
                bytes += count as u64;
            }
        }
    }
}

/// A finished checksum as an entry has it.
pub(crate) fn hexadecimal(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn link(root: &Path, name: &Path) -> Result<Entry> {
    let refuse = |target: &Path| {
        Err(Error::invalid("a link leads out of the package: copy what it points to")
            .with("path", name.display())
            .with("target", target.display()))
    };
    let path = root.join(name);
    let target = fs::read_link(&path).map_err(|source| {
        Error::io("cannot read a link of the package", source).with("path", name.display())
    })?;
    // Followed on this machine too: links in between may lead elsewhere than the text says.
    let is_outside = fs::canonicalize(&path).is_ok_and(|real| !real.starts_with(root));
    match target.to_str() {
        Some(text) if stays_inside(name, &target) && !is_outside => {
            Ok(Entry::Link { target: text.to_owned() })
        }
        _ => refuse(&target),
    }
}

/// A relative path without `.` and `..`; `None` if it leads out.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => normal.push(name),
            Component::CurDir => {}
            Component::ParentDir if normal.pop() => {}
            _ => return None,
        }
    }
    Some(normal)
}

fn is_name(part: Component<'_>) -> bool {
    matches!(part, Component::Normal(_))
}

fn stays_inside(link: &Path, target: &Path) -> bool {
    let mut depth = link.components().count().saturating_sub(1);
    for part in target.components() {
        match part {
            Component::Normal(_) => depth += 1,
            Component::CurDir => {}
            Component::ParentDir if depth > 0 => depth -= 1,
            _ => return false,
        }
    }
    true
}

/// `~/…` as a path of this machine.
pub(super) fn expand(path: &str, home: &Path) -> PathBuf {
    match path.strip_prefix("~/") {
        Some(rest) => home.join(rest),
        None => PathBuf::from(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn package() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join("data/empty")).unwrap();
        fs::create_dir_all(root.join("log/0")).unwrap();
        fs::write(root.join("train.py"), "print(1)\n").unwrap();
        fs::write(root.join("data/part 0 数据"), "1\n").unwrap();
        fs::write(root.join("run.sh"), "").unwrap();
        fs::set_permissions(root.join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
        symlink("../train.py", root.join("data/program")).unwrap();
        folder
    }

    #[test]
    fn a_directory_is_summed_up_with_checksums_links_and_what_can_be_executed() {
        let package = package();
        let manifest = Manifest::scan(package.path(), &["log"]).unwrap();
        manifest.check().unwrap();
        insta::assert_json_snapshot!(manifest, @r#"
        {
          "data": "directory",
          "data/empty": "directory",
          "data/part 0 数据": {
            "file": {
              "bytes": 2,
              "sha256": "4355a46b19d348dc2f57c046f8ef63d4538ebb936000f3c9ee954a27460dd865",
              "is_executable": false
            }
          },
          "data/program": {
            "link": {
              "target": "../train.py"
            }
          },
          "run.sh": {
            "file": {
              "bytes": 0,
              "sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
              "is_executable": true
            }
          },
          "train.py": {
            "file": {
              "bytes": 9,
              "sha256": "cc42155088fca5730758db72b2a5bca33112a941dfaa2d43098ec422ce4ea213",
              "is_executable": false
            }
          }
        }
        "#);
    }

    #[test]
    fn only_what_is_at_a_path_is_skipped_however_that_is_written() {
        let package = package();
        let without = |skip: &[&str]| {
            let manifest = Manifest::scan(package.path(), skip).unwrap();
            let all = Manifest::scan(package.path(), &[]).unwrap();
            all.0.into_keys().filter(|path| !manifest.0.contains_key(path)).collect::<Vec<_>>()
        };
        for log in ["log", "./log", "log/", "data/../log"] {
            assert_eq!(without(&[log]), ["log", "log/0"], "{log}");
        }
        assert_eq!(without(&["data/empty", "none"]), ["data/empty"]);
        for elsewhere in ["log/1", "empty", "../log", "/log", ".", ""] {
            assert_eq!(without(&[elsewhere]), Vec::<String>::new(), "{elsewhere}");
        }
    }

    #[test]
    fn only_files_that_differ_are_missing() {
        let package = package();
        let before = Manifest::scan(package.path(), &[]).unwrap();
        assert!(before.files_missing_in(&before).is_empty());
        fs::write(package.path().join("train.py"), "print(2)\n").unwrap();
        let after = Manifest::scan(package.path(), &[]).unwrap();
        assert_eq!(after.files_missing_in(&before), ["train.py"]);
        assert_eq!(after.bytes_of(&after.files_missing_in(&before)), 9);
        assert_eq!(after.files_missing_in(&Manifest::default()).len(), 3);
    }

    #[test]
    fn a_link_that_leads_out_is_refused_by_name() {
        for target in ["/etc/passwd", "../outside", "data/empty/../../../x"] {
            let package = package();
            symlink(target, package.path().join("secret")).unwrap();
            let error = Manifest::scan(package.path(), &[]).unwrap_err().to_string();
            let expected = "a link leads out of the package: copy what it points to (path: secret";
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn what_cannot_be_copied_can_be_passed_over() {
        let package = package();
        symlink("/etc", package.path().join("data/absolute")).unwrap();
        let (manifest, passed_over) = Manifest::scan_what_can_be_copied(package.path()).unwrap();
        assert!(manifest.0.contains_key("data/program") && manifest.0.contains_key("log/0"));
        insta::assert_snapshot!(passed_over[0], @"a link leads out of the package: copy what it points to (path: data/absolute, target: /etc)");
        assert_eq!(passed_over.len(), 1);
    }

    #[test]
    fn a_link_that_leads_out_through_another_link_is_refused() {
        let package = package();
        symlink("../..", package.path().join("data/empty/root")).unwrap();
        symlink("data/empty/root/../..", package.path().join("outside")).unwrap();
        let error = Manifest::scan(package.path(), &[]).unwrap_err().to_string();
        assert!(error.contains("path: outside"), "{error}");
    }

    #[test]
    fn a_manifest_that_leads_out_of_its_directory_is_not_believed() {
        let check = |path: &str, entry: Entry| {
            let entries = [("d".to_owned(), Entry::Directory), (path.to_owned(), entry)];
            Manifest(BTreeMap::from(entries)).check()
        };
        let file = || Entry::File { bytes: 0, sha256: String::new(), is_executable: false };
        check("d/x", file()).unwrap();
        for path in ["", "/etc/passwd", "../x", "d/../../x", "e/x"] {
            assert!(check(path, file()).is_err(), "{path}");
        }
        check("d/x", Entry::Link { target: "../y".into() }).unwrap();
        for target in ["../../y", "/etc"] {
            assert!(check("d/x", Entry::Link { target: target.into() }).is_err(), "{target}");
        }
    }
}
