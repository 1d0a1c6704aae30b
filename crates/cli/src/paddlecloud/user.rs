//! `paddlecloud user`: users, for administrators; and everybody's own password.

use crate::args::Globals;
use crate::cloud::{connect, say};
use crate::view::{Table, View};
use cli::output::Output;
use cli::{prompt, time};
use contract::api::quota::Limits;
use contract::api::user::{NewUser, User, UserChange};
use contract::quantity::Quantity;
use contract::secret::Secret;
use contract::{Error, Result, name};
use std::process::ExitCode;

/// Add, list and change users (administrators)
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Add a user; the password is asked for, or read from standard input
    Add {
        /// Their name, often an e-mail address
        #[arg(value_name = "NAME")]
        name: String,
        /// They may manage users, quotas and public files
        #[arg(long)]
        admin: bool,
        /// Let the server make a password, which is printed once
        #[arg(long)]
        generate: bool,
    },
    /// List users
    List {
        #[command(flatten)]
        view: View,
    },
    /// Change a password: your own, or, as an administrator, that of a user
    Passwd {
        /// The user [default: yourself]
        #[arg(value_name = "NAME")]
        name: Option<String>,
    },
    /// Do not let a user log in; their tokens and jobs end
    Disable {
        /// The user
        #[arg(value_name = "NAME")]
        name: String,
        /// Let their jobs go on, and start those that wait
        #[arg(long = "keep_jobs")]
        keep_jobs: bool,
    },
    /// Let a user log in again
    Enable {
        /// The user
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Change what a user may use; limits that are not given stay as they are
    Quota {
        /// The user
        #[arg(value_name = "NAME")]
        name: String,
        /// Cores of all running jobs
        #[arg(long)]
        cpu: Option<Quantity>,
        /// Memory of all running jobs
        #[arg(long)]
        memory: Option<Quantity>,
        /// Devices of all running jobs
        #[arg(long)]
        gpu: Option<Quantity>,
        /// Replicas of all running jobs
        #[arg(long, value_name = "N", value_parser = cli::number::parse::<u32>)]
        replicas: Option<u32>,
        /// Jobs that have not ended
        #[arg(long, value_name = "N", value_parser = cli::number::parse::<u32>)]
        jobs: Option<u32>,
        /// Bytes of the files in their home, such as 100Gi
        #[arg(long)]
        disk: Option<Quantity>,
        /// Go back to the limits that users have by default
        #[arg(long, conflicts_with_all = ["cpu", "memory", "gpu", "replicas", "jobs", "disk"])]
        reset: bool,
    },
}

pub(crate) fn run(globals: &Globals, args: &Args) -> Result<ExitCode> {
    match &args.action {
        Action::Add { name, admin, generate } => add(globals, name, *admin, *generate)?,
        Action::List { view } => {
            let users = connect(globals)?.users()?;
            view.show(&users, |users| table(users))?;
        }
        Action::Passwd { name } => passwd(globals, name.as_deref())?,
        Action::Disable { name, keep_jobs } => {
            let change = UserChange { keeps_jobs: *keep_jobs, ..enabled(false) };
            connect(globals)?.change_user(name, &change)?;
            let jobs = if *keep_jobs { "their jobs go on" } else { "their jobs are being ended" };
            print(format_args!("{name} cannot log in any more; {jobs}"))?;
        }
        Action::Enable { name } => {
            connect(globals)?.change_user(name, &enabled(true))?;
            print(format_args!("{name} may log in again"))?;
        }
        Action::Quota { name, reset: true, .. } => {
            connect(globals)?.reset_quota(name)?;
            print(format_args!("the quota of {name} is the default again"))?;
        }
        Action::Quota { name, cpu, memory, gpu, replicas, jobs, disk, reset: false } => {
            let (cpu, memory, gpu) = (*cpu, *memory, *gpu);
            let given = Limits { cpu, memory, gpu, replicas: *replicas, jobs: *jobs, disk: *disk };
            set_quota(globals, name, &given)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn add(globals: &Globals, name: &str, is_admin: bool, generate: bool) -> Result<()> {
    name::check_user(name)?;
    let client = connect(globals)?;
    let password = match generate {
        true => None,
        false => Some(not_empty(prompt::new_password(&format!("password of {name}"))?)?),
    };
    let password = password.map(|password| password.expose().to_owned());
    let added = client.add_user(&NewUser { username: name.to_owned(), password, is_admin })?;
    match added.password {
        Some(password) => {
            say(&format!("{name} is added; this password is not told again:"));
            print(password)
        }
        None => print(format_args!("{name} is added")),
    }
}

fn passwd(globals: &Globals, name: Option<&str>) -> Result<()> {
    let client = connect(globals)?;
    let own = client.username()?;
    let name = name.unwrap_or(&own);
    let old_password = match name == own {
        true => Some(prompt::password("password until now")?.expose().to_owned()),
        false => None,
    };
    let password = not_empty(prompt::new_password(&format!("new password of {name}"))?)?;
    let password = Some(password.expose().to_owned());
    client.change_user(name, &UserChange { password, old_password, ..UserChange::default() })?;
    print(format_args!("the password of {name} is changed; its logins have ended"))?;
    if name == own && client.datacenter().password.is_some() {
        say("write it into the configuration, too: the old one is there");
    }
    Ok(())
}

fn enabled(is_enabled: bool) -> UserChange {
    UserChange { is_enabled: Some(is_enabled), ..UserChange::default() }
}

/// Changes the limits that are given, and keeps the others.
fn set_quota(globals: &Globals, name: &str, given: &Limits) -> Result<()> {
    if *given == Limits::default() {
        let message = "name at least one limit; `paddlecloud get quota NAME` shows them";
        return Err(Error::invalid(message).with("user", name));
    }
    let client = connect(globals)?;
    let present = client.quota(Some(name))?.limits;
    let limits = Limits {
        cpu: given.cpu.or(present.cpu),
        memory: given.memory.or(present.memory),
        gpu: given.gpu.or(present.gpu),
        replicas: given.replicas.or(present.replicas),
        jobs: given.jobs.or(present.jobs),
        disk: given.disk.or(present.disk),
    };
    client.set_quota(name, &limits)?;
    print(format_args!("the quota of {name} is changed"))
}

fn not_empty(password: Secret) -> Result<Secret> {
    match password.expose().is_empty() {
        true => {
            Err(Error::invalid("the password is empty: use -generate to let the server make one"))
        }
        false => Ok(password),
    }
}

fn print(line: impl std::fmt::Display) -> Result<()> {
    let mut output = Output::open();
    output.line(line)?;
    output.close()
}

fn table(users: &[User]) -> Table {
    let word = |is: bool| if is { "yes" } else { "no" }.to_owned();
    let row = |user: &User| {
        let User { username, is_admin, is_enabled, created_ms } = user;
        vec![username.clone(), word(*is_admin), word(*is_enabled), time::moment(*created_ms)]
    };
    Table {
        header: &["NAME", "ADMIN", "ENABLED", "CREATED"],
        narrow: 4,
        rows: users.iter().map(row).collect(),
    }
}
