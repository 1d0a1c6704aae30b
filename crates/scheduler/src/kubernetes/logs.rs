//! What pods print, followed through the API server and kept while this process runs.
//!
//! A replica may have several pods, one after another. Each is a stream; a cursor is the uid of a
//! pod and a position in its stream, so that a reader goes through all that this process has seen.
//!
//! A connection also ends when an API server or a kubelet is restarted, and nothing in it tells
//! whether the pod has ended. So the pod is looked at each time: one that still runs is followed
//! again from where its output broke off, and of one that has ended the rest is read.

use super::api::ask;
use super::plan::CONTAINER;
use super::state::{container, is_over, name_of};
use crate::backend::{Cursor, LOG_BYTES_MAX, LogPiece};
use contract::{Error, Kind, Result};
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
/// Between two attempts to follow a pod.
const PAUSE: Duration = Duration::from_secs(1);
/// How often the output of a pod that has ended is asked for, while the API server shows the pod: its
/// node may be gone for good.
const READS_MAX: u32 = 60;

/// What a kubelet sends in place of output that it no longer has. It comes as the last line, without an
/// end.
const APOLOGIES: [&[u8]; 3] = [
    b"unable to retrieve container logs for ",
    b"failed to try resolving symlinks in path ",
    b"failed to open log file ",
];

/// The streams of one replica, oldest first.
#[derive(Default)]
pub(super) struct Streams(Mutex<Vec<Stream>>);

#[derive(Clone)]
struct Stream {
    uid: String,
    kept: Arc<Mutex<Kept>>,
    progress: watch::Receiver<Progress>,
}

/// How far a stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Progress {
    Begun,
    /// It has everything that was there when it began.
    CaughtUp,
    /// Nothing more will come.
    Done,
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
    /// is there that the pod has printed so far; of one that has ended, everything.
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
            let wanted = if pod.is_none_or(is_over) { Progress::Done } else { Progress::CaughtUp };
            // Out of time, the rest comes with the next question.
            let reached = stream.progress.wait_for(|progress| *progress >= wanted);
            let _ = tokio::time::timeout(PATIENCE, reached).await;
        }
    }

    fn begin(&self, pods: &Api<Pod>, pod: &Value) {
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
        let mut streams = self.lock();
        if streams.iter().any(|stream| stream.uid == uid) {
            return;
        }
        let (teller, progress) = watch::channel(Progress::Begun);
        let kept = Arc::new(Mutex::new(Kept::default()));
        streams.push(Stream { uid: uid.to_owned(), kept: kept.clone(), progress });
        let followed = Followed {
            pods: pods.clone(),
            name: name_of(pod).to_owned(),
            uid: uid.to_owned(),
            restarts: restarts(pod),
            taken: 0,
            kept,
            teller,
        };
        tokio::spawn(followed.run(is_over(pod)));
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

/// How often the container of a pod was started again.
fn restarts(pod: &Value) -> u64 {
    container(pod)["restartCount"].as_u64().unwrap_or(0)
}

/// A container whose output is followed.
struct Followed {
    pods: Api<Pod>,
    name: String,
    uid: String,
    /// How often it was started before: the output of each time is one of its own.
    restarts: u64,
    /// How many bytes of its output were taken in.
    taken: usize,
    kept: Arc<Mutex<Kept>>,
    teller: watch::Sender<Progress>,
}

impl Followed {
    async fn run(mut self, is_over: bool) {
        if let Err(error) = self.follow(is_over).await {
            // A pod that is gone has nothing more to say.
            tracing::debug!(pod = self.name, error = error.chain(), "its output has ended");
        }
        lock(&self.kept).is_done = true;
        self.teller.send_replace(Progress::Done);
    }

    /// Takes in everything that the container prints until it has ended.
    async fn follow(&mut self, mut is_over: bool) -> Result<()> {
        let (mut is_previous, mut reads) = (false, 0);
        loop {
            let was_rest = is_over || is_previous;
            let read = match was_rest {
                true => self.read(is_previous).await,
                false => self.stream().await,
            };
            match read {
                Ok(()) if was_rest => return Ok(()),
                Err(error) if !error.kind().is_retryable() || reads >= READS_MAX => {
                    return Err(error);
                }
                Ok(()) | Err(_) => {}
            }
            // Who reads is not kept waiting for a server that is away.
            self.tell_caught_up();
            match ask("look at a pod", self.pods.get(&self.name)).await {
                Ok(pod) => {
                    let pod = serde_json::to_value(&pod).unwrap_or_default();
                    if pod["metadata"]["uid"] != self.uid.as_str() {
                        return Ok(());
                    }
                    is_previous = restarts(&pod) > self.restarts;
                    is_over = container(&pod)["state"]["terminated"].is_object();
                    if (is_over || is_previous) && !was_rest {
                        continue;
                    }
                    reads += u32::from(was_rest);
                }
                Err(error) if error.kind().is_retryable() => {}
                Err(error) => return Err(error),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn tell_caught_up(&self) {
        self.teller.send_if_modified(|progress| {
            let is_news = *progress < Progress::CaughtUp;
            *progress = (*progress).max(Progress::CaughtUp);
            is_news
        });
    }

    /// Takes in what is there and was not taken in before.
    async fn read(&mut self, is_previous: bool) -> Result<()> {
        let parameters = LogParams { previous: is_previous, ..parameters() };
        let there = self.all(&parameters).await?;
        // A node that has begun a new file shows that alone.
        let known = if there.len() < self.taken { 0 } else { self.taken };
        self.take(&there[known..]);
        Ok(())
    }

    /// Everything that the node has of the output. Read as a stream, because a client's text has to be
    /// UTF-8, and programs print what they like.
    async fn all(&self, parameters: &LogParams) -> Result<Vec<u8>> {
        const WHAT: &str = "read what a pod printed";
        let stream = ask(WHAT, self.pods.log_stream(&self.name, parameters)).await?;
        let mut stream = std::pin::pin!(stream);
        let (mut all, mut piece) = (Vec::new(), vec![0; PIECE_BYTES]);
        loop {
            let read = tokio::time::timeout(PATIENCE, stream.read(&mut piece)).await;
            let broken = |kind: Kind| Error::new(kind, format!("cannot {WHAT}: it broke off"));
            match read {
                Ok(Ok(0)) => {
                    all.truncate(without_apology(&all).len());
                    return Ok(all);
                }
                Ok(Ok(count)) => all.extend_from_slice(&piece[..count]),
                Ok(Err(source)) => return Err(broken(Kind::Unavailable).because(source)),
                Err(_) => return Err(broken(Kind::Timeout)),
            }
        }
    }

    /// Takes in what comes until the connection ends.
    async fn stream(&mut self) -> Result<()> {
        let parameters = parameters();
        let there = self.all(&parameters).await?.len();
        // As above.
        let mut known = if there < self.taken { 0 } else { self.taken };
        let parameters = LogParams { follow: true, ..parameters };
        let stream = self.pods.log_stream(&self.name, &parameters);
        let stream = ask("follow what a pod prints", stream).await?;
        let mut stream = std::pin::pin!(stream);
        let (mut piece, mut read) = (vec![0; PIECE_BYTES], 0);
        loop {
            if read >= there {
                self.tell_caught_up();
            }
            let Ok(count @ 1..) = stream.read(&mut piece).await else { return Ok(()) };
            // Should it be the program's after all, it comes again with what follows.
            let own = without_apology(&piece[..count]);
            let fresh = &own[known.min(own.len())..];
            known -= known.min(own.len());
            self.take(fresh);
            read += count;
            if own.len() < count {
                return Ok(());
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        kept_add(&self.kept, bytes);
        self.taken += bytes.len();
    }
}

/// What a program has printed, without the words of a kubelet behind it.
fn without_apology(bytes: &[u8]) -> &[u8] {
    let begin = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let last = &bytes[begin..];
    if APOLOGIES.iter().any(|words| last.starts_with(words)) { &bytes[..begin] } else { bytes }
}

fn parameters() -> LogParams {
    LogParams { container: Some(CONTAINER.to_owned()), ..LogParams::default() }
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

#[cfg(test)]
mod tests {
    use super::super::fake;
    use super::*;
    use serde_json::json;

    #[test]
    fn the_words_of_a_kubelet_are_not_the_programs() {
        let check = |text: &str, expected: &str| {
            assert_eq!(without_apology(text.as_bytes()), expected.as_bytes());
        };
        let gone = "unable to retrieve container logs for containerd://5662";
        check(gone, "");
        check(&format!("step 1\n{gone}"), "step 1\n");
        check("step 1\nstep", "step 1\nstep");
        check(&format!("{gone}\nstep"), &format!("{gone}\nstep"));
        check("failed to try resolving symlinks in path \"/var/log/0.log\": lstat", "");
    }

    /// One byte that is no UTF-8 must not hide what a program prints.
    #[tokio::test]
    async fn bytes_of_any_kind_are_read() {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "job-1-trainer-0", "uid": "1"},
            "status": {"phase": "Succeeded", "containerStatuses": [
                {"name": CONTAINER, "state": {"terminated": {"exitCode": 0}}},
            ]},
        });
        let body = pod.to_string();
        let server = fake::Server::start(move |request| match request.contains("/log?") {
            true => (200, b"caf\xe9\n\xff".to_vec()),
            false => (200, body.clone().into_bytes()),
        })
        .await;
        let client = super::super::api::connect(&server.access()).await.unwrap();
        let streams = Streams::default();
        streams.take_up(&Api::namespaced(client, "default"), Some(&pod)).await;
        let piece = streams.piece(&Cursor::default(), true);
        assert_eq!((piece.bytes.as_slice(), piece.is_last), (&b"caf\xe9\n\xff"[..], true));
    }
}
