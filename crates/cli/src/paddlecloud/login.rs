//! `paddlecloud login` and `logout`.

use crate::args::Globals;
use crate::cloud::{self, say};
use cli::output::Output;
use cli::prompt;
use client::{Client, Config, Datacenter};
use contract::{Error, Kind, Result, name};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Log in, and keep the token for later commands
///
/// With a password in the configuration every command logs in by itself; this is for those who do
/// not want it there: it is asked for, or read from standard input. Where there is no
/// configuration yet, it is written:
///
///   paddlecloud login -endpoint http://cloud.example.com -username wuyi@example.com
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The server, for the first login here
    #[arg(long, value_name = "URL", requires = "username")]
    endpoint: Option<String>,
    /// Your name there, for the first login here
    #[arg(long, value_name = "NAME", requires = "endpoint")]
    username: Option<String>,
    /// The certificate of the authority that signed the server's, for the first login here, if that
    /// is none of the public ones
    #[arg(long, value_name = "FILE", requires = "endpoint")]
    ca: Option<PathBuf>,
}

pub(crate) fn run(globals: &Globals, args: &Args) -> Result<ExitCode> {
    let profile = cloud::profile(globals)?;
    let file = profile.config_file();
    let mut current = None;
    let (client, is_new) = match (&args.endpoint, &args.username) {
        (Some(endpoint), Some(username)) => {
            name::check_user(username)?;
            let name = globals.datacenter.clone().unwrap_or_else(|| "datacenter1".to_owned());
            name::check_datacenter(&name)?;
            let datacenter = Datacenter {
                name,
                username: username.clone(),
                password: None,
                endpoint: endpoint.parse()?,
                ca: args.ca.as_deref().map(absolute).transpose()?,
                socket: None,
            };
            match file.exists() {
                true => {
                    let config = Config::load(&file)?;
                    current.clone_from(&config.current);
                    (Client::at(&profile, known(config, globals, &datacenter)?)?, false)
                }
                false => (Client::at(&profile, datacenter)?, true),
            }
        }
        _ => (Client::open(&profile)?, false),
    };
    let Datacenter { name, username, password, endpoint, .. } = client.datacenter().clone();
    let password = match password {
        Some(password) => password,
        None => prompt::password(&format!("password of {username} at {endpoint}"))?,
    };
    if password.expose().is_empty() {
        return Err(Error::invalid("the password is empty"));
    }
    client.login(&password)?;
    if is_new {
        client.create_config(&file)?;
        say(&format!("wrote {}", file.display()));
    }
    let mut output = Output::open();
    output.line(format_args!("{username} is logged in at {name} ({endpoint})"))?;
    output.close()?;
    if let Some(current) = current.filter(|current| *current != name) {
        say(&format!("commands use {current}: `paddlecloud datacenter use {name}` changes that"));
    }
    Ok(ExitCode::SUCCESS)
}

/// A path that means the same file for later commands, wherever they are called.
fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path)
        .map_err(|source| Error::io("cannot find a file", source).with("file", path.display()))
}

pub(crate) fn logout(globals: &Globals) -> Result<ExitCode> {
    let client = cloud::connect(globals)?;
    let line = match client.logout()? {
        true => "logged out",
        false => "nobody was logged in",
    };
    let mut output = Output::open();
    output.line(line)?;
    output.close()?;
    Ok(ExitCode::SUCCESS)
}

/// The entry that a configuration has for a server and a user, so that a first login may be made
/// twice.
///
/// # Errors
/// It has none: a file that somebody wrote is not changed by us beyond recognition.
fn known(config: Config, globals: &Globals, wanted: &Datacenter) -> Result<Datacenter> {
    let file = config.file.display().to_string();
    let is_wanted = |own: &Datacenter| {
        let has_name = globals.datacenter.as_ref().is_none_or(|name| *name == own.name);
        has_name && (&own.endpoint, &own.username) == (&wanted.endpoint, &wanted.username)
    };
    let mut entries = config.entries.into_iter().filter_map(|entry| entry.datacenter.ok());
    if let Some(own) = entries.find(is_wanted) {
        return Ok(own);
    }
    let name = globals.datacenter.as_deref().unwrap_or("datacenter2");
    let Datacenter { endpoint, username, .. } = wanted;
    let message = format!(
        "there is a configuration already: add `- {{name: {name}, username: {username}, endpoint: \
         {endpoint}}}` to its `datacenters`, then use `paddlecloud login -datacenter {name}`"
    );
    Err(Error::new(Kind::AlreadyExists, message).with("file", file))
}
