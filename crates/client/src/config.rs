//! `~/.paddle/config`: the datacenters that somebody uses, and who they are there.
//!
//! ```yaml
//! datacenters:
//! - name: datacenter1
//!   username: wuyi@example.com
//!   password: secret
//!   endpoint: http://cloud.example.com
//! current-datacenter: datacenter1
//! ```
//!
//! The oldest configurations mark one entry by `active: true` instead of `current-datacenter`. A
//! mistake is told with its line. A bad entry makes only itself unusable: the others can be used.

use crate::endpoint::Endpoint;
use contract::secret::Secret;
use contract::{Error, Kind, Result};
use serde_yaml_ng::{Mapping, Value};
use std::path::{Path, PathBuf};

/// The datacenters of somebody.
#[derive(Debug)]
pub struct Config {
    /// The file.
    pub file: PathBuf,
    /// Each entry, or what is wrong with it.
    pub entries: Vec<Entry>,
    /// The name of the one to be used.
    pub current: Option<String>,
}

/// An entry of the list.
#[derive(Debug)]
pub struct Entry {
    /// Its name, as far as it has one.
    pub name: String,
    /// What it says.
    pub datacenter: Result<Datacenter>,
}

/// A server, one of its datacenters, and who logs in there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Datacenter {
    /// What its user calls it.
    pub name: String,
    /// The user's name there; empty if only a token is used.
    pub username: String,
    /// The password, if it is in the file.
    pub password: Option<Secret>,
    /// The server.
    pub endpoint: Endpoint,
    /// A file with the certificates that the server's must come from; absent for the public
    /// authorities.
    pub ca: Option<PathBuf>,
    /// A socket of this machine by which the server is reached, whatever host is in `endpoint`.
    pub socket: Option<PathBuf>,
}

/// Where the configuration is: below the home directory.
pub fn config_file(home: &Path) -> PathBuf {
    home.join(".paddle").join("config")
}

const FILE_BYTES_MAX: u64 = 1 << 20;
/// Those of the oldest files, last, have no effect and are allowed.
const ENTRY_KEYS: [&str; 9] =
    ["name", "username", "password", "endpoint", "ca", "socket", "active", "usercert", "userkey"];
const EXAMPLE: &str = "let `paddlecloud login -endpoint http://… -username …` write it, or write \
                       it as docs/paddlecloud.md shows";

impl Config {
    /// Reads a file.
    pub fn load(file: &Path) -> Result<Config> {
        let name = || file.display();
        let length = std::fs::metadata(file).map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => {
                Error::new(Kind::NotFound, format!("there is no configuration: {EXAMPLE}"))
                    .with("file", name())
            }
            _ => Error::io("cannot read the configuration", source).with("file", name()),
        })?;
        if length.len() > FILE_BYTES_MAX {
            return Err(Error::invalid("this is no configuration: it is too large")
                .with("file", name())
                .with("bytes", length.len()));
        }
        let text = std::fs::read_to_string(file).map_err(|source| {
            Error::io("cannot read the configuration", source).with("file", name())
        })?;
        Config::parse(&text, file)
    }

    /// Reads a text; `file` is named in errors.
    pub fn parse(text: &str, file: &Path) -> Result<Config> {
        let page = Page { text, file };
        let value: Value = serde_yaml_ng::from_str(text).map_err(|error| {
            let line = error.location().map_or(1, |place| place.line());
            page.error(line, format!("this is no YAML: {error}"))
        })?;
        let top = match value {
            Value::Mapping(top) => top,
            Value::Null => {
                return Err(page.error(1, format!("the configuration is empty: {EXAMPLE}")));
            }
            _ => {
                let message =
                    format!("this is no configuration, without `datacenters:`: {EXAMPLE}");
                return Err(page.error(1, message));
            }
        };
        for key in top.keys() {
            let key = key.as_str().unwrap_or_default();
            if !["datacenters", "current-datacenter"].contains(&key) {
                let fix = "unknown key: use `datacenters` and `current-datacenter`";
                return Err(page.error(page.line_of_top(key), fix).with("key", key));
            }
        }
        let line = page.line_of_top("datacenters");
        let list = match top.get("datacenters") {
            Some(Value::Sequence(list)) if !list.is_empty() => list,
            Some(Value::Sequence(_) | Value::Null) | None => {
                return Err(page.error(line, format!("`datacenters` has no entry: {EXAMPLE}")));
            }
            Some(_) => {
                return Err(
                    page.error(line, "`datacenters` is a list: begin its entries with `- `")
                );
            }
        };
        let mut entries: Vec<Entry> =
            list.iter().enumerate().map(|(index, entry)| page.entry(index, entry)).collect();
        let current = match top.get("current-datacenter") {
            None | Some(Value::Null) => page.active(list, &entries)?,
            Some(value) => {
                let line = page.line_of_top("current-datacenter");
                let name = page.scalar(value, line, "current-datacenter")?;
                if !entries.iter().any(|entry| entry.name == name) {
                    // It may be the one whose name cannot be read.
                    let nameless = entries.iter().position(|entry| entry.name.is_empty());
                    if let Some(index) = nameless {
                        entries.swap_remove(index).datacenter?;
                    }
                    let fix = "`current-datacenter` is none of the datacenters";
                    return Err(page
                        .error(line, fix)
                        .with("current-datacenter", name)
                        .with("there_are", names(&entries)));
                }
                Some(name)
            }
        };
        Ok(Config { file: file.to_owned(), entries, current })
    }

    /// The entry of this name, or the current one.
    pub fn choose(mut self, name: Option<&str>) -> Result<Datacenter> {
        let file = self.file.display().to_string();
        let wanted = match (name, &self.current) {
            (Some(name), _) => name.to_owned(),
            (None, Some(current)) => current.clone(),
            (None, None) if self.entries.len() == 1 => self.entries[0].name.clone(),
            (None, None) => {
                let fix = "several datacenters and none is the current one: add \
                           `current-datacenter: NAME`, or use -datacenter NAME";
                return Err(Error::invalid(fix)
                    .with("file", file)
                    .with("there_are", names(&self.entries)));
            }
        };
        match self.entries.iter().position(|entry| entry.name == wanted) {
            Some(index) => self.entries.swap_remove(index).datacenter,
            None => Err(Error::new(Kind::NotFound, "the configuration has no such datacenter")
                .with("datacenter", wanted)
                .with("there_are", names(&self.entries))
                .with("file", file)),
        }
    }
}

fn names(entries: &[Entry]) -> String {
    entries.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// The text, to find lines in.
struct Page<'a> {
    text: &'a str,
    file: &'a Path,
}

impl Page<'_> {
    fn error(&self, line: usize, message: impl Into<String>) -> Error {
        Error::invalid(message).with("file", format_args!("{}:{line}", self.file.display()))
    }

    fn entry(&self, index: usize, value: &Value) -> Entry {
        let name = value.get("name").and_then(|name| self.scalar(name, 0, "name").ok());
        let datacenter = self.datacenter(index, value);
        Entry { name: name.unwrap_or_default(), datacenter }
    }

    fn datacenter(&self, index: usize, value: &Value) -> Result<Datacenter> {
        let Value::Mapping(fields) = value else {
            let fix = "an entry of `datacenters` has `name:`, `username:`, `password:` and \
                       `endpoint:`";
            return Err(self.error(self.line_of(index, ""), fix));
        };
        for key in fields.keys() {
            let key = key.as_str().unwrap_or_default();
            if !ENTRY_KEYS.contains(&key) {
                let fix = format!("unknown key: use {}", ENTRY_KEYS[..6].join(", "));
                return Err(self.error(self.line_of(index, key), fix).with("key", key));
            }
        }
        let name = self.text_of(index, fields, "name")?.ok_or_else(|| {
            self.error(self.line_of(index, ""), "this datacenter has no `name`: give it one")
        })?;
        let required = |key: &str| {
            self.text_of(index, fields, key)?.ok_or_else(|| {
                let message = format!("datacenter {name} has no `{key}`: add `{key}: …`");
                self.error(self.line_of(index, ""), message)
            })
        };
        let endpoint = required("endpoint")?;
        let line = self.line_of(index, "endpoint");
        let endpoint = endpoint.parse().map_err(|error: Error| {
            let place = format!("{}:{line}", self.file.display());
            error.with("datacenter", &name).with("file", place)
        })?;
        let username = self.text_of(index, fields, "username")?.unwrap_or_default();
        if !username.is_empty() {
            let line = self.line_of(index, "username");
            contract::name::check_user(&username).map_err(|error| {
                error.with("file", format_args!("{}:{line}", self.file.display()))
            })?;
        }
        let password = self.text_of(index, fields, "password")?.map(Secret::new);
        let folder = self.file.parent().unwrap_or(Path::new(""));
        let ca = self.text_of(index, fields, "ca")?.map(|file| folder.join(file));
        let socket = self.text_of(index, fields, "socket")?.map(|file| folder.join(file));
        Ok(Datacenter { name, username, password, endpoint, ca, socket })
    }

    /// The text of a field; `None` if it is absent or empty.
    fn text_of(&self, index: usize, fields: &Mapping, key: &str) -> Result<Option<String>> {
        match fields.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => {
                let text = self.scalar(value, self.line_of(index, key), key)?;
                Ok((!text.is_empty()).then_some(text))
            }
        }
    }

    /// A text. Digits alone are a number to YAML, and a password to whoever wrote them.
    fn scalar(&self, value: &Value, line: usize, key: &str) -> Result<String> {
        match value {
            Value::String(text) => Ok(text.clone()),
            Value::Number(number) if self.is_written(line, &number.to_string()) => {
                Ok(number.to_string())
            }
            Value::Sequence(_) => {
                Err(self.error(line, format!("`{key}` is a list: remove the brackets")))
            }
            _ => Err(self.error(line, format!("`{key}` is no text to YAML: put it in quotes"))),
        }
    }

    /// Whether the line ends with exactly this value: not 0x1F for 31.
    fn is_written(&self, line: usize, value: &str) -> bool {
        let Some(text) = line.checked_sub(1).and_then(|line| self.text.lines().nth(line)) else {
            return true;
        };
        let text = text.split(" #").next().unwrap_or_default();
        text.trim_end().rsplit([' ', '\t']).next() == Some(value)
    }

    /// The entry that the oldest format marks as active.
    fn active(&self, list: &[Value], entries: &[Entry]) -> Result<Option<String>> {
        let mut chosen = None;
        for (index, (value, entry)) in list.iter().zip(entries).enumerate() {
            match value.get("active") {
                None | Some(Value::Null | Value::Bool(false)) => {}
                Some(Value::Bool(true)) if chosen.is_none() => chosen = Some(entry.name.clone()),
                Some(Value::Bool(true)) => {
                    let fix = "two datacenters are active: leave `active: true` at one of them";
                    return Err(self.error(self.line_of(index, "active"), fix));
                }
                Some(_) => {
                    let fix = "`active` is true or false";
                    return Err(self.error(self.line_of(index, "active"), fix));
                }
            }
        }
        Ok(chosen)
    }

    /// The line of a key at the top; the first if it is not there.
    fn line_of_top(&self, key: &str) -> usize {
        let is_here = |line: &str| is_key(line, key);
        self.text.lines().position(is_here).map_or(1, |index| index + 1)
    }

    /// The line of a key of an entry; that of the entry itself if it is not there, or written in
    /// one line.
    fn line_of(&self, wanted: usize, key: &str) -> usize {
        let first = self.line_of_top("datacenters");
        let mut entry: Option<(usize, usize)> = None;
        for (index, line) in self.text.lines().enumerate().skip(first) {
            let trimmed = line.trim_start();
            let inner = trimmed.strip_prefix("- ").unwrap_or(trimmed).trim_start();
            if trimmed.starts_with("- ") || trimmed == "-" {
                entry = Some((entry.map_or(0, |(number, _)| number + 1), index + 1));
            } else if !trimmed.is_empty() && !line.starts_with([' ', '\t', '#']) {
                break;
            }
            match entry {
                Some((number, _)) if number == wanted && !key.is_empty() && is_key(inner, key) => {
                    return index + 1;
                }
                Some((number, _)) if number > wanted => break,
                _ => {}
            }
        }
        // Once more, for the line of the entry itself.
        let is_start = |line: &str| line.trim_start().starts_with("- ") || line.trim() == "-";
        let starts = self.text.lines().enumerate().skip(first).filter(|(_, line)| is_start(line));
        starts.map(|(index, _)| index + 1).nth(wanted).unwrap_or(first)
    }
}

fn is_key(line: &str, key: &str) -> bool {
    let bare =
        |key: &str| line.strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with(':'));
    bare(key) || bare(&format!("\"{key}\"")) || bare(&format!("'{key}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config> {
        Config::parse(text, Path::new("config"))
    }

    fn chosen(text: &str) -> Datacenter {
        parse(text).unwrap().choose(None).unwrap()
    }

    fn error(text: &str) -> String {
        match parse(text) {
            Err(error) => error.to_string(),
            Ok(config) => config.choose(None).unwrap_err().to_string(),
        }
    }

    const SEED: &str = "datacenters:
- name: datacenter1
  username: wuyi@example.com
  password: secret
  endpoint: http://cloud.paddlepaddle.org/
- name: two
  username: wuyi
  endpoint: https://two:8443
current-datacenter: datacenter1
";

    #[test]
    fn the_configuration_of_the_guide_is_read() {
        let datacenter = chosen(SEED);
        assert_eq!((&*datacenter.name, &*datacenter.username), ("datacenter1", "wuyi@example.com"));
        assert_eq!(datacenter.password.unwrap().expose(), "secret");
        assert_eq!(datacenter.endpoint.as_str(), "http://cloud.paddlepaddle.org");
        let two = parse(SEED).unwrap().choose(Some("two")).unwrap();
        assert_eq!((two.password, two.endpoint.as_str()), (None, "https://two:8443"));
    }

    #[test]
    fn the_oldest_format_marks_the_active_entry() {
        let text = "datacenters:\n- name: a\n  username: u\n  endpoint: http://a\n\
                    - name: b\n  active: true\n  usercert: x\n  userkey: y\n  username: u\n  endpoint: http://b\n";
        assert_eq!(chosen(text).name, "b");
        let both = text.replace("- name: a", "- name: a\n  active: true");
        insta::assert_snapshot!(error(&both), @"two datacenters are active: leave `active: true` at one of them (file: config:7)");
        let none = text.replace("  active: true\n", "");
        insta::assert_snapshot!(error(&none), @"several datacenters and none is the current one: add `current-datacenter: NAME`, or use -datacenter NAME (file: config, there_are: a, b)");
    }

    #[test]
    fn one_entry_alone_is_the_current_one() {
        assert_eq!(chosen("datacenters: [{name: a, username: u, endpoint: 'http://a'}]").name, "a");
    }

    #[test]
    fn digits_are_a_password_and_other_values_are_refused() {
        let with = |password: &str| SEED.replace("secret", password);
        assert_eq!(chosen(&with("123456 # mine")).password.unwrap().expose(), "123456");
        assert_eq!(chosen(&with("0123")).password.unwrap().expose(), "0123");
        assert_eq!(chosen(&with("'0x1F'")).password.unwrap().expose(), "0x1F");
        insta::assert_snapshot!(error(&with("0x1F")), @"`password` is no text to YAML: put it in quotes (file: config:4)");
        insta::assert_snapshot!(error(&with("true")), @"`password` is no text to YAML: put it in quotes (file: config:4)");
        insta::assert_snapshot!(error(&with("[secret]")), @"`password` is a list: remove the brackets (file: config:4)");
    }

    #[test]
    fn mistakes_are_told_with_their_line() {
        insta::assert_snapshot!(error(""), @"the configuration is empty: let `paddlecloud login -endpoint http://… -username …` write it, or write it as docs/paddlecloud.md shows (file: config:1)");
        insta::assert_snapshot!(error("exit 3"), @"this is no configuration, without `datacenters:`: let `paddlecloud login -endpoint http://… -username …` write it, or write it as docs/paddlecloud.md shows (file: config:1)");
        insta::assert_snapshot!(error("datacenters:\n- name: [a\n"), @"this is no YAML: did not find expected ',' or ']' at line 3 column 1, while parsing a flow sequence at line 2 column 9 (file: config:3)");
        insta::assert_snapshot!(error("datacenter:\n- name: a\n"), @"unknown key: use `datacenters` and `current-datacenter` (file: config:1, key: datacenter)");
        insta::assert_snapshot!(error("datacenters: a\n"), @"`datacenters` is a list: begin its entries with `- ` (file: config:1)");
        insta::assert_snapshot!(error("# mine\ndatacenters:\n"), @"`datacenters` has no entry: let `paddlecloud login -endpoint http://… -username …` write it, or write it as docs/paddlecloud.md shows (file: config:2)");
        insta::assert_snapshot!(error(&SEED.replace("current-datacenter: datacenter1", "current-datacenter: one")), @"`current-datacenter` is none of the datacenters (file: config:9, current-datacenter: one, there_are: datacenter1, two)");
        insta::assert_snapshot!(error(&SEED.replace("  endpoint: http://cloud.paddlepaddle.org/\n", "")), @"datacenter datacenter1 has no `endpoint`: add `endpoint: …` (file: config:2)");
        insta::assert_snapshot!(error(&SEED.replace("http://cloud.paddlepaddle.org/", "cloud")), @"bad endpoint: write http:// in front, as in http://cloud (endpoint: cloud, datacenter: datacenter1, file: config:5)");
        insta::assert_snapshot!(error(&SEED.replace("  password: secret", "  pasword: secret")), @"unknown key: use name, username, password, endpoint, ca, socket (file: config:4, key: pasword)");
        insta::assert_snapshot!(error(&SEED.replace("wuyi@example.com", "../eve")), @"a user name cannot have '/': leave out slashes and control characters (name: ../eve, position: 3, file: config:3)");
        insta::assert_snapshot!(error(&SEED.replace("- name: datacenter1", "- nam: datacenter1")), @"unknown key: use name, username, password, endpoint, ca, socket (file: config:2, key: nam)");
    }

    #[test]
    fn a_bad_entry_does_not_spoil_the_others() {
        let text = SEED.replace("https://two:8443", "two");
        assert_eq!(chosen(&text).name, "datacenter1");
        let two = parse(&text).unwrap().choose(Some("two")).unwrap_err();
        insta::assert_snapshot!(two, @"bad endpoint: write http:// in front, as in http://two (endpoint: two, datacenter: two, file: config:8)");
        let three = parse(&text).unwrap().choose(Some("three")).unwrap_err();
        insta::assert_snapshot!(three, @"the configuration has no such datacenter (datacenter: three, there_are: datacenter1, two, file: config)");
    }
}
