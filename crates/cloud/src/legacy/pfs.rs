//! The original's chunk protocol: files are made at their full length, and chunks written where
//! they belong. It has no end, so a file is seen while it is being filled; newer clients use
//! uploads instead.

use super::{locate, own_place};
use crate::Cloud;
use crate::audit::Deed;
use crate::files::change::change as change_file;
use crate::files::listing::expand;
use crate::files::place::PermittedPath;
use crate::files::service;
use crate::files::stores::{Change, Opened};
use crate::http::{Answer, Body, Caller};
use axum::Json;
use axum::extract::{FromRequest, Multipart, Query, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use contract::api::file::{Entry, EntryKind};
use contract::path::{Access, PfsPath};
use contract::{Error, Kind, Result};
use futures_util::StreamExt;
use md5::{Digest, Md5};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;

/// The chunks that the original takes.
const CHUNK_BYTES: std::ops::RangeInclusive<u64> = 4 << 10..=32 << 20;
/// The largest file that is made.
const FILE_BYTES_MAX: u64 = 1 << 40;
/// What separates the parts of chunks, always.
const BOUNDARY: &str = "8d7b0e5709d756e21e971ff4d9ac3b20";

type Pairs = Query<Vec<(String, String)>>;

fn envelope(result: Result<Value>) -> Json<Value> {
    match result {
        Ok(results) => Json(json!({"err": "", "results": results})),
        Err(error) => Json(json!({"err": error.to_string(), "results": null})),
    }
}

/// `ls` and `stat`.
pub(super) async fn look(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    Query(pairs): Pairs,
) -> Answer<Response> {
    let value = |name: &str| pairs.iter().find(|(key, _)| key == name).map(|(_, value)| &**value);
    let result = match value("method") {
        Some("ls") => {
            let paths =
                pairs.iter().filter(|(key, _)| key == "arg").map(|(_, value)| value.clone());
            let is_recursive = value("r").is_some_and(|r| r == "true");
            list(&cloud, &caller, paths.collect(), is_recursive).await
        }
        Some("stat") => {
            let found = async {
                let path = locate(&cloud, value("path").unwrap_or_default())?.to_string();
                service::stat(&cloud, &caller, &path).await
            };
            found.await.map(|entry| describe(&entry))
        }
        Some("md5sum") | None | Some(_) => return Ok(unknown_method()),
    };
    Ok(envelope(result).into_response())
}

fn unknown_method() -> Response {
    let body = json!({"err": "unknown method", "results": null});
    (StatusCode::METHOD_NOT_ALLOWED, Json(body)).into_response()
}

async fn list(
    cloud: &Cloud,
    caller: &Caller,
    paths: Vec<String>,
    is_recursive: bool,
) -> Result<Value> {
    let mut rows = Vec::new();
    for text in &paths {
        let place = own_place(cloud, caller, text, Access::Read).await?;
        for top in expand(&*place.files, &place.path).await? {
            if !top.is_directory() {
                rows.push(describe(&top));
                continue;
            }
            let mut open =
                vec![place.files.list(PfsPath::parse(&top.path, "-")?).await?.into_iter()];
            while let Some(current) = open.last_mut() {
                let Some(entry) = current.next() else {
                    open.pop();
                    continue;
                };
                rows.push(describe(&entry));
                if rows.len() > ROWS_MAX {
                    let message = "there are too many files for this protocol: use a newer client";
                    return Err(Error::new(Kind::LimitExceeded, message));
                }
                if is_recursive
                    && entry.is_directory()
                    && let Ok(path) = PfsPath::parse(&entry.path, "-")
                {
                    open.push(place.files.list(path).await?.into_iter());
                }
            }
        }
    }
    Ok(Value::Array(rows))
}

/// All of an answer is in memory.
const ROWS_MAX: usize = 100_000;

fn describe(entry: &Entry) -> Value {
    json!({
        "Path": entry.path,
        "ModTime": entry.modified_ms.saturating_mul(1_000_000),
        "Size": entry.bytes,
        "IsDir": entry.is_directory(),
    })
}

/// One path, or several.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Paths {
    One(String),
    Many(Vec<String>),
}

#[derive(Debug, Deserialize)]
pub(super) struct ChangeBody {
    method: String,
    path: Option<Paths>,
    #[serde(default)]
    filesize: u64,
    #[serde(default)]
    r: bool,
}

/// `mkdir`, `touch` and `rm`, by POST or DELETE.
pub(super) async fn change(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    Body(body): Body<ChangeBody>,
) -> Answer<Response> {
    let paths = match body.path {
        Some(Paths::One(path)) => vec![path],
        Some(Paths::Many(paths)) => paths,
        None => Vec::new(),
    };
    if !matches!(body.method.as_str(), "mkdir" | "touch" | "rm") {
        return Ok(unknown_method());
    }
    if paths.is_empty() {
        let message = "`path` is missing: name a file or directory, or a list of them";
        return Ok(envelope(Err(Error::invalid(message))).into_response());
    }
    let mut done = Vec::new();
    for text in &paths {
        let result = match body.method.as_str() {
            "mkdir" => make_directory(&cloud, &caller, text).await,
            "touch" => touch(&cloud, &caller, text, body.filesize).await,
            _ => remove(&cloud, &caller, text, body.r).await,
        };
        match body.method.as_str() {
            "mkdir" => {
                cloud.audit_public(Deed::of(&caller, "files.mkdir", text), result.as_ref()).await;
            }
            "touch" => {
                cloud.audit_public(Deed::of(&caller, "files.upload", text), result.as_ref()).await;
            }
            _ => cloud.audit(Deed::of(&caller, "files.remove", text), result.as_ref()).await,
        }
        if let Err(error) = result {
            return Ok(envelope(Err(error)).into_response());
        }
        done.push(json!({"path": text}));
    }
    let results = match (body.method.as_str(), done.len()) {
        ("touch", 1) => done.remove(0),
        _ => Value::Array(done),
    };
    Ok(envelope(Ok(results)).into_response())
}

async fn make_directory(cloud: &Cloud, caller: &Caller, text: &str) -> Result<()> {
    let path = locate(cloud, text)?.to_string();
    service::make_directory(cloud, caller, &path).await.map(|_| ())
}

async fn touch(cloud: &Cloud, caller: &Caller, text: &str, bytes: u64) -> Result<()> {
    if bytes > FILE_BYTES_MAX {
        let message = "the file is too large";
        return Err(Error::new(Kind::LimitExceeded, message).with("bytes_max", FILE_BYTES_MAX));
    }
    let place = own_place(cloud, caller, text, Access::Write).await?;
    let given_up = match place.files.stat(place.path.clone()).await {
        // The original's client begins every upload so, also one that goes on.
        Ok(there) if there.kind == EntryKind::File && there.bytes == bytes => return Ok(()),
        Ok(there) => there.bytes,
        Err(error) if error.kind() == Kind::NotFound => 0,
        Err(error) => return Err(error),
    };
    let promise = cloud.usages.decide(cloud, &place, bytes, given_up).await?.promise();
    let touched = change_file(&place, Change::Touch(bytes)).await;
    cloud.usages.forget(&place);
    drop(promise);
    touched
}

async fn remove(cloud: &Cloud, caller: &Caller, text: &str, is_recursive: bool) -> Result<()> {
    let top = own_place(cloud, caller, text, Access::Write).await?;
    for entry in expand(&*top.files, &top.path).await? {
        if entry.is_directory() && !is_recursive {
            let message = "this is a directory: use -r to remove everything in it";
            return Err(Error::invalid(message).with("path", &entry.path));
        }
        service::remove(cloud, caller, &entry.path, is_recursive).await?;
    }
    Ok(())
}

/// Where a chunk is.
#[derive(Debug)]
struct Chunk {
    path: String,
    offset: u64,
    bytes: u64,
}

impl Chunk {
    fn of(values: &HashMap<String, String>) -> Result<Self> {
        let number = |name: &str| {
            let value = values.get(name).and_then(|value| value.parse::<u64>().ok());
            value.ok_or_else(|| Error::invalid(format!("{name} is missing, or no number")))
        };
        let chunk = Chunk {
            path: values.get("path").cloned().unwrap_or_default(),
            offset: number("offset")?,
            bytes: number("chunksize")?,
        };
        match CHUNK_BYTES.contains(&chunk.bytes) && chunk.offset <= FILE_BYTES_MAX {
            true => Ok(chunk),
            false => Err(Error::invalid("chunksize must be 4096 to 33554432")
                .with("chunksize", chunk.bytes)
                .with("offset", chunk.offset)),
        }
    }

    async fn read(&self, cloud: &Cloud, caller: &Caller) -> Result<Vec<u8>> {
        let place = own_place(cloud, caller, &self.path, Access::Read).await?;
        let Opened { entry, source } = place.files.open(place.path.clone()).await?;
        let range = self.offset.min(entry.bytes)..(self.offset + self.bytes).min(entry.bytes);
        let mut bytes = Vec::new();
        let mut pieces = source.pieces(range);
        while let Some(piece) = pieces.next().await {
            bytes.extend_from_slice(&piece?);
        }
        Ok(bytes)
    }
}

/// The checksum of a chunk.
pub(super) async fn meta(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    Query(values): Query<HashMap<String, String>>,
) -> Answer<Response> {
    if values.get("method").map(String::as_str) != Some("GetChunkMeta") {
        return Ok(unknown_method());
    }
    let read = async {
        let chunk = Chunk::of(&values)?;
        let bytes = chunk.read(&cloud, &caller).await?;
        let sum: String = Md5::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(json!({"offset": chunk.offset, "checksum": sum, "len": bytes.len()}))
    };
    Ok(envelope(read.await).into_response())
}

/// A chunk, as a form of one part with the envelope behind it.
pub(super) async fn get(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    Query(values): Query<HashMap<String, String>>,
) -> Answer<Response> {
    let read = async {
        let chunk = Chunk::of(&values)?;
        let bytes = chunk.read(&cloud, &caller).await?;
        Ok((chunk, bytes))
    };
    let (chunk, bytes) = match read.await {
        Ok(read) => read,
        Err(error) => return Ok(envelope(Err(error)).into_response()),
    };
    let path = contract::api::path::encode(&chunk.path);
    let name = format!("chunksize={}&offset={}&path={path}", chunk.bytes, chunk.offset);
    let mut body = format!(
        "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"chunk\"; filename=\"{name}\"\r\n\
         Content-Type: application/octet-stream\r\n\r\n"
    )
    .into_bytes();
    body.extend_from_slice(&bytes);
    body.extend_from_slice(format!("\r\n--{BOUNDARY}--\r\n").as_bytes());
    body.extend_from_slice(br#"{"err":"","results":null}"#);
    Ok(body.into_response())
}

/// Takes a chunk in.
pub(super) async fn put(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    request: Request,
) -> Answer<Response> {
    let Ok(mut form) = Multipart::from_request(request, &()).await else {
        let body = json!({"err": "this is no multipart form", "results": null});
        return Ok((StatusCode::BAD_REQUEST, Json(body)).into_response());
    };
    let write = async {
        let broken = |error: &dyn std::fmt::Display| {
            Error::invalid(format!("the chunk cannot be read: {error}"))
        };
        let part = form.next_field().await.map_err(|error| broken(&error))?;
        let mut part = part.ok_or_else(|| broken(&"there is no part"))?;
        let uri = format!("/?{}", part.file_name().unwrap_or_default());
        let uri: axum::http::Uri = uri.parse().map_err(|error| broken(&error))?;
        let Query(values) = Query::try_from_uri(&uri).map_err(|error| broken(&error))?;
        let chunk = Chunk::of(&values)?;
        let place: PermittedPath = own_place(&cloud, &caller, &chunk.path, Access::Write).await?;
        let mut bytes = Vec::new();
        while let Some(piece) = part.chunk().await.map_err(|error| broken(&error))? {
            bytes.extend_from_slice(&piece);
            if bytes.len() as u64 > chunk.bytes {
                return Err(Error::invalid("the chunk is longer than it says"));
            }
        }
        let entry = place.files.stat(place.path.clone()).await?;
        if chunk.offset + bytes.len() as u64 > entry.bytes {
            return Err(Error::invalid("the chunk is not inside the file: touch it first"));
        }
        let change = Change::Write(chunk.offset, bytes.into());
        let changed = change_file(&place, change).await;
        cloud.audit_public(Deed::of(&caller, "files.put", &chunk.path), changed.as_ref()).await;
        changed.map(|()| Value::Null)
    };
    Ok(envelope(write.await).into_response())
}
