//! Programs of jobs: which files a package has, and their contents, of which only those are sent
//! that the server lacks.

pub(crate) mod service;
pub(crate) mod store;

use crate::Cloud;
use crate::audit::Deed;
use crate::http::request::drain;
use crate::http::{Answer, Body, Caller, Parts, Refusal};
use axum::Json;
use axum::body::BodyDataStream;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use contract::Result;
use contract::api::package::{FILE_BYTES_MAX, Manifest, Missing};
use std::sync::Arc;

/// Which contents of a package are missing; none when it is complete.
pub(crate) async fn offer(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    Body(manifest): Body<Manifest>,
) -> Answer<Json<Missing>> {
    let files = manifest.files.len();
    let offered = service::offer(&cloud, &caller.username, manifest).await;
    // Asking what is missing changes nothing.
    let (object, is_change) = match &offered {
        Ok(missing) => (missing.digest.clone(), missing.missing.is_empty()),
        Err(_) => (format!("a package of {files} files"), true),
    };
    if is_change {
        cloud.audit(Deed::of(&caller, "package.put", &object), offered.as_ref()).await;
    }
    Ok(Json(offered?))
}

/// Takes in one content. What is refused is read all the same, or its sender would see a broken
/// connection instead of the reason.
pub(crate) async fn put_blob(
    State(cloud): State<Arc<Cloud>>,
    caller: Answer<Caller>,
    Parts(sha256): Parts<String>,
    request: Request,
) -> Answer<StatusCode> {
    let length = request.headers().get(header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
    let mut content = request.into_body().into_data_stream();
    let arriving = (length, &mut content);
    let taken = match caller {
        Ok(caller) => take(&cloud, &caller, &sha256, arriving).await.map_err(Refusal::from),
        Err(refusal) => Err(refusal),
    };
    if taken.is_err() {
        drain(content, FILE_BYTES_MAX).await;
    }
    taken.map(|()| StatusCode::NO_CONTENT)
}

async fn take(
    cloud: &Cloud,
    caller: &Caller,
    sha256: &str,
    (length, content): (Option<u64>, &mut BodyDataStream),
) -> Result<()> {
    crate::files::blobs::check_sha256(sha256)?;
    if !cloud.blobs.has_room(&caller.username, length.unwrap_or(0)).await? {
        service::make_room(cloud, &caller.username).await?;
    }
    cloud.blobs.put(&caller.username, sha256, content, FILE_BYTES_MAX).await
}
