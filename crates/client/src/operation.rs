//! Calls that may take long: copying, moving, removing and measuring files in the cloud.
//!
//! The server works on when the connection breaks. The call is sent again with the same name then,
//! and waits for what goes on. While the work takes time the server tells how far it has come.

use crate::client::Client;
use crate::retry::{ELAPSED_MAX, POLL_FIRST, POLL_MAX, Repeat};
use crate::transport::Call;
use contract::api::file::{Ended, OPERATION, OperationLine, Progress};
use contract::{Error, Kind, Result};
use serde::de::DeserializeOwned;
use std::cell::Cell;
use std::io::{BufRead, BufReader, Read};
use std::time::{Duration, Instant};
use ureq::http::Method;

/// The longest answer, and the longest line of one.
const ANSWER_BYTES_MAX: u64 = 1 << 20;
/// When a person is told for the first time that it goes on, and how often after that.
const FIRST_NEWS: Duration = Duration::from_secs(10);
const NEWS: Duration = Duration::from_secs(30);

impl Client {
    /// Waits for the end of an operation, and tells from time to time that it goes on.
    pub(crate) fn operate<T: DeserializeOwned>(&self, call: &Call<'_>) -> Result<T> {
        let began = Instant::now();
        let told: Cell<Option<Instant>> = Cell::new(None);
        self.operate_seen(call, &|Progress { files, bytes }| {
            let is_due = match told.get() {
                None => began.elapsed() >= FIRST_NEWS,
                Some(at) => at.elapsed() >= NEWS,
            };
            if is_due {
                told.set(Some(Instant::now()));
                let done = match files {
                    0 => String::new(),
                    files => format!(": {files} files, {} MiB so far", bytes >> 20),
                };
                let seconds = began.elapsed().as_secs();
                let what = call.what;
                (self.notice)(&format!("to {what} takes long, {seconds} s by now{done}"));
            }
        })
    }

    /// Waits for the end of an operation; `see` is told how far it has come.
    pub(crate) fn operate_seen<T: DeserializeOwned>(
        &self,
        call: &Call<'_>,
        see: &dyn Fn(Progress),
    ) -> Result<T> {
        let name = [(OPERATION, name()?)];
        let is_under_way = Cell::new(false);
        let mut lost: Option<Instant> = None;
        let mut pause = POLL_FIRST;
        let mut attempt = 1;
        loop {
            let seen = Cell::new(false);
            let tell = |progress| {
                is_under_way.set(true);
                seen.set(true);
                see(progress);
            };
            let answered = self.with_token(|token| {
                let answer = self.transport.exchange(call, Some(token), &name)?;
                let is_line = answer.status().as_u16() == 202;
                let body = answer.into_body().into_reader();
                if is_line { read_lines(body, call.what, &tell) } else { read(body, call.what) }
            });
            let error = match answered {
                Ok(bytes) if bytes.is_empty() => return crate::body::decode(b"null", call.what),
                Ok(bytes) => return crate::body::decode(&bytes, call.what),
                Err(error) => error,
            };
            if seen.get() {
                (lost, pause) = (None, POLL_FIRST);
            }
            if !error.kind().is_retryable() {
                return self.explained(call, error, attempt > 1);
            }
            // Work that was begun is worth waiting for; a mount always waits as long as it says.
            let patience = match is_under_way.get() || self.transport.patience.is_some() {
                true => self.patience,
                false => self.patience.min(ELAPSED_MAX),
            };
            let since = *lost.get_or_insert_with(|| {
                (self.notice)(&format!("{}; trying again", error.chain()));
                Instant::now()
            });
            if since.elapsed() >= patience {
                return Err(error);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(POLL_MAX);
            attempt += 1;
        }
    }

    /// A refusal of a call that was sent before, to a server that may have died since.
    fn explained<T: DeserializeOwned>(
        &self,
        call: &Call<'_>,
        error: Error,
        is_repeated: bool,
    ) -> Result<T> {
        let may_be_done = matches!(error.kind(), Kind::NotFound | Kind::AlreadyExists);
        if !is_repeated || !may_be_done {
            return Err(error);
        }
        let is_removal = call.method == Method::DELETE;
        if is_removal && error.kind() == Kind::NotFound {
            return crate::body::decode(b"null", call.what);
        }
        if is_removal || call.repeat == Repeat::Safe {
            return Err(error);
        }
        let message = format!(
            "cannot {}, or it is done already: the connection broke in the middle, and now: {}; \
             look at both paths",
            call.what,
            error.chain()
        );
        Err(Error::new(error.kind(), message))
    }
}

/// A name for one operation that no other has.
fn name() -> Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|source| Error::new(Kind::Io, "no random numbers").because(source))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn broken(source: std::io::Error, what: &str) -> Error {
    let message = format!("cannot {what}: the connection to the server broke");
    Error::new(Kind::Unavailable, message).because(source)
}

fn read(body: impl Read, what: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = body.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes);
    read.map(|_| bytes).map_err(|source| broken(source, what))
}

/// The answer at the end of the lines.
fn read_lines(body: impl Read, what: &str, see: &dyn Fn(Progress)) -> Result<Vec<u8>> {
    let mut lines = BufReader::new(body);
    loop {
        let mut line = Vec::new();
        let mut limited = Read::take(&mut lines, ANSWER_BYTES_MAX);
        limited.read_until(b'\n', &mut line).map_err(|source| broken(source, what))?;
        if line.is_empty() {
            return Err(broken(std::io::ErrorKind::UnexpectedEof.into(), what));
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        match crate::body::decode(&line, what)? {
            OperationLine::Working(progress) => see(progress),
            OperationLine::Ended(Ended { status: 200..=299, body }) => return Ok(body.into_bytes()),
            OperationLine::Ended(Ended { status, body }) => {
                return Err(crate::body::refusal(status, body.as_bytes(), None, what));
            }
        }
    }
}
