//! Secrets at rest: AES-256-GCM with a key that lies in a file beside the database, for its owner
//! alone. A copy of the database without the file is worth nothing.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contract::{Error, Kind, Result};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use std::path::Path;

/// The key in use.
pub(crate) struct Vault(LessSafeKey);

const KEY_BYTES: usize = 32;

impl Vault {
    /// Reads the key, or makes one.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let damaged = || {
            let message = "the key file is damaged: bring back its copy, or remove it and enter \
                           the registries again";
            Error::new(Kind::Damaged, message).with("file", path.display())
        };
        let draw = || crate::random::bytes::<KEY_BYTES>().map(|key| STANDARD.encode(key));
        let bytes = STANDARD.decode(crate::once::read_or_draw(path, draw)?);
        let bytes = bytes.map_err(|_| damaged())?;
        let key = UnboundKey::new(&AES_256_GCM, &bytes).map_err(|_| damaged())?;
        Ok(Vault(LessSafeKey::new(key)))
    }

    /// Encrypts a secret for a place.
    pub(crate) fn seal(&self, secret: &[u8], place: &[u8]) -> Result<String> {
        let nonce = crate::random::bytes::<NONCE_LEN>()?;
        let mut bytes = secret.to_vec();
        self.0
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(place),
                &mut bytes,
            )
            .map_err(|_| Error::new(Kind::Io, "cannot encrypt a secret"))?;
        Ok(STANDARD.encode([&nonce[..], &bytes].concat()))
    }

    /// Decrypts a secret of a place.
    pub(crate) fn unseal(&self, sealed: &str, place: &[u8]) -> Result<Vec<u8>> {
        let damaged =
            || Error::new(Kind::Damaged, "a secret cannot be decrypted with this key file");
        let mut bytes = STANDARD.decode(sealed).map_err(|_| damaged())?;
        if bytes.len() < NONCE_LEN {
            return Err(damaged());
        }
        let mut body = bytes.split_off(NONCE_LEN);
        let nonce = Nonce::try_assume_unique_for_key(&bytes).map_err(|_| damaged())?;
        let plain =
            self.0.open_in_place(nonce, Aad::from(place), &mut body).map_err(|_| damaged())?;
        Ok(plain.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_opens_only_with_its_key_and_in_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let vault = Vault::open(&folder.path().join("key")).unwrap();
        let sealed = vault.seal(b"hunter2", b"wu/hub").unwrap();
        let again = Vault::open(&folder.path().join("key")).unwrap();
        assert_eq!(again.unseal(&sealed, b"wu/hub").unwrap(), b"hunter2");
        assert!(again.unseal(&sealed, b"eve/hub").is_err());
        let other = Vault::open(&folder.path().join("other")).unwrap();
        assert!(other.unseal(&sealed, b"wu/hub").is_err());
        assert!(again.unseal("", b"wu/hub").is_err() && again.unseal("!", b"").is_err());
        assert_ne!(sealed, vault.seal(b"hunter2", b"wu/hub").unwrap());
    }
}
