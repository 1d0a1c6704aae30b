//! Questions on the terminal, and passwords without showing them. Where standard input is no
//! terminal, a password is its next line, for scripts.

use contract::secret::Secret;
use contract::{Error, Kind, Result};
use std::io::{self, BufRead, IsTerminal, Write};

/// The longest password.
const LINE_BYTES_MAX: u64 = 4096;

/// Whether somebody can be asked.
pub fn is_possible() -> bool {
    io::stdin().is_terminal()
}

/// A password; empty if nothing was typed.
pub fn password(question: &str) -> Result<Secret> {
    if !is_possible() {
        return line().map(Secret::new);
    }
    let _ = write!(io::stderr(), "{question}: ");
    let _ = io::stderr().flush();
    let typed = without_echo(line)?;
    let _ = writeln!(io::stderr());
    Ok(Secret::new(typed))
}

/// A new password, typed twice where somebody types.
pub fn new_password(question: &str) -> Result<Secret> {
    let first = password(question)?;
    if is_possible() && !first.expose().is_empty() && password("the same again")? != first {
        return Err(Error::invalid("the two passwords differ: try again"));
    }
    Ok(first)
}

fn line() -> Result<String> {
    let mut text = String::new();
    let mut input = io::Read::take(io::stdin().lock(), LINE_BYTES_MAX);
    input.read_line(&mut text).map_err(|source| Error::io("cannot read standard input", source))?;
    if text.len() as u64 == LINE_BYTES_MAX {
        return Err(Error::new(Kind::LimitExceeded, "the line on standard input is too long"));
    }
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

#[cfg(unix)]
fn without_echo(read: impl FnOnce() -> Result<String>) -> Result<String> {
    use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
    let refused =
        |source: rustix::io::Errno| Error::io("cannot hide what is typed", io::Error::from(source));
    let stdin = io::stdin();
    let before = tcgetattr(&stdin).map_err(refused)?;
    let mut quiet = before.clone();
    quiet.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&stdin, OptionalActions::Flush, &quiet).map_err(refused)?;
    let typed = read();
    tcsetattr(&stdin, OptionalActions::Now, &before).map_err(refused)?;
    typed
}

#[cfg(not(unix))]
fn without_echo(_: impl FnOnce() -> Result<String>) -> Result<String> {
    let message = "a password cannot be typed here without showing it: give it on standard input";
    Err(Error::new(Kind::Unsupported, message))
}
