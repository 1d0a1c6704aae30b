//! The original's simple file calls and its links: files into the caller's home, and out of it.

use super::{locate, own_place};
use crate::Cloud;
use crate::audit::Deed;
use crate::files::content::{self, Manner};
use crate::files::service;
use crate::files::stores::Condition;
use crate::http::{Answer, Body, Caller, Question};
use crate::links;
use axum::Json;
use axum::extract::{FromRequest, Multipart, Request, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use contract::api::file::{Entry, PutQuery};
use contract::path::Access;
use contract::{Error, Result};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::mpsc;

/// The original's client also sends the datacenter, which the path says, too.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct FileQuery {
    path: String,
}

fn envelope(result: Result<()>) -> Json<Value> {
    Json(json!({"msg": result.err().map(|error| error.to_string()).unwrap_or_default()}))
}

/// Takes in a file, which replaces the one that is there when it is whole.
pub(super) async fn put(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    Question(query): Question<FileQuery>,
    request: Request,
) -> Answer<Json<Value>> {
    let path = query.path.clone();
    let put = try_put(&cloud, &caller, query.path, request).await;
    cloud.audit_public(Deed::of(&caller, "files.put", &path), put.as_ref()).await;
    Ok(envelope(put))
}

async fn try_put(
    cloud: &Arc<Cloud>,
    caller: &Caller,
    path: String,
    request: Request,
) -> Result<()> {
    let broken = |error: &dyn std::fmt::Display| {
        Error::invalid(format!("the upload cannot be read: {error}"))
    };
    // Refused before anything is read.
    let path = own_place(cloud, caller, &path, Access::Write).await?.path.to_string();
    let mut form = Multipart::from_request(request, &()).await.map_err(|error| broken(&error))?;
    while let Some(mut field) = form.next_field().await.map_err(|error| broken(&error))? {
        if field.name() != Some("file") {
            continue;
        }
        let (sender, pieces) = mpsc::channel::<Result<Bytes>>(4);
        let query = PutQuery { path, checksum: None, mode: None, modified_ms: None };
        let arriving = service::Arriving { length: None, pieces };
        let write = service::put(cloud, caller, &query, Condition::default(), arriving);
        let read = async move {
            loop {
                let piece = match field.chunk().await {
                    Ok(None) => return,
                    Ok(Some(piece)) => Ok(piece),
                    Err(error) => {
                        Err(Error::invalid(format!("the upload cannot be read: {error}")))
                    }
                };
                let is_over = piece.is_err();
                if sender.send(piece).await.is_err() || is_over {
                    return;
                }
            }
        };
        let (written, ()) = tokio::join!(write, read);
        return written.map(|_| ());
    }
    Err(Error::invalid("the upload has no field `file`"))
}

/// Sends a file.
pub(super) async fn get(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    Question(query): Question<FileQuery>,
    headers: HeaderMap,
) -> Answer<Response> {
    let opened = match own_place(&cloud, &caller, &query.path, Access::Read).await {
        Ok(place) => place.files.open(place.path.clone()).await,
        Err(error) => Err(error),
    };
    match opened {
        Ok(opened) => {
            content::answer(opened, &headers, Manner { is_checked: false, is_attachment: true })
        }
        Err(error) => Ok(envelope(Err(error)).into_response()),
    }
}

/// The names in a directory.
pub(super) async fn list(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    Question(query): Question<FileQuery>,
) -> Answer<Json<Value>> {
    let listed = match own_place(&cloud, &caller, &query.path, Access::Read).await {
        Ok(place) => place.files.list(place.path.clone()).await,
        Err(error) => Err(error),
    };
    Ok(match listed {
        Ok(entries) => {
            let names: Vec<&str> = entries.iter().map(Entry::name).collect();
            Json(json!({"msg": "", "items": names}))
        }
        Err(error) => envelope(Err(error)),
    })
}

/// The caller's links.
pub(super) async fn links(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    headers: HeaderMap,
) -> Answer<Json<Value>> {
    let (files, urls): (Vec<_>, Vec<_>) = links::links(&cloud, &caller, &headers)
        .await?
        .into_iter()
        .map(|link| (link.path, link.url))
        .unzip();
    Ok(Json(json!({"files": files, "urls": urls})))
}

/// Makes a link.
pub(super) async fn publish(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    headers: HeaderMap,
    Body(query): Body<contract::api::file::PathQuery>,
) -> Answer<Json<Value>> {
    let query = contract::api::file::PathQuery { path: locate(&cloud, &query.path)?.to_string() };
    let Json(link) = links::add(State(cloud), caller, headers, Body(query)).await?;
    Ok(Json(json!({"url": link.url})))
}
