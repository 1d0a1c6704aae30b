//! `paddlecloud login` and `logout`.

use crate::args::Globals;
use crate::cloud::{self, say};
use cli::output::Output;
use cli::prompt;
use client::{Client, Config, Datacenter};
use contract::{Error, Kind, Result, name};
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
}

pub(crate) fn run(globals: &Globals, args: &Args) -> Result<ExitCode> {
    let profile = cloud::profile(globals)?;
    let file = profile.config_file();
    let (client, is_new) = match (&args.endpoint, &args.username) {
        (Some(endpoint), Some(username)) => {
            if file.exists() {
                return Err(known(&Config::load(&file)?, globals, endpoint, username));
            }
            name::check_user(username)?;
            let name = globals.datacenter.clone().unwrap_or_else(|| "datacenter1".to_owned());
            name::check_datacenter(&name)?;
            let datacenter = Datacenter {
                name,
                username: username.clone(),
                password: None,
                endpoint: endpoint.parse()?,
                ca: None,
                socket: None,
            };
            (Client::at(&profile, datacenter)?, true)
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
    Ok(ExitCode::SUCCESS)
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

/// A file that somebody wrote is not changed by us beyond recognition.
fn known(config: &Config, globals: &Globals, endpoint: &str, username: &str) -> Error {
    let name = globals.datacenter.as_deref().unwrap_or("datacenter2");
    let message = format!(
        "there is a configuration already: add `- {{name: {name}, username: {username}, endpoint: \
         {endpoint}}}` to its `datacenters`, then use `paddlecloud login -datacenter {name}`"
    );
    Error::new(Kind::AlreadyExists, message).with("file", config.file.display())
}
