//! Tokens of earlier logins, in `~/.paddle/tokens`, one file each that only its owner can read.
//!
//! A token belongs to a server, a datacenter, a user and the password that was in the
//! configuration: after a change of any of them it is not found, so a new user never acts as the
//! old one, and a new password is tried at once.

use crate::config::Datacenter;
use crate::edit;
use contract::Result;
use contract::secret::Secret;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// The folder of the tokens.
#[derive(Debug, Clone)]
pub(crate) struct Tokens {
    folder: PathBuf,
}

/// A login that can be used again.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) token: Secret,
    /// What the server calls the datacenter.
    pub(crate) datacenter: String,
}

/// A file of the folder.
#[derive(Serialize, Deserialize)]
struct Row {
    endpoint: String,
    username: String,
    token: String,
    datacenter: String,
}

impl Tokens {
    /// Those below a home directory.
    pub(crate) fn below(home: &Path) -> Tokens {
        Tokens { folder: home.join(".paddle").join("tokens") }
    }

    /// The token of an earlier login, if it can be read.
    pub(crate) fn load(&self, datacenter: &Datacenter) -> Option<Held> {
        let text = std::fs::read_to_string(self.file(datacenter)).ok()?;
        let row: Row = serde_json::from_str(&text).ok()?;
        let is_ours = row.endpoint == datacenter.endpoint.as_str()
            && row.username == datacenter.username
            && is_token(&row.token);
        is_ours.then(|| Held { token: Secret::new(row.token), datacenter: row.datacenter })
    }

    /// Keeps a token for later commands.
    pub(crate) fn store(&self, datacenter: &Datacenter, held: &Held) -> Result<()> {
        let row = Row {
            endpoint: datacenter.endpoint.to_string(),
            username: datacenter.username.clone(),
            token: held.token.expose().to_owned(),
            datacenter: held.datacenter.clone(),
        };
        let text = serde_json::to_string(&row).unwrap_or_default();
        edit::write(&self.file(datacenter), &text)
    }

    /// Forgets a token.
    pub(crate) fn remove(&self, datacenter: &Datacenter) -> bool {
        std::fs::remove_file(self.file(datacenter)).is_ok()
    }

    fn file(&self, datacenter: &Datacenter) -> PathBuf {
        let password = datacenter.password.as_ref().map_or("", |password| password.expose());
        let parts =
            [datacenter.endpoint.as_str(), &datacenter.name, &datacenter.username, password];
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        self.folder.join(hex(&hash.finalize()[..16]))
    }
}

/// Whether a text can be put into a header.
pub(crate) fn is_token(text: &str) -> bool {
    !text.is_empty() && text.len() <= 4096 && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datacenter() -> Datacenter {
        Datacenter {
            name: "dc".into(),
            username: "wuyi".into(),
            password: Some(Secret::new("secret")),
            endpoint: "http://a:1".parse().unwrap(),
            ca: None,
            socket: None,
        }
    }

    #[test]
    fn a_token_is_found_again_by_whom_it_belongs_to_alone() {
        let home = tempfile::tempdir().unwrap();
        let tokens = Tokens::below(home.path());
        let held = Held { token: Secret::new("t0"), datacenter: "local".into() };
        assert!(tokens.load(&datacenter()).is_none());
        tokens.store(&datacenter(), &held).unwrap();
        let found = tokens.load(&datacenter()).unwrap();
        assert_eq!((found.token.expose(), &*found.datacenter), ("t0", "local"));
        let others = [
            Datacenter { name: "other".into(), ..datacenter() },
            Datacenter { username: "eve".into(), ..datacenter() },
            Datacenter { password: Some(Secret::new("changed")), ..datacenter() },
            Datacenter { password: None, ..datacenter() },
            Datacenter { endpoint: "http://b:1".parse().unwrap(), ..datacenter() },
        ];
        assert!(others.iter().all(|other| tokens.load(other).is_none()));
        assert!(tokens.remove(&datacenter()) && !tokens.remove(&datacenter()));
        assert!(tokens.load(&datacenter()).is_none());
    }

    #[cfg(unix)]
    #[test]
    fn only_its_owner_can_read_a_token_and_damage_is_no_token() {
        use std::os::unix::fs::PermissionsExt;
        let home = tempfile::tempdir().unwrap();
        let tokens = Tokens::below(home.path());
        let held = Held { token: Secret::new("t0"), datacenter: "local".into() };
        tokens.store(&datacenter(), &held).unwrap();
        let file = tokens.file(&datacenter());
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let text = std::fs::read_to_string(&file).unwrap();
        for damaged in ["", "{}", &text[..text.len() / 2], &text.replace("t0", "t\\r\\nx: y")] {
            std::fs::write(&file, damaged).unwrap();
            assert!(tokens.load(&datacenter()).is_none(), "{damaged}");
        }
    }
}
