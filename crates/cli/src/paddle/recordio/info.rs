//! `paddle recordio info`: what the headers of files say.

use cli::output::{Format, Output};
use contract::Result;
use recordio::Index;
use serde_json::json;
use std::collections::BTreeSet;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// RecordIO files, or globs in quotes
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
    /// List every chunk
    #[arg(long)]
    chunks: bool,
    /// Print as text or JSON
    #[arg(short, long, value_enum, default_value = "text")]
    output: Format,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let files = recordio::expand(&args.files)?
        .into_iter()
        .map(|path| Ok((path.display().to_string(), Index::open(&path)?)))
        .collect::<Result<Vec<(String, Index)>>>()?;
    let mut output = Output::open();
    match (args.output, args.chunks) {
        (Format::Json, _) => output.json(&as_json(&files, args.chunks))?,
        (Format::Text, false) => {
            let rows: Vec<_> = files.iter().map(|(path, index)| file_row(path, index)).collect();
            output.table(&["FILE", "LAYOUT", "COMPRESSOR", "CHUNKS", "RECORDS", "BYTES"], &rows)?;
        }
        (Format::Text, true) => {
            let rows: Vec<_> =
                files.iter().flat_map(|(path, index)| chunk_rows(path, index)).collect();
            output.table(&["FILE", "CHUNK", "OFFSET", "BYTES", "RECORDS", "COMPRESSOR"], &rows)?;
        }
    }
    output.close()?;
    Ok(ExitCode::SUCCESS)
}

fn file_row(path: &str, index: &Index) -> Vec<String> {
    vec![
        path.to_owned(),
        index.layout().map_or("-".to_owned(), |layout| layout.to_string()),
        compressors(index).unwrap_or("-".to_owned()),
        index.chunks().len().to_string(),
        index.records().to_string(),
        index.file_bytes().to_string(),
    ]
}

fn chunk_rows(path: &str, index: &Index) -> Vec<Vec<String>> {
    let chunks = index.chunks().iter().enumerate();
    chunks
        .map(|(number, chunk)| {
            vec![
                path.to_owned(),
                number.to_string(),
                chunk.offset.to_string(),
                chunk.bytes.to_string(),
                chunk.records.to_string(),
                chunk.compressor.to_string(),
            ]
        })
        .collect()
}

fn as_json(files: &[(String, Index)], has_chunks: bool) -> Vec<serde_json::Value> {
    let describe = |(path, index): &(String, Index)| {
        let mut file = json!({
            "file": path,
            "layout": index.layout(),
            "compressor": compressors(index),
            "chunks": index.chunks().len(),
            "records": index.records(),
            "bytes": index.file_bytes(),
        });
        if has_chunks {
            file["chunk_list"] = json!(index.chunks());
        }
        file
    };
    files.iter().map(describe).collect()
}

/// The compressors that occur, usually one.
fn compressors(index: &Index) -> Option<String> {
    let names: BTreeSet<String> =
        index.chunks().iter().map(|chunk| chunk.compressor.to_string()).collect();
    (!names.is_empty()).then(|| names.into_iter().collect::<Vec<_>>().join("+"))
}
