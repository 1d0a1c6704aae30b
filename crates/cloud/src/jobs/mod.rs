//! Jobs: the calls. Rules are in [`service`], rows in [`store`]; who may start is decided by
//! [`admit`], what happens next by [`reconcile`], and [`control`] and [`drive`] carry it out.

pub(crate) mod admit;
pub(crate) mod control;
pub(crate) mod mounts;
pub(crate) mod need;
pub(crate) mod reconcile;
pub(crate) mod row;
pub(crate) mod service;
pub(crate) mod submission;
pub(crate) mod why;

mod drive;
mod start;
mod store;
mod watch;

pub(crate) use start::owner;

use crate::Cloud;
use crate::audit::Deed;
use crate::clock::now_ms;
use crate::http::{Answer, Body, Caller, Parts, Question, stream};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use contract::api::job::{Event, Job, JobDetail, JobQuery, Kill, Scale, Submit, Why, Worker};
use std::sync::Arc;

type JobPath = Parts<(String, String)>;

/// Accepts a job.
pub(crate) async fn submit(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    Parts(datacenter): Parts<String>,
    Body(submit): Body<Submit>,
) -> Answer<(StatusCode, Json<Job>)> {
    let name = submit.spec.name.clone();
    let accepted = service::submit(&cloud, &caller, &datacenter, submit).await;
    cloud.audit(Deed::of(&caller, "job.submit", &name), accepted.as_ref()).await;
    let (row, is_new) = accepted?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(row.job())))
}

/// The jobs of the caller, or a stream of their changes.
pub(crate) async fn list(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    Parts(datacenter): Parts<String>,
    Question(query): Question<JobQuery>,
) -> Answer<Response> {
    if query.watch {
        let watcher = watch::Watcher::new(&cloud, &caller, &datacenter, &query)?;
        return stream::answer(&cloud, &caller, watcher);
    }
    Ok(Json(service::list(&cloud, &caller, &datacenter, &query).await?).into_response())
}

/// All of a job.
pub(crate) async fn get(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    Parts((datacenter, job)): JobPath,
) -> Answer<Json<JobDetail>> {
    let row = service::find(&cloud, &caller, &datacenter, &job).await?;
    Ok(Json(service::detail(&cloud, row).await?))
}

/// Removes a job that has ended from history.
pub(crate) async fn delete(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    Parts((datacenter, job)): JobPath,
) -> Answer<StatusCode> {
    let removed = service::remove(&cloud, &caller, &datacenter, &job).await;
    cloud.audit(Deed::of(&caller, "job.delete", &job), removed.as_ref()).await;
    removed?;
    Ok(StatusCode::NO_CONTENT)
}

/// Ends a job.
pub(crate) async fn kill(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    Parts((datacenter, job)): JobPath,
    Body(kill): Body<Kill>,
) -> Answer<Json<Job>> {
    let killed = service::kill(&cloud, &caller, &datacenter, &job, &kill).await;
    cloud.audit(Deed::of(&caller, "job.kill", &job), killed.as_ref()).await;
    Ok(Json(killed?.job()))
}

/// Changes the number of trainers of a job.
pub(crate) async fn scale(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    Parts((datacenter, job)): JobPath,
    Body(scale): Body<Scale>,
) -> Answer<Json<Job>> {
    let scaled = service::scale(&cloud, &caller, &datacenter, &job, scale.trainers).await;
    cloud.audit(Deed::of(&caller, "job.scale", &job), scaled.as_ref()).await;
    Ok(Json(scaled?.job()))
}

/// What a job waits for, or why it ended.
pub(crate) async fn why(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    Parts((datacenter, job)): JobPath,
) -> Answer<Json<Why>> {
    let row = service::find(&cloud, &caller, &datacenter, &job).await?;
    let notes = cloud.datacenter(&datacenter)?.notes();
    Ok(Json(why::why(now_ms(), &row, &notes)))
}

/// What the cloud saw of a job.
pub(crate) async fn events(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    Parts((datacenter, job)): JobPath,
) -> Answer<Json<Vec<Event>>> {
    let row = service::find(&cloud, &caller, &datacenter, &job).await?;
    Ok(Json(service::events(&cloud, &row).await?))
}

/// The replicas of a job.
pub(crate) async fn workers(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    Parts((datacenter, job)): JobPath,
) -> Answer<Json<Vec<Worker>>> {
    Ok(Json(service::find(&cloud, &caller, &datacenter, &job).await?.workers))
}
