//! How output looks: tables for people, JSON for programs, progress on the terminal. Standard
//! output carries data only; everything else goes to standard error.

use contract::{Error, Result};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

/// What `-o` accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// Standard output. Ends the program quietly when nobody reads it any more, as `… | head` does.
pub struct Output(BufWriter<StdoutLock<'static>>);

impl Output {
    /// Takes standard output for this command.
    pub fn open() -> Self {
        Output(BufWriter::new(io::stdout().lock()))
    }

    /// Writes bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.write_all(bytes).or_else(closed)
    }

    /// Writes a line.
    pub fn line(&mut self, text: impl std::fmt::Display) -> Result<()> {
        writeln!(self.0, "{text}").or_else(closed)
    }

    /// Writes a value as JSON over several lines.
    pub fn json(&mut self, value: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string_pretty(value).map_err(|source| {
            Error::new(contract::Kind::Io, "cannot render JSON").because(source)
        })?;
        self.line(text)
    }

    /// Writes a value as JSON on one line, for rows without end.
    pub fn json_line(&mut self, value: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string(value).map_err(|source| {
            Error::new(contract::Kind::Io, "cannot render JSON").because(source)
        })?;
        self.line(text)
    }

    /// Writes a table: a header row and rows of equal length.
    pub fn table(&mut self, header: &[&str], rows: &[Vec<String>]) -> Result<()> {
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::presets::NOTHING).set_header(header.to_vec());
        for row in rows {
            table.add_row(row);
        }
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        for line in table.lines() {
            self.line(line.trim_end())?;
        }
        Ok(())
    }

    /// Brings out what was written so far.
    pub fn flush(&mut self) -> Result<()> {
        self.0.flush().or_else(closed)
    }

    /// Makes sure that everything is out.
    pub fn close(mut self) -> Result<()> {
        self.0.flush().or_else(closed)
    }
}

/// A progress bar on standard error, shown only on a terminal.
pub fn progress(total: u64, unit: Unit) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let template = match unit {
        Unit::Bytes => "{wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}",
        Unit::Records => "{wide_bar} {human_pos}/{human_len} records {per_sec} {eta}",
    };
    let style =
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(total).with_style(style)
}

/// What a progress bar counts.
#[derive(Debug, Clone, Copy)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Records.
    Records,
}

fn closed(source: io::Error) -> Result<()> {
    if source.kind() == io::ErrorKind::BrokenPipe {
        #[expect(
            clippy::exit,
            reason = "the reader of our output has left: nothing to do or tell"
        )]
        std::process::exit(0);
    }
    Err(Error::io("cannot write to standard output", source))
}
