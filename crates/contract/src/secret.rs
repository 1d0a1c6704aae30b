//! Text that must not be seen: tokens and passwords.
//!
//! It guards against the accidents that happen, a secret in a log line or an error, and against
//! guessing by timing. It has no `Serialize`, so that a secret cannot ride along in a body by
//! mistake, and it does not wipe memory: whoever can read our memory has the job already.

use std::fmt;
use std::hint::black_box;

/// A secret. `Debug` and `Display` print `***`; [`Secret::expose`] is the only way out.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Takes the text in.
    pub fn new(text: impl Into<String>) -> Self {
        Secret(text.into())
    }

    /// The text itself, for the one place that must send or store it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

/// Takes the same time wherever the texts differ; only the length can be measured.
impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        let (ours, theirs) = (self.0.as_bytes(), other.0.as_bytes());
        let difference = ours.iter().zip(theirs).fold(0, |sum, (a, b)| black_box(sum | (a ^ b)));
        ours.len() == theirs.len() && difference == 0
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_printed() {
        let secret = Some(Secret::new("hunter2"));
        assert_eq!(format!("{secret:?}"), "Some(***)");
        assert_eq!(Secret::new("hunter2").to_string(), "***");
        assert_eq!(Secret::new("hunter2").expose(), "hunter2");
    }

    #[test]
    fn secrets_are_equal_when_their_texts_are() {
        let check = |a: &str, b: &str| assert_eq!(Secret::new(a) == Secret::new(b), a == b);
        check("", "");
        check("token", "token");
        check("token", "tokem");
        check("Token", "token");
        check("token", "token2");
        check("", "token");
    }
}
