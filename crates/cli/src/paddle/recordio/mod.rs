//! `paddle recordio`: one file per verb.

mod cat;
mod convert;
mod info;
mod verify;

use contract::Result;
use recordio::CHUNK_BYTES_LIMIT;
use std::process::ExitCode;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Verb {
    /// Show layout, compressor, chunks and records of files, from their headers
    Info(info::Args),
    /// Print records
    Cat(cat::Args),
    /// Read everything and check every checksum; exit 1 if anything is damaged
    Verify(verify::Args),
    /// Rewrite files with another compressor, layout or chunk size
    Convert(convert::Args),
}

/// Which files, and how much memory a chunk of them may take.
#[derive(Debug, clap::Args)]
pub(crate) struct Files {
    /// RecordIO files, or globs in quotes
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
    #[command(flatten)]
    limit: Limit,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Limit {
    /// Refuse chunks that are larger than this many bytes when uncompressed
    #[arg(long, value_name = "BYTES", default_value_t = CHUNK_BYTES_LIMIT)]
    chunk_bytes_max: u64,
}

pub(crate) fn run(verb: Verb) -> Result<ExitCode> {
    match verb {
        Verb::Info(args) => info::run(&args),
        Verb::Cat(args) => cat::run(&args),
        Verb::Verify(args) => verify::run(&args),
        Verb::Convert(args) => convert::run(&args),
    }
}
