//! Which call is answered by whom: one table.

use crate::cluster_train::node as nodes;
use crate::files::calls as files;
use crate::http::request::BodyLimit;
use crate::http::{Address, Refusal};
use crate::{
    Cloud, audit, cluster_train, datacenters, health, jobs, legacy, links, logs, openapi, packages,
    quotas, registries, users,
};
use axum::extract::{ConnectInfo, DefaultBodyLimit, Request, State};
use axum::http::Method;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, patch, post, put};
use axum::{Extension, Router};
use contract::api::path;
use contract::{Error, Kind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tower_http::catch_panic::CatchPanicLayer;

/// The list of files of the largest package.
const MANIFEST_BYTES_MAX: usize = 64 << 20;
/// How long an answer may take to begin.
const ANSWER: Duration = Duration::from_secs(120);
/// The same for a training: its configuration is executed, perhaps after those of others, and its data
/// looked for in a store that may be slow to say that it is not there. Clients wait a little longer.
const ACCEPT: Duration = Duration::from_secs(170);
/// The same for calls that send a file, over a slow line.
const UPLOAD: Duration = Duration::from_secs(4 * 3600);

/// All calls.
pub(crate) fn router(cloud: Arc<Cloud>) -> Router {
    let large = || Extension(BodyLimit(MANIFEST_BYTES_MAX));
    // These count what arrives, and keep none of it in memory.
    let unlimited = DefaultBodyLimit::disable;
    let table = Router::new()
        .route("/healthz", get(health::live))
        .route("/healthz/", get(health::live))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(health::figures))
        .route(path::LOGIN, post(users::login))
        .route(path::LOGOUT, post(users::logout))
        .route(path::WHOAMI, get(users::whoami))
        .route(path::TOKENS, get(users::list_tokens).post(users::add_token))
        .route(path::TOKEN, delete(users::revoke_token))
        .route(path::USERS, get(users::list_users).post(users::add_user))
        .route(path::USER, patch(users::change_user))
        .route(path::DATACENTERS, get(datacenters::list))
        .route(path::PACKAGES, post(packages::offer).layer(large()))
        .route(path::BLOB, put(packages::put_blob).layer(DefaultBodyLimit::disable()))
        .route(path::JOBS, get(jobs::list).post(jobs::submit))
        .route(path::JOB, get(jobs::get).delete(jobs::delete))
        .route(path::JOB_KILL, post(jobs::kill))
        .route(path::JOB_SCALE, post(jobs::scale))
        .route(path::JOB_WHY, get(jobs::why))
        .route(path::JOB_EVENTS, get(jobs::events))
        .route(path::JOB_WORKERS, get(jobs::workers))
        .route(path::JOB_LOGS, get(logs::get))
        .route(path::JOB_METRICS, get(logs::metrics))
        .route(path::JOB_RESULTS, get(cluster_train::results))
        .route(path::CLUSTER_TRAIN, post(cluster_train::submit))
        .route(path::STAGE, get(nodes::share))
        .route(path::STAGE_FILE, get(nodes::part))
        .route(path::STAGE_READY, post(nodes::ready))
        .route(path::STAGE_RESULT, put(nodes::result).layer(unlimited()))
        .route(path::QUOTA, get(quotas::own))
        .route(path::USER_QUOTA, get(quotas::of_user).put(quotas::set).delete(quotas::reset))
        .route(path::REGISTRIES, get(registries::list))
        .route(path::REGISTRY, put(registries::put).delete(registries::delete))
        .route(path::FILES, get(files::list).delete(files::remove))
        .route(path::FILE_STAT, get(files::stat))
        .route(path::FILE_USAGE, get(files::usage))
        .route(path::FILE_CONTENT, get(files::get).put(files::put).layer(unlimited()))
        .route(path::FILE_DIRECTORIES, post(files::make_directory))
        .route(path::FILE_ATTRIBUTES, post(files::dress))
        .route(path::FILE_MOVE, post(files::rename))
        .route(path::FILE_COPY, post(files::copy))
        .route(path::FILE_PACK, post(files::unpack).layer(unlimited()))
        .route(path::FILE_FETCH, post(files::fetch).layer(large()))
        .route(path::UPLOADS, post(files::begin))
        .route(path::UPLOAD, get(files::upload).delete(files::abandon))
        .route(path::UPLOAD_CHUNK, put(files::put_chunk).layer(unlimited()))
        .route(path::UPLOAD_REUSE, post(files::reuse).layer(large()))
        .route(path::UPLOAD_COMPLETE, post(files::complete).layer(large()))
        .route(path::LINKS, get(links::list).post(links::add))
        .route(path::LINK, delete(links::revoke))
        .route(path::AUDIT, get(audit::list))
        .route(path::OPENAPI, get(openapi::describe));
    table
        .merge(legacy::router())
        .fallback(unknown)
        .method_not_allowed_fallback(not_allowed)
        .layer(middleware::from_fn_with_state(Arc::clone(&cloud), around))
        .layer(CatchPanicLayer::custom(panicked))
        .with_state(cloud)
}

/// Limits what strangers and everybody may ask, and counts.
async fn around(
    State(cloud): State<Arc<Cloud>>,
    address: Address,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
    next: Next,
) -> Response {
    let begun = Instant::now();
    // Given back to those who prove who they are: they are counted by their name.
    if let Err(refusal) = address.admit(&cloud) {
        return refusal.into_response();
    }
    let asked = request.uri().path();
    let sends_file = matches!(*request.method(), Method::PUT | Method::POST)
        && ["/api/v2/blobs/", "/api/v2/files", "/api/v2/stages/", "/api/v1/file", "/api/v1/pfs"]
            .iter()
            .any(|part| asked.contains(part));
    let limit = match sends_file {
        true => UPLOAD,
        false if asked == path::CLUSTER_TRAIN => ACCEPT,
        false => ANSWER,
    };
    let working = cloud.connections.working(peer);
    let is_question = matches!(*request.method(), Method::GET | Method::HEAD);
    let answer = async move {
        let answer = tokio::time::timeout(limit, next.run(request)).await;
        drop(working);
        answer.unwrap_or_else(|_| {
            Refusal::from(Error::new(Kind::Timeout, "the answer took too long")).into_response()
        })
    };
    let response = match is_question {
        true => answer.await,
        // What may change something is carried out, and noted, whoever hangs up meanwhile.
        false => tokio::spawn(answer).await.unwrap_or_else(|broken| panicked(Box::new(broken))),
    };
    let status = response.status().as_u16().to_string();
    metrics::counter!("cloud_requests", "status" => status).increment(1);
    metrics::histogram!("cloud_request_seconds").record(begun.elapsed().as_secs_f64());
    response
}

async fn unknown(request: Request) -> Refusal {
    let path: String = request.uri().path().chars().take(200).collect();
    Error::new(Kind::NotFound, "there is no such call").with("path", path).into()
}

async fn not_allowed(request: Request) -> Response {
    let message = "this call does not exist with this method";
    let refusal =
        Refusal::from(Error::new(Kind::Unsupported, message).with("method", request.method()));
    let mut response = refusal.into_response();
    *response.status_mut() = axum::http::StatusCode::METHOD_NOT_ALLOWED;
    response
}

fn panicked(_: Box<dyn std::any::Any + Send + 'static>) -> Response {
    tracing::error!("a request met a bug of the server");
    Refusal::from(Error::new(Kind::Io, "the server has a bug: tell its administrator"))
        .into_response()
}
