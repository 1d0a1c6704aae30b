//! Who this pod is in its job, and where the others are.
//!
//! What is in the environment is taken as it is. A pod that is in a list of servers or trainers
//! has its rank from its place there. For the rest the API server is asked, again and again until
//! everything is known or the time is over: pods of one job do not start at one moment.

use crate::args::Verb;
use crate::listening::say;
use contract::env::Environment;
use contract::port::Endpoint;
use contract::role::Role;
use contract::{Error, Kind, Result};
use kube::Client;
use scheduler::kubernetes::api::{Access, connect};
use scheduler::kubernetes::peers::{Peer, Peers, label};
use std::time::{Duration, Instant};

/// Between two questions to the API server.
const PAUSE: Duration = Duration::from_secs(1);
/// Between two lines about what is waited for.
const WORD: Duration = Duration::from_secs(15);
/// The namespace of a pod with a service account.
const NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
/// Begin with the newest checkpoint that all servers have, or with first values.
pub(crate) const COMMON: &str = "common";
const RIGHTS: &str = "the pod's service account must be allowed to get and list pods and, where \
                      pods have no numbers, to list, create and update leases: docs/kubernetes.md \
                      has the Role";

/// Fills in what the environment does not say.
pub(crate) async fn settle(
    mut environment: Environment,
    verb: &Verb,
    deadline: Instant,
) -> Result<Environment> {
    let is_fluid = matches!(verb, Verb::StartFluid);
    if environment.rank.is_none() {
        environment.rank = place(&environment);
    }
    let Missing { rank, servers, folder, master } = Missing::of(&environment, verb);
    if !(rank || servers || folder || master) {
        return Ok(environment);
    }
    let cluster = Cluster::open(&environment, deadline).await?;
    if folder {
        take_folder(&mut environment, &cluster).await?;
    }
    if rank {
        environment.rank = Some(cluster.rank(&environment).await?);
    }
    if servers {
        let addresses = cluster.addresses(Role::Pserver, environment.pservers).await?;
        environment.pserver_endpoints = endpoints(&addresses)?;
    }
    let may_have_master = environment.role == Role::Trainer && !is_fluid;
    if may_have_master && environment.master.is_none() {
        environment.master = cluster.master(master).await?;
    }
    // Programs of Fluid's time look for them.
    if is_fluid && environment.role == Role::Trainer && environment.trainer_hosts.is_empty() {
        let addresses = cluster.addresses(Role::Trainer, environment.trainers).await?;
        environment.trainer_hosts = endpoints(&addresses)?;
    }
    environment.is_local = environment.pservers == 0;
    environment.check()?;
    Ok(environment)
}

/// What has to be asked of the API server.
struct Missing {
    rank: bool,
    servers: bool,
    folder: bool,
    /// A job of other verbs may have none.
    master: bool,
}

impl Missing {
    fn of(environment: &Environment, verb: &Verb) -> Missing {
        let Environment { role, rank, pservers, checkpoint_dir, restore, .. } = environment;
        let is_fluid = matches!(verb, Verb::StartFluid);
        let needs_servers = *role == Role::Trainer || is_fluid && *role == Role::Pserver;
        Missing {
            rank: rank.is_none() && *role != Role::Master,
            servers: needs_servers && *pservers > 0 && environment.pserver_endpoints.is_empty(),
            folder: *role == Role::Pserver && !checkpoint_dir.is_empty() && restore.is_empty(),
            master: matches!(verb, Verb::StartNewTrainer) && environment.master.is_none(),
        }
    }
}

/// The name of this pod: it is its host name, too.
fn pod_name(environment: &Environment) -> String {
    match environment.pod_name.as_str() {
        "" => rustix::system::uname().nodename().to_string_lossy().into_owned(),
        name => name.to_owned(),
    }
}

/// The rank of a pod that is in the list of its role, by address or by name.
fn place(environment: &Environment) -> Option<u32> {
    let list = match environment.role {
        Role::Trainer => &environment.trainer_hosts,
        Role::Pserver => &environment.pserver_endpoints,
        Role::Master => return Some(0),
    };
    let pod_name = pod_name(environment);
    let is_own = |entry: &Endpoint| {
        let is = |text: &str| !text.is_empty() && entry.host().eq_ignore_ascii_case(text);
        let label = entry.host().split('.').next().unwrap_or_default();
        is(&environment.address) || is(&pod_name) || label == pod_name
    };
    // Two servers of one address differ by their ports, which say nothing about this pod.
    match list.iter().filter(|entry| is_own(entry)).count() {
        1 => list.iter().position(is_own).and_then(|place| u32::try_from(place).ok()),
        _ => None,
    }
}

/// Pods of a job that was started again go on from its checkpoints, and another job of the same
/// name must not: each has a folder of its own.
async fn take_folder(environment: &mut Environment, cluster: &Cluster) -> Result<()> {
    let own = cluster.own(environment).await?;
    let Some(owner) = own.owner else {
        let message = "a pod that nothing controls cannot tell its own checkpoints from those of \
                       another job: set PADDLE_RESTORE to `common` or to the number of one";
        return Err(
            Error::invalid(message).with("PADDLE_CHECKPOINT_DIR", &environment.checkpoint_dir)
        );
    };
    let dir = environment.checkpoint_dir.trim_end_matches('/');
    environment.checkpoint_dir = format!("{dir}/{owner}");
    environment.restore = COMMON.to_owned();
    Ok(())
}

fn endpoints(addresses: &[String]) -> Result<Vec<Endpoint>> {
    addresses.iter().map(|address| address.parse()).collect()
}

/// The API server, as a pod sees it.
struct Cluster {
    client: Client,
    namespace: String,
    job: String,
    deadline: Instant,
}

impl Cluster {
    async fn open(environment: &Environment, deadline: Instant) -> Result<Cluster> {
        let client = connect(&Access::default()).await.map_err(explain)?;
        let own = || std::fs::read_to_string(NAMESPACE).ok().map(|text| text.trim().to_owned());
        let namespace = match environment.namespace.as_str() {
            "" => own().unwrap_or_else(|| client.default_namespace().to_owned()),
            namespace => namespace.to_owned(),
        };
        if environment.job.is_empty() {
            let message = "the environment does not say which job this pod is of: set \
                           PADDLE_JOB_NAME to the value of the pods' label paddle-job";
            return Err(Error::invalid(message));
        }
        Ok(Cluster { client, namespace, job: environment.job.clone(), deadline })
    }

    fn peers(&self, role: Role, count: u32) -> Peers {
        Peers::new(&self.client, &self.namespace, (role, count), &self.job)
    }

    async fn own(&self, environment: &Environment) -> Result<Peer> {
        let name = pod_name(environment);
        let peers = self.peers(environment.role, 0);
        self.until("the API server", async || peers.pod(&name).await.map(Ok)).await
    }

    async fn rank(&self, environment: &Environment) -> Result<u32> {
        let count = match environment.role {
            Role::Trainer => environment.trainers,
            _ => environment.pservers,
        };
        let own = self.own(environment).await?;
        let peers = self.peers(environment.role, count);
        let busy = || format!("all {count} ranks are held by other pods");
        self.until("a free rank", async || Ok(peers.settle(&own).await?.ok_or_else(busy))).await
    }

    async fn addresses(&self, role: Role, count: u32) -> Result<Vec<String>> {
        let peers = self.peers(role, count);
        let missing = |ranks: Vec<u32>| {
            let names: Vec<String> = ranks.iter().map(|rank| format!("{role}-{rank}")).collect();
            format!("no address yet: {}", names.join(", "))
        };
        let what = "the other pods";
        self.until(what, async || Ok(peers.addresses().await?.map_err(missing))).await
    }

    /// Where the master listens. One that is needed is waited for, and so is the address of any.
    async fn master(&self, is_needed: bool) -> Result<Option<Endpoint>> {
        let peers = self.peers(Role::Master, 1);
        let missing = || format!("no pod has the label {}={}", label(Role::Master), self.job);
        let question = async || {
            let pods = peers.list().await?;
            let live = || pods.iter().filter(|pod| pod.is_live && !pod.is_ending);
            if let Some(address) = live().find_map(|pod| pod.address.as_ref()) {
                return Ok(Ok(Some(Endpoint::new(address, master::PORT)?)));
            }
            Ok(match live().next() {
                Some(pod) => Err(format!("no address yet: {}", pod.name)),
                None if is_needed => Err(missing()),
                None => Ok(None),
            })
        };
        self.until("the master", question).await
    }

    /// Asks until there is an answer; `Err` inside says what is missing so far.
    async fn until<T>(
        &self,
        what: &str,
        question: impl AsyncFn() -> Result<std::result::Result<T, String>>,
    ) -> Result<T> {
        let mut word = Instant::now() + WORD;
        loop {
            let why = match question().await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(missing)) => missing,
                Err(error) if error.kind().is_retryable() => error.chain(),
                Err(error) => return Err(explain(error)),
            };
            if Instant::now() >= self.deadline {
                let message = format!("waited in vain for {what}; --wait gives more time");
                return Err(Error::new(Kind::Timeout, message).with("last", why));
            }
            if Instant::now() >= word {
                word = Instant::now() + WORD;
                say(&format!("waiting for {what}: {why}"));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

fn explain(error: Error) -> Error {
    match error.kind() {
        Kind::Forbidden | Kind::Unauthenticated => error.with("fix", RIGHTS),
        Kind::Invalid => {
            let message = "the environment does not say who this pod is and where the others are, \
                           and the API server cannot be asked";
            Error::invalid(message).with("fix", RIGHTS).because(error)
        }
        _ => error,
    }
}
