//! The cloud that a command talks to: what the environment and the flags say of it.

use crate::args::Globals;
use client::{Client, Profile};
use contract::secret::Secret;
use contract::{Error, Kind, Result};
use std::io::Write;

/// A token for scripts, instead of a login.
pub(crate) const TOKEN_VARIABLE: &str = "PADDLECLOUD_TOKEN";

/// Who uses this command.
pub(crate) fn profile(globals: &Globals) -> Result<Profile> {
    let home = std::env::home_dir().filter(|home| !home.as_os_str().is_empty());
    let home = home.ok_or_else(|| {
        let message = "there is no home directory: set HOME, which has .paddle/config";
        Error::new(Kind::NotFound, message)
    })?;
    let token = match std::env::var(TOKEN_VARIABLE) {
        Ok(token) if token.is_empty() => None,
        Ok(token) => Some(Secret::new(token)),
        Err(std::env::VarError::NotPresent) => None,
        Err(std::env::VarError::NotUnicode(_)) => {
            return Err(Error::invalid(format!("{TOKEN_VARIABLE} is no text")));
        }
    };
    let (config, datacenter) = (globals.config.clone(), globals.datacenter.clone());
    Ok(Profile { home, config, datacenter, token, notice: say })
}

/// The client of the chosen datacenter.
pub(crate) fn connect(globals: &Globals) -> Result<Client> {
    Client::open(&profile(globals)?)
}

/// A line for whoever watches, beside the output.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
