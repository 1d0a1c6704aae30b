//! `paddle recordio convert`: the same records in another compressor, layout or chunk size.

use super::Limit;
use cli::output::{Format, Output, Unit, progress};
use contract::{Error, Kind, Result};
use recordio::{Compressor, Index, Layout, ReadOptions, Reader, WriteOptions, Writer};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

// Telling the bar about every record would cost more than copying it.
const RECORDS_PER_STEP: u64 = 1024;

/// Several files become one; the target appears when it is complete.
#[derive(Debug, clap::Args)]
#[command(override_usage = "paddle recordio convert [OPTIONS] <FILE>... <TARGET>")]
pub(crate) struct Args {
    /// RecordIO files, or globs in quotes; the last one is the file to write
    #[arg(required = true, num_args = 2.., value_name = "FILE")]
    files: Vec<String>,
    /// Compressor to write: none, snappy, gzip or zstd (which only this implementation reads)
    #[arg(long, default_value_t = Compressor::Snappy)]
    compressor: Compressor,
    /// Layout to write: go or fluid
    #[arg(long, default_value_t = Layout::Go)]
    layout: Layout,
    /// Close a chunk at this many bytes of records [default: 33554432]
    #[arg(long, value_name = "BYTES")]
    chunk_bytes: Option<u64>,
    /// Close a chunk at this many records [default: 4194304, with fluid 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    chunk_records: Option<u32>,
    /// Compress on this many threads
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// Replace the target if it exists
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    limit: Limit,
    /// Print as text or JSON
    #[arg(short, long, value_enum, default_value = "text")]
    output: Format,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let (target, sources) = args
        .files
        .split_last()
        .ok_or_else(|| Error::invalid("name the files to read and, last, the file to write"))?;
    let target = Path::new(target);
    if target.exists() && !args.force {
        let message = "target exists; name another, or replace it with --force";
        return Err(Error::new(Kind::AlreadyExists, message).with("target", target.display()));
    }
    let written = copy(&recordio::expand(sources)?, target, args)?;
    let mut output = Output::open();
    match args.output {
        Format::Text => output.line(format_args!(
            "{}: {} records, {} chunks, {} bytes",
            target.display(),
            written.records,
            written.chunks,
            written.bytes
        ))?,
        Format::Json => output.json(&json!({
            "file": target,
            "records": written.records,
            "chunks": written.chunks,
            "bytes": written.bytes,
        }))?,
    }
    output.close()?;
    Ok(ExitCode::SUCCESS)
}

fn copy(sources: &[PathBuf], target: &Path, args: &Args) -> Result<recordio::Written> {
    let defaults = WriteOptions::new(args.layout);
    let options = WriteOptions {
        compressor: args.compressor,
        chunk_bytes: args.chunk_bytes.unwrap_or(defaults.chunk_bytes),
        chunk_records: args.chunk_records.unwrap_or(defaults.chunk_records),
        threads: args.threads,
        ..defaults
    };
    let mut writer = Writer::create(target, options)?;
    let mut total = 0;
    for source in sources {
        total += Index::open(source)?.records();
    }
    let options = ReadOptions {
        prefetch_chunks: 1,
        chunk_bytes_max: args.limit.chunk_bytes_max,
        ..ReadOptions::default()
    };
    let mut reader = Reader::open(sources, options)?;
    let bar = progress(total, Unit::Records);
    let mut copied = 0;
    while let Some(record) = reader.read()? {
        writer.write(record)?;
        copied += 1;
        if copied % RECORDS_PER_STEP == 0 {
            bar.set_position(copied);
        }
    }
    bar.finish_and_clear();
    writer.close()
}
