//! What those who follow a log and the one who writes it on this server tell each other, in memory.
//!
//! Followers are told that there is more, get the newest of it without a look at the disk (two
//! hundred of one log would otherwise read the same lines two hundred times), and hear of the job's
//! end. The writer is told how far they are, so that nothing is removed from the archive that those
//! who keep reading have not seen. Without a word from here followers look at the
//! archive themselves, because another server may be the one who writes.

use bytes::Bytes;
use scheduler::ReplicaId;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// What is kept of each replica's output for followers.
const TAIL_BYTES_MAX: usize = 1 << 20;
/// Nobody waits for a follower who has not taken anything for so long.
const PATIENCE: Duration = Duration::from_secs(5);

/// The news of all jobs that somebody writes or follows here.
#[derive(Debug, Default)]
pub(crate) struct Board(Mutex<HashMap<String, Arc<News>>>);

impl Board {
    /// The news of a job.
    pub(crate) fn of(&self, uid: &str) -> Arc<News> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, news| Arc::strong_count(news) > 1);
        Arc::clone(all.entry(uid.to_owned()).or_default())
    }
}

/// The news of one job.
#[derive(Debug, Default)]
pub(crate) struct News {
    /// Told of every change.
    pub(crate) changed: Notify,
    told: Mutex<Told>,
}

#[derive(Debug, Default)]
struct Told {
    /// How many write its log here: one, or none, and for a moment two.
    writers: u32,
    has_ended: bool,
    tails: BTreeMap<ReplicaId, Tail>,
    readers: HashMap<u64, Reading>,
    next_reader: u64,
}

/// The end of a log.
#[derive(Debug, Default)]
struct Tail {
    /// Pieces with their places in the log, without a gap.
    pieces: VecDeque<(u64, Bytes)>,
    bytes: usize,
}

/// How far a follower is.
#[derive(Debug)]
struct Reading {
    places: BTreeMap<ReplicaId, u64>,
    moved: Instant,
}

/// What is known in memory from a place on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Newest {
    /// These bytes follow.
    Bytes(Bytes),
    /// Nothing that is known of.
    Nothing,
    /// It is no longer in memory.
    OnDisk,
}

impl News {
    fn lock(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the log is written here, so that all that happens is told.
    pub(crate) fn is_written_here(&self) -> bool {
        self.lock().writers > 0
    }

    /// Whether the job's end was written down here.
    pub(crate) fn has_ended(&self) -> bool {
        self.lock().has_ended
    }

    /// Says that the job's end is written down, and its log complete.
    pub(crate) fn end(&self) {
        self.lock().has_ended = true;
        self.changed.notify_waiters();
    }

    /// Says that a log has grown by `bytes` from `begin` on.
    fn print(&self, replica: ReplicaId, begin: u64, bytes: Bytes) {
        let mut told = self.lock();
        if told.readers.is_empty() {
            told.tails.clear();
            return;
        }
        let tail = told.tails.entry(replica).or_default();
        tail.bytes += bytes.len();
        tail.pieces.push_back((begin, bytes));
        while tail.bytes > TAIL_BYTES_MAX && tail.pieces.len() > 1 {
            let oldest = tail.pieces.pop_front();
            tail.bytes -= oldest.map_or(0, |(_, bytes)| bytes.len());
        }
    }

    /// How far behind `end` those are who keep reading.
    fn lag(&self, replica: ReplicaId, end: u64) -> u64 {
        let told = self.lock();
        let reading = told.readers.values().filter(|reader| reader.moved.elapsed() < PATIENCE);
        let lags = reading.filter_map(|reader| reader.places.get(&replica));
        lags.map(|place| end.saturating_sub(*place)).max().unwrap_or(0)
    }

    /// The replicas of which something is in memory.
    pub(crate) fn replicas(&self) -> Vec<ReplicaId> {
        self.lock().tails.keys().copied().collect()
    }

    /// What follows a place.
    pub(crate) fn newest(&self, replica: ReplicaId, at: u64) -> Newest {
        let told = self.lock();
        let Some(tail) = told.tails.get(&replica) else { return Newest::Nothing };
        match tail.pieces.front() {
            Some((begin, _)) if *begin > at => return Newest::OnDisk,
            _ => {}
        }
        let holds = |(begin, bytes): &&(u64, Bytes)| at < begin + bytes.len() as u64;
        let piece = tail.pieces.iter().find(holds).map(|(begin, bytes)| {
            let from = usize::try_from(at.saturating_sub(*begin)).unwrap_or(usize::MAX);
            bytes.slice(from.min(bytes.len())..)
        });
        piece.map_or(Newest::Nothing, Newest::Bytes)
    }
}

/// The one who writes the logs of a job.
#[derive(Debug)]
pub(crate) struct Writer(Arc<News>);

impl Writer {
    /// Says that the logs are written here from now on.
    pub(crate) fn new(news: Arc<News>) -> Self {
        news.lock().writers += 1;
        Writer(news)
    }

    /// See [`News::print`].
    pub(crate) fn print(&self, replica: ReplicaId, begin: u64, bytes: Vec<u8>) {
        self.0.print(replica, begin, bytes.into());
    }

    /// Tells those who wait.
    pub(crate) fn tell(&self) {
        self.0.changed.notify_waiters();
    }

    /// See [`News::lag`].
    pub(crate) fn lag(&self, replica: ReplicaId, end: u64) -> u64 {
        self.0.lag(replica, end)
    }

    /// See [`News::end`].
    pub(crate) fn end(&self) {
        self.0.end();
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let mut told = self.0.lock();
        told.writers -= 1;
        told.tails.clear();
        drop(told);
        self.0.changed.notify_waiters();
    }
}

/// One who reads, for as long as it lives.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) news: Arc<News>,
    number: u64,
}

impl Reader {
    /// Begins to listen.
    pub(crate) fn new(news: Arc<News>) -> Self {
        let mut told = news.lock();
        let number = told.next_reader;
        told.next_reader += 1;
        let reading = Reading { places: BTreeMap::new(), moved: Instant::now() };
        told.readers.insert(number, reading);
        drop(told);
        Reader { news, number }
    }

    /// Says how far it is.
    pub(crate) fn report(&self, places: impl Iterator<Item = (ReplicaId, u64)>) {
        if let Some(reading) = self.news.lock().readers.get_mut(&self.number) {
            reading.places.extend(places);
            reading.moved = Instant::now();
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.news.lock().readers.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::role::Role;

    const REPLICA: ReplicaId = ReplicaId { role: Role::Trainer, rank: 0 };

    fn bytes(text: &str) -> Newest {
        Newest::Bytes(Bytes::copy_from_slice(text.as_bytes()))
    }

    #[tokio::test]
    async fn what_was_printed_is_found_by_its_place_while_it_is_kept() {
        let board = Board::default();
        let writer = Writer::new(board.of("job"));
        writer.print(REPLICA, 0, b"nobody reads".to_vec());
        let reader = Reader::new(board.of("job"));
        let newest = |at| reader.news.newest(REPLICA, at);
        assert_eq!(newest(0), Newest::Nothing);
        writer.print(REPLICA, 12, b"one".to_vec());
        writer.print(REPLICA, 15, b"two".to_vec());
        assert_eq!(newest(0), Newest::OnDisk);
        assert_eq!((newest(12), newest(14), newest(15)), (bytes("one"), bytes("e"), bytes("two")));
        assert_eq!(newest(18), Newest::Nothing);
        writer.print(REPLICA, 18, vec![b'x'; TAIL_BYTES_MAX]);
        assert_eq!(newest(15), Newest::OnDisk);
        drop(writer);
        assert_eq!(newest(18), Newest::Nothing);
        assert!(!reader.news.is_written_here());
    }

    #[tokio::test]
    async fn a_writer_waits_for_those_who_read_and_not_for_those_who_stopped() {
        let board = Board::default();
        let writer = Writer::new(board.of("job"));
        assert_eq!(writer.lag(REPLICA, 100), 0);
        let (fast, slow) = (Reader::new(board.of("job")), Reader::new(board.of("job")));
        fast.report([(REPLICA, 90)].into_iter());
        slow.report([(REPLICA, 40)].into_iter());
        assert_eq!(writer.lag(REPLICA, 100), 60);
        let long_ago = Instant::now().checked_sub(PATIENCE).unwrap();
        slow.news.lock().readers.get_mut(&slow.number).unwrap().moved = long_ago;
        assert_eq!(writer.lag(REPLICA, 100), 10);
        drop(fast);
        assert_eq!(writer.lag(REPLICA, 100), 0);
    }
}
