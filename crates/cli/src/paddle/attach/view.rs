//! What people see of a job: lines with the replica in front, a status line on a terminal, and the
//! summary at the end.

use cli::output::{Format, Output};
use cli::prefix;
use cli::status;
use cli::summary::{self, Places};
use contract::Result;
use contract::ready::{Farewell, Ready};
use contract::state::{JobState, State};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use scheduler::{JobRecord, ReplicaId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{ErrorKind, IsTerminal, Write};
use std::time::Duration;

/// How many lines of each replica are remembered: the summary needs a whole traceback of one.
const REMEMBERED_LINES: usize = 200;
const REMEMBERED_CHARACTERS_MAX: usize = 1000;

/// How a job is shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    /// Whose words these are: `paddle launch`.
    pub(crate) command: &'static str,
    /// Lines of replicas are not shown.
    pub(crate) is_quiet: bool,
    /// With JSON, standard output has the record alone.
    pub(crate) format: Format,
    /// Whether the terminal is a person's. That of a rank belongs to `mpirun`.
    pub(crate) may_use_terminal: bool,
}

pub(crate) struct View {
    look: Look,
    has_colour: bool,
    width: usize,
    /// Shown once a replica runs: before that ssh may ask for passwords.
    bar: Option<ProgressBar>,
    last: BTreeMap<ReplicaId, VecDeque<String>>,
    attempts: BTreeMap<ReplicaId, u32>,
    /// How often the whole job was started again, as far as that was said.
    rounds: u32,
    notes_shown: usize,
    /// For what the job has waited since it last ran, as far as that was said.
    waiting: BTreeSet<String>,
    /// False once nobody reads standard output any more: the job goes on.
    has_reader: bool,
}

impl View {
    pub(crate) fn new(look: Look) -> Self {
        let wants_colour = match look.format {
            Format::Json => prefix::wants_colour(&std::io::stderr()),
            Format::Text => prefix::wants_colour(&std::io::stdout()),
        };
        View {
            look,
            has_colour: wants_colour && look.may_use_terminal,
            width: 0,
            bar: None,
            last: BTreeMap::new(),
            attempts: BTreeMap::new(),
            rounds: 0,
            notes_shown: 0,
            waiting: BTreeSet::new(),
            has_reader: true,
        }
    }

    /// Shows lines that a replica has printed.
    pub(crate) fn lines(&mut self, replica: ReplicaId, lines: &[String]) {
        self.remember(replica, lines);
        if self.look.is_quiet {
            return;
        }
        let prefix = prefix::prefix(replica, self.width, self.has_colour);
        let is_for_us = |line: &str| {
            let is_ready = matches!(Ready::parse(line), Ok(Some(_)));
            replica.is_server() && (is_ready || matches!(Farewell::parse(line), Ok(Some(_))))
        };
        let mut shown = String::new();
        for line in lines.iter().filter(|line| !is_for_us(line)) {
            shown.push_str(&prefix);
            shown.push_str(line);
            shown.push('\n');
        }
        self.show(&shown);
    }

    /// Shows what has changed: notes, restarts, the status line.
    pub(crate) fn changed(&mut self, record: &JobRecord) {
        self.width = prefix::width(record.replicas.iter().map(|replica| replica.replica));
        for note in record.notes.iter().skip(self.notes_shown) {
            self.say(note);
        }
        self.notes_shown = record.notes.len();
        let is_waiting = matches!(record.state, JobState::Pending | JobState::Starting);
        if !is_waiting {
            self.waiting.clear();
        }
        // A cluster goes to and fro between two of them, such as those about an image.
        let is_new = is_waiting && self.waiting.insert(record.reason.clone());
        if (is_new || self.rounds < record.rounds) && !record.reason.is_empty() {
            self.say(&record.reason);
        }
        self.rounds = record.rounds;
        for replica in &record.replicas {
            let before = self.attempts.insert(replica.replica, replica.attempt);
            // All at once were told of above, or in a note.
            if let Some(why) = &replica.restarted_for
                && before.unwrap_or(0) < replica.attempt
            {
                let attempt = replica.attempt;
                self.say(&format!(
                    "{} is started again, attempt {attempt}: {why}",
                    replica.replica
                ));
            }
        }
        let is_shown = std::io::stderr().is_terminal() && self.look.may_use_terminal;
        let has_begun = record.replicas.iter().any(|replica| replica.started_ms.is_some());
        if is_shown && has_begun && !self.look.is_quiet && !record.state.is_final() {
            self.bar.get_or_insert_with(status_bar).set_message(status::line(record));
        }
    }

    /// Says something in the name of the command.
    pub(crate) fn say(&self, words: &str) {
        let text = format!("{}: {words}\n", self.look.command);
        // Where not even this can be written, there is nobody to tell.
        let _ = self.suspend(|| std::io::stderr().write_all(text.as_bytes()));
    }

    /// Takes the status line away and prints the summary, and the record where it was asked for.
    pub(crate) fn finish(&mut self, record: &JobRecord, places: &Places) -> Result<()> {
        self.leave();
        let last = record.culprit.and_then(|culprit| self.last.get(&culprit));
        let last: Vec<String> = last.into_iter().flatten().cloned().collect();
        let text = summary::text(self.look.command, record, places, &last);
        // Where not even standard error can be written, the exit code has to say it all.
        let _ = std::io::stderr().write_all(text.as_bytes());
        if self.look.format == Format::Json {
            let mut output = Output::open();
            output.json(record)?;
            output.close()?;
        }
        Ok(())
    }

    /// Takes the status line away.
    pub(crate) fn leave(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    fn remember(&mut self, replica: ReplicaId, lines: &[String]) {
        let last = self.last.entry(replica).or_default();
        for line in &lines[lines.len().saturating_sub(REMEMBERED_LINES)..] {
            if last.len() == REMEMBERED_LINES {
                last.pop_front();
            }
            last.push_back(line.chars().take(REMEMBERED_CHARACTERS_MAX).collect());
        }
    }

    fn show(&mut self, text: &str) {
        if !self.has_reader || text.is_empty() {
            return;
        }
        let bytes = text.as_bytes();
        let written = self.suspend(|| match self.look.format {
            Format::Text => {
                let mut output = std::io::stdout().lock();
                output.write_all(bytes).and_then(|()| output.flush())
            }
            Format::Json => std::io::stderr().write_all(bytes),
        });
        let Err(error) = written else { return };
        self.has_reader = false;
        // One who reads no more, as in `… | head`, knows that; a full disk is news.
        if error.kind() != ErrorKind::BrokenPipe {
            self.say(&format!("no more of the output is shown, the job goes on: {error}"));
        }
    }

    fn suspend<T>(&self, write: impl FnOnce() -> T) -> T {
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }
}

fn status_bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}")
        .unwrap_or_else(|_| ProgressStyle::default_spinner());
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style);
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}
