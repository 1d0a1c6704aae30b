//! Which Python programs of this installation run in.

use std::path::{Path, PathBuf};

/// The interpreter beside a program, else that of `PATH`.
pub fn interpreter(program: &Path) -> PathBuf {
    let beside = program.parent().map(|folder| folder.join("python3"));
    beside.filter(|python| python.is_file()).unwrap_or_else(|| PathBuf::from("python3"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interpreter_is_the_one_beside_the_command() {
        let folder = tempfile::tempdir().unwrap();
        let paddle = folder.path().join("paddle");
        assert_eq!(interpreter(&paddle), PathBuf::from("python3"));
        std::fs::write(folder.path().join("python3"), "").unwrap();
        assert_eq!(interpreter(&paddle), folder.path().join("python3"));
    }
}
