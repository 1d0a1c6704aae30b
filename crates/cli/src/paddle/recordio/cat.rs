//! `paddle recordio cat`: records on standard output.

use super::Files;
use cli::output::Output;
use contract::Result;
use recordio::{ReadOptions, Reader};
use serde_json::json;
use std::fmt::Write;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    files: Files,
    /// Begin with this record, counted over all files from 0
    #[arg(long, value_name = "N", default_value_t = 0)]
    start: u64,
    /// Print at most this many records
    #[arg(short = 'n', long, value_name = "N")]
    count: Option<u64>,
    /// How to print a record
    #[arg(short, long, value_enum, default_value = "text")]
    output: Style,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Style {
    /// A line each; control characters, backslashes and bytes that are not UTF-8 are escaped
    Text,
    /// A line of hexadecimal digits each
    Hex,
    /// The bytes as they are, nothing between records
    Raw,
    /// A JSON object each: number, size, and text or hexadecimal digits
    Json,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let paths = recordio::expand(&args.files.files)?;
    let options = ReadOptions {
        start: args.start,
        count: args.count,
        prefetch_chunks: 1,
        chunk_bytes_max: args.files.limit.chunk_bytes_max,
    };
    let mut reader = Reader::open(&paths, options)?;
    let mut output = Output::open();
    let mut number = args.start;
    loop {
        match reader.read() {
            Ok(Some(record)) => print(&mut output, args.output, number, record)?,
            Ok(None) => break,
            Err(error) => {
                // What was read before the damage is good, and belongs in front of the message.
                output.close()?;
                return Err(error);
            }
        }
        number += 1;
    }
    output.close()?;
    Ok(ExitCode::SUCCESS)
}

fn print(output: &mut Output, style: Style, number: u64, record: &[u8]) -> Result<()> {
    match style {
        Style::Text => output.line(escape(record)),
        Style::Hex => output.line(hex(record)),
        Style::Raw => output.bytes(record),
        Style::Json => {
            let (key, value) = match std::str::from_utf8(record) {
                Ok(text) => ("text", text.to_owned()),
                Err(_) => ("hex", hex(record)),
            };
            output.json_line(&json!({"record": number, "bytes": record.len(), key: value}))
        }
    }
}

fn escape(record: &[u8]) -> String {
    let mut line = String::with_capacity(record.len());
    for part in record.utf8_chunks() {
        for character in part.valid().chars() {
            match character {
                '\\' => line.push_str("\\\\"),
                character if character.is_control() => line.extend(character.escape_default()),
                character => line.push(character),
            }
        }
        for byte in part.invalid() {
            let _ = write!(line, "\\x{byte:02x}");
        }
    }
    line
}

fn hex(record: &[u8]) -> String {
    record.iter().fold(String::with_capacity(2 * record.len()), |mut line, byte| {
        let _ = write!(line, "{byte:02x}");
        line
    })
}
