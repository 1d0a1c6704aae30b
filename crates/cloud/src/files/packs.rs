//! Many small files in one request, in both directions: `contract::api::pack` has the form.

use super::incoming::Incoming;
use super::place::{PermittedPath, parse, place};
use super::service::{Pieces, refused, scratch};
use super::stores::{Condition, Publication};
use crate::Cloud;
use crate::blocking::blocking;
use crate::http::Caller;
use bytes::Bytes;
use contract::api::error::ErrorBody;
use contract::api::file::EntryKind;
use contract::api::pack::{self, Header, Packed};
use contract::checksum::Checksum;
use contract::path::{Access, PfsPath};
use contract::{Error, Kind, Result};
use futures_util::StreamExt;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Writes many small files, all in one home or area.
pub(crate) async fn unpack(
    cloud: &Cloud,
    caller: &Caller,
    top: &str,
    pieces: Pieces,
) -> Result<Vec<Packed>> {
    let place = place(cloud, caller, top, Access::Write).await?;
    let scratch = scratch(&place).await?;
    let folder = scratch.path().to_owned();
    let arrived = blocking(move || read_pack(&folder, &mut Incoming::new(pieces))).await?;
    let bytes = arrived.iter().map(|(header, _)| header.bytes).sum();
    let decided = match cloud.usages.decide(cloud, &place, bytes, 0).await {
        // There may be room for what replaces other files. Only now is it worth asking for each.
        Err(error) if error.kind() == Kind::LimitExceeded => {
            match replaced(cloud, &place, &arrived).await {
                0 => return Err(error),
                given_up => cloud.usages.decide(cloud, &place, bytes, given_up).await?,
            }
        }
        decided => decided?,
    };
    let promise = decided.promise();
    let mut results: Vec<Packed> = Vec::new();
    let (mut publications, mut positions) = (Vec::new(), Vec::new());
    for (header, staged) in arrived {
        let path =
            sibling(cloud, &place, &header.path).and_then(|path| staged.map(|at| (path, at)));
        let mut packed = Packed { path: header.path.clone(), error: None };
        match path {
            Ok((path, staged)) => {
                positions.push(results.len());
                publications.push(Publication {
                    path,
                    staged,
                    mode: place.mode(header.mode),
                    modified_ms: header.modified_ms,
                    owner: place.owner,
                    condition: Condition::default(),
                });
            }
            Err(error) => packed.error = Some(ErrorBody::of(&error)),
        }
        results.push(packed);
    }
    let published = place.files.publish(publications).await;
    let mut written = 0;
    for (position, result) in positions.into_iter().zip(published) {
        match result {
            Ok(entry) => written += entry.bytes,
            Err(error) => results[position].error = Some(ErrorBody::of(&error)),
        }
    }
    promise.published(written);
    Ok(results)
}

/// Bytes of the files that those of a pack take the place of.
async fn replaced(cloud: &Cloud, place: &PermittedPath, arrived: &Arrived) -> u64 {
    let paths: BTreeSet<PfsPath> = arrived
        .iter()
        .filter_map(|(header, staged)| {
            staged.as_ref().ok()?;
            sibling(cloud, place, &header.path).ok()
        })
        .collect();
    let mut bytes = 0_u64;
    for path in paths {
        if let Ok(there) = place.files.stat(path).await
            && there.kind == EntryKind::File
        {
            bytes = bytes.saturating_add(there.bytes);
        }
    }
    bytes
}

/// One file of a pack that goes out: header, content, checksum.
pub(crate) async fn pack_one(cloud: &Cloud, place: &PermittedPath, text: &str) -> Result<Bytes> {
    let read = async {
        let path = sibling(cloud, place, text)?;
        let opened = place.files.open(path).await?;
        if opened.entry.bytes > pack::FILE_BYTES_MAX {
            return Err(Error::new(Kind::LimitExceeded, "the file is too large for a pack"));
        }
        let (entry, mut content) = (opened.entry, Vec::new());
        let mut pieces = opened.source.pieces(0..entry.bytes);
        while let Some(piece) = pieces.next().await {
            content.extend_from_slice(&piece?);
        }
        Ok((entry, content))
    };
    let header =
        Header { path: text.to_owned(), bytes: 0, mode: None, modified_ms: None, error: None };
    let (header, content) = match read.await {
        Ok((entry, content)) => {
            let (mode, modified_ms) = (Some(entry.mode), Some(entry.modified_ms));
            (Header { bytes: content.len() as u64, mode, modified_ms, ..header }, content)
        }
        Err(error) => (Header { error: Some(ErrorBody::of(&error)), ..header }, Vec::new()),
    };
    let mut bytes = header.encode()?;
    bytes.extend_from_slice(&content);
    bytes.extend_from_slice(&Checksum::of(&content).0);
    Ok(bytes.into())
}

/// Another path of the same home or area.
fn sibling(cloud: &Cloud, place: &PermittedPath, text: &str) -> Result<PfsPath> {
    let path = parse(cloud, text)?;
    let is_same =
        path.datacenter() == place.path.datacenter() && path.owner() == place.path.owner();
    match is_same {
        true => Ok(path),
        false => Err(Error::new(Kind::Forbidden, "a pack is for one home or area")
            .with("path", &path)
            .with("top", &place.path)),
    }
}

type Arrived = Vec<(Header, Result<PathBuf>)>;

fn read_pack(folder: &std::path::Path, incoming: &mut Incoming) -> Result<Arrived> {
    let mut arrived: Arrived = Vec::new();
    let mut total = 0_u64;
    loop {
        let mut length = [0; 4];
        incoming.exactly(&mut length)?;
        let Some(length) = Header::length(length)? else { return Ok(arrived) };
        let mut header = vec![0; length];
        incoming.exactly(&mut header)?;
        let header = Header::decode(&header)?;
        total = total.saturating_add(header.bytes);
        if arrived.len() >= pack::FILES_MAX || total > pack::PACK_BYTES_MAX {
            return Err(Error::new(Kind::LimitExceeded, "the pack is too large")
                .with("files_max", pack::FILES_MAX)
                .with("bytes_max", pack::PACK_BYTES_MAX));
        }
        let mut content = vec![0; usize::try_from(header.bytes).unwrap_or(0)];
        incoming.exactly(&mut content)?;
        let mut expected = Checksum([0; 32]);
        incoming.exactly(&mut expected.0)?;
        let staged = match Checksum::of(&content) == expected {
            true => {
                let path = folder.join(arrived.len().to_string());
                std::fs::write(&path, &content).map_err(refused)?;
                Ok(path)
            }
            false => {
                let message = "the content is not what its checksum says: send it again";
                Err(Error::new(Kind::Damaged, message).with("path", &header.path))
            }
        };
        arrived.push((header, staged));
    }
}
