//! `paddle cluster_train`: V1 trainings whose data lies in a file system elsewhere. This server is
//! their receiver.
//!
//! 1. A request has a configuration and what its nodes need besides, as a package. The configuration
//!    is executed in a sandbox ([`evaluate`]), and what it asks for is understood ([`wish`]).
//! 2. The data is looked up ([`source`]) and dealt to the nodes ([`deal`], [`plan`]); that is kept
//!    with the job, which is one like others from then on.
//! 3. Every trainer is a `paddle cluster_node`: it fetches its share from this server, runs the hook
//!    and then the training, and sends its results back ([`node`]).
//!
//! The other way would be nodes that talk to the store themselves. It was not taken: a node runs the
//! user's program, as the same user on most places, so credentials of the store would be in its
//! reach, and every node would need a client of every store. The price is that all data passes
//! through the server.

mod deal;
pub(crate) mod evaluate;
pub(crate) mod node;
mod plan;
mod service;
pub(crate) mod source;
pub(crate) mod store;
mod wish;

pub(crate) use plan::Plan;

use crate::Cloud;
use crate::audit::Deed;
use crate::files::content::{self, Manner};
use crate::http::{Answer, Body, Caller, Parts, Question};
use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use contract::api::cluster_train::{Accepted, ClusterTrain};
use contract::api::file::PathQuery;
use contract::path::Access;
use contract::{Error, Kind};
use std::sync::Arc;

/// Accepts a training.
pub(crate) async fn submit(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    Body(asked): Body<ClusterTrain>,
) -> Answer<Json<Accepted>> {
    let name = asked.job_name.clone();
    let accepted = service::accept(&cloud, &caller, asked).await;
    cloud.audit(Deed::of(&caller, "cluster_train", &name), accepted.as_ref()).await;
    Ok(Json(accepted?))
}

/// What a training has sent so far: what is in a directory of its results, or a file of them.
pub(crate) async fn results(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    Parts((datacenter, job)): Parts<(String, String)>,
    Question(query): Question<PathQuery>,
    headers: HeaderMap,
) -> Answer<Response> {
    let row = crate::jobs::service::find(&cloud, &caller, &datacenter, &job).await?;
    let plan = store::get(&cloud.database, &row.uid).await?.ok_or_else(|| {
        let message = "this job was not submitted by cluster_train, and keeps its results where it \
                       writes them";
        Error::new(Kind::NotFound, message).with("job", &row.name)
    })?;
    let top = source::locate(&cloud, &plan.source, &plan.output, Access::Read).await?;
    let place = match query.path.trim_matches('/') {
        "" => top,
        below if below.split('/').any(|part| matches!(part, "" | "." | "..")) => {
            let message = "a path below the results has no dots";
            return Err(Error::invalid(message).with("path", below.escape_debug()).into());
        }
        below => top.join(below)?,
    };
    match place.stat().await? {
        None => Err(Error::new(Kind::NotFound, "nothing was sent to there so far")
            .with("path", place.shown())
            .into()),
        Some(entry) if entry.is_directory() => {
            let mut entries = place.list().await?;
            for entry in &mut entries {
                entry.path = format!("{}/{}", place.shown(), entry.name());
            }
            Ok(Json(entries).into_response())
        }
        Some(_) => {
            let manner = Manner { is_checked: true, is_attachment: false };
            Ok(content::answer(place.open().await?, &headers, manner)?)
        }
    }
}
