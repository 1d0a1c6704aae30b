//! `recordio.reader`: records as bytes objects.

use crate::error::raise;
use contract::{Error, Kind};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::PyBytes;
use recordio::{Index, ReadOptions};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Reads records in order; may be shared between threads, each record goes to one of them.
#[pyclass(frozen, module = "paddle._native")]
pub(crate) struct Reader {
    paths: Vec<PathBuf>,
    start: u64,
    count: Option<u64>,
    // None once closed.
    records: Mutex<Option<recordio::Reader>>,
}

#[pymethods]
impl Reader {
    #[new]
    #[expect(clippy::needless_pass_by_value, reason = "Python hands over an owned list")]
    #[pyo3(signature = (patterns, start, count, prefetch_chunks, chunk_bytes_max))]
    fn new(
        patterns: Vec<String>,
        start: u64,
        count: Option<u64>,
        prefetch_chunks: usize,
        chunk_bytes_max: Option<u64>,
    ) -> PyResult<Self> {
        let paths = recordio::expand(&patterns).map_err(raise)?;
        let chunk_bytes_max = chunk_bytes_max.unwrap_or(recordio::CHUNK_BYTES_LIMIT);
        let options = ReadOptions { start, count, prefetch_chunks, chunk_bytes_max };
        let records = recordio::Reader::open(&paths, options).map_err(raise)?;
        Ok(Reader { paths, start, count, records: Mutex::new(Some(records)) })
    }

    fn read<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let mut guard = self.lock(py);
        let records = guard
            .as_mut()
            .ok_or_else(|| raise(Error::new(Kind::Conflict, "this RecordIO reader is closed")))?;
        // Most records lie in memory already, and letting go of the interpreter costs more than
        // reading one: do it only to wait for a chunk.
        if !records.is_ready() && !py.detach(|| records.fill()).map_err(raise)? {
            return Ok(None);
        }
        let record = records.read().map_err(raise)?;
        Ok(record.map(|record| PyBytes::new(py, record)))
    }

    fn seek(&self, py: Python<'_>, record: u64) -> PyResult<()> {
        let mut guard = self.lock(py);
        let records = guard
            .as_mut()
            .ok_or_else(|| raise(Error::new(Kind::Conflict, "this RecordIO reader is closed")))?;
        py.detach(|| records.seek(record)).map_err(raise)
    }

    fn close(&self, py: Python<'_>) {
        let records = self.lock(py).take();
        py.detach(|| drop(records));
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let indexes: contract::Result<Vec<Index>> =
            py.detach(|| self.paths.iter().map(|path| Index::open(path)).collect());
        let records: u64 = indexes.map_err(raise)?.iter().map(Index::records).sum();
        let wanted = self.count.unwrap_or(u64::MAX);
        Ok(records.saturating_sub(self.start).min(wanted) as usize)
    }

    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        self.read(py)
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, pyo3::types::PyTuple>) {
        self.close(py);
    }
}

impl Reader {
    // A panic while the lock was held has been raised already; the reader itself stays whole.
    fn lock(&self, py: Python<'_>) -> MutexGuard<'_, Option<recordio::Reader>> {
        self.records.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner)
    }
}
