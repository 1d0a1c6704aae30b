//! How paths of the cloud are shown, and failures of several of them.

use contract::api::file::EntryKind;
use contract::{Error, Kind, Result};

/// The letter of a kind, as the original prints it.
pub(crate) fn letter(kind: EntryKind) -> char {
    match kind {
        EntryKind::Directory => 'd',
        EntryKind::File => 'f',
        EntryKind::Link => 'l',
        EntryKind::Other => 'o',
    }
}

/// Names of the server as they can be shown: nothing moves the cursor.
pub(crate) fn shown(text: &str) -> String {
    text.replace(char::is_control, "?")
}

/// A line per failure, and the error that ends the command; a single failure is the error itself.
pub(crate) fn fail(mut failures: Vec<(String, Error)>, what: &str, all: usize) -> Result<()> {
    if all == 1 {
        return failures.pop().map_or(Ok(()), |(name, error)| {
            let is_told = error.to_string().contains(&name);
            Err(if is_told { error } else { error.with("file", shown(&name)) })
        });
    }
    for (name, error) in &failures {
        crate::cloud::say(&format!("failed: {}: {}", shown(name), error.chain()));
    }
    match failures.is_empty() {
        true => Ok(()),
        false => {
            let message = format!("{} of {all} could not be {what}: see above", failures.len());
            Err(Error::new(Kind::Io, message))
        }
    }
}
