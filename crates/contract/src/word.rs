//! Text ↔ enums whose values are single words, with serde's derive as the only table of words.
//!
//! `Display` of such an enum is `self.serialize(formatter)` and `FromStr` is [`parse`], so the
//! words in JSON, in messages and on command lines cannot drift apart. Enums that carry data
//! (such as [`crate::mode::Mode`]) have their own grammar and do not use this.

use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error as WordError, StrDeserializer};

use crate::{Error, Result};

/// The value that `text` names; the error lists the words of `what`.
pub(crate) fn parse<'a, T: Deserialize<'a>>(what: &str, text: &'a str) -> Result<T> {
    let word: StrDeserializer<'a, WordError> = text.into_deserializer();
    T::deserialize(word).map_err(|error| Error::invalid(format!("not a {what}: {error}")))
}
