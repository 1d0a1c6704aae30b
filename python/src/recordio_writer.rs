//! `recordio.writer`: bytes objects → a file that appears when it is closed.

use crate::error::raise;
use contract::{Error, Kind};
use disk::PendingFile;
use pyo3::exceptions::{PyResourceWarning, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyBytes, PyString, PyTuple};
use recordio::WriteOptions;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Writes records; the file appears under its name, complete, at `close`.
#[pyclass(frozen, module = "paddle._native")]
pub(crate) struct Writer {
    path: PathBuf,
    // None once closed.
    records: Mutex<Option<recordio::Writer<PendingFile>>>,
}

#[pymethods]
impl Writer {
    #[new]
    #[pyo3(signature = (path, compressor, layout, chunk_bytes, threads))]
    fn new(
        path: PathBuf,
        compressor: &str,
        layout: &str,
        chunk_bytes: Option<u64>,
        threads: usize,
    ) -> PyResult<Self> {
        let defaults = WriteOptions::new(layout.parse().map_err(raise)?);
        let options = WriteOptions {
            compressor: compressor.parse().map_err(raise)?,
            chunk_bytes: chunk_bytes.unwrap_or(defaults.chunk_bytes),
            threads,
            ..defaults
        };
        let records = recordio::Writer::create(&path, options).map_err(raise)?;
        Ok(Writer { path, records: Mutex::new(Some(records)) })
    }

    fn write(&self, py: Python<'_>, record: &Bound<'_, PyAny>) -> PyResult<()> {
        if let Ok(bytes) = record.cast::<PyBytes>() {
            self.add(py, bytes.as_bytes())
        } else if let Ok(text) = record.cast::<PyString>() {
            self.add(py, text.to_cow()?.as_bytes())
        } else if let Ok(bytes) = record.extract::<Vec<u8>>() {
            self.add(py, &bytes)
        } else {
            let found = record.get_type().name()?;
            Err(PyTypeError::new_err(format!("a record is bytes or str, not {found}")))
        }
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let Some(records) = self.lock(py).take() else { return Ok(()) };
        py.detach(|| records.close()).map_err(raise)?;
        Ok(())
    }

    /// Gives up: nothing appears under the name.
    fn discard(&self, py: Python<'_>) {
        let records = self.lock(py).take();
        py.detach(|| drop(records));
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    #[pyo3(signature = (*exception))]
    fn __exit__(&self, py: Python<'_>, exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        if exception.get_item(0).is_ok_and(|class| !class.is_none()) {
            self.discard(py);
            return Ok(());
        }
        self.close(py)
    }
}

impl Writer {
    fn add(&self, py: Python<'_>, record: &[u8]) -> PyResult<()> {
        let mut guard = self.lock(py);
        let records = guard.as_mut().ok_or_else(|| {
            raise(
                Error::new(Kind::Conflict, "this RecordIO writer is closed")
                    .with("file", self.path.display()),
            )
        })?;
        // Only closing a chunk takes long enough to let other threads run meanwhile.
        if records.closes_chunk(record.len()) {
            py.detach(|| records.write(record)).map_err(raise)
        } else {
            records.write(record).map_err(raise)
        }
    }

    // A panic while the lock was held has been raised already; see `recordio_reader`.
    fn lock(&self, py: Python<'_>) -> MutexGuard<'_, Option<recordio::Writer<PendingFile>>> {
        self.records.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let records = self.records.get_mut().unwrap_or_else(PoisonError::into_inner);
        if records.take().is_none() {
            return;
        }
        let message = format!(
            "the RecordIO writer of {} was never closed, so nothing was written; call close()",
            self.path.display()
        );
        Python::attach(|py| {
            // The last reference may go while an exception is on its way: leave that one alone.
            let pending = PyErr::take(py);
            let warned = std::ffi::CString::new(message).map_err(PyErr::from).and_then(|message| {
                PyErr::warn(py, &py.get_type::<PyResourceWarning>(), &message, 1)
            });
            if let Err(failure) = warned {
                failure.write_unraisable(py, None);
            }
            if let Some(pending) = pending {
                pending.restore(py);
            }
        });
    }
}
