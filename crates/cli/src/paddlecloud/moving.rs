//! How moving files is shown: a bar with rate and remaining time on a terminal, lines otherwise,
//! and a summary with everything that failed.

use crate::cloud::say;
use crate::pfs::shown;
use cli::output::{Output, Unit, progress};
use cli::size;
use client::{Direction, Item, Options, Outcome, Watcher};
use contract::{Error, Kind, Result};
use indicatif::ProgressBar;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How files are moved.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct MovingArgs {
    /// Print every file
    #[arg(short, long)]
    verbose: bool,
    /// Size of the chunks of large files, in KiB: 4 to 65536 [default: by the size of the file]
    #[arg(long, value_name = "KB", value_parser = cli::number::parse::<u64>)]
    chunksize: Option<u64>,
    /// At most so much per second, in KiB or with a suffix: 500K, 10M
    #[arg(long, value_name = "RATE", value_parser = size::rate)]
    bwlimit: Option<u64>,
}

impl MovingArgs {
    /// As the client takes it.
    pub(crate) fn options(&self) -> Result<Options> {
        let chunk_bytes = self.chunksize.map(|kib| kib.saturating_mul(1024));
        if let Some(bytes) = chunk_bytes {
            contract::api::file::Chunks::new(0, bytes).map_err(|_| {
                let message = "-chunksize is in KiB, from 4 to 65536";
                Error::invalid(message).with("chunksize", bytes / 1024)
            })?;
        }
        let bytes_per_second = self.bwlimit.unwrap_or(0);
        Ok(Options { chunk_bytes, bytes_per_second, if_absent: false })
    }

    /// Begins to show how it goes.
    pub(crate) fn watch(&self, direction: Direction, items: &[Item]) -> Shown {
        let is_terminal = std::io::stderr().is_terminal();
        let bytes = items.iter().map(|item| item.bytes).sum();
        let state = State {
            moved: 0,
            done: 0,
            ended: 0,
            left_out: 0,
            failures: Vec::new(),
            told: Instant::now(),
        };
        Shown {
            direction,
            is_verbose: self.verbose || (!is_terminal && items.len() <= LINES_MAX),
            is_terminal,
            bar: progress(bytes, Unit::Bytes),
            files: items.len(),
            began: Instant::now(),
            state: Mutex::new(state),
        }
    }
}

/// Where there is no terminal, so many files get a line each without -v.
const LINES_MAX: usize = 100;
/// And more files a line this often.
const QUIET: Duration = Duration::from_secs(10);

/// What was done to a file.
fn word(direction: Direction) -> &'static str {
    match direction {
        Direction::Up => "Uploaded",
        Direction::Down => "Downloaded",
        Direction::Inside => "Copied",
    }
}

/// What people see of it.
pub(crate) struct Shown {
    direction: Direction,
    is_verbose: bool,
    is_terminal: bool,
    bar: ProgressBar,
    files: usize,
    began: Instant,
    state: Mutex<State>,
}

struct State {
    /// Bytes that went over the network.
    moved: u64,
    /// Bytes of files that are where they should be.
    done: u64,
    ended: usize,
    /// What is no file that was tried.
    left_out: usize,
    failures: Vec<(String, Error)>,
    told: Instant,
}

impl Watcher for Shown {
    fn moved(&self, bytes: u64) {
        self.bar.inc(bytes);
    }

    fn ended(&self, item: &Item, outcome: &Outcome) {
        let name = match self.direction {
            Direction::Up => item.local.display().to_string(),
            Direction::Down | Direction::Inside => item.path.to_string(),
        };
        let error = outcome.error.as_ref().map(|error| {
            let message = error.chain();
            Error::new(error.kind(), message)
        });
        let done = if error.is_none() { item.bytes } else { 0 };
        self.tell(&name, (outcome.moved_bytes, done), error);
    }

    fn left_out(&self, name: &str, error: Error) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.left_out += 1;
        state.failures.push((name.to_owned(), Error::new(error.kind(), error.chain())));
    }
}

impl Shown {
    /// One file more.
    fn tell(&self, name: &str, (moved, done): (u64, u64), error: Option<Error>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.ended += 1;
        state.moved += moved;
        state.done += done;
        match error {
            Some(error) => state.failures.push((name.to_owned(), error)),
            None if self.is_verbose => {
                let line = format!("{} {}", word(self.direction), shown(name));
                self.bar.suspend(|| {
                    let mut output = Output::open();
                    // Where nobody reads the lines, the files still matter.
                    let _ = output.line(line).and_then(|()| output.close());
                });
            }
            None if !self.is_terminal && state.told.elapsed() >= QUIET => {
                state.told = Instant::now();
                say(&format!("{} of {} files", state.ended, self.files));
            }
            None => {}
        }
    }

    /// The summary, and what failed.
    pub(crate) fn finish(self) -> Result<ExitCode> {
        self.bar.finish_and_clear();
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut failures = state.failures;
        failures.sort_by(|a, b| a.0.cmp(&b.0));
        let all = self.files + state.left_out;
        let done = all - failures.len().min(all);
        let seconds = self.began.elapsed().as_secs_f64().max(0.001);
        let rate = size::human((state.moved as f64 / seconds) as u64);
        let mut line = format!(
            "{} {done} {}, {} in {seconds:.1} s ({rate}/s)",
            word(self.direction),
            if done == 1 { "file" } else { "files" },
            size::human(state.done),
        );
        if failures.is_empty() && state.moved < state.done {
            let spared = size::human(state.done - state.moved);
            line.push_str(&format!("; {spared} were there already"));
        }
        say(&line);
        for (name, error) in &failures {
            say(&format!("failed: {}: {error}", shown(name)));
        }
        match failures.is_empty() {
            true => Ok(ExitCode::SUCCESS),
            false => {
                let message = format!("{} of {all} files failed: see above", failures.len());
                Err(Error::new(Kind::Io, message))
            }
        }
    }
}
