//! Random names and secrets.

use contract::{Error, Kind, Result};

const LETTERS: &[u8; 32] = b"0123456789abcdefghijkmnpqrstuvwx";

/// So many random bytes.
pub(crate) fn bytes<const COUNT: usize>() -> Result<[u8; COUNT]> {
    let mut bytes = [0; COUNT];
    getrandom::fill(&mut bytes)
        .map_err(|source| Error::new(Kind::Io, "no random numbers").because(source))?;
    Ok(bytes)
}

/// A word of `COUNT` letters and digits, five random bits each.
pub(crate) fn word<const COUNT: usize>() -> Result<String> {
    Ok(bytes::<COUNT>()?.iter().map(|byte| char::from(LETTERS[usize::from(byte % 32)])).collect())
}

/// 256 random bits as text.
pub(crate) fn secret() -> Result<String> {
    word::<52>()
}
