//! The command line of a launch on ssh hosts, or of a V1 configuration, where flags that are not
//! the launcher's are the trainer's: `paddle launch --config=trainer_config.py --dot_period=10`.
//! Pure.
//!
//! Such a flag is rewritten to `--trainer_flag=…` before the line is parsed, so that everything
//! else about arguments, help and errors stays with the parser. In other launches nothing is
//! rewritten, and a misspelt flag is an error.

use clap::Command;
use std::ffi::OsString;

/// Flags by which a launch on ssh hosts is known.
const SSH: [&str; 2] = ["conf", "hosts"];
/// The flag of `paddle train` by which the launch of a V1 configuration is known.
const CONFIGURATION: &str = "config";
/// Flags that mean something to the launcher and to a trainer.
pub const SHARED: [&str; 4] = ["num_passes", "save_dir", "trainer_count", "use_gpu"];

/// Rewrites the arguments of the whole command `paddle`; the first is the program's name.
pub fn mark(arguments: impl IntoIterator<Item = OsString>, paddle: &Command) -> Vec<OsString> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let launch = match arguments.get(1) {
        Some(verb) if verb == "launch" => paddle.find_subcommand("launch"),
        _ => None,
    };
    let Some(launch) = launch else { return arguments };
    let (head, tail) = arguments.split_at(2);
    let (flags, program) = split(tail, launch);
    let is_ssh = |flag: &Flag<'_>| flag.is_known && SSH.contains(&flag.name.as_str());
    if !flags.iter().any(|flag| is_ssh(flag) || flag.name == CONFIGURATION) {
        return arguments;
    }
    let mut marked = head.to_vec();
    for flag in flags {
        if flag.is_known {
            marked.extend_from_slice(flag.words);
        }
        if !flag.is_known || SHARED.contains(&flag.name.as_str()) {
            marked.extend(flag.words.iter().map(|word| {
                let mut text = OsString::from("--trainer_flag=");
                text.push(word);
                text
            }));
        }
    }
    marked.extend_from_slice(program);
    marked
}

/// A flag with its value, as it was typed.
struct Flag<'a> {
    name: String,
    is_known: bool,
    words: &'a [OsString],
}

/// Flags, and the program that follows them: whatever is behind `--`, or begins with a word that is
/// neither a flag nor the value of one. The word after a flag that is not known, and has no `=`,
/// counts as its value.
fn split<'a>(mut words: &'a [OsString], command: &Command) -> (Vec<Flag<'a>>, &'a [OsString]) {
    let mut flags = Vec::new();
    while let Some(word) = words.first().filter(|word| is_flag(word)) {
        let text = word.to_string_lossy();
        let (name, has_value) = match text.strip_prefix("--") {
            Some(long) => {
                let name = long.split('=').next().unwrap_or_default();
                (name.to_owned(), long.contains('='))
            }
            // A short flag may have its value attached.
            None => (text.chars().skip(1).take(1).collect(), text.chars().count() > 2),
        };
        let known = command.get_arguments().find(|argument| is_called(argument, &name));
        let is_word = || words.get(1).is_some_and(|next| !is_flag(next) && next != "--");
        let takes_next = !has_value && known.map_or_else(is_word, needs_value);
        let (own, rest) = words.split_at(if takes_next { words.len().min(2) } else { 1 });
        flags.push(Flag { name, is_known: known.is_some(), words: own });
        words = rest;
    }
    (flags, words)
}

fn is_flag(word: &OsString) -> bool {
    let text = word.to_string_lossy();
    text.starts_with('-') && text != "-" && text != "--"
}

fn is_called(argument: &clap::Arg, name: &str) -> bool {
    let aliases = argument.get_all_aliases().unwrap_or_default();
    let mut short = [0; 4];
    argument.get_long() == Some(name)
        || aliases.contains(&name)
        || argument.get_short().is_some_and(|letter| letter.encode_utf8(&mut short) == name)
        || name == "help"
        || name == "h"
}

fn needs_value(argument: &clap::Arg) -> bool {
    let least = argument.get_num_args().map_or(1, |range| range.min_values());
    argument.get_action().takes_values() && least > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paddle() -> Command {
        let flag = |name: &'static str| clap::Arg::new(name).long(name);
        let launch = Command::new("launch")
            .arg(flag("conf"))
            .arg(flag("passes").alias("num_passes"))
            .arg(flag("use_gpu").num_args(0..=1).require_equals(true))
            .arg(flag("quiet").short('q').action(clap::ArgAction::SetTrue))
            .arg(clap::Arg::new("ranks").short('n'));
        Command::new("paddle").subcommand(launch)
    }

    fn check(line: &str) -> String {
        let words = line.split(' ').map(OsString::from);
        let marked = mark(words, &paddle());
        marked.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn flags_of_others_are_the_trainers_on_ssh_hosts() {
        insta::assert_snapshot!(
            check("paddle launch --conf conf.py --dot_period=10 -q --show_stat --log_period 5 --passes 2 -- a --b"),
            @"paddle launch --conf conf.py --trainer_flag=--dot_period=10 -q --trainer_flag=--show_stat --trainer_flag=--log_period --trainer_flag=5 --passes 2 -- a --b"
        );
        insta::assert_snapshot!(
            check("paddle launch --dot_period=10 --conf=conf.py --num_passes=3 --use_gpu --use_gpu=0"),
            @"paddle launch --trainer_flag=--dot_period=10 --conf=conf.py --num_passes=3 --trainer_flag=--num_passes=3 --use_gpu --trainer_flag=--use_gpu --use_gpu=0 --trainer_flag=--use_gpu=0"
        );
    }

    #[test]
    fn flags_of_others_are_the_trainers_with_a_configuration() {
        insta::assert_snapshot!(
            check("paddle launch --passes 2 --config=conf.py --dot_period 10"),
            @"paddle launch --passes 2 --trainer_flag=--config=conf.py --trainer_flag=--dot_period --trainer_flag=10"
        );
        insta::assert_snapshot!(
            check("paddle launch -q -- paddle train --config=conf.py"),
            @"paddle launch -q -- paddle train --config=conf.py"
        );
    }

    #[test]
    fn flags_behind_the_program_are_the_programs() {
        insta::assert_snapshot!(
            check("paddle launch --conf conf.py -q python train.py --show_stat --passes 3"),
            @"paddle launch --conf conf.py -q python train.py --show_stat --passes 3"
        );
        insta::assert_snapshot!(
            check("paddle launch --conf conf.py --show_stat -- train.py --passes 3"),
            @"paddle launch --conf conf.py --trainer_flag=--show_stat -- train.py --passes 3"
        );
    }

    #[test]
    fn elsewhere_nothing_is_rewritten() {
        for line in [
            "paddle launch --dot_period=10 -- x --conf",
            "paddle launch train.py --conf x --dot_period=10",
            "paddle pserver --conf",
            "paddle",
        ] {
            assert_eq!(check(line), line);
        }
    }
}
