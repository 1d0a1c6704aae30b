//! Changes of the configuration file that keep everything else as its owner wrote it.

use crate::config::{Config, Datacenter};
use contract::{Error, Result};
use std::io::Write;
use std::path::Path;

/// Makes a datacenter the current one, by changing one line of the file.
pub fn use_datacenter(file: &Path, name: &str) -> Result<()> {
    // Only a name that the file has, and a file that is understood, is written.
    Config::load(file)?.choose(Some(name))?;
    let text = std::fs::read_to_string(file)
        .map_err(|source| Error::io("cannot read the configuration", source))?;
    let changed = with_current(&text, name);
    Config::parse(&changed, file)?;
    write(file, &changed)
}

/// Writes a configuration of one datacenter where there is none.
pub(crate) fn create(file: &Path, datacenter: &Datacenter) -> Result<()> {
    let Datacenter { name, username, endpoint, ca, .. } = datacenter;
    let (name, username) = (quoted(name), quoted(username));
    let ca = match ca.as_ref().map(|ca| ca.to_str()) {
        None => String::new(),
        Some(Some(ca)) => format!("  ca: {}\n", quoted(ca)),
        Some(None) => return Err(Error::invalid("the name of the certificate's file is no UTF-8")),
    };
    let text = format!(
        "datacenters:\n- name: {name}\n  username: {username}\n  endpoint: {endpoint}\n{ca}\
         current-datacenter: {name}\n"
    );
    Config::parse(&text, file)?;
    write(file, &text)
}

/// The text with another `current-datacenter`. Of the oldest format, `active` is replaced.
fn with_current(text: &str, name: &str) -> String {
    let line = format!("current-datacenter: {}", quoted(name));
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    match lines.iter_mut().find(|line| line.starts_with("current-datacenter")) {
        Some(old) => *old = line,
        None => lines.push(line),
    }
    lines.join("\n") + "\n"
}

/// A text that YAML reads as it is.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
    let begins_well = text.starts_with(|c: char| c.is_ascii_alphabetic());
    let word = ["true", "false", "null", "yes", "no", "on", "off"];
    if begins_well && text.chars().all(is_plain) && !word.contains(&&*text.to_lowercase()) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "''"))
}

/// Replaces the file at once, readable by its owner only: it may have a password.
/// By hand, because `disk` is not there on all systems that a client is for.
pub(crate) fn write(file: &Path, text: &str) -> Result<()> {
    let refused = |source| Error::io("cannot write the file", source).with("file", file.display());
    // A link stays a link: what it points to is replaced.
    let target = std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let folder = match target.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    std::fs::create_dir_all(folder).map_err(refused)?;
    let mut fresh = tempfile::NamedTempFile::new_in(folder).map_err(refused)?;
    fresh.write_all(text.as_bytes()).map_err(refused)?;
    fresh.as_file().sync_all().map_err(refused)?;
    fresh.persist(&target).map_err(|error| refused(error.error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_datacenter_changes_one_line() {
        let text = "# mine\ndatacenters:\n- name: a\n  username: u\n  endpoint: http://a\n\
                    - {name: 'b c', username: u, endpoint: 'http://b'}\ncurrent-datacenter: a\n";
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config");
        std::fs::write(&file, text).unwrap();
        use_datacenter(&file, "b c").unwrap();
        let expected = text.replace("current-datacenter: a", "current-datacenter: 'b c'");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), expected);
        assert_eq!(Config::load(&file).unwrap().choose(None).unwrap().name, "b c");
        assert!(use_datacenter(&file, "d").is_err());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), expected);
    }

    #[test]
    fn a_new_file_reads_back() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(".paddle").join("config");
        let datacenter = Datacenter {
            name: "no".into(),
            username: "o'hara@example.com".into(),
            password: None,
            endpoint: "https://a:1".parse().unwrap(),
            ca: Some("/etc/o'hara/cert.pem".into()),
            socket: None,
        };
        create(&file, &datacenter).unwrap();
        assert_eq!(Config::load(&file).unwrap().choose(None).unwrap(), datacenter);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(&file).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }
}
