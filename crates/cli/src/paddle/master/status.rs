//! `paddle master status`: what a running master knows of itself.

use super::args;
use crate::service::{fresh_incarnation, read_pem};
use ::master::client::{Blocking, ClientConfig, Retry, Status, tls};
use cli::output::{Format, Output};
use contract::env::Environment;
use contract::port::Endpoint;
use contract::{Error, Result};
use std::process::ExitCode;
use std::time::Duration;

pub(super) fn run(args: &args::Status, environment: Environment) -> Result<ExitCode> {
    let endpoint = args.endpoint.clone().or(environment.master).ok_or_else(|| {
        Error::invalid("which master? give --endpoint host:port, or set PADDLE_MASTER_ENDPOINT")
    })?;
    let config = ClientConfig {
        name: "paddle master status".to_owned(),
        token: environment.token,
        tls: tls_config(args, &endpoint)?,
        // Whoever looks wants to know now.
        retry: Retry { deadline: Duration::ZERO, ..Retry::default() },
        ..ClientConfig::new(fresh_incarnation()?)
    };
    let status = Blocking::connect(config, &endpoint, None)?.status()?;
    let mut output = Output::open();
    match args.output {
        Format::Json => output.json(&status)?,
        Format::Text => print(&mut output, &status)?,
    }
    output.close()?;
    Ok(ExitCode::SUCCESS)
}

fn tls_config(args: &args::Status, endpoint: &Endpoint) -> Result<Option<tls::ClientConfig>> {
    let Some(authorities) = &args.tls_ca else { return Ok(None) };
    let authorities = read_pem(authorities)?;
    let own = match (&args.tls_cert, &args.tls_key) {
        (Some(certificates), Some(key)) => Some((read_pem(certificates)?, read_pem(key)?)),
        _ => None,
    };
    let identity =
        own.as_ref().map(|(certificates_pem, key_pem)| tls::Identity { certificates_pem, key_pem });
    tls::ClientConfig::new(&authorities, endpoint.host(), identity).map(Some)
}

fn print(output: &mut Output, status: &Status) -> Result<()> {
    let pass = match (status.is_over, status.passes) {
        (true, _) => "over".to_owned(),
        (false, 0) => status.pass.to_string(),
        (false, passes) => format!("{} of {passes}", status.pass),
    };
    let counts = [status.tasks, status.todo, status.pending, status.done, status.set_aside];
    let row = std::iter::once(pass).chain(counts.map(|count| count.to_string())).collect();
    output.table(&["PASS", "TASKS", "TODO", "PENDING", "DONE", "SET ASIDE"], &[row])?;
    if !status.pending_tasks.is_empty() {
        let row = |task: &::master::message::PendingTask| {
            vec![task.task.to_string(), task.trainer.clone(), task.failures.to_string()]
        };
        let rows: Vec<_> = status.pending_tasks.iter().map(row).collect();
        output.line("")?;
        output.table(&["PENDING", "TRAINER", "FAILURES"], &rows)?;
    }
    if !status.set_aside_tasks.is_empty() {
        let row = |task: &::master::message::SetAsideTask| {
            let [id, pass] = [task.task, task.pass].map(|number| number.to_string());
            vec![id, pass, task.files.join(" "), task.reason.clone()]
        };
        let rows: Vec<_> = status.set_aside_tasks.iter().map(row).collect();
        output.line("")?;
        output.table(&["SET ASIDE", "PASS", "FILES", "REASON"], &rows)?;
    }
    Ok(())
}
