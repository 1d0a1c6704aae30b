//! Work that threads do ahead of whoever wants the results, which come in order.
//!
//! A thread cuts the next piece of work off (one at a time: that is where files are read), works on
//! it beside the others, and puts the result where its number says. So the order of results does
//! not depend on the threads. Only so many pieces are under way or waiting at once.

use contract::{Error, Kind, Result};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often a wait looks whether it was interrupted.
const LOOK: Duration = Duration::from_millis(100);

/// Results of work that is done ahead. Threads end when it is dropped.
pub(crate) struct Ahead<T> {
    shared: Arc<Shared<T>>,
    process: u32,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    /// Pieces that were cut off, and results that were given out.
    cut: u64,
    given: u64,
    ready: BTreeMap<u64, Result<T>>,
    /// There are no more pieces.
    has_ended: bool,
    is_closed: bool,
    pieces_max: u64,
    failure: Option<(Kind, String)>,
}

/// Cuts the next piece of work off; `None` when there is no more.
pub(crate) type Cut<P> = Box<dyn FnMut() -> Result<Option<P>> + Send>;

impl<T: Send + 'static> Ahead<T> {
    /// Starts `threads` threads, with up to `pieces_max` pieces under way or waiting.
    pub(crate) fn start<P: 'static>(
        threads: usize,
        pieces_max: usize,
        cut: Cut<P>,
        work: impl Fn(P) -> Result<T> + Send + Sync + 'static,
    ) -> Result<Ahead<T>> {
        let state = State {
            cut: 0,
            given: 0,
            ready: BTreeMap::new(),
            has_ended: false,
            is_closed: false,
            pieces_max: pieces_max.max(1) as u64,
            failure: None,
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let (cut, work) = (Arc::new(Mutex::new(cut)), Arc::new(work));
        let ahead = Ahead { shared: Arc::clone(&shared), process: std::process::id() };
        for number in 0..threads.max(1) {
            let (shared, cut, work) = (Arc::clone(&shared), Arc::clone(&cut), Arc::clone(&work));
            let run = move || while shared.step(&cut, &*work) {};
            std::thread::Builder::new()
                .name(format!("feed-{number}"))
                .spawn(run)
                .map_err(|source| Error::io("cannot start a thread that parses data", source))?;
        }
        Ok(ahead)
    }

    /// The next result; `None` at the end. After an error every further call fails too. While it
    /// waits, it asks `interrupt`, whose error ends the call.
    pub(crate) fn next(&mut self, interrupt: &dyn Fn() -> Result<()>) -> Result<Option<T>> {
        if self.process != std::process::id() {
            return Err(Error::new(
                Kind::Conflict,
                "this feed was started before the process forked; start it in the child",
            ));
        }
        let mut state = self.shared.lock();
        loop {
            if let Some((kind, message)) = &state.failure {
                return Err(Error::new(*kind, message.clone()));
            }
            let given = state.given;
            if let Some(result) = state.ready.remove(&given) {
                state.given += 1;
                if let Err(error) = &result {
                    state.failure = Some((error.kind(), error.chain()));
                    state.is_closed = true;
                }
                self.shared.changed.notify_all();
                return result.map(Some);
            }
            if state.has_ended && state.given == state.cut {
                return Ok(None);
            }
            let (woken, wait) = self
                .shared
                .changed
                .wait_timeout(state, LOOK)
                .unwrap_or_else(PoisonError::into_inner);
            state = woken;
            if wait.timed_out() {
                drop(state);
                interrupt()?;
                state = self.shared.lock();
            }
        }
    }
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // Nothing in here panics halfway.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One piece of work; false when there is nothing left to do.
    fn step<P>(&self, cut: &Mutex<Cut<P>>, work: &dyn Fn(P) -> Result<T>) -> bool {
        let mut cut = cut.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.lock();
        while state.cut - state.given >= state.pieces_max && !state.is_closed {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.is_closed || state.has_ended {
            return false;
        }
        drop(state);
        let piece = guarded(&mut *cut);
        let mut state = self.lock();
        let number = state.cut;
        let piece = match piece {
            Ok(Some(piece)) => {
                state.cut += 1;
                piece
            }
            ended => {
                state.has_ended = true;
                if let Err(error) = ended {
                    state.cut += 1;
                    state.ready.insert(number, Err(error));
                }
                self.changed.notify_all();
                return false;
            }
        };
        drop(state);
        drop(cut);
        let result = guarded(|| work(piece));
        self.lock().ready.insert(number, result);
        self.changed.notify_all();
        true
    }
}

/// A panic is a bug, but must not leave others waiting for ever.
fn guarded<R>(work: impl FnOnce() -> Result<R>) -> Result<R> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(Error::new(Kind::Conflict, "a thread that parses data has panicked; see its message"))
    })
}

impl<T> Drop for Ahead<T> {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            self.shared.lock().is_closed = true;
            self.shared.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn counting(end: u64) -> Cut<u64> {
        let mut next = 0;
        Box::new(move || {
            next += 1;
            Ok((next <= end).then_some(next - 1))
        })
    }

    #[test]
    fn results_come_in_order_whichever_thread_is_faster() {
        let mut ahead = Ahead::start(4, 8, counting(1000), |piece| {
            if piece % 7 == 0 {
                std::thread::yield_now();
            }
            Ok(piece * 2)
        })
        .unwrap();
        for expected in 0..1000 {
            assert_eq!(ahead.next(&|| Ok(())).unwrap(), Some(expected * 2));
        }
        assert_eq!(ahead.next(&|| Ok(())).unwrap(), None);
        assert_eq!(ahead.next(&|| Ok(())).unwrap(), None);
    }

    #[test]
    fn no_more_pieces_than_allowed_are_worked_on_ahead() {
        let begun = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&begun);
        let mut ahead = Ahead::start(3, 5, counting(100), move |piece| {
            counted.fetch_add(1, Ordering::SeqCst);
            Ok(piece)
        })
        .unwrap();
        for given in 0..100 {
            assert!(begun.load(Ordering::SeqCst) <= given + 5);
            assert_eq!(ahead.next(&|| Ok(())).unwrap(), Some(given));
        }
    }

    #[test]
    fn an_error_comes_in_its_place_and_stays() {
        let work = |piece| match piece {
            3 => Err(Error::invalid("three")),
            _ => Ok(piece),
        };
        let mut ahead = Ahead::start(2, 4, counting(10), work).unwrap();
        for expected in 0..3 {
            assert_eq!(ahead.next(&|| Ok(())).unwrap(), Some(expected));
        }
        for _ in 0..2 {
            assert_eq!(ahead.next(&|| Ok(())).unwrap_err().message(), "three");
        }
    }

    #[test]
    fn a_panic_is_an_error_and_not_a_wait() {
        let mut ahead: Ahead<u64> =
            Ahead::start(1, 1, counting(1), |_| panic!("a bug, as this test wants it")).unwrap();
        let error = ahead.next(&|| Ok(())).unwrap_err();
        assert!(error.message().contains("panicked"), "{error}");
    }

    #[test]
    fn a_wait_can_be_interrupted() {
        let (hold, held) = std::sync::mpsc::channel::<()>();
        let held = Mutex::new(held);
        let mut ahead = Ahead::start(1, 1, counting(1), move |piece| {
            let _ = held.lock().unwrap().recv();
            Ok(piece)
        })
        .unwrap();
        let stop = || Err(Error::new(Kind::Interrupted, "interrupted"));
        assert_eq!(ahead.next(&stop).unwrap_err().kind(), Kind::Interrupted);
        drop(hold);
        assert_eq!(ahead.next(&|| Ok(())).unwrap(), Some(0));
    }
}
