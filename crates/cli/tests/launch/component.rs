//! What a part of the tests needs of the machine.

use super::repository;
use std::path::PathBuf;

/// The path of a program; `None`, with a word about it, where it is not installed.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    find_in(name, name)
}

/// The path of a program that belongs to a component of several.
pub(crate) fn find_in(component: &str, name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    let found = folders.map(|folder| folder.join(name)).find(|path| path.is_file());
    found.or_else(|| missing(component, &format!("{name} is not installed")))
}

/// Says that something is missing. In CI that fails if `.ci/required` lists it.
pub(crate) fn missing<T>(name: &str, why: &str) -> Option<T> {
    let list = repository::path(".ci/required");
    let required = std::fs::read_to_string(list).unwrap();
    let is_required = required.lines().any(|line| line.trim() == name);
    let is_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    assert!(!(is_ci && is_required), "no {name}, which .ci/required lists: {why}");
    let note = format!("skipped: no {name}: {why}\n");
    std::io::Write::write_all(&mut std::io::stderr(), note.as_bytes()).unwrap();
    None
}
