//! `paddle._native.ParameterClient`: push and pull with numpy arrays, which are used where they
//! are: nothing is copied between Python and the sockets.

use crate::error::raise;
use crate::waiting::{interrupt, seconds};
use contract::port::{Endpoint, Ports, parse_endpoints};
use contract::secret::Secret;
use contract::{Error, Kind};
use numpy::{PyArray1, PyReadonlyArrayDyn, PyReadwriteArrayDyn, PyUntypedArrayMethods};
use pserver::client::{Blocking, ClientConfig, Gradient, Pull, PullStyle, fresh_incarnation, tls};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use table::model::Model;

/// `(parameter, values)` or `(parameter, keys, values)`.
type Dense<'py> = (usize, PyReadonlyArrayDyn<'py, f32>);
type Rows<'py> = (usize, PyReadonlyArrayDyn<'py, u64>, PyReadonlyArrayDyn<'py, f32>);
type DenseOut<'py> = (usize, PyReadwriteArrayDyn<'py, f32>);
type RowsOut<'py> = (usize, PyReadonlyArrayDyn<'py, u64>, PyReadwriteArrayDyn<'py, f32>);

/// A trainer's connection to the parameter servers. Calls block without holding the interpreter.
#[pyclass(frozen, module = "paddle._native")]
pub(crate) struct ParameterClient(Blocking);

#[pymethods]
impl ParameterClient {
    /// `model` is JSON as `docs/wire.md` describes it; `pservers` a comma list of `host[:port]`.
    /// With `tls_ca`, certificates in PEM, the servers must prove to be `tls_name` by one of them.
    #[new]
    #[pyo3(signature = (model, pservers, *, rank=0, trainers=1, port=7164, ports_num=1,
                        ports_num_for_sparse=1, token=None, tls_ca=None, tls_name="pserver",
                        timeout_seconds=60.0, heartbeat_seconds=5.0, lag_ratio_max=None))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of a Python class")]
    fn new(
        py: Python<'_>,
        model: &str,
        pservers: &str,
        rank: u32,
        trainers: u32,
        port: u16,
        ports_num: u16,
        ports_num_for_sparse: u16,
        token: Option<String>,
        tls_ca: Option<&[u8]>,
        tls_name: &str,
        timeout_seconds: f64,
        heartbeat_seconds: f64,
        lag_ratio_max: Option<f32>,
    ) -> PyResult<Self> {
        let model: Model = serde_json::from_str(model)
            .map_err(|source| raise(Error::invalid("not a model").because(source)))?;
        let addresses: Vec<Endpoint> = parse_endpoints(pservers).map_err(raise)?;
        let mut config = ClientConfig::new(rank, trainers, fresh_incarnation(), model);
        config.ports = Ports { first: port, dense: ports_num, sparse: ports_num_for_sparse };
        config.token = token.map(Secret::new);
        if let Some(authorities) = tls_ca {
            let tls = tls::ClientConfig::new(authorities, tls_name, None).map_err(raise)?;
            config.tls = Some(tls);
        }
        config.retry.deadline = seconds("timeout_seconds", timeout_seconds).map_err(raise)?;
        config.heartbeat_interval =
            seconds("heartbeat_seconds", heartbeat_seconds).map_err(raise)?;
        config.lag_ratio_max = lag_ratio_max;
        py.detach(|| Blocking::connect(config, addresses, Some(interrupt())))
            .map(ParameterClient)
            .map_err(raise)
    }

    /// The place of a parameter in the model.
    fn parameter(&self, name: &str) -> PyResult<usize> {
        self.0.parameter(name).map_err(raise)
    }

    /// What the servers said at first: needs_values, version, pass, restored_cut.
    fn start<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let start = self.0.start();
        let facts = PyDict::new(py);
        facts.set_item("needs_values", start.needs_values)?;
        facts.set_item("version", start.version)?;
        facts.set_item("pass", start.pass)?;
        facts.set_item("restored_cut", start.restored_cut)?;
        Ok(facts)
    }

    /// Where training is: version, pass, cut, server_restarts, lost_steps.
    fn position<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let position = self.0.position();
        let facts = PyDict::new(py);
        facts.set_item("version", position.version)?;
        facts.set_item("pass", position.pass)?;
        facts.set_item("cut", position.cut)?;
        facts.set_item("server_restarts", position.server_restarts)?;
        facts.set_item("lost_steps", position.lost_steps)?;
        Ok(facts)
    }

    /// Trainer 0: the values that were not set are made by the servers; training may begin.
    fn begin(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.begin()).map_err(raise)
    }

    /// Sets values: `dense` [(parameter, values)], `rows` [(parameter, keys, values)].
    #[pyo3(signature = (dense=Vec::new(), rows=Vec::new()))]
    #[expect(clippy::needless_pass_by_value, reason = "Python hands over owned lists")]
    fn set(&self, py: Python<'_>, dense: Vec<Dense<'_>>, rows: Vec<Rows<'_>>) -> PyResult<()> {
        let values = gradients(&dense, &rows)?;
        py.detach(|| self.0.set(&values)).map_err(raise)
    }

    /// One step: gradients of this trainer, sums over its samples. Returns frames that were
    /// duplicates, and frames that were dropped for being too old.
    #[pyo3(signature = (dense=Vec::new(), rows=Vec::new(), samples=0))]
    #[expect(clippy::needless_pass_by_value, reason = "Python hands over owned lists")]
    fn push(
        &self,
        py: Python<'_>,
        dense: Vec<Dense<'_>>,
        rows: Vec<Rows<'_>>,
        samples: u64,
    ) -> PyResult<(u64, u64)> {
        let gradients = gradients(&dense, &rows)?;
        let report = py.detach(|| self.0.push(&gradients, samples)).map_err(raise)?;
        Ok((report.duplicates, report.dropped))
    }

    /// Fills arrays with values: `dense` [(parameter, out)], `rows` [(parameter, keys, out)].
    #[pyo3(signature = (dense=Vec::new(), rows=Vec::new(), read_only=false, averaged=false))]
    #[expect(clippy::too_many_arguments, reason = "arguments of a Python method")]
    fn pull(
        &self,
        py: Python<'_>,
        mut dense: Vec<DenseOut<'_>>,
        mut rows: Vec<RowsOut<'_>>,
        read_only: bool,
        averaged: bool,
    ) -> PyResult<()> {
        let mut pulls = pulls(&mut dense, &mut rows)?;
        let style = PullStyle { is_read_only: read_only, is_averaged: averaged };
        py.detach(|| self.0.pull_with(&mut pulls, style)).map_err(raise)
    }

    /// A push and the pull of what comes out of it, overlapped.
    #[pyo3(signature = (dense, rows, samples, dense_out, rows_out))]
    #[expect(clippy::needless_pass_by_value, reason = "Python hands over owned lists")]
    #[expect(clippy::too_many_arguments, reason = "arguments of a Python method")]
    fn push_pull(
        &self,
        py: Python<'_>,
        dense: Vec<Dense<'_>>,
        rows: Vec<Rows<'_>>,
        samples: u64,
        mut dense_out: Vec<DenseOut<'_>>,
        mut rows_out: Vec<RowsOut<'_>>,
    ) -> PyResult<(u64, u64)> {
        let gradients = gradients(&dense, &rows)?;
        let mut pulls = pulls(&mut dense_out, &mut rows_out)?;
        let report =
            py.detach(|| self.0.push_pull(&gradients, samples, &mut pulls)).map_err(raise)?;
        Ok((report.duplicates, report.dropped))
    }

    /// This trainer has no more data in this pass; returns when none has.
    fn finish_pass(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.finish_pass()).map_err(raise)
    }

    /// Returns when all trainers have called it as often.
    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.synchronize()).map_err(raise)
    }

    /// Orders a checkpoint; returns its number. It is written while training goes on.
    fn checkpoint(&self, py: Python<'_>) -> PyResult<u64> {
        py.detach(|| self.0.checkpoint()).map_err(raise)
    }

    /// Calls `page(keys, values)` with all rows of a sparse parameter that exist, bit by bit.
    #[pyo3(signature = (parameter, page, averaged=false))]
    #[expect(clippy::needless_pass_by_value, reason = "Python hands over an owned callable")]
    fn scan(
        &self,
        py: Python<'_>,
        parameter: usize,
        page: Py<PyAny>,
        averaged: bool,
    ) -> PyResult<()> {
        let mut failure = None;
        let mut show = |keys: &[u64], values: &[f32]| {
            Python::attach(|py| {
                let arrays = (PyArray1::from_slice(py, keys), PyArray1::from_slice(py, values));
                page.call1(py, arrays)
            })
            .map(|_| ())
            .map_err(|raised| {
                failure = Some(raised);
                Error::new(Kind::Interrupted, "the page function raised an exception")
            })
        };
        let outcome = py.detach(|| self.0.scan(parameter, averaged, &mut show));
        match failure {
            Some(raised) => Err(raised),
            None => outcome.map_err(raise),
        }
    }

    /// What every shard knows of itself, as JSON.
    fn statistics(&self, py: Python<'_>) -> PyResult<String> {
        let statistics = py.detach(|| self.0.statistics()).map_err(raise)?;
        serde_json::to_string(&statistics)
            .map_err(|source| raise(Error::new(Kind::Io, "cannot render JSON").because(source)))
    }

    /// This trainer leaves the job for good; the servers end when all have left.
    fn goodbye(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.goodbye()).map_err(raise)
    }
}

fn gradients<'a>(dense: &'a [Dense<'_>], rows: &'a [Rows<'_>]) -> PyResult<Vec<Gradient<'a>>> {
    let mut gradients = Vec::with_capacity(dense.len() + rows.len());
    for (parameter, values) in dense {
        let values = values.as_slice().map_err(|_| not_contiguous(values.shape()))?;
        gradients.push(Gradient::Dense { parameter: *parameter, values });
    }
    for (parameter, keys, values) in rows {
        let keys = keys.as_slice().map_err(|_| not_contiguous(keys.shape()))?;
        let values = values.as_slice().map_err(|_| not_contiguous(values.shape()))?;
        gradients.push(Gradient::Sparse { parameter: *parameter, keys, values });
    }
    Ok(gradients)
}

fn pulls<'a>(
    dense: &'a mut [DenseOut<'_>],
    rows: &'a mut [RowsOut<'_>],
) -> PyResult<Vec<Pull<'a>>> {
    let mut pulls = Vec::with_capacity(dense.len() + rows.len());
    for (parameter, out) in dense {
        let refusal = not_contiguous(out.shape());
        let out = out.as_slice_mut().map_err(|_| refusal)?;
        pulls.push(Pull::Dense { parameter: *parameter, out });
    }
    for (parameter, keys, out) in rows {
        let refusal = not_contiguous(out.shape());
        let keys = keys.as_slice().map_err(|_| not_contiguous(keys.shape()))?;
        let out = out.as_slice_mut().map_err(|_| refusal)?;
        pulls.push(Pull::Sparse { parameter: *parameter, keys, out });
    }
    Ok(pulls)
}

fn not_contiguous(shape: &[usize]) -> PyErr {
    raise(
        Error::invalid("an array must lie in one piece, in C order; use numpy.ascontiguousarray")
            .with("shape", format_args!("{shape:?}")),
    )
}
