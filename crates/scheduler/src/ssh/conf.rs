//! The original's `conf.py`: which machines, where on them, and which ports.
//!
//! It is read, never executed (`literal.rs`). A name that begins with `PADDLE_` and is not known is
//! refused, because a misspelt key would silently have no effect; other names are the file's own.

use std::collections::BTreeMap;

use contract::port::Ports;
use contract::{Error, Result};

use super::host::{Host, parse_hosts};
use super::literal::{self, Assignment, Literal};

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

    /// Reads the text of a file. Errors name the key, its line and what would be accepted.
    pub fn parse(text: &str) -> Result<Conf> {
        let keys = Keys(literal::parse(text)?);
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
            Some(Literal::List(items)) => items,
            Some(other) => return Err(self.mistyped("HOSTS", wanted, other)),
            None => return Err(Error::invalid(format!("HOSTS is missing: give it {wanted}"))),
        };
        let text = |item: &'_ Literal| match item {
            Literal::Text(text) => Ok(text.clone()),
            other => Err(self.mistyped("HOSTS", wanted, other)),
        };
        let entries = items.iter().map(text).collect::<Result<Vec<_>>>()?;
        parse_hosts(entries.iter().map(String::as_str)).map_err(|error| self.locate("HOSTS", error))
    }

    fn text(&self, key: &'static str) -> Result<Option<String>> {
        match self.value(key) {
            None | Some(Literal::None) => Ok(None),
            Some(Literal::Text(text)) => Ok(Some(text.clone())),
            Some(other) => Err(self.mistyped(key, "a text", other)),
        }
    }

    fn count(&self, key: &'static str, default: u16) -> Result<u16> {
        let wanted = "a whole number from 0 to 65535";
        match self.value(key) {
            None => Ok(default),
            Some(Literal::Whole(number)) => u16::try_from(*number).map_err(|_| {
                self.locate(
                    key,
                    Error::invalid(format!("bad {key}: use {wanted}")).with("value", number),
                )
            }),
            Some(other) => Err(self.mistyped(key, wanted, other)),
        }
    }

    fn truth(&self, key: &'static str) -> Result<Option<bool>> {
        match self.value(key) {
            None | Some(Literal::None) => Ok(None),
            Some(Literal::Truth(value)) => Ok(Some(*value)),
            Some(Literal::Whole(value @ (0 | 1))) => Ok(Some(*value == 1)),
            Some(other) => Err(self.mistyped(key, "True or False", other)),
        }
    }

    fn value(&self, key: &str) -> Option<&Literal> {
        self.0.get(key).map(|assignment| &assignment.value)
    }

    fn mistyped(&self, key: &'static str, wanted: &str, found: &Literal) -> Error {
        let message = format!("bad {key}: it is {}; use {wanted}", found.kind());
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

    fn error(text: &str) -> String {
        Conf::parse(text).unwrap_err().to_string()
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
        assert_eq!(Conf::parse(DOCUMENTED).unwrap(), expected);
    }

    #[test]
    fn only_the_hosts_are_needed() {
        let conf = Conf::parse("user = 'ann@'\nHOSTS = (user + 'a', user + 'b')").unwrap();
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
}
