//! Credentials of image registries: encrypted on the disk, never sent back.

pub(crate) mod store;
pub(crate) mod vault;

use crate::Cloud;
use crate::audit::Deed;
use crate::clock::now_ms;
use crate::database::to_json;
use crate::http::{Answer, Body, Caller, Parts};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use contract::api::registry::{Credentials, Registry};
use contract::name::check_registry;
use contract::secret::Secret;
use contract::{Error, Kind, Result};
use std::sync::Arc;

const TEXT_BYTES_MAX: usize = 4096;

/// The caller's registries.
pub(crate) async fn list(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    Parts(datacenter): Parts<String>,
) -> Answer<Json<Vec<Registry>>> {
    cloud.datacenter(&datacenter)?;
    Ok(Json(store::list(&cloud.database, &datacenter, &caller.username).await?))
}

/// Keeps credentials under a name, instead of those that were there.
pub(crate) async fn put(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    Parts((datacenter, name)): Parts<(String, String)>,
    Body(credentials): Body<Credentials>,
) -> Answer<Json<Registry>> {
    let kept = keep(&cloud, &caller, &datacenter, &name, &credentials).await;
    cloud.audit(Deed::of(&caller, "registry.put", &name), kept.as_ref()).await;
    Ok(Json(kept?))
}

/// Removes credentials.
pub(crate) async fn delete(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    Parts((datacenter, name)): Parts<(String, String)>,
) -> Answer<StatusCode> {
    let removed = remove(&cloud, &caller, &datacenter, &name).await;
    cloud.audit(Deed::of(&caller, "registry.delete", &name), removed.as_ref()).await;
    removed?;
    Ok(StatusCode::NO_CONTENT)
}

/// Encrypts and keeps credentials.
pub(crate) async fn keep(
    cloud: &Cloud,
    caller: &Caller,
    datacenter: &str,
    name: &str,
    credentials: &Credentials,
) -> Result<Registry> {
    cloud.datacenter(datacenter)?;
    check_registry(name)?;
    let Credentials { server, username, password } = credentials;
    for (field, text) in [("server", server), ("username", username), ("password", password)] {
        if text.is_empty() || text.len() > TEXT_BYTES_MAX {
            let message = format!("{field}: use 1 to {TEXT_BYTES_MAX} bytes");
            return Err(Error::invalid(message).with("field", field));
        }
    }
    let registry = Registry {
        name: name.to_owned(),
        server: server.clone(),
        username: username.clone(),
        created_ms: now_ms(),
    };
    // Bound to their place, so that nobody can pass off one for another.
    let place = to_json(&(datacenter, &caller.username, name))?;
    let sealed = cloud.vault.seal(password.as_bytes(), place.as_bytes())?;
    let mut write = cloud.database.write().await?;
    store::put(&mut write, datacenter, &caller.username, &registry, &sealed).await?;
    write.commit().await?;
    Ok(registry)
}

/// The credentials of a registry as a backend takes them: [`Credentials`] as JSON.
pub(crate) async fn reveal(
    cloud: &Cloud,
    datacenter: &str,
    username: &str,
    name: &str,
) -> Result<Secret> {
    let found = store::get(&cloud.database, datacenter, username, name).await?;
    let (registry, sealed) = found.ok_or_else(|| unknown(name))?;
    let place = to_json(&(datacenter, username, name))?;
    let password = cloud.vault.unseal(&sealed, place.as_bytes())?;
    let credentials = Credentials {
        server: registry.server,
        username: registry.username,
        password: String::from_utf8_lossy(&password).into_owned(),
    };
    Ok(Secret::new(to_json(&credentials)?))
}

/// What is not there.
pub(crate) fn unknown(name: &str) -> Error {
    Error::new(Kind::NotFound, "there is no such registry").with("registry", name)
}

/// Removes credentials.
pub(crate) async fn remove(
    cloud: &Cloud,
    caller: &Caller,
    datacenter: &str,
    name: &str,
) -> Result<()> {
    cloud.datacenter(datacenter)?;
    let mut write = cloud.database.write().await?;
    let was_there = store::remove(&mut write, datacenter, &caller.username, name).await?;
    write.commit().await?;
    match was_there {
        true => Ok(()),
        false => Err(unknown(name)),
    }
}
