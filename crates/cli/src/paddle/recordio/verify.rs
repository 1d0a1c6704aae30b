//! `paddle recordio verify`: reads everything, and reports every damaged chunk, not only the first.

use super::Files;
use cli::output::{Format, Output, Unit, progress};
use contract::{Error, Kind, Result};
use indicatif::ProgressBar;
use recordio::{ChunkEntry, Index, Reader};
use serde::Serialize;
use std::path::Path;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    files: Files,
    /// Print as text or JSON
    #[arg(short, long, value_enum, default_value = "text")]
    output: Format,
}

#[derive(Serialize)]
struct Report {
    file: String,
    is_good: bool,
    /// Records that can be read.
    records: u64,
    bytes: u64,
    errors: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let paths = recordio::expand(&args.files.files)?;
    let sizes = paths.iter().map(|path| path.metadata().map_or(0, |metadata| metadata.len()));
    let bar = progress(sizes.sum(), Unit::Bytes);
    let limit = args.files.limit.chunk_bytes_max;
    let reports: Vec<Report> =
        paths.iter().map(|path| check(path, limit, &bar)).collect::<Result<_>>()?;
    bar.finish_and_clear();

    let mut output = Output::open();
    match args.output {
        Format::Json => output.json(&reports)?,
        Format::Text => {
            for report in &reports {
                let verdict = if report.is_good { "ok" } else { "DAMAGED" };
                output
                    .line(format_args!("{}: {verdict}, {} records", report.file, report.records))?;
                for error in &report.errors {
                    output.line(format_args!("  {error}"))?;
                }
            }
        }
    }
    output.close()?;
    let is_good = reports.iter().all(|report| report.is_good);
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn check(path: &Path, chunk_bytes_max: u64, bar: &ProgressBar) -> Result<Report> {
    let (index, header_damage) = Index::salvage(path)?;
    let mut records = 0;
    let mut errors = Vec::new();
    for (number, chunk) in index.chunks().iter().enumerate() {
        match read_chunk(path, number as u64, chunk, chunk_bytes_max) {
            Ok(()) => records += u64::from(chunk.records),
            Err(error) => errors.push(damage(error)?),
        }
        bar.inc(chunk.bytes);
    }
    if let Some(error) = header_damage {
        errors.push(damage(error)?);
    }
    Ok(Report {
        file: path.display().to_string(),
        is_good: errors.is_empty(),
        records,
        bytes: index.file_bytes(),
        errors,
    })
}

fn read_chunk(path: &Path, number: u64, chunk: &ChunkEntry, chunk_bytes_max: u64) -> Result<()> {
    let mut reader = Reader::open_chunk(path, number, chunk.offset, chunk_bytes_max)?;
    while reader.read()?.is_some() {}
    Ok(())
}

// Damage is a finding; a file that cannot be opened or read is a failure of the command.
fn damage(error: Error) -> Result<String> {
    match error.kind() {
        Kind::Damaged | Kind::LimitExceeded => Ok(error.chain()),
        _ => Err(error),
    }
}
