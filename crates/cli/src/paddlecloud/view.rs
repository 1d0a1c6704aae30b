//! How answers are printed: as a table, wide or not, or as JSON or YAML with every field.

use cli::output::Output;
use contract::{Error, Kind, Result};
use serde::Serialize;
use std::io::IsTerminal;

#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct View {
    /// Print as text, as text with more columns, or everything as JSON or YAML
    #[arg(short = 'o', long = "output", value_enum, default_value = "text", value_name = "FORM")]
    pub(crate) form: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Form {
    Text,
    Wide,
    Json,
    Yaml,
}

/// A table: its header, how many columns the narrow one has, and its rows.
pub(crate) struct Table {
    pub(crate) header: &'static [&'static str],
    pub(crate) narrow: usize,
    pub(crate) rows: Vec<Vec<String>>,
}

impl View {
    /// Prints a value, in full or as the table that is made of it.
    pub(crate) fn print<T: Serialize>(
        self,
        output: &mut Output,
        value: &T,
        table: impl FnOnce(&T) -> Table,
    ) -> Result<()> {
        self.print_or(output, value, |output| table(value).print(output, self.form == Form::Wide))
    }

    /// Prints a value, in full or as `text` tells it to people.
    pub(crate) fn tell<T: Serialize>(
        self,
        value: &T,
        text: impl FnOnce(&mut Output) -> Result<()>,
    ) -> Result<()> {
        let mut output = Output::open();
        self.print_or(&mut output, value, text)?;
        output.close()
    }

    fn print_or<T: Serialize>(
        self,
        output: &mut Output,
        value: &T,
        text: impl FnOnce(&mut Output) -> Result<()>,
    ) -> Result<()> {
        match self.form {
            Form::Json => output.json(value),
            Form::Yaml => {
                let text = serde_yaml_ng::to_string(value)
                    .map_err(|source| Error::new(Kind::Io, "cannot render YAML").because(source))?;
                output.bytes(text.as_bytes())
            }
            Form::Text | Form::Wide => text(output),
        }
    }

    /// As [`View::print`], on its own.
    pub(crate) fn show<T: Serialize>(
        self,
        value: &T,
        table: impl FnOnce(&T) -> Table,
    ) -> Result<()> {
        let mut output = Output::open();
        self.print(&mut output, value, table)?;
        output.close()
    }
}

impl Table {
    fn print(mut self, output: &mut Output, is_wide: bool) -> Result<()> {
        let count = if is_wide { self.header.len() } else { self.narrow };
        for row in &mut self.rows {
            row.truncate(count);
            for cell in row {
                // A cell is one line, and never moves the cursor.
                *cell = cell.replace(char::is_control, " ");
                if cell.is_empty() {
                    cell.push('-');
                }
            }
        }
        output.table(&self.header[..count], &self.rows)
    }
}

/// Empties the screen before a table is shown again.
pub(crate) fn clear(output: &mut Output) -> Result<()> {
    match std::io::stdout().is_terminal() {
        true => output.bytes(b"\x1b[2J\x1b[H"),
        false => Ok(()),
    }
}

/// A word as the original writes states: `Running`.
pub(crate) fn capital(word: impl std::fmt::Display) -> String {
    let word = word.to_string();
    let mut letters = word.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_ascii_uppercase().to_string() + letters.as_str())
}

/// A number, or `-`.
pub(crate) fn perhaps(value: Option<impl std::fmt::Display>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}
