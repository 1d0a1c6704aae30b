//! `paddle._native.FileFeed`: batches of files, or of a master's tasks, parsed on background
//! threads.

use crate::description::parse;
use crate::error::raise;
use crate::master_client::MasterTask;
use crate::network::{Batch, Network};
use crate::waiting::interrupt;
use contract::{Error, Kind, Result};
use feed::{
    Batches, Config, Feed, Format, Layer, LineOrigin, Lines, Malformed, Memory, Plan, Share,
    append_record,
};
use master::records::{ReadOptions, Records};
use master::task::Task;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use serde::Deserialize;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// How files are read, as `paddle.feed` describes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    format: String,
    hash_size: u64,
    /// How many values a sample has, if that is known.
    slots: Option<usize>,
    batch_size: usize,
    threads: usize,
    is_skipping: bool,
    is_in_memory: bool,
    /// The seed, if samples are shuffled.
    shuffle: Option<u64>,
    /// Rank and number of trainers that share all lines.
    share: Option<(u64, u64)>,
    memory_bytes_max: u64,
}

impl Settings {
    fn format(&self) -> Result<Format> {
        match self.format.as_str() {
            "multislot" => Ok(Format::MultiSlot),
            "criteo" if self.hash_size > 0 => Ok(Format::Criteo { hash_size: self.hash_size }),
            "criteo" => Err(Error::invalid("hash_size must be at least 1")),
            other => Err(Error::new(Kind::Unsupported, "format must be multislot or criteo")
                .with("format", other)),
        }
    }

    fn to_config(&self, paths: Vec<PathBuf>) -> Config {
        let memory = Memory { shuffle: self.shuffle, bytes_max: self.memory_bytes_max };
        Config {
            paths,
            batch_size: self.batch_size,
            threads: self.threads,
            malformed: if self.is_skipping { Malformed::Skip } else { Malformed::Fail },
            share: self.share.map(|(rank, trainers)| Share { rank, trainers }),
            memory: self.is_in_memory.then_some(memory),
        }
    }
}

/// Files, to be passed over again and again.
#[pyclass(frozen, module = "paddle._native")]
pub(crate) struct FileFeed(Feed);

#[pymethods]
impl FileFeed {
    /// `places` says where in a sample each data layer's value is; `settings` is JSON.
    #[new]
    fn new(
        network: &Network,
        places: Vec<usize>,
        paths: Vec<PathBuf>,
        settings: &str,
    ) -> PyResult<Self> {
        let settings: Settings = parse("the settings of a feed", settings)?;
        let layers: Vec<Layer> = network
            .0
            .inputs()
            .zip(places)
            .map(|((name, shape), place)| Layer { name: name.to_owned(), shape: *shape, place })
            .collect();
        let feed = settings.format().and_then(|format| {
            let plan = Plan::new(format, settings.slots, &layers)?;
            Feed::new(plan, settings.to_config(paths))
        });
        feed.map(FileFeed).map_err(raise)
    }

    /// The batches of a pass, whose number decides the order if samples are shuffled.
    fn batches(&self, py: Python<'_>, number: u64) -> PyResult<FeedBatches> {
        let ask = interrupt();
        let batches = py.detach(|| self.0.pass(number, &*ask)).map_err(raise)?;
        Ok(FeedBatches(Mutex::new(batches)))
    }

    /// The batches of a task of the master; the last one may have fewer samples.
    fn task_batches(&self, py: Python<'_>, task: &MasterTask) -> PyResult<FeedBatches> {
        let batches = py.detach(|| self.0.batches_of(Box::new(TaskLines::open(&task.task)?)));
        batches.map(|batches| FeedBatches(Mutex::new(batches))).map_err(raise)
    }

    /// Malformed lines that were left out so far.
    #[getter]
    fn skipped(&self) -> u64 {
        self.0.skipped()
    }

    /// What was wrong with one of them.
    #[getter]
    fn skipped_example(&self) -> Option<&str> {
        self.0.skipped_example()
    }
}

/// The batches of a pass, in order.
#[pyclass(frozen, module = "paddle._native")]
pub(crate) struct FeedBatches(Mutex<Batches>);

#[pymethods]
impl FeedBatches {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        let mut guard = self.0.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        let (batches, ask) = (&mut *guard, interrupt());
        let batch = py.detach(|| batches.next(&*ask)).map_err(raise)?;
        Ok(batch.map(Batch::new))
    }
}

/// The records of a task, each a line.
struct TaskLines {
    records: Records,
    source: Arc<str>,
    number: u64,
}

impl TaskLines {
    fn open(task: &Task) -> Result<TaskLines> {
        let records = Records::open(task.pieces.clone(), ReadOptions::default())?;
        let first = task.pieces.first().map_or("no file", |piece| piece.path.as_str());
        let source = format!("task {} of the master, which begins in {first}", task.id);
        Ok(TaskLines { records, source: source.into(), number: 0 })
    }
}

impl Lines for TaskLines {
    fn read(&mut self, out: &mut Vec<u8>) -> Result<Option<LineOrigin>> {
        let Some(record) = self.records.read()? else { return Ok(None) };
        self.number += 1;
        append_record(record, out)
            .map_err(|error| error.with("source", &self.source).with("record", self.number))?;
        Ok(Some(LineOrigin { source: Arc::clone(&self.source), number: self.number }))
    }
}
