//! The calls of a job's own nodes. They prove to be nodes of that job by a token that the server has
//! sealed: it is good for this job's data and results, and for nothing else, while the job runs.

use super::plan::Plan;
use super::source::locate;
use super::store;
use crate::Cloud;
use crate::config::BackendKind;
use crate::files::content::{self, Manner};
use crate::files::incoming::pieces;
use crate::files::service::write;
use crate::http::{Address, Answer, Body, Parts, Question, Refusal};
use crate::jobs;
use crate::jobs::row::JobRow;
use axum::Json;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::{StatusCode, header, request};
use axum::response::{IntoResponse, Response};
use contract::api::cluster_train::{
    Awaited, NodeQuery, PART_BYTES_MAX, PartQuery, ResultQuery, SCHEME, Share, Stage,
};
use contract::path::Access;
use contract::secret::Secret;
use contract::state::State as _;
use contract::{Error, Kind, Result};
use scheduler::meeting;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is remembered of jobs whose nodes ask, and may be forgotten at any time.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    /// Plans, which never change.
    plans: Mutex<HashMap<String, Arc<Plan>>>,
}

/// A plan may have many files, and every part of a file is asked for by itself.
const PLANS_MAX: usize = 32;

/// What a job's nodes are told of this server, as a secret of the job.
pub(crate) fn stage(cloud: &Cloud, row: &JobRow) -> Result<Secret> {
    let ca = match &cloud.config.tls {
        Some(tls) if cloud.config.address.is_none() => {
            std::fs::read_to_string(&tls.cert).map_err(crate::files::unusable(&tls.cert))?
        }
        _ => String::new(),
    };
    let is_local = cloud.datacenter(&row.datacenter)?.config.backend == BackendKind::Local;
    let mut urls = urls(cloud, is_local)?.into_iter();
    let stage = Stage {
        url: urls.next().unwrap_or_default(),
        others: urls.collect(),
        ca,
        job: row.uid.clone(),
        token: cloud.vault.seal(row.uid.as_bytes(), &place(&row.uid))?,
    };
    Ok(Secret::new(crate::database::to_json(&stage)?))
}

/// Where nodes reach this server: as its configuration says, else by the address that it listens on.
/// Where that is any address, machines elsewhere are told all of them.
fn urls(cloud: &Cloud, is_local: bool) -> Result<Vec<String>> {
    if let Some(address) = &cloud.config.address {
        return Ok(vec![address.trim_end_matches('/').to_owned()]);
    }
    // When a job is submitted, or started again, before the server listens, it is only checked.
    let address = cloud.address.get().copied().unwrap_or(cloud.config.listen);
    let own = match !is_local && address.ip().is_unspecified() {
        true => meeting::addresses(address.port())?,
        false => Vec::new(),
    };
    let scheme = if cloud.config.tls.is_some() { "https" } else { "http" };
    let reachable = reachable(address, &own);
    Ok(reachable.iter().map(|address| format!("{scheme}://{address}")).collect())
}

/// What nodes should know of the addresses by which they are to reach this server.
pub(super) fn warning(cloud: &Cloud, backend: BackendKind) -> Result<Option<String>> {
    let urls = urls(cloud, backend == BackendKind::Local)?;
    let is_here = |url: &String| url.contains("://127.") || url.contains("://[::1]");
    let is_doubtful = backend != BackendKind::Local && urls.iter().all(is_here);
    Ok(is_doubtful.then(|| {
        format!(
            "nodes fetch their data from {}, which no other machine reaches: if nodes are other \
             machines, the receiver's administrator sets `listen:` or `address:`",
            urls.join(" and ")
        )
    }))
}

/// The addresses by which a listener is reached, `own` being those of its machine.
fn reachable(mut address: SocketAddr, own: &[String]) -> Vec<String> {
    let is_outside =
        |own: &&String| own.parse::<SocketAddr>().is_ok_and(|address| !address.ip().is_loopback());
    match address.ip() {
        ip if !ip.is_unspecified() => return vec![address.to_string()],
        IpAddr::V4(_) => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(_) => address.set_ip(Ipv6Addr::LOCALHOST.into()),
    }
    let outside: Vec<String> = own.iter().filter(is_outside).cloned().collect();
    if outside.is_empty() { vec![address.to_string()] } else { outside }
}

fn place(uid: &str) -> Vec<u8> {
    format!("stage/{uid}").into_bytes()
}

/// A node that proved to be one of a job that has not ended.
pub(crate) struct Node {
    job: JobRow,
    plan: Arc<Plan>,
}

impl FromRequestParts<Arc<Cloud>> for Node {
    type Rejection = Refusal;

    async fn from_request_parts(
        parts: &mut request::Parts,
        cloud: &Arc<Cloud>,
    ) -> std::result::Result<Self, Refusal> {
        // The part of the path after `/api/v2/stages/`.
        let uid = parts.uri.path().split('/').nth(4).unwrap_or_default().to_owned();
        let refuse = |message: &str| Error::new(Kind::Unauthenticated, message);
        let header = parts.headers.get(header::AUTHORIZATION).and_then(|text| text.to_str().ok());
        let token = header.and_then(|text| text.strip_prefix(SCHEME));
        let token = token.ok_or_else(|| refuse("this is for the nodes of a job"))?;
        let unsealed = cloud.vault.unseal(token.trim(), &place(&uid));
        if !unsealed.is_ok_and(|found| found == uid.as_bytes()) {
            return Err(refuse("this token is not that of the job").into());
        }
        Address::from_request_parts(parts, cloud).await?.refund(cloud);
        cloud.rate.admit(&format!("stage {uid}"))?;
        let gone = || Error::new(Kind::NotFound, "there is no such job").with("job", &uid);
        let job = jobs::service::get(cloud, &uid).await?.ok_or_else(gone)?;
        if job.state.is_final() {
            return Err(Error::new(Kind::Forbidden, "the job has ended").with("job", uid).into());
        }
        let known = lock(&cloud.nodes.plans).get(&uid).cloned();
        let plan = match known {
            Some(plan) => plan,
            None => {
                let plan = store::get(&cloud.database, &uid).await?.ok_or_else(gone)?;
                let plan = Arc::new(plan);
                let mut plans = lock(&cloud.nodes.plans);
                if plans.len() >= PLANS_MAX {
                    plans.clear();
                }
                plans.insert(uid, Arc::clone(&plan));
                plan
            }
        };
        Ok(Node { job, plan })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Node {
    fn check(&self, rank: u32) -> Result<()> {
        match rank < self.plan.nodes {
            true => Ok(()),
            false => Err(Error::invalid("the job has no such node").with("rank", rank)),
        }
    }
}

/// What a node fetches.
pub(crate) async fn share(node: Node, Question(query): Question<NodeQuery>) -> Answer<Json<Share>> {
    node.check(query.rank)?;
    Ok(Json(node.plan.share(query.rank)))
}

/// A part of a file, and its checksum.
pub(crate) async fn part(
    State(cloud): State<Arc<Cloud>>,
    node: Node,
    Parts((_, number)): Parts<(String, usize)>,
    Question(query): Question<PartQuery>,
) -> Answer<Response> {
    let missing = || Error::new(Kind::NotFound, "the job has no such file");
    let file = node.plan.files.get(number).ok_or_else(missing)?;
    let end = query.offset.checked_add(query.bytes).filter(|end| *end <= file.bytes);
    let end = end.filter(|_| query.bytes <= PART_BYTES_MAX).ok_or_else(|| {
        Error::invalid("this is no part of the file").with("bytes_max", PART_BYTES_MAX)
    })?;
    let place = locate(&cloud, &node.plan.source, &file.path, Access::Read).await?;
    let opened = place.open().await?;
    if opened.entry.etag != file.etag || opened.entry.bytes != file.bytes {
        let message = "the file was changed after the job was submitted: submit it again";
        return Err(Error::new(Kind::Conflict, message).with("path", place.shown()).into());
    }
    let manner = Manner { is_checked: true, is_attachment: false };
    Ok(content::body(opened, query.offset..end, manner).into_response())
}

/// Notes that a node's workspace is ready, and tells whose are not.
pub(crate) async fn ready(
    State(cloud): State<Arc<Cloud>>,
    node: Node,
    Body(query): Body<NodeQuery>,
) -> Answer<Json<Awaited>> {
    node.check(query.rank)?;
    let here = store::ready(&cloud.database, &node.job.uid, query.rank).await?;
    let ranks = (0..node.plan.nodes).filter(|rank| !here.contains(rank)).collect();
    Ok(Json(Awaited { ranks }))
}

/// Takes a file of the results.
pub(crate) async fn result(
    State(cloud): State<Arc<Cloud>>,
    node: Node,
    Question(query): Question<ResultQuery>,
    request: Request,
) -> Answer<StatusCode> {
    node.check(query.rank)?;
    let own = ["output", "log"].map(|top| format!("{top}/rank-{:05}/", query.rank));
    let is_odd = |part: &str| matches!(part, "" | "." | "..");
    if !own.iter().any(|top| query.path.starts_with(top)) || query.path.split('/').any(is_odd) {
        let message = "results of a node are below output/rank-N/ and log/rank-N/ of its own rank";
        return Err(Error::invalid(message).with("path", query.path.escape_debug()).into());
    }
    let top = locate(&cloud, &node.plan.source, &node.plan.output, Access::Write).await?;
    let place = top.join(&query.path)?;
    let length = request.headers().get(header::CONTENT_LENGTH);
    let length = length.and_then(|text| text.to_str().ok()?.parse().ok());
    let pieces = pieces(request.into_body());
    let (room, scratch) = (place.room(&cloud, length).await?, place.scratch().await?);
    let staged = scratch.path().join("data");
    let (bytes, found) = write(&staged, length, room, pieces).await?;
    if found != query.checksum {
        let message = "the content is not what its checksum says: send it again";
        return Err(Error::new(Kind::Damaged, message).with("path", &query.path).into());
    }
    place.publish(&cloud, staged, bytes).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(listen: &str, own: &[&str], expect: &[&str]) {
        let own: Vec<String> = own.iter().map(|address| (*address).to_owned()).collect();
        assert_eq!(reachable(listen.parse().unwrap(), &own), expect, "{listen}");
    }

    #[test]
    fn nodes_elsewhere_are_told_addresses_that_they_can_reach() {
        let own = ["10.0.0.2:80", "172.17.0.1:80", "127.0.0.1:80"];
        check("0.0.0.0:80", &own, &["10.0.0.2:80", "172.17.0.1:80"]);
        check("[::]:80", &own, &["10.0.0.2:80", "172.17.0.1:80"]);
        check("10.0.0.2:80", &[], &["10.0.0.2:80"]);
        // Nodes on the server's own machine.
        check("0.0.0.0:80", &[], &["127.0.0.1:80"]);
        check("[::]:80", &["127.0.0.1:80"], &["[::1]:80"]);
    }
}
