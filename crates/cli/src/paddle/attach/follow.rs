//! Follows a job to its end, through the trait alone: states by looking again and again, output by
//! cursors. Works for every backend. A job that this process conducts itself tells when to look.

use super::signals::Stop;
use super::view::View;
use contract::state::State;
use contract::{Error, Kind, Result};
use scheduler::backend::Cursor;
use scheduler::jobs::Leash;
use scheduler::lines::Lines;
use scheduler::{Backend, JobRecord, ReplicaId};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Between two looks: short while something moves, longer the longer nothing does.
const PAUSE_SHORT: Duration = Duration::from_millis(3);
const PAUSE_LONG: Duration = Duration::from_millis(50);
/// How much longer each look is waited for than the last.
const PAUSE_GROWTH: f64 = 1.2;
/// How long a backend may be unreachable before that is the end of following: a cluster's servers may
/// be brought up to date meanwhile.
const PATIENCE: Duration = Duration::from_secs(600);

/// With a backend that cannot be reached.
pub(crate) struct Patience {
    reached: Instant,
    is_away: bool,
}

impl Patience {
    pub(crate) fn new() -> Patience {
        Patience { reached: Instant::now(), is_away: false }
    }

    /// It has answered: what to say about that.
    pub(crate) fn answered(&mut self) -> Option<&'static str> {
        let was_away = self.is_away;
        *self = Patience::new();
        was_away.then_some("the job can be looked at again")
    }

    /// It has failed: what to say before it is asked again.
    ///
    /// # Errors
    /// The error, if it is not to be asked again.
    pub(crate) fn failed(&mut self, error: Error) -> Result<Option<String>> {
        if !error.kind().is_retryable() || self.reached.elapsed() >= PATIENCE {
            return Err(error);
        }
        let was_away = std::mem::replace(&mut self.is_away, true);
        let (seconds, why) = (PATIENCE.as_secs(), error.chain());
        let words = format!("the job cannot be looked at; trying for {seconds} s: {why}");
        Ok((!was_away).then_some(words))
    }
}

/// Whose job it is.
pub(crate) enum Hold<'a> {
    /// Ours: a signal ends it.
    Leash(&'a mut Leash),
    /// Ours, and somebody else runs it: a signal ends it.
    Ours,
    /// It goes on without us: a signal ends the following.
    None,
}

impl Hold<'_> {
    /// Waits until there is something new, as far as anybody says so.
    async fn changed(&mut self) -> Result<()> {
        match self {
            Hold::Leash(leash) => leash.changed().await,
            Hold::Ours | Hold::None => std::future::pending().await,
        }
    }
}

/// How following ended.
pub(crate) enum Followed {
    /// The job has ended, perhaps because somebody here wanted that.
    Ended(Box<JobRecord>, Option<Stop>),
    /// Somebody wanted to see no more.
    Left(Stop),
}

/// Shows a job until it has ended and everything it printed has been shown.
pub(crate) async fn follow(
    backend: &dyn Backend,
    id: &str,
    view: &mut View,
    stops: &mut mpsc::Receiver<Stop>,
    mut hold: Hold<'_>,
) -> Result<Followed> {
    let mut streams = Streams::default();
    let mut stopped = None;
    let mut pause = PAUSE_SHORT;
    let (mut patience, mut has_seen_it) = (Patience::new(), false);
    // A request to end the job that could not be passed on yet.
    let mut unheard: Option<Stop> = None;
    loop {
        let observed = backend.observe(id).await;
        let record = match observed.map_err(|error| patience.failed(error)) {
            Ok(record) => record,
            Err(Ok(words)) => {
                words.iter().for_each(|words| view.say(words));
                tokio::select! {
                    () = tokio::time::sleep(PAUSE_LONG) => {}
                    Some(stop) = stops.recv() => match hold {
                        Hold::None => return Ok(Followed::Left(stop)),
                        Hold::Ours if stop.is_repeated => {
                            view.say(&format!("the job is left as it is: paddle kill {id} ends it"));
                            return Ok(Followed::Left(stop));
                        }
                        Hold::Ours | Hold::Leash(_) => {
                            view.say("the job is told to end when it can be; once more leaves it");
                            unheard = Some(stop);
                        }
                    },
                }
                continue;
            }
            Err(Err(error)) if error.kind() == Kind::NotFound && has_seen_it => {
                return Err(removed(id, &hold));
            }
            Err(Err(error)) if has_seen_it => return Err(error.with("job", id)),
            Err(Err(error)) => return Err(error),
        };
        patience.answered().iter().for_each(|words| view.say(words));
        has_seen_it = true;
        if let Some(stop) = unheard.take() {
            unheard = kill(backend, id, stop, true, view).await;
            stopped.get_or_insert(stop);
        }
        view.changed(&record);
        let moved = match streams.read(backend, &record, view).await {
            Ok(moved) => moved,
            // It may have been removed since it was looked at, which the next look tells.
            Err(error) if error.kind() == Kind::NotFound && !record.state.is_final() => false,
            Err(error) => return Err(error),
        };
        if record.state.is_final() && !moved {
            streams.finish(view);
            return Ok(Followed::Ended(Box::new(record), stopped));
        }
        pause = if moved { PAUSE_SHORT } else { pause.mul_f64(PAUSE_GROWTH).min(PAUSE_LONG) };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            changed = hold.changed() => changed?,
            Some(stop) = stops.recv() => {
                if let Hold::None = hold {
                    return Ok(Followed::Left(stop));
                }
                unheard = kill(backend, id, stop, false, view).await;
                stopped.get_or_insert(stop);
            }
        }
    }
}

/// A job that ends before its launcher's eyes leaves nothing to look at.
fn removed(id: &str, hold: &Hold<'_>) -> Error {
    let message = match hold {
        Hold::None => "the job has ended, and its launcher, which says how, has removed it",
        Hold::Leash(_) | Hold::Ours => "somebody has removed the job while it ran",
    };
    Error::new(Kind::NotFound, message).with("job", id)
}

/// Asks for the end. Returns the request if it could not be passed on now and may be later, which is
/// told once; after any other failure the next signal asks again.
async fn kill(
    backend: &dyn Backend,
    id: &str,
    stop: Stop,
    is_told: bool,
    view: &View,
) -> Option<Stop> {
    match backend.kill(id, stop.is_repeated).await {
        Err(error) if error.kind().is_retryable() => {
            if !is_told {
                let why = error.chain();
                view.say(&format!("the job is told to end when it can be: {why}"));
            }
            return Some(stop);
        }
        Err(error) => view.say(&format!("the job cannot be told to end: {}", error.chain())),
        Ok(()) if stop.is_repeated => {}
        Ok(()) => view.say("the job was asked to end; once more kills it at once"),
    }
    None
}

/// What every replica has printed, as far as it was read.
#[derive(Default)]
pub(crate) struct Streams(BTreeMap<ReplicaId, Stream>);

#[derive(Default)]
struct Stream {
    cursor: Cursor,
    lines: Lines,
    is_done: bool,
}

impl Streams {
    /// Reads and shows one piece of each replica's output; whether there was any.
    pub(crate) async fn read(
        &mut self,
        backend: &dyn Backend,
        record: &JobRecord,
        view: &mut View,
    ) -> Result<bool> {
        let mut moved = false;
        for replica in &record.replicas {
            let id = replica.replica;
            let stream = self.0.entry(id).or_default();
            if stream.is_done {
                continue;
            }
            let piece = match backend.logs(&record.id, id, &stream.cursor).await {
                Ok(piece) => piece,
                Err(error) if error.kind().is_retryable() => continue,
                Err(error) => return Err(error.with("replica", id)),
            };
            let mut shown = Vec::new();
            if piece.skipped_bytes > 0 {
                shown.push(format!("… {} bytes are no longer kept", piece.skipped_bytes));
            }
            stream.lines.feed(&piece.bytes, |line| shown.push(line.to_owned()));
            moved |= !piece.bytes.is_empty() || piece.next != stream.cursor;
            (stream.cursor, stream.is_done) = (piece.next, piece.is_last);
            if !shown.is_empty() {
                view.lines(id, &shown);
            }
        }
        Ok(moved)
    }

    /// Shows what has no line end: nothing follows.
    pub(crate) fn finish(&mut self, view: &mut View) {
        for (id, stream) in &mut self.0 {
            let mut shown = Vec::new();
            stream.lines.finish(|line| shown.push(line.to_owned()));
            if !shown.is_empty() {
                view.lines(*id, &shown);
            }
        }
    }
}

/// A runtime for one command.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Runtime::new().map_err(|source| Error::io("cannot start a runtime", source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backend_that_does_not_answer_is_told_once_and_asked_again() {
        let mut patience = Patience::new();
        let away = || Error::new(Kind::Unavailable, "no answer");
        let words = patience.failed(away()).unwrap().unwrap();
        assert_eq!(words, "the job cannot be looked at; trying for 600 s: no answer");
        assert_eq!(patience.failed(away()).unwrap(), None);
        assert_eq!(patience.answered(), Some("the job can be looked at again"));
        assert_eq!(patience.answered(), None);
        assert!(patience.failed(away()).unwrap().is_some());
        patience.reached = Instant::now().checked_sub(PATIENCE).unwrap();
        assert_eq!(patience.failed(away()).unwrap_err().kind(), Kind::Unavailable);
        let forbidden = Error::new(Kind::Forbidden, "no");
        assert_eq!(Patience::new().failed(forbidden).unwrap_err().kind(), Kind::Forbidden);
    }
}
