//! Which part of which logs is wanted, and reading it from the archive.

use super::news::{Newest, News};
use crate::blocking::blocking;
use crate::datacenters::Datacenter;
use crate::files::log;
use crate::jobs::row::{JobRow, worker_name};
use contract::api::log::{ANSWER_BYTES_MAX, LogPiece, LogQuery, MetricsLine};
use contract::role::Role;
use contract::state::State;
use contract::{Error, Kind, Result};
use scheduler::ReplicaId;
use scheduler::backend::Cursor;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// The most that one piece of an answer holds.
const PIECE_BYTES_MAX: usize = 256 << 10;
/// The most that the original's calls, which cannot go on by cursors, answer with.
const AT_ONCE_BYTES_MAX: usize = 32 << 20;
/// Answers that are made at the same time: each is in memory as a whole.
static READS: Semaphore = Semaphore::const_new(4);
const TAIL_LINES_MAX: u32 = 1_000_000;

/// What a query asks for.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    replica: Option<ReplicaId>,
    role: Option<Role>,
    tail: Option<u32>,
    cursors: BTreeMap<String, u64>,
}

impl Wanted {
    /// Reads a query about a job.
    pub(crate) fn of(row: &JobRow, query: &LogQuery) -> Result<Self> {
        let replica = query.worker.as_deref().map(|name| replica_of(row, name)).transpose()?;
        if let Some(tail) = query.tail.filter(|tail| *tail > TAIL_LINES_MAX) {
            let message = format!("tail: use at most {TAIL_LINES_MAX} lines");
            return Err(Error::invalid(message).with("tail", tail));
        }
        let mut cursors = BTreeMap::new();
        let entries = query.cursors.as_deref().unwrap_or_default().split(',');
        for entry in entries.filter(|entry| !entry.is_empty()) {
            let Some((worker, cursor)) = entry.rsplit_once('=') else {
                let message = "cursors: use <worker>=<cursor>, separated by commas";
                return Err(Error::invalid(message).with("cursors", entry.escape_debug()));
            };
            cursors.insert(worker.to_owned(), log::parse_cursor(cursor)?);
        }
        Ok(Wanted { replica, role: query.role, tail: query.tail, cursors })
    }

    fn includes(&self, replica: ReplicaId) -> bool {
        self.replica.is_none_or(|own| own == replica)
            && self.role.is_none_or(|role| role == replica.role)
    }
}

/// The replica that somebody means: `<job>-trainer-0`, or `trainer-0`.
pub(crate) fn replica_of(row: &JobRow, name: &str) -> Result<ReplicaId> {
    let short = name.strip_prefix(&format!("{}-", row.name)).unwrap_or(name);
    let replica: ReplicaId = short.parse().map_err(|_| unknown(row, name))?;
    let is_possible = match replica.role {
        Role::Trainer => replica.rank < row.spec.trainers_max(),
        role => replica.rank < row.spec.replicas(role),
    };
    if is_possible { Ok(replica) } else { Err(unknown(row, name)) }
}

fn unknown(row: &JobRow, name: &str) -> Error {
    Error::new(Kind::NotFound, "the job has no such worker")
        .with("worker", name)
        .with("job", &row.name)
}

/// The logs of a job as they are read one after another.
#[derive(Debug)]
pub(crate) struct Reader {
    job: String,
    wanted: Wanted,
    places: BTreeMap<ReplicaId, Reached>,
    /// Whether it has looked before: what begins after that is wanted from its beginning.
    has_begun: bool,
}

#[derive(Debug, Clone, Copy)]
struct Reached {
    at: u64,
    is_done: bool,
}

impl Reached {
    /// What was read at this place, as a piece, and moves on behind it. `None` if it has no whole
    /// character.
    fn take(&mut self, worker: &str, read: &log::Piece, is_over: bool) -> Option<LogPiece> {
        let is_end = is_over && read.bytes.is_empty();
        let whole = whole_characters(&read.bytes, is_over);
        if whole == 0 && !is_end {
            return None;
        }
        let next = read.next - (read.bytes.len() - whole) as u64;
        (self.at, self.is_done) = (next, is_end);
        Some(LogPiece {
            worker: worker.to_owned(),
            text: String::from_utf8_lossy(&read.bytes[..whole]).into_owned(),
            cursor: next.to_string(),
            skipped_bytes: read.skipped_bytes,
            is_last: is_end,
        })
    }
}

impl Reader {
    /// Begins to read.
    pub(crate) fn new(row: &JobRow, wanted: Wanted) -> Self {
        Reader { job: row.name.clone(), wanted, places: BTreeMap::new(), has_begun: false }
    }

    /// The next pieces, at most `bytes_max` together: none if there is nothing new. With `is_over`
    /// the last piece of each log says that it is the last.
    pub(crate) fn next(
        &mut self,
        logs: &Path,
        is_over: bool,
        bytes_max: usize,
    ) -> Result<Vec<LogPiece>> {
        let mut pieces = Vec::new();
        let mut room = bytes_max;
        let mut replicas: Vec<ReplicaId> =
            log::names(logs)?.iter().filter_map(|name| name.parse().ok()).collect();
        replicas.sort_unstable();
        for replica in replicas {
            if !self.wanted.includes(replica) {
                continue;
            }
            let directory = logs.join(replica.to_string());
            let worker = worker_name(&self.job, replica);
            let place = match self.places.get(&replica) {
                Some(place) => *place,
                None => Reached { at: self.begin(&directory, &worker)?, is_done: false },
            };
            let place = self.places.entry(replica).or_insert(place);
            while !place.is_done && room > 0 {
                let read = log::read(&directory, place.at, PIECE_BYTES_MAX.min(room))?;
                let Some(piece) = place.take(&worker, &read, is_over) else { break };
                room = room.saturating_sub(piece.text.len().max(1));
                pieces.push(piece);
            }
        }
        self.has_begun = true;
        Ok(pieces)
    }

    /// As [`Reader::next`] for a job that is not over, from what is in memory; `None` if that does
    /// not tell, so that the archive has to be read.
    pub(crate) fn next_in_memory(
        &mut self,
        news: &News,
        bytes_max: usize,
    ) -> Option<Vec<LogPiece>> {
        let mut pieces = Vec::new();
        let mut room = bytes_max;
        for replica in news.replicas() {
            if !self.wanted.includes(replica) {
                continue;
            }
            // One that has just begun to print is in the archive alone, for which what was taken of
            // others is not given up: it would not come again.
            let Some(place) = self.places.get_mut(&replica) else {
                return Some(pieces).filter(|pieces| !pieces.is_empty());
            };
            let worker = worker_name(&self.job, replica);
            while room > 0 {
                let bytes = match news.newest(replica, place.at) {
                    Newest::Bytes(bytes) => {
                        bytes.slice(..bytes.len().min(PIECE_BYTES_MAX.min(room)))
                    }
                    Newest::Nothing => break,
                    Newest::OnDisk => return Some(pieces).filter(|pieces| !pieces.is_empty()),
                };
                let next = place.at + bytes.len() as u64;
                let read = log::Piece { bytes: bytes.to_vec(), next, skipped_bytes: 0 };
                // Half a character, of which the other half is in the next piece.
                let Some(piece) = place.take(&worker, &read, false) else {
                    return Some(pieces).filter(|pieces| !pieces.is_empty());
                };
                room = room.saturating_sub(piece.text.len().max(1));
                pieces.push(piece);
            }
        }
        Some(pieces)
    }

    /// How many bytes of what is wanted it has not read.
    fn left(&self, logs: &Path) -> Result<u64> {
        let mut left = 0;
        for (replica, place) in &self.places {
            left += log::end(&logs.join(replica.to_string()))?.saturating_sub(place.at);
        }
        Ok(left)
    }

    /// How far it is.
    pub(crate) fn places(&self) -> impl Iterator<Item = (ReplicaId, u64)> {
        self.places.iter().map(|(replica, place)| (*replica, place.at))
    }

    fn begin(&self, directory: &Path, worker: &str) -> Result<u64> {
        match (self.wanted.cursors.get(worker), self.wanted.tail) {
            (Some(cursor), _) => Ok(*cursor),
            (None, Some(lines)) if !self.has_begun => log::tail(directory, lines),
            (None, _) => Ok(0),
        }
    }
}

/// How many bytes end with a whole character; all of them if nothing follows.
fn whole_characters(bytes: &[u8], is_over: bool) -> usize {
    let half = match bytes.utf8_chunks().last() {
        // The beginning of a character, of which the rest has not been printed yet, if it is one.
        Some(last) if !is_over => last.invalid(),
        _ => &[],
    };
    let is_beginning = std::str::from_utf8(half).is_err_and(|error| error.error_len().is_none());
    bytes.len() - if is_beginning { half.len() } else { 0 }
}

/// Everything that is wanted and there, up to a limit.
pub(crate) async fn read(
    datacenter: &Arc<Datacenter>,
    row: JobRow,
    wanted: Wanted,
) -> Result<Vec<LogPiece>> {
    let (mut reader, is_over) = (Reader::new(&row, wanted), row.state.is_final());
    let logs = datacenter.store.logs(&row.uid);
    let _turn = READS.acquire().await;
    blocking(move || reader.next(&logs, is_over, ANSWER_BYTES_MAX)).await
}

/// As [`read`], with several answers as one, and how many bytes of it are left out.
pub(crate) async fn read_at_once(
    datacenter: &Arc<Datacenter>,
    row: JobRow,
    wanted: Wanted,
) -> Result<(Vec<LogPiece>, u64)> {
    let (mut reader, is_over) = (Reader::new(&row, wanted), row.state.is_final());
    let logs = datacenter.store.logs(&row.uid);
    let _turn = READS.acquire().await;
    blocking(move || {
        let pieces = reader.next(&logs, is_over, AT_ONCE_BYTES_MAX)?;
        let bytes: usize = pieces.iter().map(|piece| piece.text.len()).sum();
        // What is printed meanwhile, and half of a character, are not left out.
        let is_cut = bytes >= AT_ONCE_BYTES_MAX / 2;
        let left = if is_cut { reader.left(&logs)? } else { 0 };
        Ok((pieces, left))
    })
    .await
}

/// The figures of a job's replicas, while its backend has them.
pub(crate) async fn metrics(datacenter: &Datacenter, row: &JobRow) -> Result<Vec<MetricsLine>> {
    let found = match datacenter.backend.metrics(&row.uid, &Cursor::default()).await {
        Ok(found) => found,
        Err(error) if error.kind() == Kind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let line = |line: scheduler::backend::MetricsLine| MetricsLine {
        worker: worker_name(&row.name, line.replica),
        figures: line.figures,
    };
    Ok(found.lines.into_iter().map(line).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::news;

    #[test]
    fn a_character_is_not_cut_in_two_while_more_may_come() {
        let text = "grün".as_bytes();
        assert_eq!(whole_characters(text, false), 5);
        assert_eq!(whole_characters(&text[..3], false), 2);
        assert_eq!(whole_characters(&text[..3], true), 3);
        assert_eq!(whole_characters(b"a\xff\xffb", false), 4);
        assert_eq!(whole_characters(b"a\xff\xc3", false), 2);
        assert_eq!(whole_characters(b"", false), 0);
        // What is no text at all, such as a picture that was printed.
        assert_eq!(whole_characters(&[0xff; PIECE_BYTES_MAX], false), PIECE_BYTES_MAX);
    }

    #[test]
    fn a_log_of_any_bytes_comes_in_answers_that_a_client_takes() {
        const BYTES: usize = 12 << 20;
        let logs = tempfile::tempdir().unwrap();
        log::append(&logs.path().join("trainer-0"), &vec![0; BYTES], 1 << 30, 0).unwrap();
        let mut cursors = BTreeMap::new();
        let mut bytes = 0;
        while bytes < BYTES {
            let wanted = Wanted { replica: None, role: None, tail: None, cursors: cursors.clone() };
            let mut reader =
                Reader { job: "ctr".into(), wanted, places: BTreeMap::new(), has_begun: false };
            let pieces = reader.next(logs.path(), true, ANSWER_BYTES_MAX).unwrap();
            // The client's limit; a zero is six bytes of JSON.
            assert!(crate::database::to_json(&pieces).unwrap().len() < 64 << 20);
            bytes += pieces.iter().map(|piece| piece.text.len()).sum::<usize>();
            assert_eq!(reader.left(logs.path()).unwrap(), (BYTES - bytes) as u64);
            let cursor = pieces.last().unwrap().cursor.parse().unwrap();
            cursors.insert("ctr-trainer-0".to_owned(), cursor);
        }
    }

    #[test]
    fn a_log_that_begins_while_it_is_followed_is_read_from_its_beginning() {
        let logs = tempfile::tempdir().unwrap();
        let tail = Some(1);
        let wanted = Wanted { replica: None, role: None, tail, cursors: BTreeMap::new() };
        let mut reader =
            Reader { job: "ctr".into(), wanted, places: BTreeMap::new(), has_begun: false };
        let mut read = |replica: &str, text: &str| {
            log::append(&logs.path().join(replica), text.as_bytes(), 1 << 20, 0).unwrap();
            let pieces = reader.next(logs.path(), false, 1 << 20).unwrap();
            pieces.into_iter().map(|piece| piece.text).collect::<String>()
        };
        assert_eq!(read("trainer-0", "one\ntwo\n"), "two\n");
        assert_eq!(read("trainer-1", "three\nfour\n"), "three\nfour\n");
    }

    #[test]
    fn what_memory_tells_of_one_replica_is_not_lost_when_another_begins_to_print() {
        let logs = tempfile::tempdir().unwrap();
        let board = news::Board::default();
        let writer = news::Writer::new(board.of("ctr-1"));
        let follower = news::Reader::new(board.of("ctr-1"));
        let print = |replica: &str, text: &str| {
            let directory = logs.path().join(replica);
            let begin = log::end(&directory).unwrap();
            log::append(&directory, text.as_bytes(), 1 << 20, 0).unwrap();
            writer.print(replica.parse().unwrap(), begin, text.into());
        };
        let wanted = Wanted { replica: None, role: None, tail: None, cursors: BTreeMap::new() };
        let mut reader =
            Reader { job: "ctr".into(), wanted, places: BTreeMap::new(), has_begun: false };
        print("pserver-0", "one\n");
        let mut pieces = reader.next(logs.path(), false, 1 << 20).unwrap();
        print("pserver-0", "two\n");
        print("trainer-0", "three\n");
        for _ in 0..2 {
            pieces.extend(match reader.next_in_memory(&follower.news, 1 << 20) {
                Some(pieces) => pieces,
                None => reader.next(logs.path(), false, 1 << 20).unwrap(),
            });
        }
        let text: String = pieces.into_iter().map(|piece| piece.text).collect();
        assert_eq!(text, "one\ntwo\nthree\n");
    }
}
