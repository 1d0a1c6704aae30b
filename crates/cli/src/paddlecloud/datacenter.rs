//! `paddlecloud datacenter`: the datacenters of the configuration.

use crate::args::Globals;
use crate::cloud;
use crate::view::{Table, View};
use cli::output::Output;
use client::{Config, use_datacenter};
use contract::Result;
use serde::Serialize;
use std::process::ExitCode;

/// List the datacenters of the configuration, or choose one
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List the datacenters of the configuration
    List {
        #[command(flatten)]
        view: View,
    },
    /// Make a datacenter the current one
    Use {
        /// Its name in the configuration
        #[arg(value_name = "NAME")]
        name: String,
    },
}

#[derive(Serialize)]
struct Row {
    is_current: bool,
    name: String,
    endpoint: String,
    username: String,
    problem: String,
}

pub(crate) fn run(globals: &Globals, args: &Args) -> Result<ExitCode> {
    let file = cloud::profile(globals)?.config_file();
    match &args.action {
        Action::List { view } => {
            let config = Config::load(&file)?;
            let rows: Vec<Row> = config.entries.iter().map(|entry| row(&config, entry)).collect();
            view.show(&rows, |rows| table(rows))?;
        }
        Action::Use { name } => {
            use_datacenter(&file, name)?;
            let mut output = Output::open();
            output.line(format_args!("{name} is the current datacenter"))?;
            output.close()?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn row(config: &Config, entry: &client::Entry) -> Row {
    let is_current = config.current.as_ref() == Some(&entry.name)
        || (config.current.is_none() && config.entries.len() == 1);
    let (endpoint, username, problem) = match &entry.datacenter {
        Ok(datacenter) => {
            (datacenter.endpoint.to_string(), datacenter.username.clone(), String::new())
        }
        Err(error) => (String::new(), String::new(), error.chain()),
    };
    Row { is_current, name: entry.name.clone(), endpoint, username, problem }
}

fn table(rows: &[Row]) -> Table {
    let row = |row: &Row| {
        vec![
            if row.is_current { "*" } else { "" }.to_owned(),
            row.name.clone(),
            row.endpoint.clone(),
            row.username.clone(),
            row.problem.clone(),
        ]
    };
    Table {
        header: &["CURRENT", "NAME", "ENDPOINT", "USERNAME", "PROBLEM"],
        narrow: if rows.iter().any(|row| !row.problem.is_empty()) { 5 } else { 4 },
        rows: rows.iter().map(row).collect(),
    }
}
