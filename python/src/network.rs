//! `paddle._native.Network`: a topology that was checked, and the batches that are fed to it.

use crate::description::parse;
use crate::error::raise;
use crate::feed::{Column, feed as convert};
use contract::Error;
use engine::batch;
use engine::topology::Topology;
use engine::{Network as Engine, NetworkConfig};
use feed::parcel;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use trainer::Fed;

/// A network that can be run, by a trainer or for inference.
#[pyclass(frozen, module = "paddle._native")]
pub(crate) struct Network(pub(crate) Arc<Engine>);

/// A batch that was converted and checked. It can be run once.
#[pyclass(frozen, module = "paddle._native")]
pub(crate) struct Batch {
    #[pyo3(get)]
    samples: usize,
    fed: Mutex<Option<Fed>>,
}

#[pymethods]
impl Network {
    /// `topology` is JSON; `threads` compute, from the first run on.
    #[new]
    #[pyo3(signature = (topology, *, threads=1, use_gpu=false, seed=1))]
    fn new(topology: &str, threads: usize, use_gpu: bool, seed: u64) -> PyResult<Self> {
        let topology: Topology = parse("a topology", topology)?;
        let config = NetworkConfig { threads, use_gpu, seed };
        Engine::new(topology, config).map(|engine| Network(Arc::new(engine))).map_err(raise)
    }

    /// The names of the data layers, in the order in which `feed` wants their places.
    fn inputs(&self) -> Vec<String> {
        self.0.inputs().map(|(name, _)| name.to_owned()).collect()
    }

    /// Whether one of the outputs is a cost.
    fn has_cost(&self) -> bool {
        self.0.has_cost()
    }

    /// Converts samples; `places` says where in a sample each data layer's value is.
    fn feed(&self, samples: &Bound<'_, PyAny>, places: Vec<usize>) -> PyResult<Batch> {
        let columns: Vec<Column> = self
            .0
            .inputs()
            .zip(places)
            .map(|((name, shape), place)| Column { name: name.to_owned(), shape: *shape, place })
            .collect();
        let batch = convert(samples, &columns)?;
        Ok(Batch::new(batch))
    }
}

#[pymethods]
impl Batch {
    /// A number by which the same batch is known again; none of one that was announced or run.
    fn fingerprint(&self) -> Option<u32> {
        match &*self.fed() {
            Some(Fed::Given(batch)) => Some(trainer::fingerprint(batch)),
            _ => None,
        }
    }

    /// The batch as bytes, for another process; `names` are those of the data layers, for an error
    /// about a number that is NaN or infinite. It cannot be run any more.
    #[expect(clippy::needless_pass_by_value, reason = "Python hands over an owned list")]
    fn pack<'py>(&self, py: Python<'py>, names: Vec<String>) -> PyResult<Bound<'py, PyBytes>> {
        let batch = self.take_given()?;
        if let Some(place) = parcel::not_finite(&batch) {
            let name = names.get(place).map_or("?", String::as_str);
            let message = format!("a number of '{name}' is NaN or infinite");
            return Err(raise(Error::invalid(message)));
        }
        Ok(PyBytes::new(py, &parcel::pack(&batch)))
    }

    /// A batch that another process has packed.
    #[staticmethod]
    fn unpack(py: Python<'_>, packed: &Bound<'_, PyBytes>) -> PyResult<Batch> {
        let bytes = packed.as_bytes();
        py.detach(|| parcel::unpack(bytes)).map(Batch::new).map_err(raise)
    }
}

impl Batch {
    pub(crate) fn new(batch: batch::Batch) -> Batch {
        Batch { samples: batch.samples, fed: Mutex::new(Some(Fed::Given(batch))) }
    }

    /// What was fed, for the one run of training.
    pub(crate) fn take(&self) -> PyResult<Fed> {
        self.fed().take().ok_or_else(has_run)
    }

    /// What was fed, if it was not announced to a trainer.
    pub(crate) fn take_given(&self) -> PyResult<batch::Batch> {
        match self.fed().take_if(|fed| matches!(fed, Fed::Given(_))) {
            Some(Fed::Given(batch)) => Ok(batch),
            _ => Err(has_run()),
        }
    }

    pub(crate) fn is_announced(&self) -> bool {
        matches!(&*self.fed(), Some(Fed::Announced(_)))
    }

    /// Keeps what became of the batch for its run.
    pub(crate) fn put_back(&self, fed: Fed) {
        *self.fed() = Some(fed);
    }

    fn fed(&self) -> MutexGuard<'_, Option<Fed>> {
        self.fed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn has_run() -> PyErr {
    raise(Error::invalid("this batch has been run already, or is announced to a trainer"))
}
