//! `paddle._native.MasterClient` and what it leases: tasks, and their records as bytes objects.

use crate::error::raise;
use crate::waiting::{interrupt, seconds};
use contract::port::Endpoint;
use contract::secret::Secret;
use contract::{Error, Kind};
use master::client::{Blocking, ClientConfig, Next, fresh_incarnation, tls};
use master::records::{ReadOptions, Records};
use master::task::Task;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyBytes, PyString};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A trainer's connection to the master of its job. Calls block without holding the interpreter.
#[pyclass(frozen, module = "paddle._native")]
pub(crate) struct MasterClient(Arc<Blocking>);

#[pymethods]
impl MasterClient {
    /// `endpoint` is `host[:port]`; `name` is what the master calls this trainer in its log.
    #[new]
    #[pyo3(signature = (endpoint, *, name="", token=None, tls_ca=None, tls_name="master",
                        timeout_seconds=600.0, connect_seconds=None))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of a Python class")]
    fn new(
        py: Python<'_>,
        endpoint: &str,
        name: &str,
        token: Option<String>,
        tls_ca: Option<&str>,
        tls_name: &str,
        timeout_seconds: f64,
        connect_seconds: Option<f64>,
    ) -> PyResult<Self> {
        let address: Endpoint = endpoint.parse().map_err(raise)?;
        let mut config = ClientConfig::new(fresh_incarnation());
        config.name = name.to_owned();
        config.token = token.map(Secret::new);
        if let Some(authorities) = tls_ca {
            let tls = tls::ClientConfig::new(authorities.as_bytes(), tls_name, None);
            config.tls = Some(tls.map_err(raise)?);
        }
        config.retry.deadline = seconds("timeout_seconds", timeout_seconds).map_err(raise)?;
        let connect = connect_seconds.map(|limit| seconds("connect_seconds", limit)).transpose();
        config.connect_deadline = connect.map_err(raise)?;
        let client = py.detach(|| Blocking::connect(config, &address, Some(interrupt())));
        client.map(|client| MasterClient(Arc::new(client))).map_err(raise)
    }

    /// The next task, or why there is none: `"wait"`, `"pass_over"` or `"all_over"`.
    fn next_task<'py>(&self, py: Python<'py>, timeout_seconds: f64) -> PyResult<Bound<'py, PyAny>> {
        let timeout = seconds("timeout_seconds", timeout_seconds).map_err(raise)?;
        let word = match py.detach(|| self.0.next_task(timeout)).map_err(raise)? {
            Next::Task(task) => {
                let client = Arc::clone(&self.0);
                return Ok(Bound::new(py, MasterTask { client, task })?.into_any());
            }
            Next::Wait => "wait",
            Next::PassOver(_) => "pass_over",
            Next::AllOver => "all_over",
        };
        Ok(PyString::intern(py, word).into_any())
    }

    /// Enters a pass: one that the master has behind it is over at once, and tasks of earlier ones
    /// that were opened again belong to it.
    fn begin_pass(&self, number: u64) {
        self.0.begin_pass(number);
    }

    /// The pass under way; None before the first task.
    #[getter]
    fn current_pass(&self) -> Option<u64> {
        self.0.pass()
    }

    #[expect(clippy::needless_pass_by_value, reason = "Python hands over an owned list")]
    fn set_dataset(&self, py: Python<'_>, patterns: Vec<String>) -> PyResult<()> {
        py.detach(|| self.0.set_dataset(&patterns)).map_err(raise)
    }

    /// Whether this trainer is the one that saves the model, for so long.
    fn request_save_model(
        &self,
        py: Python<'_>,
        trainer: &str,
        duration_seconds: f64,
    ) -> PyResult<bool> {
        let duration = seconds("duration_seconds", duration_seconds).map_err(raise)?;
        py.detach(|| self.0.request_save_model(trainer, duration)).map_err(raise)
    }

    /// Servers went back to a checkpoint: what was finished later is open again.
    fn reopen(&self, py: Python<'_>, cut: u64, restore: u64) -> PyResult<()> {
        py.detach(|| self.0.reopen(cut, restore)).map(|_| ()).map_err(raise)
    }

    /// What the master knows of itself, as JSON.
    fn status(&self, py: Python<'_>) -> PyResult<String> {
        let status = py.detach(|| self.0.status()).map_err(raise)?;
        serde_json::to_string(&status)
            .map_err(|source| raise(Error::new(Kind::Io, "cannot render JSON").because(source)))
    }

    /// Gives all tasks back.
    fn leave(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.leave()).map_err(raise)
    }
}

/// Some of the data, leased to this process while it renews the lease in the background.
#[pyclass(frozen, module = "paddle._native")]
pub(crate) struct MasterTask {
    client: Arc<Blocking>,
    pub(crate) task: Task,
}

#[pymethods]
impl MasterTask {
    /// The pass it belongs to, from 0.
    #[getter]
    fn pass_number(&self) -> u64 {
        self.task.pass
    }

    /// Its records, from the first.
    fn records(&self, py: Python<'_>) -> PyResult<TaskRecords> {
        let pieces = self.task.pieces.clone();
        let records = py.detach(|| Records::open(pieces, ReadOptions::default())).map_err(raise)?;
        Ok(TaskRecords(Mutex::new(records)))
    }

    /// Its records are consumed. False: it was given to another meanwhile.
    fn finish(&self, py: Python<'_>, cut: Option<u64>) -> PyResult<bool> {
        py.detach(|| self.client.finish(self.task.lease(), cut)).map_err(raise)
    }

    /// It cannot be worked on.
    fn fail(&self, py: Python<'_>, reason: &str) -> PyResult<bool> {
        py.detach(|| self.client.fail(self.task.lease(), reason)).map_err(raise)
    }

    /// Another may have it.
    fn give_back(&self, py: Python<'_>) -> PyResult<bool> {
        py.detach(|| self.client.give_back(self.task.lease())).map_err(raise)
    }

    fn __repr__(&self) -> String {
        let Task { id, epoch, pass, .. } = &self.task;
        format!("MasterTask(task={id}, epoch={epoch}, pass={pass})")
    }
}

/// The records of a task.
#[pyclass(frozen, module = "paddle._native")]
pub(crate) struct TaskRecords(Mutex<Records>);

#[pymethods]
impl TaskRecords {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let mut guard = self.lock(py);
        let records = &mut *guard;
        // As in the RecordIO reader: let go of the interpreter only to wait for a block.
        if !records.is_ready() && !py.detach(|| records.fill()).map_err(raise)? {
            return Ok(None);
        }
        let record = records.read().map_err(raise)?;
        Ok(record.map(|record| PyBytes::new(py, record)))
    }
}

impl TaskRecords {
    fn lock(&self, py: Python<'_>) -> MutexGuard<'_, Records> {
        self.0.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner)
    }
}
