//! `paddle node`: a host's side of a launch by ssh. Started by launchers, not by people; what it
//! answers is in `scheduler::ssh::node`.

use contract::{Error, Result};
use scheduler::ssh::node::{self, Config};
use std::process::ExitCode;
use tokio::io::BufReader;

pub(crate) fn run() -> Result<ExitCode> {
    cli::logging::start(None, "")?;
    let config = config()?;
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|source| Error::io("cannot start a runtime", source))?;
    let result = runtime.block_on(async {
        let mut input = BufReader::new(tokio::io::stdin());
        node::run(&config, &mut input, &mut tokio::io::stdout()).await
    });
    // A read of standard input may still be waiting, and cannot be called back.
    runtime.shutdown_background();
    result.map(|()| ExitCode::SUCCESS)
}

/// What this process knows of its host.
pub(crate) fn config() -> Result<Config> {
    let home = std::env::home_dir()
        .ok_or_else(|| Error::invalid("this host does not say where the home is: set HOME"))?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    Ok(Config {
        home,
        search_path: std::env::split_paths(&path).collect(),
        release: env!("CARGO_PKG_VERSION").to_owned(),
    })
}
