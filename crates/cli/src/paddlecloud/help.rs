//! `paddlecloud help`, `commands` and `flags`, the screen of the bare command, and what is said to
//! a line that cannot be understood.

use crate::args::Paddlecloud;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory};
use cli::output::Output;
use contract::{Error, Result};
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

/// describe subcommands and their syntax
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The subcommand, and its own, as in `help user add`; none for the list of them
    #[arg(value_name = "SUBCOMMAND")]
    verbs: Vec<String>,
}

/// Verbs about files, in a group of their own.
const FILES: [&str; 11] =
    ["cat", "cp", "du", "ls", "mkdir", "mount", "mv", "rm", "stat", "sync", "tree"];
const USAGE: u8 = 2;

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let mut command = Paddlecloud::command();
    command.build();
    let text = match args.verbs.is_empty() {
        true => screen(&command),
        false => {
            let mut found = &mut command;
            for verb in &args.verbs {
                if found.find_subcommand(verb).is_none() {
                    return Err(unknown(verb, found));
                }
                found =
                    found.find_subcommand_mut(verb).unwrap_or_else(|| unreachable!("it is there"));
            }
            found.render_long_help().to_string()
        }
    };
    let mut output = Output::open();
    output.bytes(text.as_bytes())?;
    output.close()?;
    Ok(ExitCode::SUCCESS)
}

/// The command without anything: the list, and a failure.
pub(crate) fn bare() -> Result<ExitCode> {
    let _ = write!(std::io::stderr(), "{}", screen(&Paddlecloud::command()));
    Ok(ExitCode::from(USAGE))
}

pub(crate) fn commands() -> Result<ExitCode> {
    let command = Paddlecloud::command();
    let mut output = Output::open();
    for verb in visible(&command) {
        output.line(verb.get_name())?;
    }
    output.close()?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn flags() -> Result<ExitCode> {
    let mut output = Output::open();
    for flag in Paddlecloud::command().get_arguments() {
        let (Some(name), Some(help)) = (flag.get_long(), flag.get_help()) else { continue };
        let value = flag.get_value_names().and_then(|names| names.first());
        let value = value.map_or("", |value| value.as_str());
        output.line(format_args!("  -{name} {value}\n\t{help}"))?;
    }
    output.close()?;
    Ok(ExitCode::SUCCESS)
}

/// The list of subcommands in the original's form.
pub(crate) fn screen(command: &Command) -> String {
    let mut text =
        "Usage: paddlecloud <flags> <subcommand> <subcommand args>\n\nSubcommands:\n".to_owned();
    let (files, others): (Vec<_>, Vec<_>) =
        visible(command).partition(|verb| FILES.contains(&verb.get_name()));
    list(&mut text, &others);
    if !files.is_empty() {
        text.push_str("\nSubcommands for PFS:\n");
        list(&mut text, &files);
    }
    text.push_str("\n\nUse \"paddlecloud flags\" for a list of top-level flags\n");
    text
}

fn list(text: &mut String, verbs: &[&Command]) {
    for verb in verbs {
        let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(text, "\t{:<15}  {about}", verb.get_name());
    }
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|verb| !verb.is_hide_set())
}

/// Prints why a line was not understood, or the help that it asked for.
pub(crate) fn explain(error: &clap::Error) -> ExitCode {
    if error.kind() == ErrorKind::InvalidSubcommand
        && let Some(ContextValue::String(verb)) = error.get(ContextKind::InvalidSubcommand)
        && Paddlecloud::command().find_subcommand(verb).is_none()
        && error.get(ContextKind::Usage).is_some_and(|usage| !is_nested(&usage.to_string()))
    {
        let error = unknown(verb, &Paddlecloud::command());
        cli::exit::report("paddlecloud", &error);
        return ExitCode::from(USAGE);
    }
    let _ = error.print();
    match error.use_stderr() {
        true => ExitCode::from(USAGE),
        false => ExitCode::SUCCESS,
    }
}

/// Whether the usage is that of a verb: `Usage: paddlecloud user …`.
fn is_nested(usage: &str) -> bool {
    let behind = usage.split("paddlecloud").nth(1).unwrap_or_default();
    behind.trim_start().starts_with(|c: char| c.is_ascii_lowercase())
}

fn unknown(verb: &str, command: &Command) -> Error {
    let fix = match nearest(verb, command) {
        Some(near) => format!("did you mean `{near}`? `paddlecloud help` lists all"),
        None => "`paddlecloud help` lists all".to_owned(),
    };
    Error::invalid(format!("unknown subcommand `{}`: {fix}", verb.escape_debug()))
}

/// The subcommand that differs by few letters, or that begins so.
fn nearest<'a>(verb: &str, command: &'a Command) -> Option<&'a str> {
    let distances = visible(command).map(|known| {
        let name = known.get_name();
        let is_beginning = verb.len() > 1 && name.starts_with(verb);
        (if is_beginning { 0 } else { distance(verb, name) }, name)
    });
    distances.min().filter(|(distance, name)| *distance * 3 <= name.len()).map(|(_, name)| name)
}

/// Letters to insert, remove or replace.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.bytes().enumerate() {
        let mut corner = i;
        row[0] = i + 1;
        for (j, right) in b.bytes().enumerate() {
            let replaced = corner + usize::from(left != right);
            corner = row[j + 1];
            row[j + 1] = replaced.min(corner + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
