//! Registries as Kubernetes secrets, without what is in them.

use super::body::{REGISTRY_PREFIX, registry_name};
use super::{coded, time};
use crate::Cloud;
use crate::audit::Deed;
use crate::http::{Answer, Body, Caller};
use crate::registries;
use axum::Json;
use axum::extract::State;
use contract::api::registry::Credentials;
use contract::{Kind, Result};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// What the original's client sends to add and to remove one.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
#[derive(Default)]
pub(super) struct RegistryBody {
    name: String,
    username: String,
    password: String,
    server: String,
}

/// The caller's registries, as a list of secrets.
pub(super) async fn list(State(cloud): State<Arc<Cloud>>, caller: Caller) -> Answer<Json<Value>> {
    let mut items = Vec::new();
    for datacenter in cloud.datacenters.keys() {
        for own in registries::store::list(&cloud.database, datacenter, &caller.username).await? {
            items.push(json!({
                "metadata": {
                    "name": format!("{REGISTRY_PREFIX}{}", own.name),
                    "namespace": caller.username,
                    "creation_timestamp": time(Some(own.created_ms)),
                },
                "type": "kubernetes.io/dockerconfigjson",
            }));
        }
    }
    let list = json!({"kind": "SecretList", "api_version": "v1", "items": items});
    Ok(Json(json!({"code": 200, "msg": list})))
}

/// Keeps credentials, in every datacenter.
pub(super) async fn put(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    Body(body): Body<RegistryBody>,
) -> Answer<Json<Value>> {
    let name = registry_name(&body.name);
    let credentials = Credentials {
        server: body.server.clone(),
        username: body.username.clone(),
        password: body.password.clone(),
    };
    let result = keep(&cloud, &caller, name, &credentials).await;
    cloud.audit(Deed::of(&caller, "registry.put", name), result.as_ref()).await;
    Ok(coded(result, 500))
}

async fn keep(cloud: &Cloud, caller: &Caller, name: &str, credentials: &Credentials) -> Result<()> {
    for datacenter in cloud.datacenters.keys() {
        registries::keep(cloud, caller, datacenter, name, credentials).await?;
    }
    Ok(())
}

/// Removes credentials, from every datacenter.
pub(super) async fn delete(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    Body(body): Body<RegistryBody>,
) -> Answer<Json<Value>> {
    let name = registry_name(&body.name);
    let result = remove(&cloud, &caller, name).await;
    cloud.audit(Deed::of(&caller, "registry.delete", name), result.as_ref()).await;
    Ok(coded(result, 500))
}

/// It is gone if it was in one of them.
async fn remove(cloud: &Cloud, caller: &Caller, name: &str) -> Result<()> {
    let mut was_there = Err(registries::unknown(name));
    for datacenter in cloud.datacenters.keys() {
        match registries::remove(cloud, caller, datacenter, name).await {
            Ok(()) => was_there = Ok(()),
            Err(error) if error.kind() == Kind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    was_there
}
