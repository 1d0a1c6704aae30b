//! The original's `conf.py`: which machines, where on them, and which ports.
//!
//! The file is Python, so `python3` parses it (`read_conf.py`); nothing in it is executed. A name
//! that begins with `PADDLE_` and is not known is refused, because a misspelt key would silently
//! have no effect; other names are the file's own.

use super::host::{Host, parse_hosts};
use contract::port::Ports;
use contract::{Error, Kind, Result};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::time::timeout;

/// What a configuration file says. Flags of the command win over it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conf {
    /// `HOSTS`: the machines, by rank.
    pub hosts: Vec<Host>,
    /// `ROOT_DIR`: where job directories are made on each; `~` is the home there.
    pub root_dir: String,
    /// `PADDLE_NIC`: the interface that servers listen on; empty for all.
    pub nic: String,
    /// `PADDLE_PORT`, `PADDLE_PORTS_NUM` and `PADDLE_PORTS_NUM_FOR_SPARSE`.
    pub ports: Ports,
    /// `LD_LIBRARY_PATH` of every replica; empty to leave it alone.
    pub ld_library_path: String,
    /// `PADDLE_USE_GPU`, if it is said.
    pub use_gpu: Option<bool>,
}

/// Where job directories are made where nobody says.
pub const DEFAULT_ROOT_DIR: &str = "~/paddle_jobs";

const KEYS: [&str; 8] = [
    "HOSTS",
    "ROOT_DIR",
    "PADDLE_NIC",
    "PADDLE_PORT",
    "PADDLE_PORTS_NUM",
    "PADDLE_PORTS_NUM_FOR_SPARSE",
    "LD_LIBRARY_PATH",
    "PADDLE_USE_GPU",
];

impl Conf {
    /// What is true where there is no file.
    pub fn of(hosts: Vec<Host>) -> Conf {
        Conf {
            hosts,
            root_dir: DEFAULT_ROOT_DIR.to_owned(),
            nic: String::new(),
            ports: Ports::default(),
            ld_library_path: String::new(),
            use_gpu: None,
        }
    }

    /// Reads a file. Errors name the file, the key, its line and what would be accepted.
    pub async fn read(path: &Path) -> Result<Conf> {
        let answer = ask_python(path).await;
        answer
            .and_then(|answer| Conf::from_answer(&answer))
            .map_err(|error| error.with("conf", path.display()))
    }

    /// Reads what `read_conf.py` has printed.
    pub fn from_answer(answer: &[u8]) -> Result<Conf> {
        let answer = serde_json::from_slice(answer).map_err(|source| {
            Error::new(Kind::Damaged, "the values of the configuration are nested too deep")
                .because(source)
        })?;
        let keys = match answer {
            Answer::Names(names) => Keys(names),
            Answer::Refused(why, line) => {
                let message = format!("cannot read the configuration: {why}");
                return Err(Error::invalid(message).with("line", line));
            }
        };
        keys.check_names()?;
        let ports = Ports {
            first: keys.count("PADDLE_PORT", contract::port::DEFAULT)?,
            dense: keys.count("PADDLE_PORTS_NUM", 1)?,
            sparse: keys.count("PADDLE_PORTS_NUM_FOR_SPARSE", 1)?,
        };
        ports.check()?;
        let conf = Conf {
            root_dir: keys.text("ROOT_DIR")?.unwrap_or_else(|| DEFAULT_ROOT_DIR.to_owned()),
            nic: keys.text("PADDLE_NIC")?.unwrap_or_default(),
            ports,
            ld_library_path: keys.text("LD_LIBRARY_PATH")?.unwrap_or_default(),
            use_gpu: keys.truth("PADDLE_USE_GPU")?,
            ..Conf::of(keys.hosts()?)
        };
        check_directory(&conf.root_dir).map_err(|error| keys.locate("ROOT_DIR", error))?;
        Ok(conf)
    }
}

/// The texts of one list of a Python file, which is parsed and not executed; `None` if the file does
/// not name it.
///
/// # Errors
/// The file cannot be read, or has something else under that name.
pub async fn read_list(path: &Path, name: &str) -> Result<Option<Vec<String>>> {
    let refuse = |message: String| Error::invalid(message).with("file", path.display());
    let answer = ask_python(path).await.map_err(|error| error.with("file", path.display()))?;
    let answer = serde_json::from_slice(&answer)
        .map_err(|_| refuse("the values of the file are nested too deep".to_owned()))?;
    let names: BTreeMap<String, Assignment> = match answer {
        Answer::Names(names) => names,
        Answer::Refused(why, line) => {
            return Err(refuse(format!("cannot read the file: {why}")).with("line", line));
        }
    };
    let Some(found) = names.get(name) else { return Ok(None) };
    let texts = found.value.as_array().map(|list| {
        list.iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
    });
    texts.flatten().map(Some).ok_or_else(|| {
        refuse(format!("bad {name}: write a list of texts")).with("line", found.line)
    })
}

/// A directory on a machine: absolute, or in the home that `~` stands for.
pub fn check_directory(path: &str) -> Result<()> {
    let is_rooted = path.starts_with('/') || path.starts_with("~/");
    if is_rooted && !path.contains(['\0', '\n']) {
        return Ok(());
    }
    Err(Error::invalid(
        "not a directory of a host: use an absolute path, or one that begins with ~/",
    )
    .with("directory", path.escape_debug()))
}

const READER: &str = include_str!("read_conf.py");
/// How long Python may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// The most that is read of its answer.
const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// What `read_conf.py` makes of the file.
async fn ask_python(path: &Path) -> Result<Vec<u8>> {
    let unreadable = |source| Error::io("cannot read the configuration", source);
    // A pipe without a writer would be waited for.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path).map_err(unreadable)?;
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err(Error::invalid("the configuration is no file"));
    }
    let mut command = Command::new("python3");
    // Isolated: neither variables nor files of this directory change what Python does.
    command.args(["-I", "-S", "-W", "ignore", "-c", READER]);
    command.stdin(file).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    let mut python = command.spawn().map_err(|source| match source.kind() {
        ErrorKind::NotFound => {
            let message = "a conf.py is read by python3, which is not in PATH: install it, or name \
                           the machines with --hosts";
            Error::new(Kind::NotFound, message)
        }
        _ => Error::io("cannot run python3 to read the configuration", source),
    })?;
    let asking = async {
        let mut answer = Vec::new();
        if let Some(output) = python.stdout.take() {
            output.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await?;
        }
        Ok::<_, std::io::Error>((python.wait().await?, answer))
    };
    match timeout(PATIENCE, asking).await {
        Ok(Ok((status, answer))) if ExitStatus::success(&status) => Ok(answer),
        Ok(Ok((status, _))) => {
            Err(Error::invalid("python3 failed to read the configuration").with("status", status))
        }
        Ok(Err(source)) => Err(Error::io("python3 failed to read the configuration", source)),
        Err(_) => {
            Err(Error::new(Kind::Timeout, "python3 takes too long to read the configuration")
                .with("seconds", PATIENCE.as_secs()))
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Names(BTreeMap<String, Assignment>),
    /// Why, and the line.
    Refused(String, usize),
}

/// A name's value, and the line where it got it.
#[derive(Deserialize)]
struct Assignment {
    value: Value,
    line: usize,
}

struct Keys(BTreeMap<String, Assignment>);

impl Keys {
    fn check_names(&self) -> Result<()> {
        let is_misspelt =
            |name: &String| name.starts_with("PADDLE_") && !KEYS.contains(&name.as_str());
        let Some((name, assignment)) = self.0.iter().find(|(name, _)| is_misspelt(name)) else {
            return Ok(());
        };
        Err(Error::invalid("this key is not known: correct or remove it")
            .with("key", name)
            .with("line", assignment.line)
            .with("known", KEYS.join(", ")))
    }

    fn hosts(&self) -> Result<Vec<Host>> {
        let wanted = "a list of texts, such as [\"root@192.168.100.17\"]";
        let items = match self.value("HOSTS") {
            Some(Value::Array(items)) => items,
            Some(other) => return Err(self.mistyped("HOSTS", wanted, other)),
            None => return Err(Error::invalid(format!("HOSTS is missing: give it {wanted}"))),
        };
        let text = |item: &Value| match item {
            Value::String(text) => Ok(text.clone()),
            other => Err(self.mistyped("HOSTS", wanted, other)),
        };
        let entries = items.iter().map(text).collect::<Result<Vec<_>>>()?;
        parse_hosts(entries.iter().map(String::as_str)).map_err(|error| self.locate("HOSTS", error))
    }

    fn text(&self, key: &'static str) -> Result<Option<String>> {
        match self.value(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => Err(self.mistyped(key, "a text", other)),
        }
    }

    fn count(&self, key: &'static str, default: u16) -> Result<u16> {
        let wanted = "a whole number from 0 to 65535";
        match self.value(key) {
            None => Ok(default),
            Some(Value::Number(number)) => {
                let count = number.as_u64().and_then(|number| u16::try_from(number).ok());
                count.ok_or_else(|| {
                    let error = Error::invalid(format!("bad {key}: use {wanted}"));
                    self.locate(key, error.with("value", number))
                })
            }
            Some(other) => Err(self.mistyped(key, wanted, other)),
        }
    }

    fn truth(&self, key: &'static str) -> Result<Option<bool>> {
        match self.value(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(*value)),
            Some(value) if *value == 0 || *value == 1 => Ok(Some(*value == 1)),
            Some(other) => Err(self.mistyped(key, "True or False", other)),
        }
    }

    fn value(&self, key: &str) -> Option<&Value> {
        self.0.get(key).map(|assignment| &assignment.value)
    }

    fn mistyped(&self, key: &'static str, wanted: &str, found: &Value) -> Error {
        let found = match found {
            Value::String(_) => "a text",
            Value::Number(_) => "a number",
            Value::Bool(_) => "a truth value",
            Value::Array(_) => "a list",
            Value::Null | Value::Object(_) => "None",
        };
        let message = format!("bad {key}: it is {found}; use {wanted}");
        self.locate(key, Error::invalid(message))
    }

    fn locate(&self, key: &'static str, error: Error) -> Error {
        error.with("key", key).with("line", self.0.get(key).map_or(0, |known| known.line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The documents' own file.
    const DOCUMENTED: &str = r#"
HOSTS = [
        "root@192.168.100.17",
        "root@192.168.100.18:9090",
        ]

'''
workspace configuration
'''

#root dir for workspace
ROOT_DIR = "/home/paddle"

'''
network configuration
'''
#pserver nics
PADDLE_NIC = "eth0"
#pserver port
PADDLE_PORT = 7164
#pserver ports num
PADDLE_PORTS_NUM = 2
#pserver sparse ports num
PADDLE_PORTS_NUM_FOR_SPARSE = 2
#environments setting for all processes in cluster job
LD_LIBRARY_PATH="/usr/local/cuda/lib64:/usr/lib64"
PADDLE_USE_GPU = False
"#;

    fn parse(text: &str) -> Result<Conf> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("conf.py");
        std::fs::write(&path, text).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(Conf::read(&path))
    }

    fn error(text: &str) -> String {
        let shown = parse(text).unwrap_err().to_string();
        let (shown, _) = shown.split_once("conf: /").unwrap();
        match shown.strip_suffix(" (") {
            Some(bare) => bare.to_owned(),
            None => format!("{})", shown.trim_end_matches(", ")),
        }
    }

    #[test]
    fn the_documented_file_is_understood() {
        let hosts = ["root@192.168.100.17", "root@192.168.100.18:9090"];
        let expected = Conf {
            hosts: parse_hosts(hosts).unwrap(),
            root_dir: "/home/paddle".into(),
            nic: "eth0".into(),
            ports: Ports { first: 7164, dense: 2, sparse: 2 },
            ld_library_path: "/usr/local/cuda/lib64:/usr/lib64".into(),
            use_gpu: Some(false),
        };
        assert_eq!(parse(DOCUMENTED).unwrap(), expected);
    }

    #[test]
    fn only_the_hosts_are_needed() {
        let conf = parse("user = 'ann@'\nHOSTS = (user + 'a', user + 'b')").unwrap();
        assert_eq!(conf, Conf::of(parse_hosts(["ann@a", "ann@b"]).unwrap()));
    }

    #[test]
    fn a_bad_value_names_its_key_line_and_fix() {
        insta::assert_snapshot!(error("ROOT_DIR = '/x'"), @r#"HOSTS is missing: give it a list of texts, such as ["root@192.168.100.17"]"#);
        insta::assert_snapshot!(error("HOSTS = 'a,b'"), @r#"bad HOSTS: it is a text; use a list of texts, such as ["root@192.168.100.17"] (key: HOSTS, line: 1)"#);
        insta::assert_snapshot!(error("HOSTS = ['a', 7]"), @r#"bad HOSTS: it is a number; use a list of texts, such as ["root@192.168.100.17"] (key: HOSTS, line: 1)"#);
        insta::assert_snapshot!(error("HOSTS = []"), @"there is no host: name at least one, such as root@10.0.0.1 (key: HOSTS, line: 1)");
        insta::assert_snapshot!(error("HOSTS = ['a', 'a']"), @"a host is there twice: name each once (host: a, key: HOSTS, line: 1)");
        insta::assert_snapshot!(error("HOSTS = ['root@a:port']"), @"not a host: use host, user@host or user@host:port (host: root@a:port, key: HOSTS, line: 1)");
        insta::assert_snapshot!(error("HOSTS = ['a']\nPADDLE_PORT = '7164'"), @"bad PADDLE_PORT: it is a text; use a whole number from 0 to 65535 (key: PADDLE_PORT, line: 2)");
        insta::assert_snapshot!(error("HOSTS = ['a']\nPADDLE_PORT = 70000"), @"bad PADDLE_PORT: use a whole number from 0 to 65535 (value: 70000, key: PADDLE_PORT, line: 2)");
        insta::assert_snapshot!(error("HOSTS = ['a']\nPADDLE_PORTS_NUM = 0"), @"ports_num is 0: a server needs at least one port");
        insta::assert_snapshot!(error("HOSTS = ['a']\nPADDLE_USE_GPU = 'no'"), @"bad PADDLE_USE_GPU: it is a text; use True or False (key: PADDLE_USE_GPU, line: 2)");
        insta::assert_snapshot!(error("HOSTS = ['a']\nROOT_DIR = 'jobs'"), @"not a directory of a host: use an absolute path, or one that begins with ~/ (directory: jobs, key: ROOT_DIR, line: 2)");
        insta::assert_snapshot!(error("HOSTS = ['a']\nPADDLE_PORT_NUM = 1"), @"this key is not known: correct or remove it (key: PADDLE_PORT_NUM, line: 2, known: HOSTS, ROOT_DIR, PADDLE_NIC, PADDLE_PORT, PADDLE_PORTS_NUM, PADDLE_PORTS_NUM_FOR_SPARSE, LD_LIBRARY_PATH, PADDLE_USE_GPU)");
    }

    #[test]
    fn python_is_read_in_its_many_forms() {
        let forms = "# -*- coding: utf-8 -*-\r\n'''\nhosts\n'''\r\n\
                     base = r'/home'; ROOT_DIR = base + \"/\\x70addle\"\r\n\
                     NAMES = (\n  'a',  # first\n\n  'b' 'c',\n)\nHOSTS = ['x'] + NAMES\n\
                     PADDLE_PORT = (0x1000 + 1_000)\nrest = [None, -1.5e3]\n";
        let conf = parse(forms).unwrap();
        assert_eq!(conf.hosts, parse_hosts(["x", "a", "bc"]).unwrap());
        assert_eq!((conf.root_dir.as_str(), conf.ports.first), ("/home/paddle", 5096));
        assert!(parse("\u{feff}HOSTS = ['a']\n").is_ok());
    }

    #[test]
    fn what_would_have_to_be_executed_is_refused_with_its_line() {
        let refused = [
            "A = 1\nimport os\n".to_owned(),
            "A = 1\nHOSTS = open('machines').readlines()\n".to_owned(),
            "A = other + 'x'".to_owned(),
            "A = 'n%d' % 3".to_owned(),
            "A = {'a': 1}".to_owned(),
            "A = f'x'".to_owned(),
            "A += 1".to_owned(),
            "A =".to_owned(),
            "A = 1 + 'x'".to_owned(),
            "if True:\n  A = 1".to_owned(),
            format!("A = {}1", "-".repeat(100_000)),
            format!("A = 'xx'\n{}", "A = A + A\n".repeat(40)),
            "A = [1]\nA = [A, A]".to_owned(),
            "#".repeat(1 << 20 | 1),
        ];
        insta::assert_snapshot!(refused.map(|text| error(&text)).join("\n"));
        assert!(error("A = [1, 2").contains("never closed"));
        assert!(error("A = '''x\n\n").contains("unterminated"));
    }

    #[tokio::test]
    async fn a_list_of_a_file_is_read_and_nothing_is_executed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let read = async |text: &str| {
            std::fs::write(file.path(), text).unwrap();
            read_list(file.path(), "receivers").await.map_err(|error| error.to_string())
        };
        let found = read("HOST = 'a:1'\nreceivers = [HOST, 'b:2']\n").await;
        assert_eq!(found, Ok(Some(vec!["a:1".to_owned(), "b:2".to_owned()])));
        assert_eq!(read("other = 1\n").await, Ok(None));
        assert!(read("receivers = [1]\n").await.unwrap_err().contains("write a list of texts"));
        let executed = read("import os\nreceivers = os.listdir('/')\n").await;
        assert!(executed.unwrap_err().contains("nothing is executed"));
    }
}
