//! The files of the repository as the rules see them: those git tracks or would track, or, where
//! git cannot answer (a source tarball), those found by walking. The only I/O of the tidy test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

const REQUIRED: [&str; 7] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "LICENSE",
    "Makefile",
    ".ci/run",
];

/// Folders a walk does not enter; git knows better from `.gitignore`.
const SKIPPED: [&str; 6] = ["target", ".venv", ".git", "dist", "node_modules", "__pycache__"];

/// Everything the rules look at, read once.
pub(crate) struct Tree {
    pub(crate) root: PathBuf,
    /// Every file, binary ones too, relative to the root, sorted.
    pub(crate) paths: Vec<String>,
    /// The text files among them.
    pub(crate) files: Vec<File>,
}

/// A text file; its path is relative to the root, with `/` between parts.
#[derive(Clone)]
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Tree {
    /// The tree this test was compiled from.
    pub(crate) fn here() -> &'static Tree {
        static HERE: LazyLock<Tree> = LazyLock::new(|| {
            let root = root();
            let mut paths = listed_by_git(&root).unwrap_or_else(|| walked(&root));
            // A deleted file stays in git's index until the deletion is staged.
            paths.retain(|path| root.join(path).exists());
            paths.sort();
            paths.dedup();
            let files = paths.iter().filter_map(|path| read(&root, path)).collect();
            Tree { root, paths, files }
        });
        &HERE
    }

    /// The file of that path; an empty one if there is none.
    pub(crate) fn file(&self, path: &str) -> File {
        let found = self.files.iter().find(|file| file.path == path);
        found.cloned().unwrap_or_else(|| File::new(path, ""))
    }
}

impl File {
    pub(crate) fn new(path: &str, text: &str) -> File {
        File { path: path.into(), text: text.into() }
    }

    /// The extension, empty if there is none.
    pub(crate) fn extension(&self) -> &str {
        Path::new(&self.path).extension().and_then(|part| part.to_str()).unwrap_or_default()
    }

    /// The lines with their numbers, from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.split_terminator('\n'))
    }

    /// How every rule words what it found.
    pub(crate) fn offence(&self, line: usize, what: &str) -> String {
        format!("{}:{line}: {what}", self.path)
    }
}

/// Files that a reader of the repository expects.
pub(crate) fn required(paths: &[String]) -> Vec<String> {
    let missing = REQUIRED.iter().filter(|required| !holds(paths, required));
    missing.map(|path| format!("{path}:1: there is no such file; write it")).collect()
}

/// Is it one of the files, or a folder with some of them? The root is the empty path.
pub(crate) fn holds(paths: &[String], wanted: &str) -> bool {
    let wanted = wanted.trim_end_matches('/');
    wanted.is_empty()
        || paths.iter().any(|path| {
            path.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("e2e lies in the root").into()
}

fn listed_by_git(root: &Path) -> Option<Vec<String>> {
    let listing = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
        .current_dir(root)
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let names = String::from_utf8(listing.stdout).expect("file names are UTF-8");
    let paths: Vec<String> = names.split_terminator('\0').map(String::from).collect();
    // Unpacked inside a repository that ignores it: git answers, but knows nothing.
    (!paths.is_empty()).then_some(paths)
}

fn walked(root: &Path) -> Vec<String> {
    let mut paths = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the folder can be read") {
            let entry = entry.expect("the folder can be read");
            let kind = entry.file_type().expect("the file has a type");
            if !kind.is_dir() {
                let path = entry.path();
                let path = path.strip_prefix(root).expect("the walk stays below the root");
                paths.push(path.to_string_lossy().replace('\\', "/"));
            } else if !SKIPPED.iter().any(|skipped| entry.file_name() == *skipped) {
                folders.push(entry.path());
            }
        }
    }
    paths
}

fn read(root: &Path, path: &str) -> Option<File> {
    let text = fs::read_to_string(root.join(path)).ok()?;
    (!text.contains('\0')).then(|| File::new(path, &text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_and_a_walk_both_find_this_file() {
        let here = "e2e/tests/tidy/tree.rs".to_string();
        assert!(Tree::here().paths.contains(&here));
        assert!(walked(&root()).contains(&here));
    }

    #[test]
    fn a_missing_required_file_is_reported() {
        let paths: Vec<String> = REQUIRED
            .iter()
            .filter(|path| **path != ".ci/run")
            .map(|path| path.to_string())
            .collect();
        assert_eq!(required(&paths), [".ci/run:1: there is no such file; write it"]);
    }

    #[test]
    fn a_folder_is_held_by_its_files_and_a_prefix_of_a_name_is_not() {
        let paths = ["docs/environment.md".to_string()];
        assert!(holds(&paths, "docs/"));
        assert!(!holds(&paths, "doc"));
        assert!(!holds(&paths, "docs/env"));
    }
}
