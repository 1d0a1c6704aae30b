//! The rules of users' files: what may be done where, and in which order, so that a quota holds and
//! a file is never seen in part.

use super::incoming::{BodyPieces, Incoming};
use super::place::{PermittedPath, place};
use super::staging::{Existing, Staged, Told, allocate};
use super::stores::{Condition, Publication, Renaming};
use super::usage::{Promise, measure};
use crate::Cloud;
use crate::blocking::blocking;
use crate::http::Caller;
use bytes::{Buf, Bytes};
use contract::api::file::{
    Attributes, Begin, Checksums, ChunkQuery, Chunks, Completed, DiskUsage, Entry, EntryKind,
    PutQuery, Relocate, SOURCE_BYTES_MAX, Upload,
};
use contract::checksum::{Checksum, Summing};
use contract::path::Access;
use contract::{Error, Kind, Result};
use futures_util::{StreamExt, TryStreamExt};
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::sync::mpsc;

/// A body as it arrives.
pub(crate) type Pieces = mpsc::Receiver<Result<Bytes>>;

/// What is at a path.
pub(crate) async fn stat(cloud: &Cloud, caller: &Caller, path: &str) -> Result<Entry> {
    let place = place(cloud, caller, path, Access::Read).await?;
    place.files.stat(place.path.clone()).await
}

/// How much is below a path.
pub(crate) async fn usage(cloud: &Cloud, caller: &Caller, path: &str) -> Result<DiskUsage> {
    let place = place(cloud, caller, path, Access::Read).await?;
    measure(&*place.files, place.path.clone()).await
}

/// Makes a directory.
pub(crate) async fn make_directory(cloud: &Cloud, caller: &Caller, path: &str) -> Result<Entry> {
    let place = place(cloud, caller, path, Access::Write).await?;
    place.files.make_directory(place.path.clone(), place.owner).await
}

/// Removes what is at a path.
pub(crate) async fn remove(
    cloud: &Cloud,
    caller: &Caller,
    path: &str,
    is_recursive: bool,
) -> Result<()> {
    let place = place(cloud, caller, path, Access::Write).await?;
    let removed = place.files.remove(place.path.clone(), is_recursive).await;
    cloud.usages.forget(&place);
    removed
}

/// Changes permissions or time of what is at a path.
pub(crate) async fn dress(cloud: &Cloud, caller: &Caller, asked: &Attributes) -> Result<Entry> {
    let place = place(cloud, caller, &asked.path, Access::Write).await?;
    let mut mode = asked.mode.map(|mode| place.mode(Some(mode)));
    if place.path.owner().is_none() && place.files.stat(place.path.clone()).await?.is_directory() {
        // All enter what all read.
        mode = mode.map(|mode| mode | 0o111);
    }
    place.files.dress(place.path.clone(), mode, asked.modified_ms).await
}

/// Gives something another name.
pub(crate) async fn rename(cloud: &Cloud, caller: &Caller, asked: &Relocate) -> Result<Entry> {
    let from = place(cloud, caller, &asked.from, Access::Write).await?;
    let to = place(cloud, caller, &asked.to, Access::Write).await?;
    let is_same =
        from.path.datacenter() == to.path.datacenter() && from.path.owner() == to.path.owner();
    if !is_same {
        let message = "files are moved inside one home or area only: copy, then remove";
        return Err(Error::new(Kind::Unsupported, message)
            .with("from", &from.path)
            .with("to", &to.path));
    }
    let how = Renaming { owner: to.owner, if_absent: asked.if_absent };
    let renamed = to.files.rename(from.path.clone(), to.path.clone(), how).await;
    cloud.usages.forget(&to);
    renamed
}

/// Copies a file without its passing through the client.
pub(crate) async fn copy(cloud: &Cloud, caller: &Caller, asked: &Relocate) -> Result<Entry> {
    let from = place(cloud, caller, &asked.from, Access::Read).await?;
    let to = place(cloud, caller, &asked.to, Access::Write).await?;
    let opened = from.files.open(from.path.clone()).await?;
    let condition = Condition { if_absent: asked.if_absent, if_match: None };
    let there = existing(&to).await?;
    condition.check(there.as_ref())?;
    let given_up = there.map_or(0, |entry| entry.bytes);
    let entry = opened.entry.clone();
    let promise = cloud.usages.decide(cloud, &to, entry.bytes, given_up).await?.promise();
    let scratch = scratch(&to).await?;
    let staged = scratch.path().join("data");
    let counted = super::operation::current();
    let pieces = opened.source.pieces(0..entry.bytes).inspect_ok(move |piece| {
        counted.add(0, piece.len() as u64);
    });
    let pieces = drawn(Box::pin(pieces));
    let (bytes, _) = write(&staged, Some(entry.bytes), entry.bytes, pieces).await?;
    if bytes != entry.bytes {
        let message = "the file was changed while it was copied: try again when it is finished";
        return Err(Error::new(Kind::Conflict, message).with("path", &from.path));
    }
    let publication = Publication {
        path: to.path.clone(),
        staged,
        mode: to.mode(Some(entry.mode).filter(|mode| *mode != 0)),
        modified_ms: Some(entry.modified_ms),
        owner: to.owner,
        condition,
    };
    publish_one(&to, publication, promise).await
}

/// A body, and how long it will be, if that is known.
pub(crate) struct Arriving {
    pub(crate) length: Option<u64>,
    pub(crate) pieces: Pieces,
}

/// Writes a file in one go.
pub(crate) async fn put(
    cloud: &Cloud,
    caller: &Caller,
    asked: &PutQuery,
    condition: Condition,
    arriving: Arriving,
) -> Result<Entry> {
    let Arriving { length, pieces } = arriving;
    let place = place(cloud, caller, &asked.path, Access::Write).await?;
    let there = existing(&place).await?;
    condition.check(there.as_ref())?;
    let given_up = there.map_or(0, |entry| entry.bytes);
    let decided = cloud.usages.decide(cloud, &place, length.unwrap_or(0), given_up).await?;
    let (room, promise) = (decided.room(), decided.promise());
    let scratch = scratch(&place).await?;
    let staged = scratch.path().join("data");
    let (bytes, found) = write(&staged, length, room, pieces).await?;
    if let Some(expected) = asked.checksum
        && expected != found
    {
        let message = "the content is not what its checksum says: send it again";
        return Err(Error::new(Kind::Damaged, message)
            .with("expected", expected)
            .with("found", found));
    }
    let promise = match length {
        Some(_) => promise,
        // It is known only now.
        None => cloud.usages.decide(cloud, &place, bytes, given_up).await?.promise(),
    };
    let publication = Publication {
        path: place.path.clone(),
        staged,
        mode: place.mode(asked.mode),
        modified_ms: asked.modified_ms,
        owner: place.owner,
        condition,
    };
    publish_one(&place, publication, promise).await
}

/// Begins an upload, or continues the one of the same source.
pub(crate) async fn begin(cloud: &Cloud, caller: &Caller, asked: Begin) -> Result<Upload> {
    if asked.source.len() > SOURCE_BYTES_MAX {
        return Err(Error::invalid("the name of the source is too long")
            .with("bytes_max", SOURCE_BYTES_MAX));
    }
    Chunks::new(asked.bytes, asked.chunk_bytes)?;
    let place = place(cloud, caller, &asked.path, Access::Write).await?;
    let asked = Begin { path: place.path.to_string(), ..asked };
    let there = existing(&place).await?;
    condition(&asked).check(there.as_ref())?;
    let staging = place.datacenter.staging.clone();
    let (username, wanted) = (place.username.clone(), asked.clone());
    let earlier = {
        let (staging, username) = (staging.clone(), username.clone());
        blocking(move || Ok(staging.earlier(&username, &wanted))).await?
    };
    let staged = match earlier {
        Some(staged) => staged,
        None => {
            let given_up = there.as_ref().map_or(0, |entry| entry.bytes);
            let decided = cloud.usages.decide(cloud, &place, asked.bytes, given_up).await?;
            let begun = blocking(move || staging.begin(&username, &asked)).await?;
            // From now on the upload itself counts.
            drop(decided);
            begun
        }
    };
    upload(staged, there).await
}

/// An upload of the caller.
pub(crate) async fn find(cloud: &Cloud, caller: &Caller, id: &str) -> Result<Staged> {
    for datacenter in cloud.datacenters.values() {
        let staging = datacenter.staging.clone();
        let (username, id) = (caller.username.clone(), id.to_owned());
        if let Some(staged) = blocking(move || staging.find(&username, &id)).await? {
            return Ok(staged);
        }
    }
    let message = "there is no such upload: it has ended, or nobody sent anything for too long; \
                   begin again";
    Err(Error::new(Kind::NotFound, message).with("upload", id.escape_debug()))
}

/// What is known of an upload.
pub(crate) async fn describe(cloud: &Cloud, caller: &Caller, id: &str) -> Result<Upload> {
    let staged = find(cloud, caller, id).await?;
    let place = place(cloud, caller, &staged.begin.path, Access::Write).await?;
    let there = existing(&place).await?;
    upload(staged, there).await
}

/// Takes a chunk in.
pub(crate) async fn put_chunk(
    cloud: &Cloud,
    caller: &Caller,
    id: &str,
    (chunk, query): (u64, ChunkQuery),
    body: &mut BodyPieces,
) -> Result<()> {
    let told = Told::of(&query)?;
    let staged = find(cloud, caller, id).await?;
    let mut receiving = blocking(move || staged.receive(chunk, told)).await?;
    while let Some(mut piece) = body.next().await? {
        while !piece.is_empty() {
            let taken = receiving.take(&piece)?;
            piece.advance(taken);
            if receiving.is_full() {
                receiving = blocking(move || receiving.flush()).await?;
            }
        }
    }
    blocking(move || receiving.finish()).await
}

/// Takes the chunks that are the same in the file that is there.
pub(crate) async fn reuse(
    cloud: &Cloud,
    caller: &Caller,
    id: &str,
    sums: Checksums,
) -> Result<Upload> {
    let staged = find(cloud, caller, id).await?;
    let place = place(cloud, caller, &staged.begin.path, Access::Write).await?;
    let opened = match place.files.open(place.path.clone()).await {
        Err(error) if error.kind() == Kind::NotFound => return upload(staged, None).await,
        opened => opened?,
    };
    let entry = opened.entry.clone();
    let staged = if opened.source.file().is_some() {
        blocking(move || {
            if let Some(file) = opened.source.file() {
                staged.reuse(file, &sums.checksums)?;
            }
            Ok(staged)
        })
        .await?
    } else {
        // The store is nearer to the server than the client is.
        let length = entry.bytes.min(staged.begin.bytes);
        let pieces = drawn(opened.source.pieces(0..length));
        let mut existing = Existing {
            bytes: length,
            content: Incoming::new(pieces),
            deadline: Instant::now() + END,
        };
        blocking(move || {
            staged.reuse_read(&mut existing, &sums.checksums)?;
            Ok(staged)
        })
        .await?
    };
    upload(staged, Some(entry)).await
}

/// How long the end of an upload is waited for before the caller is told to ask again.
const END: Duration = Duration::from_secs(20);

/// Ends an upload: the file appears, or what is wrong is told. It goes on when the caller is gone,
/// and whoever asks again waits for the same end.
pub(crate) async fn complete(
    cloud: &Arc<Cloud>,
    caller: &Caller,
    id: &str,
    sums: Checksums,
) -> Result<Completed> {
    let staged = find(cloud, caller, id).await?;
    let path = super::place::parse(cloud, &staged.begin.path)?;
    let end = cloud.datacenter(path.datacenter())?.staging.end(&staged.id);
    let mut running = end.lock().await;
    let task = running.get_or_insert_with(|| {
        let (cloud, caller) = (Arc::clone(cloud), caller.clone());
        tokio::spawn(async move { finish(&cloud, &caller, staged, sums).await })
    });
    match tokio::time::timeout(END, task).await {
        Err(_) => Ok(Completed { entry: None, missing: Vec::new(), is_working: true }),
        Ok(finished) => {
            *running = None;
            finished.unwrap_or_else(|error| Err(crate::blocking::lost(error)))
        }
    }
}

async fn finish(
    cloud: &Cloud,
    caller: &Caller,
    staged: Staged,
    sums: Checksums,
) -> Result<Completed> {
    if let Some(entry) = staged.done() {
        return Ok(Completed { entry: Some(entry), missing: Vec::new(), is_working: false });
    }
    // What they may do can have changed since the beginning.
    let place = place(cloud, caller, &staged.begin.path, Access::Write).await?;
    let (staged, age, verified) = blocking(move || {
        let verified = staged.verify(&sums.checksums)?;
        let age = staged.age();
        Ok((staged, age, verified))
    })
    .await?;
    let whole = match verified {
        Ok(whole) => whole,
        Err(missing) => return Ok(Completed { entry: None, missing, is_working: false }),
    };
    let given_up = existing(&place).await?.map_or(0, |entry| entry.bytes);
    // Its own bytes are reserved already; jobs may have filled the home since it began.
    cloud.usages.forget_before(&place, age);
    let decided = cloud.usages.decide(cloud, &place, 0, given_up).await?;
    // In a directory the upload is renamed, and counts again when that is noted: nothing is decided
    // between. Elsewhere it is copied, which takes long, and counts until its end.
    let decided = place.files.changes_in_place().then_some(decided);
    let publication = Publication {
        path: place.path.clone(),
        staged: staged.data(),
        mode: place.mode(staged.begin.mode),
        modified_ms: staged.begin.modified_ms,
        owner: place.owner,
        condition: condition(&staged.begin),
    };
    let entry = publish(&place, publication).await?;
    cloud.usages.add(&place, entry.bytes);
    drop((decided, whole));
    let done = entry.clone();
    blocking(move || staged.finish(&done)).await?;
    Ok(Completed { entry: Some(entry), missing: Vec::new(), is_working: false })
}

/// Gives an upload up.
pub(crate) async fn abandon(cloud: &Cloud, caller: &Caller, id: &str) -> Result<()> {
    let staged = find(cloud, caller, id).await?;
    blocking(move || staged.remove()).await
}

async fn upload(staged: Staged, there: Option<Entry>) -> Result<Upload> {
    blocking(move || {
        let missing = staged.missing()?;
        let is_useful =
            |entry: &Entry| entry.kind == EntryKind::File && entry.bytes > 0 && !missing.is_empty();
        Ok(Upload {
            existing: there.filter(is_useful),
            id: staged.id,
            path: staged.begin.path,
            bytes: staged.begin.bytes,
            chunk_bytes: staged.begin.chunk_bytes,
            missing,
        })
    })
    .await
}

fn condition(begin: &Begin) -> Condition {
    Condition { if_absent: begin.if_absent, if_match: begin.if_match.clone() }
}

/// What is at a place where a file will be.
pub(super) async fn existing(place: &PermittedPath) -> Result<Option<Entry>> {
    match place.files.stat(place.path.clone()).await {
        Ok(entry) if entry.is_directory() => {
            let message = "this is a directory, where a file is needed: name the file in it";
            Err(Error::invalid(message).with("path", &place.path))
        }
        Ok(entry) => Ok(Some(entry)),
        Err(error) if error.kind() == Kind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) async fn scratch(place: &PermittedPath) -> Result<TempDir> {
    let (staging, username) = (place.datacenter.staging.clone(), place.username.clone());
    blocking(move || staging.scratch(&username)).await
}

async fn publish_one(
    place: &PermittedPath,
    publication: Publication,
    promise: Promise,
) -> Result<Entry> {
    let entry = publish(place, publication).await?;
    promise.published(entry.bytes);
    Ok(entry)
}

/// Gives a file its name.
pub(super) async fn publish(place: &PermittedPath, publication: Publication) -> Result<Entry> {
    let published = place.files.publish(vec![publication]).await.pop();
    let lost = || Err(Error::new(Kind::Io, "the store did not say what became of the file"));
    published.unwrap_or_else(lost)
}

/// Writes a file of at most `bytes_max`, whose length may be known; its length and checksum.
pub(crate) async fn write(
    target: &Path,
    length: Option<u64>,
    bytes_max: u64,
    pieces: Pieces,
) -> Result<(u64, Checksum)> {
    let target = target.to_owned();
    blocking(move || {
        let mut incoming = Incoming::new(pieces);
        let written = write_all(&target, length.unwrap_or(0), bytes_max, &mut incoming);
        written.map_err(|error| incoming.into_error().unwrap_or(error))
    })
    .await
}

fn write_all(
    target: &Path,
    length: u64,
    bytes_max: u64,
    source: &mut Incoming,
) -> Result<(u64, Checksum)> {
    let mut file = File::create_new(target).map_err(refused)?;
    allocate(&file, length.min(bytes_max))?;
    let (mut sum, mut bytes) = (Summing::new(), 0_u64);
    let mut buffer = vec![0; 256 << 10];
    loop {
        let count = source.read(&mut buffer).map_err(refused)?;
        if count == 0 {
            break;
        }
        bytes += count as u64;
        if bytes > bytes_max {
            let message = "the file is larger than a file may be, or than the disk quota leaves \
                           room for";
            return Err(Error::new(Kind::LimitExceeded, message).with("bytes_max", bytes_max));
        }
        sum.add(&buffer[..count]);
        file.write_all(&buffer[..count]).map_err(refused)?;
    }
    file.set_len(bytes).map_err(refused)?;
    Ok((bytes, sum.checksum()))
}

/// A stream for code that waits.
pub(super) fn drawn(mut stream: futures_util::stream::BoxStream<'static, Result<Bytes>>) -> Pieces {
    let (sender, receiver) = mpsc::channel(4);
    tokio::spawn(async move {
        while let Some(piece) = stream.next().await {
            if sender.send(piece).await.is_err() {
                return;
            }
        }
    });
    receiver
}

pub(super) fn refused(source: std::io::Error) -> Error {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    match source.kind() {
        StorageFull | QuotaExceeded => super::stores::disk_full(source),
        _ => Error::io("the server cannot keep the file", source),
    }
}
