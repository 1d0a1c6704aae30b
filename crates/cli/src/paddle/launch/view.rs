//! What people see of a job: lines with the replica in front, a status line on a terminal, and at
//! a failure whose it was, why, and its last lines. Also writes the job's record.

use super::args::Args;
use cli::output::{Format, Output};
use cli::status;
use contract::Result;
use contract::ready::Ready;
use contract::role::Role;
use contract::state::{JobState, State};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use scheduler::ReplicaId;
use scheduler::conductor::decide::Decision;
use scheduler::conductor::{Watch, plan::JobPlan, record::JobRecord};
use std::collections::{BTreeMap, VecDeque};
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

/// How much of a failed replica's output is repeated.
const LAST_LINES: usize = 20;
const LAST_LINE_CHARACTERS_MAX: usize = 1000;
/// Cyan, green, yellow, magenta, blue: the trainers' colours, in turn. Servers are grey.
const COLOURS: [u8; 5] = [36, 32, 33, 35, 34];
const GREY: u8 = 90;

pub(super) struct View {
    state_file: PathBuf,
    /// False once that has failed, and was said.
    can_write_state: bool,
    is_quiet: bool,
    format: Format,
    has_colour: bool,
    width: usize,
    bar: ProgressBar,
    last: BTreeMap<ReplicaId, VecDeque<String>>,
    /// False once nobody reads standard output any more: the job goes on.
    has_reader: bool,
}

impl View {
    pub(super) fn new(args: &Args, plan: &JobPlan, state_file: PathBuf) -> Self {
        let names = plan.replicas.iter().map(|replica| replica.id.to_string().len());
        let is_json = args.output == Format::Json;
        let has_terminal =
            if is_json { std::io::stderr().is_terminal() } else { std::io::stdout().is_terminal() };
        // A rank of an mpirun writes to a terminal of mpirun's own, whoever reads that.
        let has_terminal = has_terminal && !args.mpi.mpi;
        let refuses_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let has_status = std::io::stderr().is_terminal() && !args.quiet;
        View {
            state_file,
            can_write_state: true,
            is_quiet: args.quiet,
            format: args.output,
            has_colour: has_terminal && !refuses_colour,
            width: names.max().unwrap_or(0),
            bar: if has_status { status_bar() } else { ProgressBar::hidden() },
            last: BTreeMap::new(),
            has_reader: true,
        }
    }

    /// Takes the status line away and says how the job ended.
    pub(super) fn finish(&mut self, record: &JobRecord) -> Result<()> {
        self.bar.finish_and_clear();
        if record.state != JobState::Succeeded {
            self.report(record);
        }
        if self.format == Format::Json {
            let mut output = Output::open();
            output.json(record)?;
            output.close()?;
        }
        Ok(())
    }

    fn report(&self, record: &JobRecord) {
        let mut text = format!("paddle launch: {}\n", record.reason);
        let culprit = record.culprit.and_then(|culprit| record.replica(culprit));
        if let Some(culprit) = culprit {
            let log = culprit.log.display();
            match self.last.get(&culprit.replica) {
                Some(lines) => {
                    text.push_str(&format!("the last lines of {} ({log}):\n", culprit.replica));
                    lines.iter().for_each(|line| text.push_str(&format!("    {line}\n")));
                }
                None => text.push_str(&format!("it printed nothing ({log})\n")),
            }
        }
        // Where not even standard error can be written, the exit code has to say it all.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }

    fn remember(&mut self, replica: ReplicaId, text: &str) {
        let last = self.last.entry(replica).or_default();
        let kept = text.lines().rev().take(LAST_LINES).count();
        for line in text.lines().skip(text.lines().count() - kept) {
            if last.len() == LAST_LINES {
                last.pop_front();
            }
            last.push_back(line.chars().take(LAST_LINE_CHARACTERS_MAX).collect());
        }
    }

    fn prefix(&self, replica: ReplicaId) -> String {
        let name = format!("{:<width$} | ", replica.to_string(), width = self.width);
        if !self.has_colour {
            return name;
        }
        let colour = match replica.role {
            Role::Trainer => COLOURS[replica.rank as usize % COLOURS.len()],
            Role::Pserver | Role::Master => GREY,
        };
        format!("\x1b[{colour}m{name}\x1b[0m")
    }

    fn show(&mut self, text: &str) {
        if !self.has_reader {
            return;
        }
        let bytes = text.as_bytes();
        let written = self.bar.suspend(|| match self.format {
            Format::Text => {
                let mut output = std::io::stdout().lock();
                output.write_all(bytes).and_then(|()| output.flush())
            }
            Format::Json => std::io::stderr().write_all(bytes),
        });
        self.has_reader = written.is_ok();
    }
}

impl Watch for View {
    fn log(&mut self, replica: ReplicaId, text: &str) {
        self.remember(replica, text);
        if self.is_quiet {
            return;
        }
        let prefix = self.prefix(replica);
        let is_for_us =
            |line: &str| replica.is_server() && matches!(Ready::parse(line), Ok(Some(_)));
        let mut shown = String::with_capacity(text.len() * 2);
        for line in text.lines().filter(|line| !is_for_us(line)) {
            shown.push_str(&prefix);
            shown.push_str(line);
            shown.push('\n');
        }
        self.show(&shown);
    }

    fn decided(&mut self, decision: &Decision, reason: &str) {
        // What is ordinary is seen in the status line, and a failure is told at the end.
        if matches!(decision, Decision::Restart(_) | Decision::Kill) {
            let text = format!("paddle launch: {reason}\n");
            let _ = self.bar.suspend(|| std::io::stderr().write_all(text.as_bytes()));
        }
    }

    fn changed(&mut self, record: &JobRecord) {
        if !record.state.is_final() {
            self.bar.set_message(status::line(record));
        }
        if let Err(error) = record.write(&self.state_file)
            && self.can_write_state
        {
            self.can_write_state = false;
            self.bar.suspend(|| cli::exit::report("paddle launch", &error));
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
