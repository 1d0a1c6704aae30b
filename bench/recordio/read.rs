//! Sequential reads of a file with every compressor, and what no reader can beat: the CRC-32 of the
//! same file, and the compressor's own decode of the same bytes.
//!
//! `prepare` writes the files, once. `serve` answers each line on its stdin by the MiB of record
//! bytes per second of one read, as JSON, for `benchmark.py`, which also pins it to a core:
//! `read COMPRESSOR PREFETCH_CHUNKS`, `checksum COMPRESSOR` or `decode COMPRESSOR`.
#![expect(clippy::print_stdout, reason = "the figures are what this program is for")]

use recordio::{Compressor, HEADER_BYTES, Index, ReadOptions, Reader, WriteOptions, Writer};
use std::collections::HashMap;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const RECORD_BYTES: usize = 1 << 10;
const SEED: u64 = 20_170_401;
/// What a sensible program reads or decodes at once: it stays in the second-level cache.
const PIECE_BYTES: usize = 256 << 10;
const PAGE_BYTES: usize = 4 << 10;

fn main() -> Result<()> {
    // Cargo adds an argument of its own.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let [verb, folder, records] = &arguments[..] else {
        return Err("usage: read (prepare | serve) FOLDER RECORDS".into());
    };
    let data = Data { folder: PathBuf::from(folder), records: records.parse()? };
    match verb.as_str() {
        "prepare" => data.prepare(),
        "serve" => data.serve(),
        _ => Err(format!("{verb} is neither prepare nor serve").into()),
    }
}

/// Where the files are, and how many records each has.
struct Data {
    folder: PathBuf,
    records: usize,
}

impl Data {
    fn path(&self, compressor: Compressor) -> PathBuf {
        self.folder.join(format!("{compressor}.recordio"))
    }

    fn prepare(&self) -> Result<()> {
        fs::create_dir_all(&self.folder)?;
        for compressor in Compressor::ALL {
            let path = self.path(compressor);
            if path.exists() {
                continue;
            }
            let threads = std::thread::available_parallelism()?.get();
            let options = WriteOptions { compressor, threads, ..WriteOptions::default() };
            let mut writer = Writer::create(&path, options)?;
            let mut source = Source::new(SEED);
            for _ in 0..self.records {
                writer.write(&source.record())?;
            }
            writer.close()?;
        }
        Ok(())
    }

    fn serve(&self) -> Result<()> {
        let mut memory = HashMap::new();
        for line in std::io::stdin().lines() {
            let line = line?;
            let words: Vec<&str> = line.split(' ').collect();
            let [verb, name, ..] = words[..] else {
                return Err(format!("request {line:?}; say what to do and a compressor").into());
            };
            let known = Compressor::ALL.into_iter().find(|each| each.to_string() == name);
            let compressor = known.ok_or_else(|| format!("there is no compressor {name:?}"))?;
            let path = self.path(compressor);
            let time = match words[..] {
                ["read", _, prefetch_chunks] => {
                    read_records(&path, self.records, prefetch_chunks.parse()?)?
                }
                ["checksum", _] => read_checksum(&path)?,
                ["decode", _] => {
                    if !memory.contains_key(name) {
                        memory.clear();
                        memory.insert(name.to_owned(), Stored::load(&path, compressor)?);
                    }
                    memory[name].decode(self.records)?
                }
                _ => return Err(format!("request {line:?} is not one of ours; {verb}?").into()),
            };
            let mebibytes = (self.records * RECORD_BYTES) as f64 / f64::from(1 << 20);
            println!("{{\"rate\": {}}}", mebibytes / time.as_secs_f64());
        }
        Ok(())
    }
}

fn read_records(path: &Path, records: usize, prefetch_chunks: usize) -> Result<Duration> {
    let start = Instant::now();
    let options = ReadOptions { prefetch_chunks, ..ReadOptions::default() };
    let mut reader = Reader::open(&[path.to_path_buf()], options)?;
    let (mut bytes, mut first_bytes) = (0, 0_u64);
    while let Some(record) = reader.read()? {
        bytes += record.len();
        first_bytes += record.first().map_or(0, |byte| u64::from(*byte));
    }
    black_box(first_bytes);
    assert_eq!(bytes, records * RECORD_BYTES);
    Ok(start.elapsed())
}

/// Limit a.
fn read_checksum(path: &Path) -> Result<Duration> {
    // The kernel copies a third slower to memory that is not aligned: give the limit its best.
    let mut memory = vec![0; PIECE_BYTES + PAGE_BYTES];
    let begin = memory.as_ptr().align_offset(PAGE_BYTES);
    let piece = &mut memory[begin..begin + PIECE_BYTES];
    let start = Instant::now();
    let mut file = File::open(path)?;
    let mut checksum = crc32fast::Hasher::new();
    loop {
        let count = file.read(piece)?;
        if count == 0 {
            break;
        }
        checksum.update(&piece[..count]);
    }
    black_box(checksum.finalize());
    Ok(start.elapsed())
}

/// A file in memory, for limit b.
struct Stored {
    compressor: Compressor,
    payloads: Vec<Vec<u8>>,
}

impl Stored {
    fn load(path: &Path, compressor: Compressor) -> Result<Stored> {
        let file = fs::read(path)?;
        let index = Index::open(path)?;
        let payloads = index.chunks().iter().map(|chunk| {
            let begin = chunk.offset as usize;
            file[begin + HEADER_BYTES..begin + chunk.bytes as usize].to_vec()
        });
        Ok(Stored { compressor, payloads: payloads.collect() })
    }

    fn decode(&self, records: usize) -> Result<Duration> {
        // zstd is fastest into memory that holds the whole chunk, the others piece by piece.
        let mut target = vec![0; 64 << 20];
        let start = Instant::now();
        let mut bytes = 0;
        for payload in &self.payloads {
            bytes += match self.compressor {
                Compressor::None => 0,
                Compressor::Snappy => drain(snap::read::FrameDecoder::new(&payload[..]))?,
                Compressor::Gzip => drain(flate2::bufread::MultiGzDecoder::new(&payload[..]))?,
                Compressor::Zstd => zstd::bulk::decompress_to_buffer(payload, &mut target)?,
            };
            black_box(&mut target);
        }
        let elapsed = start.elapsed();
        let expect = records * (RECORD_BYTES + 4);
        assert!(self.compressor == Compressor::None || bytes == expect, "{bytes} bytes");
        Ok(elapsed)
    }
}

fn drain(mut decoder: impl Read) -> Result<usize> {
    let mut piece = vec![0; PIECE_BYTES];
    let mut bytes = 0;
    loop {
        let count = decoder.read(&mut piece)?;
        if count == 0 {
            return Ok(bytes);
        }
        black_box(&mut piece);
        bytes += count;
    }
}

/// Records that alternate between phrases of a small vocabulary and noise, about half and half.
struct Source {
    // SplitMix64.
    state: u64,
    phrases: Vec<Vec<u8>>,
}

impl Source {
    fn new(seed: u64) -> Source {
        let mut source = Source { state: seed, phrases: Vec::new() };
        let phrases = (0..64).map(|_| {
            let bytes = source.between(16, 48);
            (0..bytes).map(|_| b'a' + source.between(0, 25) as u8).collect()
        });
        source.phrases = phrases.collect();
        source
    }

    fn record(&mut self) -> Vec<u8> {
        let mut record = Vec::with_capacity(RECORD_BYTES + 100);
        while record.len() < RECORD_BYTES {
            let at = self.between(0, self.phrases.len() - 1);
            record.extend(&self.phrases[at]);
            for _ in 0..self.between(2, 6) {
                record.extend(self.next().to_le_bytes());
            }
        }
        record.truncate(RECORD_BYTES);
        record
    }

    fn between(&mut self, least: usize, most: usize) -> usize {
        least + (self.next() % (most - least + 1) as u64) as usize
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
