//! What a user names as input → the files meant: comma-separated globs, as in the original.

use contract::{Error, Kind, Result};
use std::path::PathBuf;

/// The files that `patterns` name, in the order of the patterns, each pattern's files sorted.
///
/// A pattern may be a path, a glob, or several of these with commas between. A path that exists is
/// taken as it is, so that odd names need no escaping. A glob leaves directories out; naming
/// something that is not there is an error, so that a typing mistake never means "no data".
pub fn expand<S: AsRef<str>>(patterns: &[S]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for pattern in patterns {
        let pattern = pattern.as_ref();
        if PathBuf::from(pattern).exists() {
            files.push(PathBuf::from(pattern));
            continue;
        }
        for part in pattern.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            files.extend(expand_one(part)?);
        }
    }
    if files.is_empty() {
        return Err(Error::invalid("no RecordIO file named; give a path or a glob such as data/*"));
    }
    Ok(files)
}

fn expand_one(pattern: &str) -> Result<Vec<PathBuf>> {
    if PathBuf::from(pattern).exists() {
        return Ok(vec![PathBuf::from(pattern)]);
    }
    let matches = glob::glob(pattern)
        .map_err(|source| Error::invalid("bad glob").with("glob", pattern).because(source))?;
    let mut files = Vec::new();
    for entry in matches {
        let path = entry.map_err(|source| {
            Error::io("cannot list files of glob", source.into()).with("glob", pattern)
        })?;
        if !path.is_dir() {
            files.push(path);
        }
    }
    if files.is_empty() {
        return Err(Error::new(Kind::NotFound, "no file matches").with("pattern", pattern));
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_keep_their_order_and_each_is_sorted() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b-1", "b-0", "a", "odd,[name]"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        std::fs::create_dir(folder.path().join("b-folder")).unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        let check = |pattern: &str, expected: &[&str]| {
            let found = expand(&[pattern]).unwrap();
            let names: Vec<_> = found.iter().map(|path| path.file_name().unwrap()).collect();
            assert_eq!(names, expected, "{pattern}");
        };
        check(&format!("{},{}", at("b-*"), at("a")), &["b-0", "b-1", "a"]);
        check(&at("odd,[name]"), &["odd,[name]"]);
    }

    #[test]
    fn a_glob_without_files_is_an_error_that_names_it() {
        let error = expand(&["/nonexistent/train-*"]).unwrap_err();
        assert_eq!(error.kind(), Kind::NotFound);
        assert_eq!(error.to_string(), "no file matches (pattern: /nonexistent/train-*)");
        assert_eq!(expand(&[""]).unwrap_err().kind(), Kind::Invalid);
    }
}
