//! The calls about files. Rules are in [`super::service`].

use super::content::{self, Manner};
use super::incoming::{BodyPieces, pieces};
use super::listing::Listing;
use super::place::{parse, place};
use super::stores::Condition;
use super::{operation, packs, service};
use crate::Cloud;
use crate::audit::Deed;
use crate::http::{Answer, Body, Caller, Parts, Question, stream};
use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use contract::api::file::{
    Attributes, Begin, Checksums, ChunkQuery, Completed, ContentQuery, Entry, ListQuery, PathQuery,
    PutQuery, Relocate, RemoveQuery, Upload,
};
use contract::api::pack::{self, Fetch, Packed};
use contract::path::Access;
use contract::{Error, Kind};
use futures_util::StreamExt;
use std::sync::Arc;

/// What is in a directory, or matches a pattern, line by line.
pub(crate) async fn list(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    Question(query): Question<ListQuery>,
) -> Answer<Response> {
    let place = place(&cloud, &caller, &query.path, Access::Read).await?;
    let listing = Listing::begin(&place, &query).await?;
    stream::answer(&cloud, &caller, listing)
}

/// What is at a path.
pub(crate) async fn stat(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    Question(query): Question<PathQuery>,
) -> Answer<Json<Entry>> {
    Ok(Json(service::stat(&cloud, &caller, &query.path).await?))
}

/// How much is below a path.
pub(crate) async fn usage(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    headers: HeaderMap,
    Question(query): Question<PathQuery>,
) -> Answer<Response> {
    let (own, user) = (Arc::clone(&cloud), caller.clone());
    let work = async move { service::usage(&own, &user, &query.path).await };
    operation::answer(&cloud, &caller, &headers, None, work).await
}

/// Makes a directory.
pub(crate) async fn make_directory(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    Body(query): Body<PathQuery>,
) -> Answer<Json<Entry>> {
    let made = service::make_directory(&cloud, &caller, &query.path).await;
    cloud.audit_public(Deed::of(&caller, "files.mkdir", &query.path), made.as_ref()).await;
    Ok(Json(made?))
}

/// Removes a file or directory.
pub(crate) async fn remove(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    headers: HeaderMap,
    Question(query): Question<RemoveQuery>,
) -> Answer<Response> {
    let (own, user) = (Arc::clone(&cloud), caller.clone());
    let subject = parse(&cloud, &query.path)?;
    let work = async move {
        let removed = service::remove(&own, &user, &query.path, query.is_recursive).await;
        own.audit(Deed::of(&user, "files.remove", &query.path), removed.as_ref()).await;
        removed
    };
    operation::answer(&cloud, &caller, &headers, Some(subject), work).await
}

/// Changes permissions or time.
pub(crate) async fn dress(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    Body(asked): Body<Attributes>,
) -> Answer<Json<Entry>> {
    let dressed = service::dress(&cloud, &caller, &asked).await;
    cloud.audit_public(Deed::of(&caller, "files.attributes", &asked.path), dressed.as_ref()).await;
    Ok(Json(dressed?))
}

/// Gives a file or directory another name.
pub(crate) async fn rename(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    headers: HeaderMap,
    Body(asked): Body<Relocate>,
) -> Answer<Response> {
    let (own, user) = (Arc::clone(&cloud), caller.clone());
    let subject = parse(&cloud, &asked.from)?;
    let work = async move {
        let moved = service::rename(&own, &user, &asked).await;
        own.audit(Deed::of(&user, "files.move", &both(&asked)), moved.as_ref()).await;
        moved
    };
    operation::answer(&cloud, &caller, &headers, Some(subject), work).await
}

/// Copies a file.
pub(crate) async fn copy(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    headers: HeaderMap,
    Body(asked): Body<Relocate>,
) -> Answer<Response> {
    let (own, user) = (Arc::clone(&cloud), caller.clone());
    let work = async move {
        let copied = service::copy(&own, &user, &asked).await;
        own.audit(Deed::of(&user, "files.copy", &both(&asked)), copied.as_ref()).await;
        copied
    };
    operation::answer(&cloud, &caller, &headers, None, work).await
}

/// From where to where, for the audit log.
fn both(asked: &Relocate) -> String {
    format!("{} to {}", asked.from, asked.to)
}

/// Sends a file.
pub(crate) async fn get(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    Question(query): Question<ContentQuery>,
    headers: HeaderMap,
) -> Answer<Response> {
    let place = place(&cloud, &caller, &query.path, Access::Read).await?;
    let opened = place.files.open(place.path.clone()).await?;
    let manner = Manner { is_checked: query.is_checked, is_attachment: false };
    content::answer(opened, &headers, manner)
}

/// Takes a file in, in one piece.
pub(crate) async fn put(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    Question(query): Question<PutQuery>,
    request: Request,
) -> Answer<Json<Entry>> {
    let headers = request.headers();
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let if_match = text(header::IF_MATCH).map(|etag| etag.trim().trim_matches('"').to_owned());
    let condition = Condition { if_absent: text(header::IF_NONE_MATCH) == Some("*"), if_match };
    let length = text(header::CONTENT_LENGTH).and_then(|length| length.parse().ok());
    let arriving = service::Arriving { length, pieces: pieces(request.into_body()) };
    let put = service::put(&cloud, &caller, &query, condition, arriving).await;
    cloud.audit_public(Deed::of(&caller, "files.put", &query.path), put.as_ref()).await;
    Ok(Json(put?))
}

/// Begins or continues an upload.
pub(crate) async fn begin(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    Body(asked): Body<Begin>,
) -> Answer<Json<Upload>> {
    // Of a file in public the beginning says who replaces it, or was not allowed to.
    let path = asked.path.clone();
    let begun = service::begin(&cloud, &caller, asked).await;
    cloud.audit_public(Deed::of(&caller, "files.upload", &path), begun.as_ref()).await;
    Ok(Json(begun?))
}

/// What is known of an upload.
pub(crate) async fn upload(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    Parts(id): Parts<String>,
) -> Answer<Json<Upload>> {
    Ok(Json(service::describe(&cloud, &caller, &id).await?))
}

/// Gives an upload up.
pub(crate) async fn abandon(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    Parts(id): Parts<String>,
) -> Answer<StatusCode> {
    service::abandon(&cloud, &caller, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Takes a chunk in.
pub(crate) async fn put_chunk(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    Parts((id, chunk)): Parts<(String, u64)>,
    Question(query): Question<ChunkQuery>,
    request: Request,
) -> Answer<StatusCode> {
    let mut body = BodyPieces::new(request.into_body());
    let put = service::put_chunk(&cloud, &caller, &id, (chunk, query), &mut body).await;
    if put.is_err() {
        body.refuse();
    }
    put?;
    Ok(StatusCode::NO_CONTENT)
}

/// Takes what is the same in the file that is there.
pub(crate) async fn reuse(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    Parts(id): Parts<String>,
    Body(sums): Body<Checksums>,
) -> Answer<Json<Upload>> {
    Ok(Json(service::reuse(&cloud, &caller, &id, sums).await?))
}

/// Ends an upload.
pub(crate) async fn complete(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    Parts(id): Parts<String>,
    Body(sums): Body<Checksums>,
) -> Answer<Json<Completed>> {
    Ok(Json(service::complete(&cloud, &caller, &id, sums).await?))
}

/// Takes many small files in.
pub(crate) async fn unpack(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    Question(query): Question<PathQuery>,
    request: Request,
) -> Answer<Json<Vec<Packed>>> {
    let pieces = pieces(request.into_body());
    let unpacked = packs::unpack(&cloud, &caller, &query.path, pieces).await;
    cloud.audit_public(Deed::of(&caller, "files.unpack", &query.path), unpacked.as_ref()).await;
    Ok(Json(unpacked?))
}

/// Files that are read ahead of whoever is sent many.
const FETCHED_AHEAD: usize = 8;

/// Sends many small files.
pub(crate) async fn fetch(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    Question(query): Question<PathQuery>,
    Body(asked): Body<Fetch>,
) -> Answer<Response> {
    if asked.paths.len() > pack::FILES_MAX {
        let error = Error::new(Kind::LimitExceeded, "too many files for a pack");
        return Err(error.with("files_max", pack::FILES_MAX).into());
    }
    let place = place(&cloud, &caller, &query.path, Access::Read).await?;
    let ended = futures_util::stream::once(std::future::ready(Ok(pack::END.to_vec().into())));
    let files = futures_util::stream::iter(asked.paths).map(move |path| {
        let (cloud, place) = (Arc::clone(&cloud), place.clone());
        async move {
            let one = packs::pack_one(&cloud, &place, &path).await;
            one.map_err(|_| std::io::Error::other("broken off"))
        }
    });
    // While one is sent the next ones are read.
    let body = axum::body::Body::from_stream(files.buffered(FETCHED_AHEAD).chain(ended));
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], body).into_response())
}
