//! A program's directory as a list of files by their content.
//!
//! `.git`, `__pycache__` and `.paddle`, which may hold a password, stay at home, wherever they are. Links are followed, because the
//! program on the other side should find what it finds here; a link in a circle or to nowhere, and
//! what is neither file nor directory, is refused by its name instead of left out.

use crate::tokens::hex;
use contract::api::package::{FILE_BYTES_MAX, FILES_MAX, Manifest, PACKAGE_BYTES_MAX, PackageFile};
use contract::{Error, Kind, Result};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// The files of a directory.
#[derive(Debug, Clone, Default)]
pub struct Package {
    /// What the server is told of them.
    pub manifest: Manifest,
    /// Where each content is, by its SHA-256.
    pub(crate) contents: BTreeMap<String, PathBuf>,
    /// Their size together.
    pub bytes: u64,
    /// Directories without a file, which are not sent.
    pub empty_folders: Vec<String>,
}

const LEFT_OUT: [&str; 3] = [".git", ".paddle", "__pycache__"];
const DEPTH_MAX: usize = 64;

impl Package {
    /// Reads a directory.
    pub fn scan(folder: &Path) -> Result<Package> {
        let shown = folder.display();
        let metadata = fs::metadata(folder).map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => {
                let message = "there is no such directory here: name the package's directory, or \
                               a path below /pfs/ if it is in the cloud already";
                Error::new(Kind::NotFound, message).with("package", &shown)
            }
            _ => Error::io("cannot read the package", source).with("package", &shown),
        })?;
        if !metadata.is_dir() {
            let message = "the package is a file: name the directory that it is in";
            return Err(Error::invalid(message).with("package", shown));
        }
        let mut package = Package::default();
        let root = fs::canonicalize(folder).map_err(|source| {
            Error::io("cannot read the package", source).with("package", shown)
        })?;
        package.walk(folder, "", &mut vec![root])?;
        if package.manifest.files.is_empty() {
            let message = "the package has no file: name the directory of the program";
            return Err(Error::invalid(message).with("package", folder.display()));
        }
        Ok(package)
    }

    /// `above` are the directories that this one is in, without links.
    fn walk(&mut self, folder: &Path, prefix: &str, above: &mut Vec<PathBuf>) -> Result<()> {
        let refused = |source| {
            Error::io("cannot read a directory of the package", source)
                .with("directory", folder.display())
        };
        let mut is_empty = true;
        for entry in fs::read_dir(folder).map_err(refused)? {
            let entry = entry.map_err(refused)?;
            let path = entry.path();
            let name = entry.file_name();
            let Some(name) = name.to_str() else {
                let message = "the name of a file in the package is no UTF-8: rename it";
                return Err(Error::invalid(message).with("file", path.display()));
            };
            if LEFT_OUT.contains(&name) {
                continue;
            }
            is_empty = false;
            let below = match prefix {
                "" => name.to_owned(),
                _ => format!("{prefix}/{name}"),
            };
            let metadata = fs::metadata(&path).map_err(|source| {
                let is_link = path.is_symlink();
                let message = match source.kind() {
                    std::io::ErrorKind::NotFound if is_link => {
                        "a link in the package points nowhere: remove it"
                    }
                    _ => "cannot read a file of the package",
                };
                Error::io(message, source).with("file", path.display())
            })?;
            if metadata.is_dir() {
                let real = fs::canonicalize(&path).map_err(refused)?;
                if above.contains(&real) || above.len() >= DEPTH_MAX {
                    let message = "a link in the package leads back to where it is, or the \
                                   directories are too deep: remove it";
                    return Err(Error::invalid(message).with("directory", path.display()));
                }
                above.push(real);
                self.walk(&path, &below, above)?;
                above.pop();
            } else if metadata.is_file() {
                self.add(&path, below)?;
            } else {
                let message = "the package has something that is neither a file nor a directory: \
                               remove it";
                return Err(Error::invalid(message).with("file", path.display()));
            }
        }
        if is_empty && !prefix.is_empty() {
            self.empty_folders.push(prefix.to_owned());
        }
        Ok(())
    }

    fn add(&mut self, path: &Path, below: String) -> Result<()> {
        let refused = |source| {
            Error::io("cannot read a file of the package", source).with("file", path.display())
        };
        let mut file = File::open(path).map_err(refused)?;
        let is_executable = is_executable(&file.metadata().map_err(refused)?);
        let (sha256, bytes) = digest(&mut file).map_err(refused)?;
        let too_much = |message: &str, bytes: u64, bytes_max: u64| {
            Err(Error::new(Kind::LimitExceeded, message)
                .with("file", path.display())
                .with("bytes", bytes)
                .with("bytes_max", bytes_max))
        };
        if bytes > FILE_BYTES_MAX {
            let message = "a file of the package is too large: keep data in the file store";
            return too_much(message, bytes, FILE_BYTES_MAX);
        }
        self.bytes += bytes;
        if self.bytes > PACKAGE_BYTES_MAX {
            let message = "the package is too large: keep data in the file store";
            return too_much(message, self.bytes, PACKAGE_BYTES_MAX);
        }
        if self.manifest.files.len() >= FILES_MAX {
            let message = "the package has too many files: keep data in the file store";
            return Err(Error::new(Kind::LimitExceeded, message).with("files_max", FILES_MAX));
        }
        self.contents.insert(sha256.clone(), path.to_owned());
        self.manifest.files.insert(below, PackageFile { sha256, bytes, is_executable });
        Ok(())
    }
}

/// The SHA-256 of what is read, and its length. Stops behind the largest that may be sent.
pub(crate) fn digest(source: &mut impl Read) -> std::io::Result<(String, u64)> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 256 << 10];
    let mut bytes = 0;
    loop {
        match source.read(&mut buffer)? {
            0 => break,
            read => {
                hash.update(&buffer[..read]);
                bytes += read as u64;
            }
        }
        if bytes > FILE_BYTES_MAX {
            break;
        }
    }
    Ok((hex(&hash.finalize()), bytes))
}

#[cfg(unix)]
fn is_executable(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    metadata.permissions().mode() & 0o100 != 0
}

#[cfg(not(unix))]
fn is_executable(_: &fs::Metadata) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, name: &str, text: &str) {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn files_are_listed_by_their_content() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "train.py", "print(1)\n");
        write(folder.path(), "data/words.txt", "");
        write(folder.path(), "data/__pycache__/x.pyc", "x");
        write(folder.path(), ".git/HEAD", "x");
        write(folder.path(), ".paddle/config", "x");
        write(folder.path(), ".hidden", "print(1)\n");
        fs::create_dir(folder.path().join("output")).unwrap();
        let package = Package::scan(folder.path()).unwrap();
        let names: Vec<_> = package.manifest.files.keys().map(String::as_str).collect();
        assert_eq!(names, [".hidden", "data/words.txt", "train.py"]);
        assert_eq!((package.bytes, package.contents.len()), (18, 2));
        assert_eq!(package.empty_folders, ["output"]);
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(package.manifest.files["data/words.txt"].sha256, empty);
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_and_what_cannot_be_sent_is_named() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a/run.sh", "#!/bin/sh\n");
        let script = folder.path().join("a/run.sh");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        symlink("a", folder.path().join("b")).unwrap();
        let package = Package::scan(folder.path()).unwrap();
        assert!(package.manifest.files["b/run.sh"].is_executable);
        let error = |name: &str, target: &str| {
            let link = folder.path().join(name);
            symlink(target, &link).unwrap();
            let error = Package::scan(folder.path()).unwrap_err();
            fs::remove_file(link).unwrap();
            error.message().to_owned()
        };
        insta::assert_snapshot!(error("a/up", ".."), @"a link in the package leads back to where it is, or the directories are too deep: remove it");
        insta::assert_snapshot!(error("gone", "nowhere"), @"a link in the package points nowhere: remove it");
        insta::assert_snapshot!(error("null", "/dev/null"), @"the package has something that is neither a file nor a directory: remove it");
    }

    #[test]
    fn what_is_no_package_is_told_so() {
        let folder = tempfile::tempdir().unwrap();
        let message = |path: &Path| Package::scan(path).unwrap_err().message().to_owned();
        insta::assert_snapshot!(message(folder.path()), @"the package has no file: name the directory of the program");
        insta::assert_snapshot!(message(&folder.path().join("x")), @"there is no such directory here: name the package's directory, or a path below /pfs/ if it is in the cloud already");
        write(folder.path(), "train.py", "");
        insta::assert_snapshot!(message(&folder.path().join("train.py")), @"the package is a file: name the directory that it is in");
    }
}
