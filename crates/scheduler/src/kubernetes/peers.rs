//! The pods of a job as its own pods see them: found by label, each with a rank that all agree on.
//!
//! A pod of a StatefulSet, an Indexed Job or a Volcano job has a number of its own, which its
//! replacement gets again: that is its rank. Pods of anything else (a ReplicaSet, a plain Job) have
//! names by chance. An order among those that happen to run would change when one is replaced, and
//! pods that look at different moments would count differently. So they claim ranks: there is a
//! Lease for every rank, creating or replacing one is atomic, and it belongs to the pod that it
//! names. A rank is free again when that pod has ended or is gone; its Lease goes with the pod.

use super::api::ask;
use contract::role::Role;
use contract::{Error, Kind, Result};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};

/// A pod of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Its name.
    pub name: String,
    /// Tells it from an earlier pod of the same name.
    pub uid: String,
    /// Where it is reached, once it is placed.
    pub address: Option<String>,
    /// The number that its controller gave it.
    pub number: Option<u32>,
    /// Whether its program may still run.
    pub is_live: bool,
    /// Whether it was told to end.
    pub is_ending: bool,
    /// The uid of what made it, such as a Volcano job.
    pub owner: Option<String>,
}

/// Who holds a rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The rank.
    pub rank: u32,
    /// The uid of the pod.
    pub holder: String,
    /// The version of the Lease, for replacing it.
    version: Option<String>,
}

/// The pods of one role of a job.
pub struct Peers {
    pods: Api<Pod>,
    leases: Api<Lease>,
    role: Role,
    job: String,
    count: u32,
}

/// What to do about a rank.
#[derive(Debug, PartialEq, Eq)]
enum Move {
    /// The pod has it.
    Have(u32),
    /// It is nobody's: claim it, replacing the Lease of a pod that is gone.
    Take(u32, Option<String>),
    /// All are taken by pods that live.
    Wait,
}

impl Peers {
    /// The `count` pods of a role, in the namespace and with the label of a job.
    pub fn new(client: &Client, namespace: &str, (role, count): (Role, u32), job: &str) -> Peers {
        Peers {
            pods: Api::namespaced(client.clone(), namespace),
            leases: Api::namespaced(client.clone(), namespace),
            role,
            job: job.to_owned(),
            count,
        }
    }

    /// One pod by its name.
    pub async fn pod(&self, name: &str) -> Result<Peer> {
        let error = |error: Error| error.with("pod", name);
        ask("look at the own pod", self.pods.get(name)).await.map(peer).map_err(error)
    }

    /// All pods of the role that the cluster knows.
    pub async fn list(&self) -> Result<Vec<Peer>> {
        let selector = format!("{}={}", label(self.role), self.job);
        let parameters = ListParams::default().labels(&selector);
        let pods = ask("list the pods of the job", self.pods.list(&parameters)).await;
        let error = |error: Error| error.with("selector", &selector);
        Ok(pods.map_err(error)?.items.into_iter().map(peer).collect())
    }

    /// The rank of a pod, if it has a number or could claim one; `None` while all are taken.
    pub async fn settle(&self, own: &Peer) -> Result<Option<u32>> {
        if let Some(number) = own.number {
            return Ok(Some(number));
        }
        let claims = self.claims().await?;
        match decide(own, &self.list().await?, &claims, self.count) {
            Move::Have(rank) => Ok(Some(rank)),
            Move::Wait => Ok(None),
            Move::Take(rank, version) => match self.claim(own, rank, version).await {
                Ok(()) => Ok(Some(rank)),
                // Another pod was faster, or the Lease of a pod that is gone has just been removed.
                Err(error)
                    if matches!(
                        error.kind(),
                        Kind::AlreadyExists | Kind::Conflict | Kind::NotFound
                    ) =>
                {
                    Ok(None)
                }
                Err(error) => Err(error),
            },
        }
    }

    /// The addresses of all ranks; the ranks that are missing where not all are there yet.
    pub async fn addresses(&self) -> Result<std::result::Result<Vec<String>, Vec<u32>>> {
        let pods = self.list().await?;
        let is_numbered = pods.iter().all(|pod| pod.number.is_some());
        let claims = if is_numbered { Vec::new() } else { self.claims().await? };
        Ok(in_order(&pods, &claims, self.count))
    }

    async fn claims(&self) -> Result<Vec<Claim>> {
        let selector = format!("{}={}", label(self.role), self.job);
        let parameters = ListParams::default().labels(&selector);
        let leases = ask("list the ranks of the job", self.leases.list(&parameters)).await?;
        Ok(leases.items.iter().filter_map(claim).collect())
    }

    async fn claim(&self, own: &Peer, rank: u32, version: Option<String>) -> Result<()> {
        let name = format!("{}-{}-{rank}", self.job, self.role);
        let labels = [
            (label(self.role).to_owned(), self.job.clone()),
            (RANK_LABEL.to_owned(), rank.to_string()),
        ];
        let is_new = version.is_none();
        let lease = Lease {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                labels: Some(labels.into()),
                resource_version: version,
                owner_references: Some(vec![OwnerReference {
                    api_version: "v1".to_owned(),
                    kind: "Pod".to_owned(),
                    name: own.name.clone(),
                    uid: own.uid.clone(),
                    ..OwnerReference::default()
                }]),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(own.uid.clone()),
                ..LeaseSpec::default()
            }),
        };
        let parameters = PostParams::default();
        let done = match is_new {
            true => ask("claim a rank", self.leases.create(&parameters, &lease)).await,
            false => ask("claim a rank", self.leases.replace(&name, &parameters, &lease)).await,
        };
        done.map(drop).map_err(|error| error.with("lease", name))
    }
}

/// The label of a role's pods, whose value is the job.
pub fn label(role: Role) -> &'static str {
    match role {
        Role::Trainer => "paddle-job",
        Role::Pserver => "paddle-job-pserver",
        Role::Master => "paddle-job-master",
    }
}

/// On the Lease of a rank.
const RANK_LABEL: &str = "paddle-rank";
/// What the controller of Indexed Jobs writes on its pods.
const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";

fn peer(pod: Pod) -> Peer {
    let Pod { metadata, status, .. } = pod;
    let status = status.unwrap_or_default();
    let name = metadata.name.clone().unwrap_or_default();
    let phase = status.phase.as_deref().unwrap_or_default();
    Peer {
        number: number(&name, &metadata),
        name,
        uid: metadata.uid.unwrap_or_default(),
        address: status.pod_ip.filter(|address| !address.is_empty()),
        is_live: !matches!(phase, "Succeeded" | "Failed"),
        is_ending: metadata.deletion_timestamp.is_some(),
        owner: metadata.owner_references.and_then(|owners| Some(owners.into_iter().next()?.uid)),
    }
}

/// The number that a controller gave a pod for life: the next pod with it has it again.
fn number(name: &str, metadata: &ObjectMeta) -> Option<u32> {
    let annotations = metadata.annotations.as_ref();
    if let Some(index) = annotations.and_then(|all| all.get(COMPLETION_INDEX)) {
        return index.parse().ok();
    }
    let owner = metadata.owner_references.as_ref()?.first()?;
    let is_numbered = (owner.kind.as_str(), owner.api_version.split('/').next()?);
    match is_numbered {
        ("StatefulSet", "apps") | ("Job", "batch.volcano.sh") => {
            name.rsplit_once('-')?.1.parse().ok()
        }
        _ => None,
    }
}

fn claim(lease: &Lease) -> Option<Claim> {
    let rank = lease.metadata.labels.as_ref()?.get(RANK_LABEL)?.parse().ok()?;
    let holder = lease.spec.as_ref()?.holder_identity.clone()?;
    Some(Claim { rank, holder, version: lease.metadata.resource_version.clone() })
}

fn decide(own: &Peer, pods: &[Peer], claims: &[Claim], count: u32) -> Move {
    if let Some(claim) = claims.iter().find(|claim| claim.holder == own.uid) {
        return Move::Have(claim.rank);
    }
    let is_taken = |claim: &Claim| pods.iter().any(|pod| pod.is_live && pod.uid == claim.holder);
    for rank in 0..count {
        match claims.iter().find(|claim| claim.rank == rank) {
            None => return Move::Take(rank, None),
            Some(claim) if !is_taken(claim) => return Move::Take(rank, claim.version.clone()),
            Some(_) => {}
        }
    }
    Move::Wait
}

/// Addresses by rank, or the ranks without a pod that could be reached.
fn in_order(
    pods: &[Peer],
    claims: &[Claim],
    count: u32,
) -> std::result::Result<Vec<String>, Vec<u32>> {
    let is_of = |pod: &Peer, rank: u32| match pod.number {
        Some(number) => number == rank,
        None => claims.iter().any(|claim| claim.rank == rank && claim.holder == pod.uid),
    };
    let address = |rank: u32| {
        let mut able = pods.iter().filter(|pod| pod.is_live && !pod.is_ending);
        able.find(|pod| is_of(pod, rank))?.address.clone()
    };
    let all: Vec<Option<String>> = (0..count).map(address).collect();
    let missing: Vec<u32> = (0..count).filter(|rank| all[*rank as usize].is_none()).collect();
    match missing.is_empty() {
        true => Ok(all.into_iter().flatten().collect()),
        false => Err(missing),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(uid: &str, phase: &str) -> Peer {
        let pod = json!({
            "metadata": {"name": format!("ctr-{uid}"), "uid": uid},
            "status": {"phase": phase, "podIP": format!("10.0.0.{}", uid.len())},
        });
        peer(serde_json::from_value(pod).unwrap())
    }

    fn held(rank: u32, holder: &str) -> Claim {
        Claim { rank, holder: holder.to_owned(), version: Some(format!("v{rank}")) }
    }

    #[test]
    fn a_pod_takes_the_lowest_rank_that_nobody_alive_has() {
        let own = pod("own", "Running");
        let check = |pods: &[Peer], claims: &[Claim], expected: Move| {
            assert_eq!(decide(&own, pods, claims, 2), expected);
        };
        let other = pod("other", "Running");
        check(std::slice::from_ref(&own), &[], Move::Take(0, None));
        check(&[own.clone(), other.clone()], &[held(0, "other")], Move::Take(1, None));
        check(&[own.clone(), other.clone()], &[held(0, "other"), held(1, "own")], Move::Have(1));
        // One has failed, one is gone for good: their replacements take what they had.
        let failed = pod("failed", "Failed");
        let claims = [held(0, "failed"), held(1, "other")];
        check(&[own.clone(), other.clone(), failed], &claims, Move::Take(0, Some("v0".into())));
        let claims = [held(0, "other"), held(1, "gone")];
        check(&[own.clone(), other.clone()], &claims, Move::Take(1, Some("v1".into())));
        let third = pod("third", "Pending");
        check(&[own.clone(), other, third], &[held(0, "other"), held(1, "third")], Move::Wait);
    }

    /// A Lease goes with its pod, at a moment of its own.
    #[tokio::test]
    async fn a_rank_whose_lease_goes_meanwhile_is_asked_for_again() {
        let lease = json!({
            "metadata": {"name": "ctr-trainer-0", "resourceVersion": "1",
                "labels": {RANK_LABEL: "0"}},
            "spec": {"holderIdentity": "gone"},
        });
        let listed = |items: Vec<serde_json::Value>| {
            let list = json!({"metadata": {}, "items": items});
            (200, list.to_string().into_bytes())
        };
        let server = super::super::fake::Server::start(move |request| {
            match request.split(['?', ' ']).nth(1).unwrap_or_default().rsplit('/').next() {
                Some("leases") => listed(vec![lease.clone()]),
                Some("pods") => listed(Vec::new()),
                _ => super::super::fake::not_found(),
            }
        })
        .await;
        let client = super::super::api::connect(&server.access()).await.unwrap();
        let peers = Peers::new(&client, "default", (Role::Trainer, 1), "ctr");
        assert_eq!(peers.settle(&pod("own", "Running")).await.unwrap(), None);
    }

    #[test]
    fn controllers_that_number_their_pods_are_known() {
        let check = |name: &str, metadata: serde_json::Value, expected: Option<u32>| {
            let metadata = serde_json::from_value(metadata).unwrap();
            assert_eq!(number(name, &metadata), expected, "{name}");
        };
        let owner = |kind: &str, version: &str| json!({"ownerReferences": [{"kind": kind, "apiVersion": version, "name": "ctr", "uid": "1"}]});
        check("ctr-pserver-11", owner("Job", "batch.volcano.sh/v1alpha1"), Some(11));
        check("ctr-pserver-1", owner("StatefulSet", "apps/v1"), Some(1));
        // Chance may well make a name of digits.
        check("ctr-24567", owner("ReplicaSet", "apps/v1"), None);
        check("ctr-24567", owner("Job", "batch/v1"), None);
        check("ctr-3-bcdfg", json!({"annotations": {COMPLETION_INDEX: "3"}}), Some(3));
        check("alone-7", json!({}), None);
    }

    #[test]
    fn addresses_are_by_rank_and_what_is_missing_is_named() {
        let (a, b) = (pod("a", "Running"), pod("bb", "Running"));
        let claims = [held(1, "a"), held(0, "bb")];
        let both = [a.clone(), b.clone()];
        assert_eq!(in_order(&both, &claims, 2), Ok(vec!["10.0.0.2".into(), "10.0.0.1".into()]));
        assert_eq!(in_order(&both, &claims, 3), Err(vec![2]));
        let ending = Peer { is_ending: true, ..a };
        assert_eq!(in_order(&[ending, b], &claims, 2), Err(vec![1]));
    }
}
