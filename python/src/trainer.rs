//! `paddle._native.Trainer` and `paddle._native.Inference`: steps and answers of a network.
#![expect(clippy::needless_pass_by_value, reason = "Python hands over owned values")]

use crate::description::parse;
use crate::error::raise;
use crate::network::{Batch, Network};
use crate::parameters::{Parameters, closed};
use crate::waiting::{interrupt, seconds};
use contract::mode::Mode;
use contract::port::{Ports, parse_endpoints};
use contract::secret::Secret;
use engine::batch::{Output, Rows};
use numpy::{PyArray1, PyArrayMethods};
use pserver::client::tls;
use pyo3::prelude::*;
use serde::Deserialize;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use trainer::{Inference as Answers, Recipe, RemoteConfig, Trainer as Steps, View};

/// Figures of evaluators, by name.
type Metrics = Vec<(String, f64)>;
/// Values or ids of a layer, ids beside its values, and where its sequences begin.
type Seen<'py> = (Bound<'py, PyAny>, Option<Bound<'py, PyAny>>, Option<Vec<usize>>);

/// How to reach the servers, as `paddle.v2` describes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Servers {
    pservers: String,
    rank: u32,
    trainers: u32,
    attempt: u32,
    port: u16,
    ports_num: u16,
    ports_num_for_sparse: u16,
    token: Option<String>,
    tls_ca: Option<String>,
    tls_name: String,
    timeout_seconds: f64,
    connect_seconds: f64,
    lag_ratio_max: Option<f32>,
    wire_values: String,
}

impl Servers {
    fn to_config(&self) -> contract::Result<RemoteConfig> {
        let addresses = parse_endpoints(&self.pservers)?;
        let mut config = RemoteConfig::new(self.rank, self.trainers, addresses);
        let client = &mut config.client;
        client.attempt = Some(self.attempt);
        client.ports =
            Ports { first: self.port, dense: self.ports_num, sparse: self.ports_num_for_sparse };
        client.token = self.token.clone().map(Secret::new);
        if let Some(authorities) = &self.tls_ca {
            let tls = tls::ClientConfig::new(authorities.as_bytes(), &self.tls_name, None)?;
            client.tls = Some(tls);
        }
        client.retry.deadline = seconds("timeout_seconds", self.timeout_seconds)?;
        client.first_contact = Some(seconds("connect_seconds", self.connect_seconds)?);
        client.lag_ratio_max = self.lag_ratio_max;
        client.value_type = self.wire_values.parse()?;
        config.interrupt = Some(interrupt());
        Ok(config)
    }
}

/// Trains a network, in this process or through parameter servers.
#[pyclass(frozen, module = "paddle._native")]
pub(crate) struct Trainer(Mutex<Option<Steps>>);

#[pymethods]
impl Trainer {
    /// `recipe` and `servers` are JSON; without `servers` training stays in this process.
    #[new]
    #[pyo3(signature = (network, parameters, recipe, servers=None))]
    fn new(
        py: Python<'_>,
        network: &Network,
        parameters: &Parameters,
        recipe: &str,
        servers: Option<&str>,
    ) -> PyResult<Self> {
        let recipe: Recipe = parse("a recipe", recipe)?;
        let servers: Option<Servers> =
            servers.map(|servers| parse("parameter servers", servers)).transpose()?;
        let (network, parameters) = (Arc::clone(&network.0), Arc::clone(&parameters.0));
        let steps = py.detach(|| match servers {
            None => Steps::local(network, parameters, recipe),
            Some(servers) => Steps::remote(network, parameters, recipe, servers.to_config()?),
        });
        steps.map(|steps| Trainer(Mutex::new(Some(steps)))).map_err(raise)
    }

    /// Cost, summed, and metrics of a batch; keeps its gradients for `update`.
    fn forward_backward(&self, py: Python<'_>, batch: &Batch) -> PyResult<(f64, Metrics)> {
        let batch = batch.take()?;
        let step = self.with(py, |steps| steps.forward_backward(batch))?;
        Ok((step.cost, step.metrics))
    }

    /// Says which batch comes after those announced before: it is made ready, and its rows come,
    /// beside the others. One that is announced already stays where it is.
    fn announce(&self, py: Python<'_>, batch: &Batch) -> PyResult<()> {
        if batch.is_announced() {
            return Ok(());
        }
        let given = batch.take_given()?;
        batch.put_back(self.with(py, |steps| steps.announce(given))?.into());
        Ok(())
    }

    /// How many batches it pays to announce before they are run.
    fn lookahead(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |steps| Ok(steps.lookahead()))
    }

    /// How many of the last updates nobody has confirmed yet.
    fn under_way(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |steps| Ok(steps.under_way()))
    }

    /// Waits until every update is confirmed.
    fn settle(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, Steps::settle)
    }

    /// Applies the gradients of the last batch.
    fn update(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, Steps::update)
    }

    /// The gradient of a parameter in the last batch: keys, if it is sparse, and values.
    #[expect(clippy::type_complexity, reason = "a pair of arrays, as Python wants it")]
    fn gradient<'py>(
        &self,
        py: Python<'py>,
        name: &str,
    ) -> PyResult<Option<(Option<Bound<'py, PyArray1<u64>>>, Bound<'py, PyArray1<f32>>)>> {
        let gradient = self.with(py, |steps| {
            let gradient = steps.gradient(name);
            Ok(gradient.map(|one| (one.keys().map(<[u64]>::to_vec), one.values().to_vec())))
        })?;
        Ok(gradient.map(|(keys, values)| {
            let keys = keys.map(|keys| PyArray1::from_vec(py, keys));
            (keys, PyArray1::from_vec(py, values))
        }))
    }

    /// What training measures, where other parameters are learnt: names, and the values once the
    /// last batch is applied.
    fn measured<'py>(&self, py: Python<'py>) -> PyResult<Vec<(String, Bound<'py, PyArray1<f32>>)>> {
        let measured = self.with(py, |steps| steps.measured())?;
        let arrays = measured.into_iter();
        Ok(arrays.map(|(name, values)| (name, PyArray1::from_vec(py, values))).collect())
    }

    /// The output of a layer for the last batch.
    fn look<'py>(&self, py: Python<'py>, layer: &str) -> PyResult<Seen<'py>> {
        let output = self.with(py, |steps| steps.look(layer))?;
        show(py, output)
    }

    /// The gradient of the output of a layer that is watched, for the last batch.
    fn look_gradient<'py>(&self, py: Python<'py>, layer: &str) -> PyResult<Seen<'py>> {
        let output = self.with(py, |steps| steps.look_gradient(layer))?;
        show(py, output)
    }

    /// A pass begins.
    fn start_pass(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, Steps::start_pass)
    }

    /// No data for now: other trainers do not wait for this one until its next step.
    fn rest(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, Steps::rest)
    }

    /// The first checkpoint that will have all gradients that are confirmed so far.
    fn next_cut(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        self.with(py, |steps| Ok(steps.next_cut()))
    }

    /// The checkpoint that the servers began with (0 for first values), and the epoch since.
    fn restored(&self, py: Python<'_>) -> PyResult<Option<(u64, u64)>> {
        let restored = self.with(py, |steps| Ok(steps.restored()))?;
        Ok(restored.map(|one| (one.cut, one.epoch.into())))
    }

    /// Where this trainer goes on: whether training had begun before, finished passes, batches of
    /// the next one, whether trainers come and go, and whether an earlier process had finished
    /// everything.
    fn resume(&self, py: Python<'_>) -> PyResult<(bool, u64, u64, bool, bool)> {
        let resume = self.with(py, |steps| Ok(steps.resume()))?;
        Ok((resume.is_resumed, resume.pass, resume.batches, resume.is_elastic, resume.has_left))
    }

    /// A pass is over; with several trainers this waits for all.
    fn finish_pass(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, Steps::finish_pass)
    }

    /// From now on metrics are also counted for a period, until the next call.
    fn start_period(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, Steps::start_period)
    }

    /// The metrics since the period began.
    fn period_metrics(&self, py: Python<'_>) -> PyResult<Metrics> {
        self.with(py, |steps| Ok(steps.period_metrics()))
    }

    /// Saves the model as a directory, with further files, and what is needed to go on with it.
    fn save(
        &self,
        py: Python<'_>,
        directory: PathBuf,
        files: Vec<(String, Vec<u8>)>,
    ) -> PyResult<()> {
        self.with(py, |steps| steps.save(&directory, files))
    }

    /// Goes on where a saved model was; False if the directory has only values.
    fn load_state(&self, py: Python<'_>, directory: PathBuf) -> PyResult<bool> {
        self.with(py, |steps| steps.load_state(&directory))
    }

    /// The metrics since the pass began.
    fn pass_metrics(&self, py: Python<'_>) -> PyResult<Metrics> {
        self.with(py, |steps| Ok(steps.pass_metrics()))
    }

    /// A test begins, with the values of now.
    fn test_begin(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, Steps::test_begin)
    }

    /// Cost, summed, of a batch of the test.
    fn test_batch(&self, py: Python<'_>, batch: &Batch) -> PyResult<f64> {
        let batch = batch.take_given()?;
        self.with(py, |steps| steps.test_batch(batch)).map(|(cost, _)| cost)
    }

    /// The metrics since the test began.
    fn test_metrics(&self, py: Python<'_>) -> PyResult<Metrics> {
        self.with(py, |steps| Ok(steps.test_metrics()))
    }

    /// Leaves the servers for good.
    fn goodbye(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, Steps::goodbye)
    }

    /// Drops connections and memory; the trainer can do nothing thereafter.
    fn close(&self, py: Python<'_>) {
        py.detach(|| drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).take()));
    }
}

impl Trainer {
    /// Waits for other Python threads, and works, without holding the interpreter.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Steps) -> contract::Result<T> + Send,
    ) -> PyResult<T> {
        py.detach(|| {
            let mut guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            guard.as_mut().map(work)
        })
        .ok_or_else(closed)?
        .map_err(raise)
    }
}

/// Answers of a network.
#[pyclass(frozen, module = "paddle._native")]
pub(crate) struct Inference(Answers);

#[pymethods]
impl Inference {
    #[new]
    fn new(network: &Network, parameters: &Parameters) -> PyResult<Self> {
        Answers::new(Arc::clone(&network.0), Arc::clone(&parameters.0), View::Averaged)
            .map(Inference)
            .map_err(raise)
    }

    /// The outputs of the network for a batch.
    fn run<'py>(&self, py: Python<'py>, batch: &Batch) -> PyResult<Vec<Seen<'py>>> {
        let batch = batch.take_given()?;
        let outputs = py.detach(|| self.0.run(batch)).map_err(raise)?;
        outputs.into_iter().map(|output| show(py, output)).collect()
    }
}

fn show(py: Python<'_>, output: Output) -> PyResult<Seen<'_>> {
    let values = match output.rows {
        Rows::Dense(values) => {
            let width = output.width.max(1);
            let dims = [values.len() / width, width];
            PyArray1::from_vec(py, values).reshape(dims)?.into_any()
        }
        Rows::Integer(ids) => PyArray1::from_vec(py, ids).into_any(),
        Rows::Sparse(lists) => {
            let offsets = PyArray1::from_vec(py, lists.offsets);
            let pair = (offsets, PyArray1::from_vec(py, lists.ids));
            pair.into_pyobject(py)?.into_any()
        }
    };
    let ids = output.ids.map(|ids| PyArray1::from_vec(py, ids).into_any());
    Ok((values, ids, output.sequences))
}

/// Whether a word names a mode, and which: `sync`, `async`, `stale:K`, `hybrid`.
#[pyfunction]
pub(crate) fn check_mode(mode: &str) -> PyResult<String> {
    mode.parse::<Mode>().map(|mode| mode.to_string()).map_err(raise)
}
