//! What pods print, followed through the API server and kept while this process runs.
//!
//! A replica may have several pods, one after another. Each is a stream; a cursor is the uid of a
//! pod and a position in its stream, so that a reader goes through all that this process has seen.

use super::api::ask;
use super::plan::CONTAINER;
use super::state::{container, phase_of};
use crate::backend::{Cursor, LOG_BYTES_MAX, LogPiece};
use contract::Result;
use futures_util::AsyncReadExt;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::LogParams;
use serde_json::Value;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// What is kept of one pod; what is older was skipped.
const KEPT_BYTES_MAX: usize = 32 << 20;
const PIECE_BYTES: usize = 64 << 10;
/// How long the first look at a pod's output may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The streams of one replica, oldest first.
#[derive(Default)]
pub(super) struct Streams(Mutex<Vec<Stream>>);

#[derive(Clone)]
struct Stream {
    uid: String,
    kept: Arc<Mutex<Kept>>,
    /// True once it has everything that was there when it began.
    caught_up: watch::Receiver<bool>,
}

#[derive(Default)]
struct Kept {
    bytes: Vec<u8>,
    /// Bytes before these that are no longer kept.
    skipped: u64,
    is_done: bool,
}

impl Streams {
    /// Follows the pod, if it has begun to print and is not followed yet. Returns when everything
    /// is there that the pod has printed so far.
    pub(super) async fn take_up(&self, pods: &Api<Pod>, pod: Option<&Value>) {
        let begun = pod.filter(|pod| {
            let state = &container(pod)["state"];
            state["running"].is_object() || state["terminated"].is_object()
        });
        if let Some(pod) = begun {
            self.begin(pods, pod);
        }
        let newest = self.lock().last().cloned();
        if let Some(mut stream) = newest {
            // Out of time, the rest comes with the next question.
            let _ = tokio::time::timeout(PATIENCE, stream.caught_up.wait_for(|is| *is)).await;
        }
    }

    fn begin(&self, pods: &Api<Pod>, pod: &Value) {
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
        let mut streams = self.lock();
        if streams.iter().any(|stream| stream.uid == uid) {
            return;
        }
        let (caught, caught_up) = watch::channel(false);
        let kept = Arc::new(Mutex::new(Kept::default()));
        streams.push(Stream { uid: uid.to_owned(), kept: kept.clone(), caught_up });
        let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let is_over = matches!(phase_of(pod), "Succeeded" | "Failed");
        let pods = pods.clone();
        tokio::spawn(async move {
            let followed = follow(&pods, &name, is_over, &kept, &caught).await;
            if let Err(error) = followed {
                // A pod that is gone has nothing more to say.
                tracing::debug!(pod = name, error = error.chain(), "its output has ended");
            }
            lock(&kept).is_done = true;
            let _ = caught.send(true);
        });
    }

    /// What was printed since a cursor. With `is_over` no further pod will come.
    pub(super) fn piece(&self, cursor: &Cursor, is_over: bool) -> LogPiece {
        let streams = self.lock();
        let (uid, offset) = cursor.0.split_once(':').unwrap_or_default();
        let known = streams.iter().position(|stream| stream.uid == uid);
        let offset = known.and(offset.parse::<u64>().ok()).unwrap_or(0);
        let mut index = known.unwrap_or(0);
        let mut from = offset;
        loop {
            let Some(stream) = streams.get(index) else {
                let next = cursor.clone();
                return LogPiece { bytes: Vec::new(), next, skipped_bytes: 0, is_last: is_over };
            };
            let kept = lock(&stream.kept);
            let skipped_bytes = kept.skipped.saturating_sub(from);
            let begin =
                usize::try_from(from.max(kept.skipped) - kept.skipped).unwrap_or(usize::MAX);
            let rest = kept.bytes.get(begin..).unwrap_or_default();
            let is_newest = index + 1 == streams.len();
            if rest.is_empty() && kept.is_done && !is_newest {
                (index, from) = (index + 1, 0);
                continue;
            }
            let bytes = rest[..rest.len().min(LOG_BYTES_MAX)].to_vec();
            let end = from.max(kept.skipped) + bytes.len() as u64;
            let is_rest = bytes.len() == rest.len();
            let next = Cursor(format!("{}:{end}", stream.uid));
            let is_last = is_over && is_newest && kept.is_done && is_rest;
            return LogPiece { bytes, next, skipped_bytes, is_last };
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Stream>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lock(kept: &Mutex<Kept>) -> std::sync::MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn follow(
    pods: &Api<Pod>,
    name: &str,
    is_over: bool,
    kept: &Mutex<Kept>,
    caught: &watch::Sender<bool>,
) -> Result<()> {
    let parameters = LogParams { container: Some(CONTAINER.to_owned()), ..LogParams::default() };
    let there = ask("read what a pod printed", pods.logs(name, &parameters)).await?;
    if is_over {
        kept_add(kept, there.as_bytes());
        return Ok(());
    }
    let parameters = LogParams { follow: true, ..parameters };
    let stream = ask("follow what a pod prints", pods.log_stream(name, &parameters)).await?;
    let mut stream = std::pin::pin!(stream);
    let (mut piece, mut read) = (vec![0; PIECE_BYTES], 0);
    loop {
        if read >= there.len() {
            caught.send_replace(true);
        }
        match stream.read(&mut piece).await {
            Ok(0) | Err(_) => return Ok(()),
            Ok(count) => {
                kept_add(kept, &piece[..count]);
                read += count;
            }
        }
    }
}

fn kept_add(kept: &Mutex<Kept>, bytes: &[u8]) {
    let mut kept = lock(kept);
    kept.bytes.extend_from_slice(bytes);
    if kept.bytes.len() > KEPT_BYTES_MAX {
        let excess = kept.bytes.len() - KEPT_BYTES_MAX / 2;
        kept.bytes.drain(..excess);
        kept.skipped += excess as u64;
    }
}
