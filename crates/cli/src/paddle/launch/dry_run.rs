//! `--dry-run`: what a plan would start, for people and for programs. The token is not shown.

use cli::output::{Format, Output};
use contract::Result;
use contract::env::variable;
use contract::quote::quote;
use contract::ready::Ready;
use scheduler::ReplicaId;
use scheduler::plan::{JobPlan, ReplicaPlan};
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::process::ExitCode;

#[derive(Serialize)]
struct Row {
    replica: ReplicaId,
    host: String,
    directory: String,
    log: String,
    argv: Vec<String>,
    env: BTreeMap<String, String>,
}

/// `script` is what a cluster would be asked to run, if one is.
pub(super) fn print(plan: &JobPlan, script: Option<&str>, format: Format) -> Result<ExitCode> {
    let rows: Vec<Row> =
        plan.replicas.iter().map(|replica| row(plan, replica)).collect::<Result<_>>()?;
    let mut output = Output::open();
    match format {
        Format::Json => output.json(&rows)?,
        Format::Text => {
            if let Some(script) = script {
                output.line(script)?;
            }
            for row in &rows {
                output.line(row.replica)?;
                output.line(format_args!("  host       {}", row.host))?;
                output.line(format_args!("  directory  {}", row.directory))?;
                output.line(format_args!("  log        {}", row.log))?;
                output.line(format_args!("  command    {}", quote(&row.argv)))?;
                for (name, value) in &row.env {
                    output.line(format_args!("  {name}={value}"))?;
                }
            }
        }
    }
    output.close()?;
    Ok(ExitCode::SUCCESS)
}

fn row(plan: &JobPlan, replica: &ReplicaPlan) -> Result<Row> {
    let start = plan.start(replica, 0, false, &BTreeMap::new())?;
    let mut env = start.env;
    if !replica.id.is_server() {
        show_unknown_ports(plan, replica, &mut env)?;
    }
    for (name, value) in &mut env {
        if variable(name).is_some_and(|known| known.is_secret()) {
            "***".clone_into(value);
        }
    }
    Ok(Row {
        replica: replica.id,
        host: plan.nodes[replica.node].name.clone(),
        directory: replica.directory.display().to_string(),
        log: replica.log.display().to_string(),
        argv: start.argv,
        env,
    })
}

/// Ports that the system will choose are not known yet. What depends on them is shown with the
/// server's name for its port, and found by trying: whatever changes when servers have ports.
fn show_unknown_ports(
    plan: &JobPlan,
    replica: &ReplicaPlan,
    env: &mut BTreeMap<String, String>,
) -> Result<()> {
    let servers = plan.replicas.iter().filter(|other| other.id.is_server());
    let pretended: BTreeMap<ReplicaId, Ready> = servers
        .zip((1..=u16::MAX).rev())
        .map(|(server, first)| {
            let addresses = vec![IpAddr::from(Ipv4Addr::LOCALHOST)];
            let ports = contract::port::Ports { first, dense: 1, sparse: 0 };
            (server.id, Ready { role: server.id.role, rank: None, addresses, ports })
        })
        .collect();
    for (name, value) in plan.start(replica, 0, false, &pretended)?.env {
        if env.get(&name) != Some(&value) {
            let shown = pretended.iter().fold(value, |value, (server, ready)| {
                value.replace(&ready.ports.first.to_string(), &format!("<port of {server}>"))
            });
            env.insert(name, shown);
        }
    }
    Ok(())
}
