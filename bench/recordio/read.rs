//! Sequential read of 1 GiB of 1 KiB records with every compressor, as a share of what no reader
//! can beat: the CRC-32 of the same file, and the compressor's own decode of the same bytes.
//!
//! `prepare` writes the files, once; `read N` measures with N chunks of prefetch and prints a table
//! in Markdown. Contenders take turns, so that a noisy neighbour meets all of them alike. Pinning
//! to a core is left to `run.sh`.
#![expect(clippy::print_stdout, reason = "the table is what this program is for")]

use recordio::{Compressor, HEADER_BYTES, Index, ReadOptions, Reader, WriteOptions, Writer};
use std::fs::{self, File};
use std::hint::black_box;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/scratch/recordio");
const RECORDS: usize = 1 << 20;
const RECORD_BYTES: usize = 1 << 10;
const SEED: u64 = 20_170_401;
const ROUNDS: usize = 7;
/// What a sensible program reads or decodes at once: it stays in the second-level cache.
const PIECE_BYTES: usize = 256 << 10;
const PAGE_BYTES: usize = 4 << 10;

fn main() -> Result<()> {
    // Cargo adds an argument of its own.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["prepare"] => prepare(),
        ["read", prefetch_chunks] => compare(prefetch_chunks.parse()?),
        _ => Err("usage: read (prepare | read PREFETCH_CHUNKS)".into()),
    }
}

fn path(compressor: Compressor) -> PathBuf {
    Path::new(DATA).join(format!("{compressor}.recordio"))
}

fn prepare() -> Result<()> {
    fs::create_dir_all(DATA)?;
    for compressor in Compressor::ALL {
        let path = path(compressor);
        if path.exists() {
            continue;
        }
        let threads = std::thread::available_parallelism()?.get();
        let options = WriteOptions { compressor, threads, ..WriteOptions::default() };
        let mut writer = Writer::create(&path, options)?;
        let mut source = Source::new(SEED);
        for _ in 0..RECORDS {
            writer.write(&source.record())?;
        }
        writer.close()?;
    }
    Ok(())
}

fn compare(prefetch_chunks: usize) -> Result<()> {
    println!(
        "| compressor | stored | reader | limit a: CRC-32 | of a | limit b: decode | of b \
         | of a, then b | spread |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|"
    );
    for compressor in Compressor::ALL {
        let path = path(compressor);
        let stored = Stored::load(&path, compressor)?;
        let (mut reader, mut checksum, mut decode) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..=ROUNDS {
            let times =
                [read_records(&path, prefetch_chunks)?, read_checksum(&path)?, stored.decode()?];
            // The first round warms the page cache and the allocator.
            if round > 0 {
                reader.push(times[0]);
                checksum.push(times[1]);
                decode.push(times[2]);
            }
        }
        let (reader, spread) = median(reader);
        let (checksum, _) = median(checksum);
        let (decode, _) = median(decode);
        let share = stored.file_bytes as f64 / (RECORDS * RECORD_BYTES) as f64;
        let of_limits = match compressor {
            Compressor::None => format!("{:.2} | – | – | –", checksum / reader),
            _ => format!(
                "{:.2} | {:.0} | {:.2} | {:.2}",
                checksum / reader,
                rate(decode),
                decode / reader,
                (checksum + decode) / reader
            ),
        };
        println!(
            "| {compressor} | {share:.2} | {:.0} | {:.0} | {of_limits} | {:.0} % |",
            rate(reader),
            rate(checksum),
            100.0 * spread
        );
    }
    Ok(())
}

fn read_records(path: &Path, prefetch_chunks: usize) -> Result<Duration> {
    let start = Instant::now();
    let options = ReadOptions { prefetch_chunks, ..ReadOptions::default() };
    let mut reader = Reader::open(&[path.to_path_buf()], options)?;
    let (mut bytes, mut first_bytes) = (0, 0_u64);
    while let Some(record) = reader.read()? {
        bytes += record.len();
        first_bytes += record.first().map_or(0, |byte| u64::from(*byte));
    }
    black_box(first_bytes);
    assert_eq!(bytes, RECORDS * RECORD_BYTES);
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
    file_bytes: usize,
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
        Ok(Stored { compressor, file_bytes: file.len(), payloads: payloads.collect() })
    }

    fn decode(&self) -> Result<Duration> {
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
        let expect = RECORDS * (RECORD_BYTES + 4);
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

/// The median in seconds, and the distance between the extremes as a share of it.
fn median(mut times: Vec<Duration>) -> (f64, f64) {
    times.sort();
    let seconds = |at: usize| times[at].as_secs_f64();
    let middle = seconds(times.len() / 2);
    (middle, (seconds(times.len() - 1) - seconds(0)) / middle)
}

/// MiB of record bytes per second.
fn rate(seconds: f64) -> f64 {
    (RECORDS * RECORD_BYTES) as f64 / f64::from(1 << 20) / seconds
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
