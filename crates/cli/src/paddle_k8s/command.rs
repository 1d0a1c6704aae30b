//! The program of a pod: which command, in which directory.

use crate::args::{More, Trainer, Verb, Version};
use contract::env::Environment;
use contract::role::Role;
use contract::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where a V1 program finds its rank, the number of trainers, and its part of the data. The root of
/// a container is its own; where it cannot be written, they are in the trainer's folder for logs.
const TRAINER_ID: &str = "/trainer_id";
const TRAINER_COUNT: &str = "/trainer_count";
const TRAIN_LIST: &str = "train.list";

/// Refuses what can be known to be wrong before anything is waited for.
pub(crate) fn check(verb: &Verb, environment: &Environment) -> Result<()> {
    let missing = |variable: &str, what: &str| {
        let message = format!("{variable} is not set: it is {what}");
        Err(Error::invalid(message))
    };
    let is_v1 = matches!(verb, Verb::StartTrainer(Trainer { version: Version::V1, .. }));
    let runs_entry = match verb {
        Verb::StartTrainer(Trainer { more, .. }) => !is_v1 && more.flags.is_empty(),
        Verb::StartNewTrainer | Verb::StartFluid => true,
        Verb::StartPserver(_) | Verb::StartMaster(_) => false,
    };
    if is_v1 && environment.topology.is_empty() {
        return missing("TOPOLOGY", "the configuration that `paddle train` trains");
    }
    if runs_entry && environment.entry.is_empty() {
        return missing("ENTRY", "the shell command to run");
    }
    let package = Path::new(&environment.package);
    if !matches!(verb, Verb::StartFluid)
        && environment.role == Role::Trainer
        && !environment.package.is_empty()
        && !package.is_dir()
    {
        let message = "the package is not there: is its volume mounted, and the path right?";
        return Err(Error::invalid(message).with("TRAINER_PACKAGE", package.display()));
    }
    Ok(())
}

/// The command, with its environment and directory.
pub(crate) fn command(verb: &Verb, environment: &Environment) -> Result<Command> {
    let is_introduced = environment.role == Role::Trainer && introduce(environment);
    let mut command = match verb {
        Verb::StartPserver(more) => {
            let mut command = Command::new(paddle());
            command.arg("pserver").args(place(environment)).args(&more.flags);
            command
        }
        Verb::StartMaster(more) => {
            let mut command = Command::new(paddle());
            command.arg("master").args(&more.flags);
            command
        }
        Verb::StartTrainer(Trainer { version: Version::V1, more }) => {
            let folder = if is_introduced { "/" } else { &environment.log_dir };
            share_list(environment, Path::new(folder))?;
            let mut command = Command::new(paddle());
            command.arg("train").arg(format!("--config={}", environment.topology));
            command.args(std::env::var("OUTPUT").ok().map(|path| format!("--save_dir={path}")));
            command.args(&more.flags);
            command
        }
        // No shell, which would say something of its own about a program that is killed.
        Verb::StartTrainer(Trainer { more: More { flags }, .. }) if !flags.is_empty() => {
            let mut command = Command::new(&flags[0]);
            command.args(&flags[1..]);
            command
        }
        Verb::StartTrainer(_) | Verb::StartNewTrainer | Verb::StartFluid => {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", &environment.entry]);
            command
        }
    };
    if Path::new(&environment.package).is_dir() {
        command.current_dir(&environment.package);
        command.env("PYTHONPATH", python_path(&environment.package)?);
    }
    // Lines are there when they are printed, also the last ones before a crash.
    if std::env::var_os("PYTHONUNBUFFERED").is_none() {
        command.env("PYTHONUNBUFFERED", "1");
    }
    command.envs(environment.render());
    Ok(command)
}

/// The command `paddle` beside this one, else that of `PATH`.
fn paddle() -> PathBuf {
    let own = std::env::current_exe().ok();
    let beside = own.and_then(|own| Some(own.parent()?.join("paddle")));
    beside.filter(|path| path.is_file()).unwrap_or_else(|| PathBuf::from("paddle"))
}

/// The place of a server among the servers, where it is known.
fn place(environment: &Environment) -> Vec<String> {
    match (environment.rank, environment.pservers) {
        (Some(rank), servers @ 1..) => {
            vec![format!("--index={rank}"), format!("--servers={servers}")]
        }
        _ => Vec::new(),
    }
}

fn python_path(package: &str) -> Result<std::ffi::OsString> {
    let inherited = std::env::var_os("PYTHONPATH").unwrap_or_default();
    let rest = std::env::split_paths(&inherited).filter(|path| !path.as_os_str().is_empty());
    std::env::join_paths([PathBuf::from(package)].into_iter().chain(rest)).map_err(|source| {
        Error::invalid("this package cannot be in PYTHONPATH: it has a colon in its path")
            .with("TRAINER_PACKAGE", package)
            .because(source)
    })
}

/// Writes the two files of V1 programs, and tells whether that was possible. Containers may have a
/// root that cannot be written: `paddle train` looks for the files elsewhere too, and programs that
/// do not look for them do not mind.
fn introduce(environment: &Environment) -> bool {
    let write = |path: &str, number: u32| std::fs::write(path, format!("{number}\n"));
    let is_pod = Path::new("/var/run/secrets/kubernetes.io").exists()
        || std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
    let (Some(rank), true) = (environment.rank, is_pod) else { return false };
    let written = write(TRAINER_ID, rank).and_then(|()| write(TRAINER_COUNT, environment.trainers));
    if let Err(error) = &written {
        crate::listening::say(&format!("no {TRAINER_ID} and {TRAINER_COUNT}: {error}"));
    }
    written.is_ok()
}

/// Writes a trainer's part of the list of files to a folder, where a configuration finds it as
/// `/train.list`: line i is for trainer i modulo their number, so that none is left over.
fn share_list(environment: &Environment, folder: &Path) -> Result<()> {
    let Ok(list) = std::env::var("TRAIN_LIST") else { return Ok(()) };
    if list.is_empty() {
        return Ok(());
    }
    let text = std::fs::read_to_string(&list).map_err(|source| {
        Error::io("cannot read the list of files", source).with("TRAIN_LIST", &list)
    })?;
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let (rank, trainers) = (environment.rank.unwrap_or(0), environment.trainers);
    if lines.len() < trainers as usize {
        let message = "there are fewer files than trainers: use fewer trainers, or smaller files";
        return Err(Error::invalid(message)
            .with("TRAIN_LIST", list)
            .with("files", lines.len())
            .with("trainers", trainers));
    }
    let own = lines.iter().skip(rank as usize).step_by(trainers as usize);
    let own: String = own.map(|line| format!("{line}\n")).collect();
    if folder.as_os_str().is_empty() {
        let message = "the trainer's part of the files can only be written to a folder of its own: \
                       set PADDLE_LOG_DIR, or let the pod write to /";
        return Err(Error::invalid(message).with("TRAIN_LIST", list));
    }
    let path = folder.join(TRAIN_LIST);
    std::fs::write(&path, own).map_err(|source| {
        Error::io("cannot write the trainer's part of the files", source)
            .with("file", path.display())
    })
}
