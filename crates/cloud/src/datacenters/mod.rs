//! The places that run jobs, as the configuration describes them, and the call that lists them.

pub(crate) mod site;

use crate::Cloud;
use crate::config::QueueConfig;
use crate::http::{Answer, Caller};
use axum::Json;
use axum::extract::State;
use contract::api::cluster;
use contract::{Error, Kind, Result};
pub(crate) use site::Datacenter;
pub use site::Outside;
use std::sync::Arc;

/// All datacenters.
pub(crate) async fn list(
    State(cloud): State<Arc<Cloud>>,
    _: Caller,
) -> Answer<Json<Vec<cluster::Datacenter>>> {
    let datacenter = |own: &Arc<Datacenter>| cluster::Datacenter {
        name: own.name.clone(),
        backend: own.config.backend.word().to_owned(),
        notes: own.notes(),
        queues: own.config.queues.iter().map(QueueConfig::shown).collect(),
    };
    Ok(Json(cloud.datacenters.values().map(datacenter).collect()))
}

impl Cloud {
    /// The datacenter of this name.
    pub(crate) fn datacenter(&self, name: &str) -> Result<&Arc<Datacenter>> {
        self.datacenters.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.datacenters.keys().map(String::as_str).collect();
            Error::new(Kind::NotFound, "there is no such datacenter")
                .with("datacenter", name)
                .with("known", known.join(", "))
        })
    }
}
