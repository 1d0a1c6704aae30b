//! `recordio.Index`: where the chunks of a file are.

use crate::error::raise;
use pyo3::prelude::*;
use std::path::PathBuf;

/// The chunks of one file, from its headers alone.
#[pyclass(frozen, module = "paddle._native")]
pub(crate) struct Index(recordio::Index);

#[pymethods]
impl Index {
    #[new]
    #[expect(clippy::needless_pass_by_value, reason = "Python hands over an owned path")]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        py.detach(|| recordio::Index::open(&path)).map(Index).map_err(raise)
    }

    fn num_records(&self) -> u64 {
        self.0.records()
    }

    fn num_chunks(&self) -> usize {
        self.0.chunks().len()
    }

    #[getter]
    fn layout(&self) -> Option<String> {
        self.0.layout().map(|layout| layout.to_string())
    }

    /// `(offset, bytes, records, compressor)` of every chunk.
    #[getter]
    fn chunks(&self) -> Vec<(u64, u64, u32, String)> {
        let chunks = self.0.chunks().iter();
        chunks
            .map(|chunk| (chunk.offset, chunk.bytes, chunk.records, chunk.compressor.to_string()))
            .collect()
    }

    fn locate(&self, record: u64) -> Option<(usize, u32)> {
        self.0.locate(record)
    }

    fn __len__(&self) -> usize {
        self.0.records() as usize
    }
}
