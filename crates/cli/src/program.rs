//! The program of a trainer as people type it: `train.py`, `python train.py`, `./train.sh`. Finds
//! out before anything is started that it is not there.

use contract::{Error, Kind};
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The exit codes of a shell for a program that is not found, and for one that cannot be run.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;
/// How many names are suggested.
const SUGGESTIONS_MAX: usize = 5;

/// Where a program will be looked for.
#[derive(Debug, Clone, Copy)]
pub struct Whereabouts<'a> {
    /// The directory it runs in, or, for another machine, that will be copied there.
    pub workspace: &'a Path,
    /// `PATH`; `None` if it runs on another machine, whose commands are not known here.
    pub search_path: Option<&'a OsStr>,
}

/// A program that cannot run.
#[derive(Debug)]
pub struct Missing {
    /// The exit code that says so.
    pub code: u8,
    /// What is missing.
    pub error: Error,
}

/// The program with its interpreter: a `.py` file is run by `python`, or by `python3` where only
/// that is found.
pub fn with_interpreter(words: &[String], search_path: Option<&OsStr>) -> Vec<String> {
    let mut words = words.to_vec();
    if words.first().is_some_and(|program| program.ends_with(".py")) {
        let has = |name: &str| search_path.is_some_and(|path| is_command(name, path));
        let python = if !has("python") && has("python3") { "python3" } else { "python" };
        if words[0].starts_with('-') {
            // An interpreter would take it for a flag.
            words[0].insert_str(0, "./");
        }
        words.insert(0, python.to_owned());
    }
    words
}

/// Refuses a program that is not there, as far as that can be known.
pub fn check(words: &[String], place: Whereabouts<'_>) -> Result<(), Missing> {
    let Some(program) = words.first() else { return Ok(()) };
    if let Some(script) = script(words)
        && is_known(script, place)
        && !place.workspace.join(script).exists()
    {
        return Err(no_file(script, place.workspace));
    }
    match place.search_path {
        _ if program.contains('/') => check_file(program, place),
        Some(path) if !is_command(program, path) => Err(no_command(program, place.workspace)),
        _ => Ok(()),
    }
}

fn check_file(program: &str, place: Whereabouts<'_>) -> Result<(), Missing> {
    if !is_known(program, place) {
        return Ok(());
    }
    let path = place.workspace.join(program);
    if !path.exists() {
        return Err(no_file(program, place.workspace));
    }
    if is_executable(&path) {
        return Ok(());
    }
    let message = match path.is_dir() {
        true => format!("`{program}` is a directory: name the program in it"),
        false => format!(
            "`{program}` is not executable: use chmod +x, or put its interpreter in front of it"
        ),
    };
    let error = Error::new(Kind::Forbidden, message).with("file", path.display());
    Err(Missing { code: NOT_EXECUTABLE, error })
}

/// An absolute path of another machine says nothing about this one.
fn is_known(path: &str, place: Whereabouts<'_>) -> bool {
    place.search_path.is_some() || !Path::new(path).is_absolute()
}

/// The file that an interpreter of Python is to run, if it is one and runs a file.
fn script(words: &[String]) -> Option<&str> {
    let (program, arguments) = words.split_first()?;
    if !program.rsplit('/').next()?.starts_with("python") {
        return None;
    }
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "-" | "--help" | "--version" => return None,
            "-W" | "-X" | "--check-hash-based-pycs" => drop(arguments.next()),
            flag if flag.starts_with("-c") || flag.starts_with("-m") => return None,
            flag if flag.starts_with('-') => {}
            script => return Some(script),
        }
    }
    None
}

fn is_command(name: &str, search_path: &OsStr) -> bool {
    std::env::split_paths(search_path).any(|folder| is_executable(&folder.join(name)))
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

fn no_command(name: &str, workspace: &Path) -> Missing {
    let mut message = format!("there is no program `{name}` here: no such command in PATH");
    let script = format!("{name}.py");
    if workspace.join(name).is_file() {
        message.push_str(&format!("; to run the file of the workspace use ./{name}"));
    } else if !name.is_empty() && workspace.join(&script).is_file() {
        message.push_str(&format!("; did you mean {script}?"));
    } else if name.contains(' ') {
        message.push_str("; without quotes around all of it, it is a program and its arguments");
    }
    Missing { code: NOT_FOUND, error: Error::new(Kind::NotFound, message) }
}

fn no_file(name: &str, workspace: &Path) -> Missing {
    let message = format!("there is no program `{name}` here: no such file");
    let path = workspace.join(name);
    let mut error = Error::new(Kind::NotFound, message).with("file", path.display());
    let others = path.parent().map(|folder| others(folder, path.extension())).unwrap_or_default();
    if !others.is_empty() {
        error = error.with("there_are", others.join(", "));
    }
    Missing { code: NOT_FOUND, error }
}

/// Files of the same kind.
fn others(folder: &Path, extension: Option<&OsStr>) -> Vec<String> {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let alike = paths.filter(|path| extension.is_some() && path.extension() == extension);
    let mut names: Vec<String> =
        alike.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect();
    names.sort();
    names.truncate(SUGGESTIONS_MAX);
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    /// A workspace with `train.py`, `run.sh` (executable) and `notes`; a PATH with `python3`.
    fn check_line(line: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str, mode: u32| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        for (name, mode) in
            [("train.py", 0o644), ("run.sh", 0o755), ("notes", 0o644), ("bin/python3", 0o755)]
        {
            make(name, mode);
        }
        let path = folder.path().join("bin").into_os_string();
        let program = with_interpreter(&words(line), Some(&path));
        let place = Whereabouts { workspace: folder.path(), search_path: Some(&path) };
        let shown = match check(&program, place) {
            Ok(()) => program.join(" "),
            Err(Missing { code, error }) => format!("{code}: {error}"),
        };
        shown.replace(folder.path().to_str().unwrap(), "<folder>")
    }

    #[test]
    fn a_python_file_is_run_by_python() {
        insta::assert_snapshot!(check_line("train.py --lr 1"), @"python3 train.py --lr 1");
        insta::assert_snapshot!(check_line("python3 -u -W ignore train.py"), @"python3 -u -W ignore train.py");
        insta::assert_snapshot!(check_line("python3 -m package"), @"python3 -m package");
        insta::assert_snapshot!(check_line("python3 -c pass"), @"python3 -c pass");
        insta::assert_snapshot!(check_line("./run.sh x"), @"./run.sh x");
        assert_eq!(with_interpreter(&words("train.py"), None), ["python", "train.py"]);
        assert_eq!(with_interpreter(&words("-x.py -y"), None), ["python", "./-x.py", "-y"]);
    }

    #[test]
    fn what_is_not_there_is_named() {
        insta::assert_snapshot!(check_line("trian.py"), @"127: there is no program `trian.py` here: no such file (file: <folder>/trian.py, there_are: train.py)");
        insta::assert_snapshot!(check_line("python3 -u trian.py"), @"127: there is no program `trian.py` here: no such file (file: <folder>/trian.py, there_are: train.py)");
        insta::assert_snapshot!(check_line("pyhton train.py"), @"127: there is no program `pyhton` here: no such command in PATH");
        insta::assert_snapshot!(check_line("run.sh"), @"127: there is no program `run.sh` here: no such command in PATH; to run the file of the workspace use ./run.sh");
        insta::assert_snapshot!(check_line("./run"), @"127: there is no program `./run` here: no such file (file: <folder>/./run)");
        insta::assert_snapshot!(check_line("train"), @"127: there is no program `train` here: no such command in PATH; did you mean train.py?");
        insta::assert_snapshot!(check_line("./bin"), @"126: `./bin` is a directory: name the program in it (file: <folder>/./bin)");
        insta::assert_snapshot!(check_line("./notes"), @"126: `./notes` is not executable: use chmod +x, or put its interpreter in front of it (file: <folder>/./notes)");
    }

    #[test]
    fn a_whole_line_in_quotes_is_no_program() {
        let folder = tempfile::tempdir().unwrap();
        let place = Whereabouts { workspace: folder.path(), search_path: Some(OsStr::new("")) };
        let Missing { error, .. } = check(&["python train.py".to_owned()], place).unwrap_err();
        insta::assert_snapshot!(error, @"there is no program `python train.py` here: no such command in PATH; without quotes around all of it, it is a program and its arguments");
    }

    #[test]
    fn what_other_machines_have_is_not_known_here() {
        let folder = tempfile::tempdir().unwrap();
        let place = Whereabouts { workspace: folder.path(), search_path: None };
        for line in ["/opt/none/bin/python x", "no-such-command", "python /opt/none/train.py"] {
            let is_script = line.starts_with("/opt");
            assert_eq!(check(&words(line), place).is_ok(), !is_script, "{line}");
        }
        assert!(check(&words("python train.py"), place).is_err(), "the package is known");
    }
}
