//! A pass over the data: batches, made ahead.

use crate::ahead::{Ahead, Cut};
use crate::columns::Columns;
use crate::format::Fault;
use crate::lines::{FileLines, LineOrigin, Lines, pickle_hint};
use crate::memory::{Kept, is_own};
use crate::plan::Plan;
use contract::{Error, Kind, Result};
use engine::batch::Batch;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// How files are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The files of this trainer, in order.
    pub paths: Vec<PathBuf>,
    /// Samples of a batch; the last of a pass may have fewer.
    pub batch_size: usize,
    /// Threads that read and parse.
    pub threads: usize,
    /// What to do with a line that cannot be read.
    pub malformed: Malformed,
    /// Take only this trainer's part of the lines; `None` takes all of them.
    pub share: Option<Share>,
    /// Keep all samples in memory; `None` streams them.
    pub memory: Option<Memory>,
}

/// What to do with a line that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// It is an error, with file and line.
    Fail,
    /// It is left out and counted.
    Skip,
}

/// How samples are kept in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Shuffle all samples anew for every pass, by this seed; `None` keeps their order.
    pub shuffle: Option<u64>,
    /// More is refused.
    pub bytes_max: u64,
}

/// The part that a trainer has of lines that several read: about every n-th. Which ones follows from
/// these numbers alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Of this trainer.
    pub rank: u64,
    /// How many there are.
    pub trainers: u64,
}

/// Asked while a call waits; an error ends the call.
pub type Interrupt<'a> = &'a dyn Fn() -> Result<()>;

/// The most samples of a batch.
const BATCH_SIZE_MAX: usize = 1 << 20;
/// The most threads.
const THREADS_MAX: usize = 256;
/// Batches that wait or are worked on, beside one for each thread.
const BATCHES_AHEAD: usize = 4;
/// Samples that are parsed at once where batches are not made of whole blocks.
const BLOCK_SAMPLES: usize = 1024;

/// Data in files, to be passed over again and again.
pub struct Feed {
    plan: Arc<Plan>,
    config: Config,
    kept: OnceLock<Arc<Kept>>,
    skipped: Arc<Skipped>,
}

/// Malformed lines that were left out, in all passes.
#[derive(Default)]
struct Skipped {
    count: AtomicU64,
    /// What was wrong with one of the first.
    example: OnceLock<String>,
}

impl Feed {
    /// # Errors
    /// If a number is out of its bounds.
    pub fn new(plan: Plan, config: Config) -> Result<Feed> {
        for (name, value, most) in [
            ("batch_size", config.batch_size, BATCH_SIZE_MAX),
            ("threads", config.threads, THREADS_MAX),
        ] {
            if value == 0 || value > most {
                let message = format!("{name} must be from 1 to {most}");
                return Err(Error::invalid(message).with(name, value));
            }
        }
        let skipped = Arc::default();
        Ok(Feed { plan: Arc::new(plan), config, kept: OnceLock::new(), skipped })
    }

    /// Begins a pass. The number decides the order, where samples are shuffled. Loads them first,
    /// where they are kept in memory and this is the first pass.
    pub fn pass(&self, number: u64, interrupt: Interrupt<'_>) -> Result<Batches> {
        let Some(memory) = self.config.memory else {
            let lines = Box::new(FileLines::new(self.config.paths.clone()));
            let blocks = self.blocks(lines, self.config.batch_size, self.config.share)?;
            return Ok(self.batches(blocks));
        };
        let kept = match self.kept.get() {
            Some(kept) => kept,
            None => {
                let kept = self.load(memory, interrupt)?;
                self.kept.get_or_init(|| Arc::new(kept))
            }
        };
        let order = match memory.shuffle {
            Some(seed) => kept.order(seed, number),
            None => (0..kept.samples() as u32).collect(),
        };
        let (mut from, size) = (0, self.config.batch_size);
        let (plan, kept) = (Arc::clone(&self.plan), Arc::clone(kept));
        let ends = order.len();
        let cut: Cut<std::ops::Range<usize>> = Box::new(move || {
            let range = from..(from + size).min(ends);
            from = range.end;
            Ok((!range.is_empty()).then_some(range))
        });
        let gather = move |range: std::ops::Range<usize>| Ok(kept.gather(&plan, &order[range]));
        let ahead = self.ahead(cut, gather)?;
        Ok(self.batches(ahead))
    }

    /// The batches of lines that somebody else has, until they end.
    pub fn batches_of(&self, lines: Box<dyn Lines>) -> Result<Batches> {
        let blocks = self.blocks(lines, self.config.batch_size, None)?;
        Ok(self.batches(blocks))
    }

    /// Malformed lines that were left out so far, in all passes.
    pub fn skipped(&self) -> u64 {
        self.skipped.count.load(Ordering::Relaxed)
    }

    /// What was wrong with one of the lines that were left out.
    pub fn skipped_example(&self) -> Option<&str> {
        self.skipped.example.get().map(String::as_str)
    }

    fn load(&self, memory: Memory, interrupt: Interrupt<'_>) -> Result<Kept> {
        let lines = Box::new(FileLines::new(self.config.paths.clone()));
        let mut blocks = self.blocks(lines, BLOCK_SAMPLES, self.config.share)?;
        let kept = Kept::collect(|| blocks.next(interrupt), memory.bytes_max)?;
        match u32::try_from(kept.samples()) {
            Ok(_) => Ok(kept),
            Err(_) => Err(Error::new(
                Kind::LimitExceeded,
                "more than 4294967295 samples cannot be kept in memory; stream them",
            )
            .with("samples", kept.samples())),
        }
    }

    /// Lines, parsed, so many at a time.
    fn blocks(
        &self,
        mut lines: Box<dyn Lines>,
        samples: usize,
        share: Option<Share>,
    ) -> Result<Ahead<Columns>> {
        let mut number = 0u64;
        // Lines are about as long as those before, so that a block seldom has to grow.
        let mut bytes = 0;
        let cut: Cut<Block> = Box::new(move || {
            let mut block = Block::with_capacity(bytes + bytes / 16, samples);
            while block.ends.len() < samples {
                let Some(place) = lines.read(&mut block.bytes)? else { break };
                let own =
                    share.is_none_or(|Share { rank, trainers }| is_own(number, rank, trainers));
                number += 1;
                match own {
                    true => block.push(place),
                    false => block.take_back(),
                }
            }
            bytes = block.bytes.len();
            Ok((!block.ends.is_empty()).then_some(block))
        });
        let (plan, skipped) = (Arc::clone(&self.plan), Arc::clone(&self.skipped));
        let malformed = self.config.malformed;
        self.ahead(cut, move |block: Block| parse(&plan, &block, malformed, &skipped))
    }

    fn ahead<P: 'static>(
        &self,
        cut: Cut<P>,
        work: impl Fn(P) -> Result<Columns> + Send + Sync + 'static,
    ) -> Result<Ahead<Columns>> {
        let threads = self.config.threads;
        Ahead::start(threads, threads + BATCHES_AHEAD, cut, work)
    }

    fn batches(&self, blocks: Ahead<Columns>) -> Batches {
        let batch_size = self.config.batch_size;
        let plan = Arc::clone(&self.plan);
        Batches { plan, batch_size, blocks, rest: None, from: 0, filling: None }
    }
}

/// Some lines that follow one another, and where they are.
struct Block {
    bytes: Vec<u8>,
    /// Where each line ends in the bytes.
    ends: Vec<usize>,
    places: Vec<LineOrigin>,
}

impl Block {
    fn with_capacity(bytes: usize, lines: usize) -> Block {
        Block {
            bytes: Vec::with_capacity(bytes),
            ends: Vec::with_capacity(lines),
            places: Vec::with_capacity(lines),
        }
    }

    fn push(&mut self, place: LineOrigin) {
        self.ends.push(self.bytes.len());
        self.places.push(place);
    }

    /// Forgets bytes that were read for nobody.
    fn take_back(&mut self) {
        self.bytes.truncate(self.ends.last().copied().unwrap_or(0));
    }
}

fn parse(plan: &Plan, block: &Block, malformed: Malformed, skipped: &Skipped) -> Result<Columns> {
    let mut columns = Columns::new(plan, block.ends.len());
    let mut start = 0;
    for (end, place) in block.ends.iter().zip(&block.places) {
        let line = &block.bytes[start..*end];
        start = *end;
        if let Err(fault) = plan.format().parse(line, plan, &mut columns) {
            if malformed == Malformed::Fail {
                return Err(describe(&fault, plan, place, line));
            }
            columns.take_back(plan);
            skipped.count.fetch_add(1, Ordering::Relaxed);
            skipped.example.get_or_init(|| describe(&fault, plan, place, line).to_string());
        }
    }
    Ok(columns)
}

fn describe(fault: &Fault, plan: &Plan, place: &LineOrigin, line: &[u8]) -> Error {
    let Fault { expected, got, .. } = fault;
    let message = format!("malformed line: expected {expected}, got {got}{}", pickle_hint(line));
    let mut error =
        Error::new(Kind::Damaged, message).with("file", &place.source).with("line", place.number);
    if let Some(slot) = fault.place {
        error = error.with("slot", slot);
        if let Some(layer) = plan.layer_at(slot) {
            error = error.with("data layer", layer);
        }
    }
    error
}

/// The batches of a pass, in order.
pub struct Batches {
    plan: Arc<Plan>,
    batch_size: usize,
    blocks: Ahead<Columns>,
    /// A block of which some samples were given out, from its `from`-th on, are left.
    rest: Option<Columns>,
    from: usize,
    /// The batch that is being filled from several blocks; kept if the wait for more is interrupted.
    filling: Option<Columns>,
}

impl Batches {
    /// The next batch; `None` at the end. After an error every further call fails too.
    pub fn next(&mut self, interrupt: Interrupt<'_>) -> Result<Option<Batch>> {
        loop {
            let (block, from) = match self.rest.take() {
                Some(block) => (block, std::mem::take(&mut self.from)),
                None => match self.blocks.next(interrupt)? {
                    Some(block) => (block, 0),
                    None => break,
                },
            };
            // The common case: a block is a batch, and nothing is copied.
            if self.filling.is_none() && from == 0 && block.samples == self.batch_size {
                return Ok(Some(block.into_batch(&self.plan)));
            }
            let empty = || Columns::new(&self.plan, self.batch_size);
            let filling = self.filling.get_or_insert_with(empty);
            let taken = (block.samples - from).min(self.batch_size - filling.samples);
            filling.append(&self.plan, &block, from..from + taken);
            let is_full = filling.samples == self.batch_size;
            if from + taken < block.samples {
                (self.rest, self.from) = (Some(block), from + taken);
            }
            if is_full {
                break;
            }
        }
        let batch = self.filling.take().filter(|batch| batch.samples > 0);
        Ok(batch.map(|batch| batch.into_batch(&self.plan)))
    }
}
