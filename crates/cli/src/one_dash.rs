//! Flags as the original takes them: `-flag` and `--flag`, `=` or a space before the value,
//! `-switch=false`, before or behind other words. Pure.
//!
//! The parser knows `--flag` alone, so the line is rewritten before it is parsed: a value is tied
//! to its flag by `=`, which also lets it begin with a dash. What is unknown is left to the parser
//! to refuse. As in the original, the last of two equal flags wins.

use clap::{Arg, Command};
use std::ffi::{OsStr, OsString};

/// Rewrites the words of a command line; the first is the program's name.
pub fn normalise(words: impl IntoIterator<Item = OsString>, command: &Command) -> Vec<OsString> {
    let mut words = words.into_iter();
    let mut done: Vec<OsString> = words.next().into_iter().collect();
    // The commands that the words have led to so far: `paddlecloud`, `user`, `add`.
    let mut scope = vec![command];
    while let Some(word) = words.next() {
        if word == "--" {
            done.push(word);
            break;
        }
        let Some(flag) = Flag::of(&word) else {
            let below = word.to_str().and_then(|name| scope.last()?.find_subcommand(name));
            scope.extend(below);
            done.push(word);
            continue;
        };
        match known(&scope, &flag.name) {
            Some(argument) if argument.get_action().takes_values() => {
                let value = flag.value.or_else(|| words.next());
                done.push(written(argument, value.as_deref()));
            }
            Some(argument) => {
                let plain = written(argument, None);
                match flag.value.as_deref().map(truth) {
                    None | Some(Some(true)) => done.push(plain),
                    // It is off without it.
                    Some(Some(false)) => done.retain(|word| *word != plain),
                    Some(None) => done.push(written(argument, flag.value.as_deref())),
                }
            }
            None if flag.is_built_in() => done.push(format!("--{}", flag.long_name()).into()),
            None if flag.has_attached_value(&scope) => done.push(word),
            None => done.push(flag.with_two_dashes(word)),
        }
    }
    done.extend(words);
    done
}

struct Flag {
    name: String,
    value: Option<OsString>,
    dashes: usize,
}

impl Flag {
    /// `None` for other words: `-` and negative numbers too.
    fn of(word: &OsStr) -> Option<Flag> {
        let text = word.to_str().or_else(|| ascii_head(word))?;
        let name = text.strip_prefix("--").or_else(|| text.strip_prefix('-'))?;
        if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return None;
        }
        let dashes = text.len() - name.len();
        let (name, value) = match name.split_once('=') {
            Some((name, _)) => (name, Some(behind_equals(word))),
            None => (name, None),
        };
        Some(Flag { name: name.to_owned(), value, dashes })
    }

    fn is_built_in(&self) -> bool {
        self.value.is_none() && ["h", "help", "version"].contains(&&*self.name)
    }

    fn long_name(&self) -> &str {
        if self.name == "h" { "help" } else { &self.name }
    }

    /// `-n5` for `-n 5`.
    fn has_attached_value(&self, scope: &[&Command]) -> bool {
        let first: String = self.name.chars().take(1).collect();
        self.dashes == 1
            && self.name[first.len()..].starts_with(|c: char| c.is_ascii_digit())
            && known(scope, &first).is_some_and(|argument| argument.get_action().takes_values())
    }

    /// So that the parser's error names the whole word, and what comes near it.
    fn with_two_dashes(&self, word: OsString) -> OsString {
        match self.dashes == 1 && self.name.chars().count() > 1 {
            true => {
                let mut longer = OsString::from("-");
                longer.push(word);
                longer
            }
            false => word,
        }
    }
}

/// The flag of this name, of the innermost command that has it.
fn known<'a>(scope: &[&'a Command], name: &str) -> Option<&'a Arg> {
    let is_called = |argument: &&Arg| {
        let aliases = argument.get_all_aliases().unwrap_or_default();
        let mut letter = [0; 4];
        argument.get_long() == Some(name)
            || aliases.contains(&name)
            || argument.get_short().is_some_and(|short| short.encode_utf8(&mut letter) == name)
    };
    scope.iter().rev().find_map(|command| command.get_arguments().find(is_called))
}

/// A flag as the parser wants it.
fn written(argument: &Arg, value: Option<&OsStr>) -> OsString {
    let mut word = match (argument.get_long(), argument.get_short()) {
        (Some(long), _) => OsString::from(format!("--{long}")),
        (None, Some(short)) => OsString::from(format!("-{short}")),
        (None, None) => OsString::new(),
    };
    if let Some(value) = value {
        word.push("=");
        word.push(value);
    }
    word
}

/// The words for true and false of the original's flags.
fn truth(value: &OsStr) -> Option<bool> {
    match value.to_str()? {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(unix)]
fn ascii_head(word: &OsStr) -> Option<&str> {
    use std::os::unix::ffi::OsStrExt;
    let bytes = word.as_bytes();
    let end = bytes.iter().position(|byte| *byte == b'=')?;
    std::str::from_utf8(&bytes[..=end]).ok()
}

#[cfg(not(unix))]
fn ascii_head(_: &OsStr) -> Option<&str> {
    None
}

#[cfg(unix)]
fn behind_equals(word: &OsStr) -> OsString {
    use std::os::unix::ffi::OsStrExt;
    let bytes = word.as_bytes();
    let begin = bytes.iter().position(|byte| *byte == b'=').map_or(bytes.len(), |at| at + 1);
    OsStr::from_bytes(&bytes[begin..]).to_owned()
}

#[cfg(not(unix))]
fn behind_equals(word: &OsStr) -> OsString {
    word.to_string_lossy().split_once('=').map_or("", |(_, value)| value).to_owned().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ArgAction;
    use proptest::prelude::*;

    fn command() -> Command {
        let value = |name: &'static str| Arg::new(name).long(name);
        let switch = |name: &'static str| value(name).action(ArgAction::SetTrue);
        let submit = Command::new("submit")
            .arg(value("jobname"))
            .arg(value("cpu").allow_hyphen_values(true))
            .arg(value("env").action(ArgAction::Append))
            .arg(switch("faulttolerant"))
            .arg(switch("follow").short('f'))
            .arg(Arg::new("lines").short('n'))
            .arg(Arg::new("package"));
        let add = Command::new("add").arg(switch("admin")).arg(Arg::new("name"));
        Command::new("paddlecloud")
            .args_override_self(true)
            .arg(value("config").global(true))
            .subcommand(submit)
            .subcommand(Command::new("user").subcommand(add))
    }

    fn check(line: &str) -> String {
        let words = line.split(' ').map(OsString::from);
        let done = normalise(words, &command());
        done.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn one_dash_is_as_good_as_two() {
        insta::assert_snapshot!(check("p -config c submit -jobname a --cpu 2 -f pkg"), @"p --config=c submit --jobname=a --cpu=2 --follow pkg");
        insta::assert_snapshot!(check("p submit pkg -jobname=a -n 5 -config=c -faulttolerant"), @"p submit pkg --jobname=a -n=5 --config=c --faulttolerant");
        insta::assert_snapshot!(check("p user add -admin eve"), @"p user add --admin eve");
    }

    #[test]
    fn values_stay_as_they_are() {
        insta::assert_snapshot!(check("p submit -cpu -1 -env A=-b -jobname -x -- -f"), @"p submit --cpu=-1 --env=A=-b --jobname=-x -- -f");
        insta::assert_snapshot!(check("p submit -5 - -n5 -jobname=submit"), @"p submit -5 - -n5 --jobname=submit");
        insta::assert_snapshot!(check("p submit -jobname"), @"p submit --jobname");
    }

    #[test]
    fn switches_can_be_switched_off() {
        insta::assert_snapshot!(check("p submit -faulttolerant=false -follow=1"), @"p submit --follow");
        insta::assert_snapshot!(check("p submit -faulttolerant -faulttolerant=f"), @"p submit");
        insta::assert_snapshot!(check("p submit -faulttolerant=maybe"), @"p submit --faulttolerant=maybe");
    }

    #[test]
    fn what_is_unknown_is_left_to_the_parser() {
        insta::assert_snapshot!(check("p submit -jobnam a -x --long -h"), @"p submit --jobnam a -x --long --help");
        insta::assert_snapshot!(check("p -help"), @"p --help");
        insta::assert_snapshot!(check("p -version"), @"p --version");
    }

    #[derive(Debug, Clone)]
    enum Word {
        Flag { name: &'static str, value: String, dashes: usize, is_tied: bool },
        Switch { name: &'static str, dashes: usize, tail: &'static str },
    }

    fn words() -> impl Strategy<Value = Vec<Word>> {
        let names = prop::sample::select(vec!["jobname", "cpu", "env", "config"]);
        let flag = (names, "[-=a-z0-9 ]{1,6}", 1..=2_usize, any::<bool>())
            .prop_map(|(name, value, dashes, is_tied)| Word::Flag { name, value, dashes, is_tied });
        let switches = prop::sample::select(vec!["faulttolerant", "follow"]);
        let tails = prop::sample::select(vec!["", "=true", "=1"]);
        let switch = (switches, 1..=2_usize, tails).prop_map(|(name, dashes, tail)| Word::Switch {
            name,
            dashes,
            tail,
        });
        prop::collection::vec(prop_oneof![flag, switch], 0..6)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn every_way_to_write_a_line_means_the_same(words in words(), at in 0..7_usize) {
            let (mut typed, mut plain) = (Vec::new(), Vec::new());
            for word in &words {
                match word {
                    Word::Flag { name, value, dashes, is_tied } => {
                        let flag = format!("{}{name}", &"--"[..*dashes]);
                        match is_tied {
                            true => typed.push(vec![format!("{flag}={value}")]),
                            false => typed.push(vec![flag, value.clone()]),
                        }
                        plain.push(format!("--{name}={value}"));
                    }
                    Word::Switch { name, dashes, tail } => {
                        typed.push(vec![format!("{}{name}{tail}", &"--"[..*dashes])]);
                        plain.push(format!("--{name}"));
                    }
                }
            }
            typed.insert(at.min(typed.len()), vec!["package".to_owned()]);
            plain.push("package".to_owned());
            let head = || ["p", "submit"].map(OsString::from).into_iter();
            let typed = head().chain(typed.into_iter().flatten().map(OsString::from));
            let plain = head().chain(plain.into_iter().map(OsString::from));
            let matches = |words: Vec<OsString>| {
                let matches = command().try_get_matches_from(words).unwrap();
                let submit = matches.subcommand_matches("submit").unwrap().clone();
                let one = |name: &str| submit.get_one::<String>(name).cloned();
                let many = submit.get_many::<String>("env").map(|all| all.cloned().collect::<Vec<_>>());
                let texts = ["jobname", "cpu", "config", "package"].map(one);
                (texts, many, submit.get_flag("faulttolerant"), submit.get_flag("follow"))
            };
            prop_assert_eq!(matches(normalise(typed, &command())), matches(plain.collect()));
        }

        #[test]
        fn a_line_that_was_rewritten_stays_as_it_is(line in prop::collection::vec("-{0,2}[a-z=0-9]{0,8}|submit", 0..8)) {
            let once = normalise(line.into_iter().map(OsString::from), &command());
            prop_assert_eq!(normalise(once.clone(), &command()), once);
        }
    }
}
