//! Questions on the terminal, and passwords without showing them. Where standard input is no
//! terminal, a password is its next line, for scripts.

use contract::secret::Secret;
use contract::{Error, Kind, Result};
use std::io::{self, IsTerminal, Read, Write};

/// The longest password.
const LINE_BYTES_MAX: usize = 4096;

/// Whether somebody can be asked.
pub fn is_possible() -> bool {
    io::stdin().is_terminal()
}

/// A password; empty if nothing was typed.
pub fn password(question: &str) -> Result<Secret> {
    if !is_possible() {
        return Ok(Secret::new(line(None)?.unwrap_or_default()));
    }
    let _ = write!(io::stderr(), "{question}: ");
    let _ = io::stderr().flush();
    let typed = without_echo(line)?;
    let _ = writeln!(io::stderr());
    typed.map_or_else(|| Err(interrupted()), |typed| Ok(Secret::new(typed)))
}

/// A new password, typed twice where somebody types.
pub fn new_password(question: &str) -> Result<Secret> {
    let first = password(question)?;
    if is_possible() && !first.expose().is_empty() && password("the same again")? != first {
        return Err(Error::invalid("the two passwords differ: try again"));
    }
    Ok(first)
}

/// A line of standard input; `None` if the byte `interrupt` is in it.
fn line(interrupt: Option<u8>) -> Result<Option<String>> {
    let mut text = Vec::new();
    for byte in io::stdin().lock().bytes() {
        let byte = byte.map_err(|source| Error::io("cannot read standard input", source))?;
        if Some(byte) == interrupt {
            return Ok(None);
        }
        if byte == b'\n' {
            break;
        }
        text.push(byte);
        if text.len() == LINE_BYTES_MAX {
            return Err(Error::new(Kind::LimitExceeded, "the line on standard input is too long"));
        }
    }
    let text = String::from_utf8(text)
        .map_err(|_| Error::invalid("the line on standard input is no UTF-8"))?;
    Ok(Some(text.trim_end_matches('\r').to_owned()))
}

/// Ends the process as Ctrl-C does, unless somebody has it ignored.
#[cfg(unix)]
fn interrupted() -> Error {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::INT);
    Error::new(Kind::Interrupted, "interrupted")
}

#[cfg(not(unix))]
fn interrupted() -> Error {
    Error::new(Kind::Interrupted, "interrupted")
}

/// Reads while the terminal shows nothing. Ctrl-C is a byte that ends the line meanwhile, and no
/// signal, which would leave the terminal so.
#[cfg(unix)]
fn without_echo<T>(read: impl FnOnce(Option<u8>) -> Result<T>) -> Result<T> {
    use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, tcgetattr, tcsetattr};
    let refused =
        |source: rustix::io::Errno| Error::io("cannot hide what is typed", io::Error::from(source));
    let stdin = io::stdin();
    let before = tcgetattr(&stdin).map_err(refused)?;
    let mut quiet = before.clone();
    quiet.local_modes.remove(LocalModes::ECHO | LocalModes::ISIG);
    let interrupt = before.special_codes[SpecialCodeIndex::VINTR];
    quiet.special_codes[SpecialCodeIndex::VEOL] = interrupt;
    tcsetattr(&stdin, OptionalActions::Flush, &quiet).map_err(refused)?;
    let typed = read(Some(interrupt).filter(|byte| *byte != 0));
    tcsetattr(&stdin, OptionalActions::Now, &before).map_err(refused)?;
    typed
}

#[cfg(not(unix))]
fn without_echo<T>(_: impl FnOnce(Option<u8>) -> Result<T>) -> Result<T> {
    let message = "a password cannot be typed here without showing it: give it on standard input";
    Err(Error::new(Kind::Unsupported, message))
}
