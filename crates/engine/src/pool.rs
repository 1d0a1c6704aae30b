//! The threads that compute: as many as `trainer_count` says, started when they are first needed.
//!
//! A process that forks keeps only the thread that forked, so the pool is gone in the child while
//! its locks may be held for ever. The pool therefore notes whose it is and refuses elsewhere.

use contract::{Error, Kind, Result};
use std::sync::OnceLock;

/// The most threads of a pool.
pub const THREADS_MAX: usize = 1024;

/// A pool that starts at first use.
pub(crate) struct Pool {
    threads: usize,
    started: OnceLock<(u32, rayon::ThreadPool)>,
}

impl Pool {
    pub(crate) fn new(threads: usize) -> Result<Pool> {
        if threads == 0 || threads > THREADS_MAX {
            return Err(Error::invalid(format!("trainer_count must be 1 to {THREADS_MAX}"))
                .with("trainer_count", threads));
        }
        Ok(Pool { threads, started: OnceLock::new() })
    }

    /// How many threads it has.
    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// Runs `work` on the pool and waits for it.
    pub(crate) fn run<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        self.run_in(std::process::id(), work)
    }

    fn run_in<T: Send>(&self, process: u32, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        let (owner, pool) = match self.started.get() {
            Some(started) => started,
            None => {
                let pool = self.start()?;
                self.started.get_or_init(|| (process, pool))
            }
        };
        if *owner != process {
            return Err(Error::new(
                Kind::Conflict,
                "this network was used before the process forked; create it, and anything that \
                 computes, in the child instead, or start children with the spawn method",
            )
            .with("parent", owner)
            .with("process", process));
        }
        pool.install(work)
    }

    fn start(&self) -> Result<rayon::ThreadPool> {
        rayon::ThreadPoolBuilder::new()
            .num_threads(self.threads)
            .thread_name(|number| format!("engine-{number}"))
            .build()
            .map_err(|source| {
                Error::new(Kind::LimitExceeded, "cannot start the engine's threads")
                    .with("threads", self.threads)
                    .because(source)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_runs_on_its_own_threads() {
        let pool = Pool::new(2).unwrap();
        let count = pool.run(|| Ok(rayon::current_num_threads())).unwrap();
        assert_eq!(count, 2);
    }

    #[test]
    fn a_pool_that_another_process_started_refuses_at_once() {
        let pool = Pool::new(1).unwrap();
        assert_eq!(pool.run_in(1, || Ok(7)).unwrap(), 7);
        let error = pool.run_in(2, || Ok(7)).unwrap_err();
        assert_eq!(error.kind(), Kind::Conflict);
        assert!(error.message().contains("before the process forked"), "{error}");
    }

    #[test]
    fn a_pool_that_nobody_started_belongs_to_the_first_that_does() {
        let pool = Pool::new(1).unwrap();
        assert_eq!(pool.run_in(2, || Ok(7)).unwrap(), 7);
        assert!(pool.run_in(1, || Ok(7)).is_err());
    }
}
