//! The environment that `make build` makes.

use super::repository;
use std::path::PathBuf;

/// The folder of its commands; `None`, with a word about it, where `make build` was not run. In CI
/// it must have been.
pub(crate) fn commands() -> Option<PathBuf> {
    let environment = repository::path(".venv");
    if environment.join("installed").is_file() {
        return Some(environment.join("bin"));
    }
    let is_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    assert!(!is_ci, "the package is not installed in .venv: run make build");
    let note = "skipped: the package is not installed in .venv, run make build\n";
    std::io::Write::write_all(&mut std::io::stderr(), note.as_bytes()).unwrap();
    None
}
