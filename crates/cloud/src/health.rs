//! Whether the server lives, whether it can serve, and what it has counted.

use crate::Cloud;
use crate::http::Answer;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use contract::{Error, Kind};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use std::sync::{Arc, OnceLock};

/// The process lives.
pub(crate) async fn live() -> &'static str {
    "OK\n"
}

/// The database answers.
pub(crate) async fn ready(State(cloud): State<Arc<Cloud>>) -> Answer<(StatusCode, &'static str)> {
    sqlx::query("SELECT 1")
        .execute(cloud.database.read())
        .await
        .map_err(crate::database::failed)?;
    if *cloud.stopping.borrow() {
        return Err(Error::new(Kind::Unavailable, "the server is stopping").into());
    }
    Ok((StatusCode::OK, "OK\n"))
}

/// The figures, for Prometheus.
pub(crate) async fn figures(State(cloud): State<Arc<Cloud>>) -> Answer<Response> {
    metrics::gauge!("cloud_followers").set(f64::from(cloud.followers.count()));
    let sql = "SELECT datacenter, state, COUNT(*) AS count FROM jobs WHERE ended_ms IS NULL \
               GROUP BY datacenter, state";
    let rows =
        sqlx::query(sql).fetch_all(cloud.database.read()).await.map_err(crate::database::failed)?;
    for datacenter in cloud.datacenters.keys() {
        for state in contract::state::JobState::ALL {
            let (datacenter, state) = (datacenter.clone(), state.to_string());
            let mut count = 0;
            for row in &rows {
                let is_this = crate::database::text(row, "datacenter")? == datacenter
                    && crate::database::text(row, "state")? == state;
                if is_this {
                    count = crate::database::number(row, "count")?;
                }
            }
            metrics::gauge!("cloud_jobs_active", "datacenter" => datacenter, "state" => state)
                .set(count as f64);
        }
    }
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4")];
    Ok((kind, cloud.metrics.render()).into_response())
}

/// The recorder of this process; there can be one only, however many servers start at once.
pub(crate) fn recorder() -> PrometheusHandle {
    static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();
    let install = || {
        let recorder = PrometheusBuilder::new().build_recorder();
        let handle = recorder.handle();
        // A program that has set up a recorder of its own keeps it; ours is then empty.
        let _ = metrics::set_global_recorder(recorder);
        handle
    };
    HANDLE.get_or_init(install).clone()
}
