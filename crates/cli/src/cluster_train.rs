//! The command line of `paddle cluster_train`, as the original takes it: its own flags, long or short,
//! and any flag of `paddle train`, each as `--name value` or `--name=value`. Pure.

use contract::job::Priority;
use contract::name::check_job;
use contract::{Error, Result};
use std::path::PathBuf;

/// What was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The configuration.
    pub config: PathBuf,
    /// What every node gets besides.
    pub thirdparty: Option<PathBuf>,
    /// The job's name.
    pub job_name: String,
    /// Who submits it; empty for whoever is logged in.
    pub submitter: String,
    /// The queue; empty for the default one.
    pub queue: String,
    /// How many nodes.
    pub num_nodes: u32,
    /// How long it may take.
    pub time_limit_seconds: Option<u64>,
    /// Which of two waiting jobs goes first.
    pub priority: Priority,
    /// Whether trainers compute on devices; absent for what the queue's nodes have.
    pub use_gpu: Option<bool>,
    /// Flags of `paddle train`, each `--name=value`.
    pub flags: Vec<String>,
}

/// Names, their short forms, and what they are.
const FLAGS: [(&str, char, &str); 11] = [
    ("config", 'f', "FILE      the V1 configuration; it calls cluster_config(...)"),
    ("where", 'w', "QUEUE     the queue; `paddlecloud get queues` lists them"),
    ("num_nodes", 'n', "N         nodes, each with a parameter server and a trainer [default: 1]"),
    ("job_name", 'j', "NAME      the job's name: letters, digits, `-`, `.` and `_`"),
    ("submitter", 's', "NAME      who submits it; you, as you are logged in"),
    ("time_limit", 'l', "HH:MM:SS  it is ended after this time"),
    ("job_priority", 'p', "PRIORITY  low, normal or high [default: normal]"),
    ("use_gpu", 't', "gpu|cpu   what trainers compute on [default: what the queue's nodes have]"),
    ("thirdparty", 'i', "DIR       goes to every node; its before_hook.sh runs there"),
    ("shell", 'c', "          not supported: a receiver runs no commands of users"),
    ("help", 'h', "          print this"),
];

/// Reads a command line; `None` if it asks for help.
pub fn parse(words: &[String]) -> Result<Option<Wanted>> {
    let mut given: Vec<(&str, String)> = Vec::new();
    let mut flags = Vec::new();
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        if word.trim().is_empty() {
            let message = "a word of the command line is blank: a backslash that continues a line is \
                           the last character of the line, without a space behind it";
            return Err(Error::invalid(message).with("word", word.escape_debug()));
        }
        let Some(bare) = word.strip_prefix('-') else {
            let message = "this is no flag: write --name value, and quote what has spaces";
            return Err(Error::invalid(message).with("word", word.escape_debug()));
        };
        let (name, attached) = match (bare.strip_prefix('-'), bare.chars().next()) {
            (Some(long), _) => split(long),
            (None, Some(letter)) => {
                let rest = bare[letter.len_utf8()..].trim_start_matches('=');
                let long = FLAGS.iter().find(|(_, short, _)| *short == letter);
                let long = long.filter(|_| rest.is_empty() || !bare.contains('_'));
                match long {
                    Some((long, ..)) => (*long, (!rest.is_empty()).then(|| rest.to_owned())),
                    None => split(bare),
                }
            }
            (None, None) => return Err(Error::invalid("a dash alone is no flag")),
        };
        let known = FLAGS.iter().find(|(long, ..)| *long == name).map(|(long, ..)| *long);
        if known == Some("help") {
            return Ok(None);
        }
        let value = match attached {
            Some(value) => Some(value),
            None => words.next_if(|next| is_value(next)).cloned(),
        };
        match (known, value) {
            (Some(known), Some(value)) => given.push((known, value)),
            (Some(known), None) if known == "shell" => given.push((known, String::new())),
            (Some(known), None) => {
                return Err(Error::invalid(format!("--{known} needs a value: --{known}=…")));
            }
            (None, Some(value)) => flags.push(format!("--{name}={value}")),
            (None, None) => flags.push(format!("--{name}")),
        }
    }
    wanted(&given, flags).map(Some)
}

fn split(text: &str) -> (&str, Option<String>) {
    match text.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (text, None),
    }
}

/// Whether a word belongs to the flag before it: what is no flag itself, and negative numbers.
fn is_value(word: &str) -> bool {
    let is_blank = !word.is_empty() && word.trim().is_empty();
    let is_flag = word.starts_with('-') && !word[1..].starts_with(|c: char| c.is_ascii_digit());
    !is_blank && !is_flag
}

fn wanted(given: &[(&str, String)], flags: Vec<String>) -> Result<Wanted> {
    // As in the original, the last of several wins.
    let last = |name: &str| {
        given.iter().rev().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    };
    let bad = |name: &str, value: &str, fix: &str| {
        Error::invalid(format!("bad --{name}: {fix}")).with("value", value.escape_debug())
    };
    if last("shell").is_some() {
        let message = "--shell is not supported: a receiver runs no commands of users; put them into \
                       private_script of thirdparty/before_hook.sh, which runs on every node";
        return Err(Error::invalid(message));
    }
    let required = |name: &str| {
        last(name).filter(|value| !value.is_empty()).ok_or_else(|| {
            Error::invalid(format!("--{name} is missing: `paddle cluster_train --help` lists all"))
        })
    };
    let job_name = required("job_name")?.to_owned();
    check_job(&job_name).map_err(|error| error.with("flag", "--job_name"))?;
    let num_nodes = match last("num_nodes") {
        None => 1,
        Some(text) => match text.trim().parse() {
            Ok(number) if number > 0 => number,
            _ => return Err(bad("num_nodes", text, "use a number, at least 1")),
        },
    };
    let time_limit_seconds = match last("time_limit") {
        None => None,
        Some(text) => {
            let seconds = seconds(text)
                .ok_or_else(|| bad("time_limit", text, "use HH:MM:SS, as in 00:30:00"))?;
            Some(seconds)
        }
    };
    let use_gpu = match last("use_gpu") {
        None => None,
        Some("gpu" | "1" | "true" | "True") => Some(true),
        Some("cpu" | "0" | "false" | "False") => Some(false),
        Some(text) => return Err(bad("use_gpu", text, "use gpu or cpu")),
    };
    let priority = last("job_priority").map_or(Ok(Priority::Normal), str::parse);
    Ok(Wanted {
        config: required("config")?.into(),
        thirdparty: last("thirdparty").map(Into::into),
        job_name,
        submitter: last("submitter").unwrap_or_default().to_owned(),
        queue: last("where").unwrap_or_default().to_owned(),
        num_nodes,
        time_limit_seconds,
        priority: priority.map_err(|error| error.with("flag", "--job_priority"))?,
        use_gpu,
        flags,
    })
}

/// `HH:MM:SS`, at least a second.
fn seconds(text: &str) -> Option<u64> {
    let parts: Vec<&str> = text.split(':').collect();
    let number = |part: &str, most: u64| {
        let is_plain = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        part.parse::<u64>().ok().filter(|number| is_plain && *number <= most)
    };
    let [hours, minutes, seconds] = parts[..] else { return None };
    let sum = number(hours, 9999)? * 3600 + number(minutes, 59)? * 60 + number(seconds, 59)?;
    (sum > 0).then_some(sum)
}

/// What `--help` prints.
pub fn help() -> String {
    let mut text =
        "Train a V1 configuration on a cluster: send it to a receiver (paddlecloud serve), \
                    which stages its data and runs it\n\n\
                    Usage: paddle cluster_train --config FILE --job_name NAME [flags]\n\n"
            .to_owned();
    for (long, short, meaning) in FLAGS {
        text.push_str(&format!("  -{short}, --{long:<14}{meaning}\n"));
    }
    text.push_str(
        "\nAny flag of `paddle train` may follow: --trainer_count 4 --num_passes 1 --log_period 1000.\n\
         Receivers are those of local_config.py beside cluster_train.sh, or of ~/.paddle/config.\n",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Option<Wanted>> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(&words)
    }

    fn error(line: &str) -> String {
        read(line).unwrap_err().to_string()
    }

    #[test]
    fn the_command_of_the_guide_is_understood() {
        let wanted = read(
            "--config cluster_conf_dwk.py --time_limit 00:30:00 --submitter daiwenkai \
             --num_nodes 24 --job_priority normal --trainer_count 4 --num_passes 1 \
             --log_period 1000 --dot_period 100 --saving_period 1 \
             --where nmg01-idl-dl-cpu-10G_cluster --thirdparty ./thirdparty \
             --job_name daiwenkai_paddle_cluster_demo_v5",
        );
        let wanted = wanted.unwrap().unwrap();
        assert_eq!(wanted.config, PathBuf::from("cluster_conf_dwk.py"));
        assert_eq!(wanted.thirdparty, Some("./thirdparty".into()));
        assert_eq!((wanted.num_nodes, wanted.time_limit_seconds), (24, Some(1800)));
        assert_eq!(wanted.queue, "nmg01-idl-dl-cpu-10G_cluster");
        assert_eq!((wanted.use_gpu, wanted.priority), (None, Priority::Normal));
        let flags =
            ["--trainer_count=4", "--num_passes=1", "--log_period=1000", "--dot_period=100"];
        assert_eq!(wanted.flags[..4], flags);
    }

    #[test]
    fn short_flags_and_flags_of_the_trainer_mix() {
        let wanted = read(
            "-f a.py -n 2 -j a_b -w q -l 99:59:59 -p high -t cpu -i libs --local --test_pass -1 --config_args=a=1,b=2",
        );
        let wanted = wanted.unwrap().unwrap();
        assert_eq!((wanted.num_nodes, wanted.use_gpu), (2, Some(false)));
        assert_eq!(wanted.time_limit_seconds, Some(359_999));
        assert_eq!(wanted.flags, ["--local", "--test_pass=-1", "--config_args=a=1,b=2"]);
        assert_eq!(read("--config a.py -h").unwrap(), None);
    }

    #[test]
    fn what_is_wrong_is_named() {
        insta::assert_snapshot!(error("--config a.py"), @"--job_name is missing: `paddle cluster_train --help` lists all");
        insta::assert_snapshot!(error("--job_name a"), @"--config is missing: `paddle cluster_train --help` lists all");
        insta::assert_snapshot!(error("-f a.py -j a -l 30"), @"bad --time_limit: use HH:MM:SS, as in 00:30:00 (value: 30)");
        insta::assert_snapshot!(error("-f a.py -j a -l 00:99:00"), @"bad --time_limit: use HH:MM:SS, as in 00:30:00 (value: 00:99:00)");
        insta::assert_snapshot!(error("-f a.py -j a --num_nodes none"), @"bad --num_nodes: use a number, at least 1 (value: none)");
        insta::assert_snapshot!(error("-f a.py -j a --use_gpu maybe"), @"bad --use_gpu: use gpu or cpu (value: maybe)");
        insta::assert_snapshot!(error("-f a.py -j a --job_priority urgent"), @"not a priority: unknown variant `urgent`, expected one of `low`, `normal`, `high` (flag: --job_priority)");
        insta::assert_snapshot!(error("-f a.py -j a/b"), @"a job name cannot have '/': use letters, digits, `-`, `.` and `_` (name: a/b, position: 2, flag: --job_name)");
        insta::assert_snapshot!(error("-f a.py -j a -c ls"), @"--shell is not supported: a receiver runs no commands of users; put them into private_script of thirdparty/before_hook.sh, which runs on every node");
        insta::assert_snapshot!(error("-f a.py -j a stray"), @"this is no flag: write --name value, and quote what has spaces (word: stray)");
        // As in `--num_nodes 1 \\ `, with a space behind the backslash.
        for words in [["--num_nodes", "1", " "], ["--job_name", "a", " \t"]] {
            let error = parse(&words.map(str::to_owned)).unwrap_err().to_string();
            assert!(error.contains("without a space behind it"), "{error}");
        }
        insta::assert_snapshot!(error("-f a.py -j a --where"), @"--where needs a value: --where=…");
    }
}
