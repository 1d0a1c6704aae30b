//! What replicas print: archived while they print it ([`collect`]), and read from the archive, so
//! that it is there after the process, the backend's record and this server are gone.

pub(crate) mod collect;
mod follow;
pub(crate) mod news;
pub(crate) mod service;

use crate::Cloud;
use crate::http::{Answer, Caller, Parts, Question, stream};
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use contract::api::log::{LogQuery, MetricsLine};
use std::sync::Arc;

/// The logs of a job, or a stream of them.
pub(crate) async fn get(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    Parts((datacenter, job)): Parts<(String, String)>,
    Question(query): Question<LogQuery>,
) -> Answer<Response> {
    let row = crate::jobs::service::find(&cloud, &caller, &datacenter, &job).await?;
    let wanted = service::Wanted::of(&row, &query)?;
    let datacenter = Arc::clone(cloud.datacenter(&row.datacenter)?);
    if query.follow {
        let follower = follow::Follower::new(&cloud, datacenter, &row, wanted);
        return stream::answer(&cloud, &caller, follower);
    }
    Ok(Json(service::read(&datacenter, row, wanted).await?).into_response())
}

/// The newest figures of a job's replicas.
pub(crate) async fn metrics(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    Parts((datacenter, job)): Parts<(String, String)>,
) -> Answer<Json<Vec<MetricsLine>>> {
    let row = crate::jobs::service::find(&cloud, &caller, &datacenter, &job).await?;
    let datacenter = cloud.datacenter(&row.datacenter)?;
    Ok(Json(service::metrics(datacenter, &row).await?))
}
