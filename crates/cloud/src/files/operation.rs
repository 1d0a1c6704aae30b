//! Work on files that may take longer than anybody keeps a connection: copying, moving, removing and
//! measuring.
//!
//! Each is a task of its own, which goes on when its caller is gone. A caller who waits gets an
//! ordinary answer if the work ends within a moment; otherwise lines that tell how far it has come,
//! and how it ended. The connection stays at the server that works, so servers behind a load
//! balancer need to know nothing of each other's work. A caller whose connection broke sends the
//! request again with the name it gave the operation, and waits for the same end. A server that was
//! started again knows nothing of operations before.

use crate::Cloud;
use crate::blocking::lost;
use crate::http::stream::{self, Lines};
use crate::http::{Answer, Caller, Refusal};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use contract::api::error::ErrorBody;
use contract::api::file::{Ended, OPERATION, OperationLine, Progress};
use contract::api::status;
use contract::path::PfsPath;
use contract::{Error, Kind, Result};
use serde::Serialize;
use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

/// An answer that takes longer is given in lines.
const MOMENT: Duration = Duration::from_secs(2);
/// How often a caller who waits is told how far it has come.
const TICK: Duration = Duration::from_secs(1);
/// How long it is known how an operation ended.
const KEPT: Duration = Duration::from_secs(600);
/// How often those that have ended are looked for.
const SWEEP: Duration = Duration::from_secs(10);
/// Operations of one user at the same time.
const OPERATIONS_MAX: usize = 256;
const NAME_BYTES_MAX: usize = 64;

tokio::task_local! {
    static CURRENT: Arc<Counted>;
}

/// What is done so far.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    files: AtomicU64,
    bytes: AtomicU64,
}

impl Counted {
    /// So much more is done.
    pub(crate) fn add(&self, files: u64, bytes: u64) {
        self.files.fetch_add(files, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn progress(&self) -> Progress {
        let (files, bytes) = (&self.files, &self.bytes);
        Progress { files: files.load(Ordering::Relaxed), bytes: bytes.load(Ordering::Relaxed) }
    }
}

/// Where the operation that this is part of counts what is done. Outside of one nobody looks.
pub(crate) fn current() -> Arc<Counted> {
    CURRENT.try_with(Arc::clone).unwrap_or_default()
}

/// The operations of all users.
#[derive(Debug, Clone, Default)]
pub(crate) struct Operations {
    known: Arc<Mutex<Known>>,
}

#[derive(Debug, Default)]
struct Known {
    /// By user and name.
    operations: HashMap<(String, String), Operation>,
    swept: Option<Instant>,
}

#[derive(Debug, Clone)]
struct Operation {
    counted: Arc<Counted>,
    outcome: watch::Receiver<Option<Outcome>>,
    begun: Instant,
    /// What is moved or removed.
    subject: Option<PfsPath>,
}

#[derive(Debug, Clone)]
struct Outcome {
    ended: Ended,
    at: Instant,
}

impl Operations {
    /// Begins an operation, unless the user has one of this name: then it is that one.
    fn begin<T: Serialize + Send + 'static>(
        &self,
        username: &str,
        name: Option<&str>,
        subject: Option<PfsPath>,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> std::result::Result<Operation, Refusal> {
        let name = match name {
            Some(name) => name.to_owned(),
            None => crate::random::word::<20>()?,
        };
        let key = (username.to_owned(), name);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.sweep();
        if let Some(operation) = known.operations.get(&key) {
            return Ok(operation.clone());
        }
        let running = || known.operations.iter().filter(|(_, operation)| operation.is_running());
        if running().filter(|((owner, _), _)| owner == username).count() >= OPERATIONS_MAX {
            return Err(Refusal::too_fast("too many operations on files at the same time"));
        }
        let is_same = |operation: &Operation| operation.subject == subject;
        if subject.is_some()
            && running().any(|(_, other)| is_same(other) && other.begun.elapsed() >= MOMENT)
        {
            let message = "an earlier command is still moving or removing this: wait until it has \
                           ended";
            let path = subject.map(|path| path.to_string()).unwrap_or_default();
            return Err(Error::new(Kind::Conflict, message).with("path", path).into());
        }
        let counted = Arc::<Counted>::default();
        let (sender, outcome) = watch::channel(None);
        let work = tokio::spawn(CURRENT.scope(Arc::clone(&counted), work));
        tokio::spawn(async move {
            let result = work.await.unwrap_or_else(|error| Err(lost(error)));
            // Whoever waits has a receiver; nobody needs to.
            let _ = sender.send(Some(Outcome { ended: ended(result), at: Instant::now() }));
        });
        let operation = Operation { counted, outcome, begun: Instant::now(), subject };
        known.operations.insert(key, operation.clone());
        Ok(operation)
    }
}

impl Known {
    fn sweep(&mut self) {
        if self.swept.is_some_and(|at| at.elapsed() < SWEEP) {
            return;
        }
        self.swept = Some(Instant::now());
        self.operations.retain(|_, operation| {
            operation.outcome.borrow().as_ref().is_none_or(|outcome| outcome.at.elapsed() < KEPT)
        });
    }
}

impl Operation {
    fn is_running(&self) -> bool {
        self.outcome.borrow().is_none()
    }

    /// How it ended, if it does so in time.
    async fn wait(&mut self, time: Duration) -> Option<Ended> {
        match timeout(time, self.outcome.wait_for(Option::is_some)).await {
            Ok(Ok(outcome)) => outcome.as_ref().map(|outcome| outcome.ended.clone()),
            // The server stops.
            Ok(Err(_)) => {
                let message = "the server stopped in the middle of this: try again";
                Some(ended::<()>(Err(Error::new(Kind::Unavailable, message))))
            }
            Err(_) => None,
        }
    }
}

/// A result as the answer that tells it.
fn ended<T: Serialize>(result: Result<T>) -> Ended {
    let rendered = result.and_then(|value| {
        let body = serde_json::to_string(&value);
        body.map_err(|source| Error::new(Kind::Io, "cannot render JSON").because(source))
    });
    match rendered {
        // As that of `()`.
        Ok(body) if body == "null" => Ended { status: 204, body: String::new() },
        Ok(body) => Ended { status: 200, body },
        Err(error) => {
            let kind = error.kind();
            if matches!(kind, Kind::Io | Kind::Damaged | Kind::LimitExceeded) {
                tracing::error!(error = error.chain(), "an operation on files failed");
            }
            let body = serde_json::to_string(&ErrorBody::of(&error)).unwrap_or_default();
            Ended { status: status::of(kind), body }
        }
    }
}

/// Does `work` as an operation, and tells its caller how it goes. `subject` is what it moves or
/// removes.
pub(crate) async fn answer<T: Serialize + Send + 'static>(
    cloud: &Arc<Cloud>,
    caller: &Caller,
    headers: &HeaderMap,
    subject: Option<PfsPath>,
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Answer<Response> {
    let name = name_in(headers)?;
    let mut operation = cloud.operations.begin(&caller.username, name, subject, work)?;
    if let Some(Ended { status, body }) = operation.wait(MOMENT).await {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let content_type = [(header::CONTENT_TYPE, "application/json")];
        return Ok(match body.is_empty() {
            true => status.into_response(),
            false => (status, content_type, body).into_response(),
        });
    }
    let following = Following { operation, is_told: false };
    let mut response = stream::answer(cloud, caller, following)?;
    *response.status_mut() = StatusCode::ACCEPTED;
    Ok(response)
}

fn name_in(headers: &HeaderMap) -> Result<Option<&str>> {
    let Some(value) = headers.get(OPERATION) else { return Ok(None) };
    let is_letter = |letter: u8| letter.is_ascii_alphanumeric();
    let name = value.to_str().unwrap_or_default();
    match !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.bytes().all(is_letter) {
        true => Ok(Some(name)),
        false => Err(Error::invalid("operation-id: expected up to 64 letters and digits")),
    }
}

/// The lines for somebody who waits.
struct Following {
    operation: Operation,
    is_told: bool,
}

impl Lines for Following {
    async fn next(&mut self) -> Result<Option<Vec<Bytes>>> {
        if self.is_told {
            return Ok(None);
        }
        let line = match self.operation.wait(TICK).await {
            Some(ended) => {
                self.is_told = true;
                OperationLine::Ended(ended)
            }
            None => OperationLine::Working(self.operation.counted.progress()),
        };
        Ok(Some(vec![stream::line(&line)?]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    fn begin(
        operations: &Operations,
        name: &str,
        work: impl Future<Output = Result<u32>> + Send + 'static,
    ) -> Operation {
        operations.begin("wu", Some(name), None, work).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn work_goes_on_when_its_caller_is_gone_and_is_found_again_by_its_name() {
        let operations = Operations::default();
        let (go, gone) = oneshot::channel::<()>();
        let mut first = begin(&operations, "a", async move {
            current().add(3, 500);
            gone.await.unwrap();
            Ok(7)
        });
        assert_eq!(first.wait(MOMENT).await, None);
        assert_eq!(first.counted.progress(), Progress { files: 3, bytes: 500 });
        drop(first);
        go.send(()).unwrap();
        // Not begun again, and known for a while after its end.
        let again = || begin(&operations, "a", async { panic!("it was begun twice") });
        let ended = Ended { status: 200, body: "7".to_owned() };
        assert_eq!(again().wait(MOMENT).await, Some(ended.clone()));
        tokio::time::advance(KEPT / 2).await;
        assert_eq!(again().wait(MOMENT).await, Some(ended));
        // Another user's of the same name is another one.
        let mut other = operations.begin("xi", Some("a"), None, async { Ok(()) }).unwrap();
        let nothing = Ended { status: 204, body: String::new() };
        assert_eq!(other.wait(MOMENT).await, Some(nothing));
        tokio::time::advance(KEPT).await;
        let mut later = begin(&operations, "a", async { Ok(8) });
        assert_eq!(later.wait(MOMENT).await.unwrap().body, "8");
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_is_told_how_far_it_has_come_and_how_it_ended() {
        let operations = Operations::default();
        let (go, gone) = oneshot::channel::<()>();
        let operation = begin(&operations, "a", async move {
            let counted = current();
            gone.await.unwrap();
            counted.add(1, 2);
            Err(Error::new(Kind::NotFound, "no such file"))
        });
        let mut following = Following { operation, is_told: false };
        let mut next = async || {
            let lines = following.next().await.unwrap()?;
            Some(String::from_utf8(lines[0].to_vec()).unwrap())
        };
        assert_eq!(next().await.unwrap(), "{\"working\":{\"files\":0,\"bytes\":0}}\n");
        go.send(()).unwrap();
        let ended = next().await.unwrap();
        assert!(ended.starts_with("{\"ended\":{\"status\":404,"), "{ended}");
        assert_eq!(next().await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_being_moved_is_not_moved_again_meanwhile() {
        let operations = Operations::default();
        let path = |text: &str| Some(PfsPath::home("dc", "wu").unwrap().join(text).unwrap());
        let (go, gone) = oneshot::channel::<()>();
        let work = async move { gone.await.map_err(|_| Error::invalid("dropped")) };
        let mut first = operations.begin("wu", None, path("old"), work).unwrap();
        assert_eq!(first.wait(MOMENT).await, None);
        let begin = |text| operations.begin("wu", None, path(text), async { Ok(()) }).map(|_| ());
        assert_eq!(begin("old").unwrap_err().error().kind(), Kind::Conflict);
        begin("other").unwrap();
        go.send(()).unwrap();
        assert_eq!(first.wait(MOMENT).await.unwrap().status, 204);
        begin("old").unwrap();
    }

    #[tokio::test]
    async fn work_that_panics_ends_as_an_error() {
        let operations = Operations::default();
        let mut operation = begin(&operations, "a", async { panic!("a bug") });
        assert_eq!(operation.wait(KEPT).await.unwrap().status, 500);
    }

    #[test]
    fn names_are_letters_and_digits() {
        let named = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(OPERATION, text.parse().unwrap());
            name_in(&headers).map(|name| name.map(str::to_owned))
        };
        assert_eq!(named("a1B2").unwrap().as_deref(), Some("a1B2"));
        assert!(named("a/b").is_err() && named("").is_err() && named(&"a".repeat(65)).is_err());
        assert_eq!(name_in(&HeaderMap::new()).unwrap(), None);
    }
}
