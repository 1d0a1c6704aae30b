//! `paddle._native.Parameters`: the values of a model as numpy arrays and as files.
#![expect(clippy::needless_pass_by_value, reason = "Python hands over owned values")]

use crate::description::parse;
use crate::error::raise;
use contract::{Error, Kind};
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use trainer::model_file::{self, Missing};
use trainer::{Description, Parameters as Values, View};

/// The values of a model, in this process or on the servers that train it.
#[pyclass(frozen, module = "paddle._native")]
pub(crate) struct Parameters(pub(crate) Arc<Values>);

#[pymethods]
impl Parameters {
    /// `descriptions` is a JSON list; first values follow from it and `seed`.
    #[new]
    fn new(descriptions: &str, seed: u64) -> PyResult<Self> {
        let descriptions: Vec<Description> = parse("parameters", descriptions)?;
        Values::new(descriptions, seed).map(|values| Parameters(Arc::new(values))).map_err(raise)
    }

    /// The same parameters with more behind them, as a JSON list; the values are shared.
    fn extended(&self, descriptions: &str) -> PyResult<Self> {
        let more: Vec<Description> = parse("parameters", descriptions)?;
        self.0.extended(more).map(|values| Parameters(Arc::new(values))).map_err(raise)
    }

    /// The names, in order.
    fn names(&self) -> Vec<String> {
        self.0.descriptions().iter().map(|one| one.name.clone()).collect()
    }

    /// Rows and columns; 0 rows for keys without a bound.
    fn dims(&self, name: &str) -> PyResult<[usize; 2]> {
        let index = self.0.index(name).map_err(raise)?;
        Ok(self.0.description(index).dims)
    }

    /// Whether it is looked up by key.
    fn is_sparse(&self, name: &str) -> PyResult<bool> {
        let index = self.0.index(name).map_err(raise)?;
        Ok(self.0.description(index).is_sparse)
    }

    /// A whole parameter.
    fn get<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let dims = self.dims(name)?;
        let values = py.detach(|| self.0.fetch(name, View::Present)).map_err(raise)?;
        PyArray1::from_vec(py, values).reshape(dims)
    }

    /// Sets a whole parameter; any shape with as many elements.
    fn set(&self, py: Python<'_>, name: &str, values: PyReadonlyArrayDyn<'_, f32>) -> PyResult<()> {
        let dims = self.dims(name)?;
        let shape = values.shape();
        let fits = values.len() == dims[0] * dims[1] && (shape.len() < 2 || shape.ends_with(&dims));
        if !fits {
            return Err(raise(
                Error::invalid(format!(
                    "the array has shape {shape:?} but the parameter is {} x {}",
                    dims[0], dims[1]
                ))
                .with("parameter", name),
            ));
        }
        let values = values.as_slice().map_err(|_| not_contiguous())?;
        py.detach(|| self.0.store(name, values)).map_err(raise)
    }

    /// The rows of some keys, without creating them.
    fn get_rows<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        keys: PyReadonlyArrayDyn<'_, u64>,
    ) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let width = self.dims(name)?[1];
        let keys = keys.as_slice().map_err(|_| not_contiguous())?;
        let mut rows = vec![0.0; keys.len() * width];
        py.detach(|| self.0.fetch_rows(name, keys, &mut rows, View::Present)).map_err(raise)?;
        PyArray1::from_vec(py, rows).reshape([keys.len(), width])
    }

    /// Sets the rows of some keys.
    fn set_rows(
        &self,
        py: Python<'_>,
        name: &str,
        keys: PyReadonlyArrayDyn<'_, u64>,
        rows: PyReadonlyArrayDyn<'_, f32>,
    ) -> PyResult<()> {
        let keys = keys.as_slice().map_err(|_| not_contiguous())?;
        let rows = rows.as_slice().map_err(|_| not_contiguous())?;
        py.detach(|| self.0.store_rows(name, keys, rows)).map_err(raise)
    }

    /// Writes the model to a file object, parameter by parameter.
    #[pyo3(signature = (file, averaged=false))]
    fn to_tar(&self, py: Python<'_>, file: Py<PyAny>, averaged: bool) -> PyResult<()> {
        let mut stream = PythonFile::new(file);
        let outcome = py.detach(|| model_file::to_tar(&self.0, &mut stream, view(averaged)));
        stream.finish(outcome)
    }

    /// Takes the values of the parameters that are in both.
    fn init_from_tar(&self, py: Python<'_>, file: Py<PyAny>) -> PyResult<()> {
        let mut stream = PythonFile::new(file);
        let outcome = py.detach(|| model_file::init_from_tar(&self.0, &mut stream));
        stream.finish(outcome)
    }

    /// A model made of a file alone.
    #[staticmethod]
    fn from_tar(py: Python<'_>, file: Py<PyAny>, seed: u64) -> PyResult<Self> {
        let mut stream = PythonFile::new(file);
        let outcome = py.detach(|| model_file::from_tar(&mut stream, seed));
        stream.finish(outcome).map(|values| Parameters(Arc::new(values)))
    }

    /// Writes the model as a safetensors file.
    #[pyo3(signature = (path, averaged=false))]
    fn to_safetensors(&self, py: Python<'_>, path: PathBuf, averaged: bool) -> PyResult<()> {
        py.detach(|| model_file::to_safetensors(&self.0, &path, view(averaged))).map_err(raise)
    }

    /// Takes the values of the parameters that are in both.
    fn init_from_safetensors(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| model_file::init_from_safetensors(&self.0, &path)).map_err(raise)
    }

    /// Writes `pass-%05d` with a file for each parameter; returns its path.
    #[pyo3(signature = (save_dir, pass_id, averaged=false))]
    fn save_pass(
        &self,
        py: Python<'_>,
        save_dir: PathBuf,
        pass_id: u64,
        averaged: bool,
    ) -> PyResult<PathBuf> {
        py.detach(|| model_file::save_pass(&self.0, &save_dir, pass_id, view(averaged)))
            .map_err(raise)
    }

    /// Reads such a directory; a parameter without a file is `"fail"`, `"rand"` or `"zero"`.
    fn load_pass(&self, py: Python<'_>, path: PathBuf, missing: &str) -> PyResult<Vec<String>> {
        let missing: Missing = missing.parse().map_err(raise)?;
        py.detach(|| model_file::load_pass(&self.0, &path, missing)).map_err(raise)
    }
}

fn view(averaged: bool) -> View {
    if averaged { View::Averaged } else { View::Present }
}

fn not_contiguous() -> PyErr {
    raise(Error::invalid("an array must lie in one piece; use numpy.ascontiguousarray"))
}

/// A Python file object as a stream. An exception that it raises is kept and raised again.
struct PythonFile {
    file: Py<PyAny>,
    raised: Option<PyErr>,
}

impl PythonFile {
    fn new(file: Py<PyAny>) -> Self {
        PythonFile { file, raised: None }
    }

    fn finish<T>(self, outcome: contract::Result<T>) -> PyResult<T> {
        match self.raised {
            Some(raised) => Err(raised),
            None => outcome.map_err(raise),
        }
    }

    fn keep<T>(&mut self, outcome: PyResult<T>) -> std::io::Result<T> {
        outcome.map_err(|raised| {
            self.raised = Some(raised);
            std::io::Error::other("the file object raised an exception")
        })
    }
}

impl Write for PythonFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let outcome = Python::attach(|py| {
            self.file.call_method1(py, "write", (PyBytes::new(py, bytes),)).map(|_| bytes.len())
        });
        self.keep(outcome)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Read for PythonFile {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let outcome = Python::attach(|py| {
            let read = self.file.call_method1(py, "read", (out.len(),))?;
            let bytes = read.bind(py).cast::<PyBytes>().map_err(PyErr::from)?.as_bytes().to_vec();
            Ok(bytes)
        });
        let bytes = self.keep(outcome)?;
        let count = bytes.len().min(out.len());
        out[..count].copy_from_slice(&bytes[..count]);
        Ok(count)
    }
}

/// An error of a kind that Python callers of a closed trainer see.
pub(crate) fn closed() -> PyErr {
    raise(Error::new(Kind::Conflict, "this trainer has been closed"))
}
