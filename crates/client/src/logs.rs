//! What replicas printed, at once or as it comes.
//!
//! A follower knows how far it has read every replica. When the connection breaks, or the server
//! is restarted, it comes back with these cursors: nothing is shown twice and nothing is missing.

use crate::client::{Client, get};
use crate::retry::OUTAGE_MAX;
use contract::api::log::{ANSWER_BYTES_MAX, HEARTBEAT_SECONDS, LogPiece, LogQuery};
use contract::api::path;
use contract::state::State;
use contract::{Error, Kind, Result};
use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Read};
use std::time::{Duration, Instant};

/// The longest list of cursors, that of about a thousand replicas: a URL has a limit.
const CURSORS_BYTES_MAX: usize = 32 << 10;
/// The longest line of a followed log, as JSON.
const LINE_BYTES_MAX: u64 = 32 << 20;
/// A server that is silent for so long is gone.
const SILENCE_MAX: Duration = Duration::from_secs(3 * HEARTBEAT_SECONDS);
const PAUSE_FIRST: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(3);

/// How far each replica was read.
type Cursors = BTreeMap<String, String>;

/// What a follower has met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// Something was printed.
    Piece(LogPiece),
    /// The connection broke, and why; it is being made again.
    Lost(String),
    /// The server is there again.
    Back,
    /// Nothing was printed for some seconds, and the server is there.
    Quiet,
}

impl Client {
    /// What is there now. `see` gets it in pieces, which may be many: a log can be large.
    pub fn logs(
        &self,
        job: &str,
        query: &LogQuery,
        mut see: impl FnMut(LogPiece) -> Result<()>,
    ) -> Result<()> {
        let mut query = LogQuery { follow: false, ..query.clone() };
        let mut cursors = Cursors::new();
        loop {
            let pieces = self.pieces(job, &query)?;
            let has_more = remember(&mut cursors, &pieces);
            for piece in pieces {
                see(piece)?;
            }
            if !has_more {
                return Ok(());
            }
            query.cursors = Some(bounded(&cursors)?);
        }
    }

    /// What is there, and what comes, until the job has ended. The job is meant that has the name
    /// now, also when another gets it.
    pub fn follow(&self, job: &str, query: &LogQuery) -> Result<Follow<'_>> {
        let uid = self.job(job)?.job.uid;
        Ok(Follow {
            client: self,
            job: uid,
            query: LogQuery { follow: true, ..query.clone() },
            cursors: Cursors::new(),
            stream: None,
            ready: VecDeque::new(),
            lost: None,
            pause: PAUSE_FIRST,
            is_over: false,
        })
    }

    fn pieces(&self, job: &str, query: &LogQuery) -> Result<Vec<LogPiece>> {
        let path = format!("{}?{}", self.path(path::JOB_LOGS, &[job])?, text_of(query));
        self.ask(&get(path, "read the logs of a job"))
    }
}

/// The log of a job as it grows.
pub struct Follow<'a> {
    client: &'a Client,
    job: String,
    query: LogQuery,
    cursors: Cursors,
    stream: Option<BufReader<ureq::BodyReader<'static>>>,
    ready: VecDeque<Seen>,
    /// Since when the server is away.
    lost: Option<Instant>,
    pause: Duration,
    is_over: bool,
}

impl Follow<'_> {
    /// What comes next; `None` when the job has ended and everything was seen.
    pub fn see(&mut self) -> Result<Option<Seen>> {
        loop {
            if let Some(seen) = self.ready.pop_front() {
                return Ok(Some(seen));
            }
            if self.is_over {
                return Ok(None);
            }
            match self.stream.take() {
                None => self.open()?,
                Some(mut stream) => match read_piece(&mut stream) {
                    Ok(Line::Piece(piece)) => {
                        self.stream = Some(stream);
                        self.take(piece);
                    }
                    Ok(Line::Empty) => {
                        self.stream = Some(stream);
                        // Who begins to print from now on is read from the beginning.
                        self.query.tail = None;
                        return Ok(Some(Seen::Quiet));
                    }
                    Ok(Line::None) => self.ended()?,
                    Err(error) => self.broke(error)?,
                },
            }
        }
    }

    fn open(&mut self) -> Result<()> {
        if !self.cursors.is_empty() {
            self.query.cursors = Some(bounded(&self.cursors)?);
        }
        let base = self.client.path(path::JOB_LOGS, &[&self.job])?;
        let call = get(format!("{base}?{}", text_of(&self.query)), "follow the logs of a job");
        let opened = self
            .client
            .with_token(|token| self.client.transport.stream(&call, Some(token), SILENCE_MAX));
        match opened {
            Ok(body) => {
                if self.lost.take().is_some() {
                    self.ready.push_back(Seen::Back);
                }
                let reader = body.into_with_config().limit(u64::MAX).reader();
                self.stream = Some(BufReader::with_capacity(64 << 10, reader));
                Ok(())
            }
            Err(error) => self.broke(error),
        }
    }

    fn take(&mut self, piece: LogPiece) {
        self.pause = PAUSE_FIRST;
        self.query.tail = None;
        remember(&mut self.cursors, std::slice::from_ref(&piece));
        self.ready.push_back(Seen::Piece(piece));
    }

    /// The server has closed the stream: because the job has ended, or because it stops itself.
    fn ended(&mut self) -> Result<()> {
        let detail = self.client.patiently(|| self.client.job(&self.job))?;
        if !detail.job.state.is_final() {
            std::thread::sleep(self.pause);
            self.pause = (self.pause * 2).min(PAUSE_MAX);
            return Ok(());
        }
        // What was printed between the last piece and the end.
        let mut rest = LogQuery { follow: false, ..self.query.clone() };
        if !self.cursors.is_empty() {
            rest.cursors = Some(bounded(&self.cursors)?);
        }
        let pieces = self.client.patiently(|| self.client.pieces(&self.job, &rest))?;
        // If it was too much for one answer, the rest is followed again.
        self.is_over = !remember(&mut self.cursors, &pieces);
        self.ready.extend(pieces.into_iter().filter(has_news).map(Seen::Piece));
        Ok(())
    }

    fn broke(&mut self, error: Error) -> Result<()> {
        if !error.kind().is_retryable() {
            return Err(error);
        }
        let since = match self.lost {
            Some(since) => since,
            None => {
                self.ready.push_back(Seen::Lost(error.chain()));
                *self.lost.insert(Instant::now())
            }
        };
        if since.elapsed() >= OUTAGE_MAX {
            return Err(error);
        }
        std::thread::sleep(self.pause);
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        Ok(())
    }
}

/// A query as it stands behind the `?`.
fn text_of(query: &LogQuery) -> String {
    let LogQuery { worker, role, tail, cursors, follow } = query;
    let pairs = [
        ("worker", worker.clone()),
        ("role", role.map(|role| role.to_string())),
        ("tail", tail.map(|tail| tail.to_string())),
        ("cursors", cursors.clone()),
        ("follow", Some(follow.to_string())),
    ];
    let pairs = pairs.into_iter().filter_map(|(key, value)| Some((key, value?)));
    pairs
        .map(|(key, value)| format!("{key}={}", path::encode(&value)))
        .collect::<Vec<_>>()
        .join("&")
}

fn has_news(piece: &LogPiece) -> bool {
    !piece.text.is_empty() || piece.skipped_bytes > 0
}

/// Notes how far each replica was read; whether it was so much that there may be more.
fn remember(cursors: &mut Cursors, pieces: &[LogPiece]) -> bool {
    for piece in pieces {
        cursors.insert(piece.worker.clone(), piece.cursor.clone());
    }
    // A full answer may end a few bytes earlier, before a character that did not fit.
    pieces.iter().map(|piece| piece.text.len()).sum::<usize>() >= ANSWER_BYTES_MAX / 2
}

fn bounded(cursors: &Cursors) -> Result<String> {
    let pairs = cursors.iter().map(|(worker, cursor)| format!("{worker}={cursor}"));
    let text = pairs.collect::<Vec<_>>().join(",");
    if text.len() > CURSORS_BYTES_MAX {
        let message = "too many workers to follow at once: choose some by -w or -role";
        return Err(Error::new(Kind::LimitExceeded, message).with("workers", cursors.len()));
    }
    Ok(text)
}

/// A line of a followed log.
enum Line {
    Piece(LogPiece),
    /// Says only that the server is there.
    Empty,
    /// The end.
    None,
}

fn read_piece(stream: &mut impl BufRead) -> Result<Line> {
    let mut line = Vec::new();
    let read = stream.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
    let read = read.map_err(|source| {
        let message = "the connection to the server broke";
        Error::new(Kind::Unavailable, message).because(source)
    })?;
    if read == 0 {
        return Ok(Line::None);
    }
    if line.last() != Some(&b'\n') {
        return match line.len() as u64 {
            LINE_BYTES_MAX => {
                Err(Error::new(Kind::LimitExceeded, "the server sent a piece that is too long"))
            }
            // Cut in the middle: it comes again, by the cursor.
            _ => Err(Error::new(Kind::Unavailable, "the connection to the server broke")),
        };
    }
    if line.iter().all(u8::is_ascii_whitespace) {
        return Ok(Line::Empty);
    }
    serde_json::from_slice(&line).map(Line::Piece).map_err(|source| {
        let message = "the server sent a piece of a log that is not understood";
        Error::new(Kind::Damaged, message).because(source)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_come_one_by_line_and_empty_lines_mean_nothing() {
        let text = "\n{\"worker\": \"a\", \"text\": \"x\\n\", \"cursor\": \"2\"}\n\n\r\n";
        let mut stream = text.as_bytes();
        assert!(matches!(read_piece(&mut stream), Ok(Line::Empty)));
        let Ok(Line::Piece(piece)) = read_piece(&mut stream) else { panic!("no piece") };
        assert_eq!((&*piece.worker, &*piece.text, &*piece.cursor), ("a", "x\n", "2"));
        assert!(matches!(read_piece(&mut stream), Ok(Line::Empty)));
        assert!(matches!(read_piece(&mut stream), Ok(Line::Empty)));
        assert!(matches!(read_piece(&mut stream), Ok(Line::None)));
    }

    #[test]
    fn a_query_has_only_what_was_asked_for() {
        assert_eq!(text_of(&LogQuery::default()), "follow=false");
        let cursors = Cursors::from([("a-0".into(), "7".into()), ("b".into(), "1".into())]);
        let cursors = Some(bounded(&cursors).unwrap());
        let query = LogQuery { tail: Some(10), follow: true, cursors, ..LogQuery::default() };
        assert_eq!(text_of(&query), "tail=10&cursors=a-0%3D7%2Cb%3D1&follow=true");
        let many: Cursors =
            (0..4000).map(|rank| (format!("ctr-trainer-{rank}"), "1".into())).collect();
        assert_eq!(bounded(&many).unwrap_err().kind(), Kind::LimitExceeded);
    }

    #[test]
    fn a_piece_that_was_cut_off_is_asked_for_again() {
        let kind = |text: &str| read_piece(&mut text.as_bytes()).err().map(|error| error.kind());
        assert_eq!(kind("{\"worker\": \"a\""), Some(Kind::Unavailable));
        assert_eq!(kind("<html>\n"), Some(Kind::Damaged));
    }
}
