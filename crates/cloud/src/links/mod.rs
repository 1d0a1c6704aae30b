//! Links by which everybody may download a file: whoever made one may see and revoke it. The secret
//! in it is all that a stranger needs, so it is as long as a token.

pub(crate) mod store;

use crate::Cloud;
use crate::audit::Deed;
use crate::clock::now_ms;
use crate::files::content::{self, Manner};
use crate::files::place::{parse, place};
use crate::http::{Answer, Body, Caller, Parts, Question};
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use contract::api::file::{EntryKind, Link, PathQuery};
use contract::path::Access;
use contract::{Error, Kind, Result};
use serde::Deserialize;
use std::sync::Arc;

/// Links that one user may have.
const LINKS_MAX: u64 = 10_000;

/// Makes a link.
pub(crate) async fn add(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    headers: HeaderMap,
    Body(query): Body<PathQuery>,
) -> Answer<Json<Link>> {
    let added = publish(&cloud, &caller, &query.path, &headers).await;
    cloud.audit(Deed::of(&caller, "files.publish", &query.path), added.as_ref()).await;
    Ok(Json(added?))
}

/// The caller's links.
pub(crate) async fn list(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    headers: HeaderMap,
) -> Answer<Json<Vec<Link>>> {
    Ok(Json(links(&cloud, &caller, &headers).await?))
}

/// Ends a link.
pub(crate) async fn revoke(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    Parts(id): Parts<String>,
) -> Answer<StatusCode> {
    let mut write = cloud.database.write().await?;
    let is_removed = store::remove(&mut write, &caller.username, &id).await?;
    write.commit().await?;
    let result = match is_removed {
        true => Ok(()),
        false => Err(Error::new(Kind::NotFound, "you have no such link").with("link", &id)),
    };
    cloud.audit(Deed::of(&caller, "files.revoke", &id), result.as_ref()).await;
    result?;
    Ok(StatusCode::NO_CONTENT)
}

/// What is in a link.
#[derive(Debug, Deserialize)]
pub(crate) struct LinkQuery {
    uuid: String,
}

/// Sends the file of a link to anybody.
pub(crate) async fn download(
    State(cloud): State<Arc<Cloud>>,
    Question(query): Question<LinkQuery>,
    headers: HeaderMap,
) -> Answer<Response> {
    let gone = || Error::new(Kind::NotFound, "there is no such link, or it was revoked");
    let row = store::by_secret(&cloud.database, &query.uuid).await?.ok_or_else(gone)?;
    let user = crate::users::store::user(&cloud.database, &row.username).await?;
    if !user.is_some_and(|user| user.user.is_enabled) {
        return Err(gone().into());
    }
    let path = parse(&cloud, &row.path)?;
    let files = Arc::clone(&cloud.datacenter(path.datacenter()).map_err(|_| gone())?.files);
    // Where the file was is nobody's business.
    let opened = files.open(path).await.map_err(|error| match error.kind() {
        kind if kind.is_retryable() || kind == Kind::Io => {
            tracing::warn!(error = error.chain(), "the file of a link cannot be read");
            Error::new(kind, "the file of this link cannot be read now: try again later")
        }
        _ => Error::new(Kind::NotFound, "the file of this link is not there any more"),
    })?;
    let manner = Manner { is_checked: false, is_attachment: true };
    content::answer(opened, &headers, manner)
}

/// Makes a link to a file of the caller's own.
pub(crate) async fn publish(
    cloud: &Cloud,
    caller: &Caller,
    path: &str,
    headers: &HeaderMap,
) -> Result<Link> {
    let place = place(cloud, caller, path, Access::Write).await?;
    if place.path.owner() != Some(&caller.username) {
        let message = "only files of your own home are published";
        return Err(Error::new(Kind::Forbidden, message).with("path", &place.path));
    }
    let entry = place.files.stat(place.path.clone()).await?;
    if entry.kind != EntryKind::File {
        let message = "only files are published: pack a directory first";
        return Err(Error::invalid(message).with("path", &place.path));
    }
    let row = store::LinkRow {
        id: crate::random::word::<10>()?,
        secret: crate::random::secret()?,
        username: caller.username.clone(),
        path: place.path.to_string(),
        created_ms: now_ms(),
    };
    let mut write = cloud.database.write().await?;
    if store::count(&mut write, &caller.username).await? >= LINKS_MAX {
        let message = "you have too many links: revoke some";
        return Err(Error::new(Kind::LimitExceeded, message).with("links_max", LINKS_MAX));
    }
    store::add(&mut write, &row).await?;
    write.commit().await?;
    Ok(link(cloud, headers, row))
}

/// The caller's links, newest first.
pub(crate) async fn links(
    cloud: &Cloud,
    caller: &Caller,
    headers: &HeaderMap,
) -> Result<Vec<Link>> {
    let rows = store::of_user(&cloud.database, &caller.username).await?;
    Ok(rows.into_iter().map(|row| link(cloud, headers, row)).collect())
}

fn link(cloud: &Cloud, headers: &HeaderMap, row: store::LinkRow) -> Link {
    let is_host = |host: &&str| {
        host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]_".contains(&byte))
    };
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).filter(is_host);
    let own = cloud.config.listen.to_string();
    let scheme = if cloud.config.tls.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{}/filepub/?uuid={}", host.unwrap_or(&own), row.secret);
    Link { id: row.id, path: row.path, url, created_ms: row.created_ms }
}
