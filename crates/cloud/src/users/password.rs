//! Passwords as they are kept: hashed by Argon2id, which takes long and needs much memory on
//! purpose. So it runs on threads of its own, and not many at once.

use crate::blocking::blocking;
use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use contract::{Error, Kind, Result};
use tokio::sync::Semaphore;

/// How many passwords are hashed at the same time: each needs 19 MiB and a core.
static AT_ONCE: Semaphore = Semaphore::const_new(4);
/// The hash of a password that nobody has, so that a login takes as long for a user who is not
/// there.
const NOBODY: &str = "$argon2id$v=19$m=19456,t=2,p=1$bm9ib2R5bm9ib2R5bm8$\
                      YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXoxMjM0NTY";

/// The shortest password.
pub(crate) const CHARACTERS_MIN: usize = 8;
/// The longest one.
const BYTES_MAX: usize = 1024;

/// Refuses a password that is too short or too long.
pub(crate) fn check(password: &str) -> Result<()> {
    if password.chars().count() < CHARACTERS_MIN || password.len() > BYTES_MAX {
        let message =
            format!("a password has at least {CHARACTERS_MIN} characters and at most {BYTES_MAX}");
        return Err(Error::invalid(message));
    }
    Ok(())
}

/// What is kept of a password.
pub(crate) async fn hash(password: &str) -> Result<String> {
    let password = password.to_owned();
    let salt = crate::random::bytes::<16>()?;
    let _turn = AT_ONCE.acquire().await;
    blocking(move || {
        let hashed: std::result::Result<PasswordHash, _> =
            Argon2::default().hash_password_with_salt(password.as_bytes(), &salt);
        hashed
            .map(|hash| hash.to_string())
            .map_err(|error| Error::new(Kind::Io, format!("cannot hash a password: {error}")))
    })
    .await
}

/// Whether it is the password of `kept`; `None` for a user who is not there.
pub(crate) async fn verify(password: &str, kept: Option<&str>) -> Result<bool> {
    if password.len() > BYTES_MAX {
        return Ok(false);
    }
    let (password, is_there) = (password.to_owned(), kept.is_some());
    let kept = kept.unwrap_or(NOBODY).to_owned();
    let _turn = AT_ONCE.acquire().await;
    blocking(move || {
        let Ok(hash) = PasswordHash::new(&kept) else {
            return Err(Error::new(Kind::Damaged, "a password hash cannot be read"));
        };
        let is_right = Argon2::default().verify_password(password.as_bytes(), &hash).is_ok();
        Ok(is_right && is_there)
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_password_itself_is_accepted() {
        let kept = hash("correct horse").await.unwrap();
        assert!(!kept.contains("correct"));
        assert!(verify("correct horse", Some(&kept)).await.unwrap());
        assert!(!verify("correct horsf", Some(&kept)).await.unwrap());
        assert!(!verify("", None).await.unwrap());
        assert_ne!(kept, hash("correct horse").await.unwrap());
    }
}
