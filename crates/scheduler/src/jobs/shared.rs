//! The checkpoint folder of servers on several machines must be one folder: a checkpoint is restored
//! by other machines than those that wrote it, and is complete only if all its parts are in one
//! place. So it is tried before anything is started.

use crate::plan::JobPlan;
use crate::supervisor::host::Host;
use crate::supervisor::message::{Command, Probe, ProbeAction};
use contract::role::Role;
use contract::{Error, Kind, Result};
use std::collections::BTreeSet;
use std::path::Path;

/// Refuses a checkpoint folder that the machines with servers do not share.
///
/// # Errors
/// [`Kind::Unsupported`] if it is not shared; whatever is wrong with a machine otherwise.
pub(super) async fn check(plan: &JobPlan, checkpoint_dir: &str, hosts: &mut [Host]) -> Result<()> {
    let servers = plan.replicas.iter().filter(|replica| replica.id.role == Role::Pserver);
    let nodes: BTreeSet<usize> = servers.map(|replica| replica.node).collect();
    let mut nodes = nodes.into_iter();
    let (Some(first), false) = (nodes.next(), checkpoint_dir.is_empty()) else { return Ok(()) };
    let others: Vec<usize> = nodes.collect();
    if others.is_empty() {
        return Ok(());
    }
    let folder = |node: usize| plan.nodes[node].workspace.join(checkpoint_dir);
    let name = format!(".shared-{:016x}", wire::fresh_incarnation());
    let probe = |node: usize, action| Probe { folder: folder(node), name: name.clone(), action };
    let written = ask(hosts, first, probe(first, ProbeAction::Write)).await?;
    if let Some(problem) = written {
        return Err(refused("cannot be written", plan, first, &folder(first), &problem));
    }
    let mut outcome = Ok(());
    for node in others {
        let found = ask(hosts, node, probe(node, ProbeAction::Find)).await;
        if let Some(problem) = found? {
            let other = &plan.nodes[first].name;
            let what = format!("is not the one of {other}");
            outcome = Err(refused(&what, plan, node, &folder(node), &problem));
            break;
        }
    }
    // Left behind where the machine is lost now, which is met later.
    let _ = ask(hosts, first, probe(first, ProbeAction::Remove)).await;
    outcome
}

async fn ask(hosts: &mut [Host], node: usize, probe: Probe) -> Result<Option<String>> {
    hosts[node].probe(&Command::Probe(probe)).await
}

fn refused(what: &str, plan: &JobPlan, node: usize, folder: &Path, problem: &str) -> Error {
    let message = format!(
        "the checkpoint folder on {} {what}: servers on several machines need one that all of them \
         reach, such as a mounted network file system; name it with an absolute checkpoint_dir, or \
         put all servers on one machine",
        plan.nodes[node].name
    );
    Error::new(Kind::Unsupported, message)
        .with("checkpoint_dir", folder.display())
        .with("found", problem)
}
