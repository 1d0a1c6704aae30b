//! The original's REST interface: its paths, verbs and envelopes, translated to the services that
//! answer `/api/v2`. No rule lives here.
//!
//! Almost everything answers with status 200, also refusals: the original's client takes anything
//! else for a broken server and throws the text away. Jobs of all datacenters are one list, as they
//! were one namespace.

mod body;
mod file;
mod job;
mod pfs;
mod registry;

use crate::Cloud;
use crate::datacenters::Datacenter;
use crate::http::{Address, Answer, Body, Caller};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use axum::{Json, Router};
use contract::api::user::Login;
use contract::path::{Access, PfsPath};
use contract::{Kind, Result};
use serde_json::{Value, json};
use std::sync::Arc;

/// The original's calls, each with and without a slash at the end.
pub(crate) fn router() -> Router<Arc<Cloud>> {
    let unlimited = DefaultBodyLimit::disable;
    let jobs = || get(job::list).post(job::submit).delete(job::kill);
    let table: [(&str, MethodRouter<Arc<Cloud>>); 16] = [
        ("/api-token-auth", post(login)),
        ("/api/v1/token2user", get(user)),
        ("/api/v1/jobs", jobs()),
        ("/api/v1/trainingjobs", jobs()),
        ("/api/v1/pservers", get(job::pservers)),
        ("/api/v1/workers", get(job::workers)),
        ("/api/v1/logs", get(job::logs)),
        ("/api/v1/quota", get(job::quota)),
        ("/api/v1/registry", get(registry::list).post(registry::put).delete(registry::delete)),
        ("/api/v1/publish", get(file::links).post(file::publish)),
        ("/filepub", get(crate::links::download)),
        ("/api/v1/file", get(file::get).post(file::put).layer(unlimited())),
        ("/api/v1/filelist", get(file::list)),
        ("/api/v1/pfs/files", get(pfs::look).post(pfs::change).delete(pfs::change)),
        ("/api/v1/pfs/chunks", get(pfs::meta)),
        ("/api/v1/pfs/storage/chunks", get(pfs::get).post(pfs::put).layer(unlimited())),
    ];
    table.into_iter().fold(Router::new(), |router, (path, methods)| {
        router.route(path, methods.clone()).route(&format!("{path}/"), methods)
    })
}

/// A name and a password for a token that does not end while it is used.
async fn login(
    State(cloud): State<Arc<Cloud>>,
    address: Address,
    Body(login): Body<Login>,
) -> Answer<Response> {
    let session = crate::users::login(State(cloud), address, Body(login)).await;
    match session {
        Ok(session) => Ok(Json(json!({"token": session.token})).into_response()),
        Err(refusal) if refusal.error().kind() == Kind::Unauthenticated => {
            let body = json!({"non_field_errors": [refusal.error().message()]});
            Ok((StatusCode::BAD_REQUEST, Json(body)).into_response())
        }
        Err(refusal) => Err(refusal),
    }
}

/// Whose token it is.
async fn user(caller: Caller) -> Json<Value> {
    Json(json!({"user": caller.username}))
}

/// The datacenter that a client means. A cloud with one datacenter may be called anything: the
/// name is the client's own in its configuration.
fn place<'a>(cloud: &'a Cloud, name: &str) -> Result<&'a Arc<Datacenter>> {
    match cloud.datacenters.values().next() {
        Some(only) if cloud.datacenters.len() == 1 && !name.is_empty() => Ok(only),
        _ => cloud.datacenter(name),
    }
}

/// A path of the file system, with the server's own name of its datacenter.
fn locate(cloud: &Cloud, text: &str) -> Result<PfsPath> {
    let current = cloud.datacenters.keys().next().map_or("", String::as_str);
    let path = PfsPath::parse(text, current)?;
    let name = &place(cloud, path.datacenter())?.name;
    let top = match path.owner() {
        Some(owner) => PfsPath::home(name, owner)?,
        None => PfsPath::public(name)?,
    };
    top.join(&path.components().join("/"))
}

/// A place of the file system that the caller may use so.
async fn own_place(
    cloud: &Cloud,
    caller: &Caller,
    text: &str,
    access: Access,
) -> Result<crate::files::place::PermittedPath> {
    let path = locate(cloud, text)?.to_string();
    crate::files::place::place(cloud, caller, &path, access).await
}

/// `{"code": 200, "msg": ""}`, or the reason for a refusal with the given code.
fn coded(result: Result<()>, code: u16) -> Json<Value> {
    match result {
        Ok(()) => Json(json!({"code": 200, "msg": ""})),
        Err(error) => Json(json!({"code": code, "msg": error.to_string()})),
    }
}

/// A time as Kubernetes writes it; empty for none, which the original's client prints as nothing.
fn time(at_ms: Option<u64>) -> String {
    let at = at_ms.and_then(|at| jiff::Timestamp::from_second(i64::try_from(at / 1000).ok()?).ok());
    at.map(|at| at.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_the_original_does() {
        assert_eq!(time(Some(1_495_612_365_123)), "2017-05-24T07:52:45Z");
        assert_eq!(time(None), "");
    }
}
