//! What users may use in a datacenter, and do.

pub(crate) mod store;

use crate::Cloud;
use crate::audit::Deed;
use crate::http::{Admin, Answer, Body, Caller, Parts};
use crate::{jobs, users};
use axum::Json;
use axum::extract::State;
use contract::Result;
use contract::api::quota::{Limits, Quota};
use std::sync::Arc;

/// The caller's quota.
pub(crate) async fn own(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    Parts(datacenter): Parts<String>,
) -> Answer<Json<Quota>> {
    Ok(Json(quota(&cloud, &datacenter, &caller.username).await?))
}

/// Another user's quota.
pub(crate) async fn of_user(
    State(cloud): State<Arc<Cloud>>,
    Admin(_): Admin,
    Parts((datacenter, username)): Parts<(String, String)>,
) -> Answer<Json<Quota>> {
    Ok(Json(quota(&cloud, &datacenter, &username).await?))
}

/// Changes a user's limits.
pub(crate) async fn set(
    State(cloud): State<Arc<Cloud>>,
    Admin(caller): Admin,
    Parts((datacenter, username)): Parts<(String, String)>,
    Body(limits): Body<Limits>,
) -> Answer<Json<Quota>> {
    let changed = change(&cloud, &datacenter, &username, Some(&limits)).await;
    cloud.audit(Deed::of(&caller, "quota.set", &username), changed.as_ref()).await;
    Ok(Json(changed?))
}

/// Gives a user the default limits again.
pub(crate) async fn reset(
    State(cloud): State<Arc<Cloud>>,
    Admin(caller): Admin,
    Parts((datacenter, username)): Parts<(String, String)>,
) -> Answer<Json<Quota>> {
    let changed = change(&cloud, &datacenter, &username, None).await;
    cloud.audit(Deed::of(&caller, "quota.reset", &username), changed.as_ref()).await;
    Ok(Json(changed?))
}

async fn change(
    cloud: &Cloud,
    datacenter: &str,
    username: &str,
    limits: Option<&Limits>,
) -> Result<Quota> {
    let place = cloud.datacenter(datacenter)?;
    users::service::user(cloud, username).await?;
    let mut write = cloud.database.write().await?;
    store::set(&mut write, datacenter, username, limits).await?;
    write.commit().await?;
    place.wake.notify_one();
    quota(cloud, datacenter, username).await
}

/// Limits and use of a user.
pub(crate) async fn quota(cloud: &Cloud, datacenter: &str, username: &str) -> Result<Quota> {
    cloud.datacenter(datacenter)?;
    users::service::user(cloud, username).await?;
    let mut used = jobs::service::usage(cloud, datacenter, username).await?;
    used.disk_bytes = cloud.disk_used(datacenter, username).await?;
    let limits = limits(cloud, datacenter, username).await?;
    Ok(Quota { user: username.to_owned(), limits, used })
}

/// The limits of a user.
pub(crate) async fn limits(cloud: &Cloud, datacenter: &str, username: &str) -> Result<Limits> {
    let own = store::get(&cloud.database, datacenter, username).await?;
    Ok(own.unwrap_or_else(|| cloud.config.quota.clone()))
}
