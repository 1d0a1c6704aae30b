//! What the environment tells a trainer, for `paddle.init` and `paddle.job`: read by the contract,
//! which knows all names of a fact.

use crate::error::raise;
use contract::env::Environment;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::HashMap;

/// The fields of `paddle.v2.config.Settings` that the environment gives; what it does not say is
/// absent.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "Python hands over an owned dict")]
pub(crate) fn read_environment(
    py: Python<'_>,
    variables: HashMap<String, String>,
) -> PyResult<Bound<'_, PyDict>> {
    let told = Environment::parse(|name| variables.get(name).cloned()).map_err(raise)?;
    let silent = Environment::default();
    let arguments = PyDict::new(py);
    arguments.set_item("use_gpu", told.use_gpu)?;
    arguments.set_item("trainer_count", told.threads)?;
    arguments.set_item("trainer_id", told.rank.unwrap_or(0))?;
    arguments.set_item("num_gradient_servers", told.trainers)?;
    arguments.set_item("attempt", told.attempt)?;
    arguments.set_item("is_local", told.is_local)?;
    arguments.set_item("port", told.ports.first)?;
    arguments.set_item("ports_num", told.ports.dense)?;
    arguments.set_item("ports_num_for_sparse", told.ports.sparse)?;
    if !told.pserver_endpoints.is_empty() {
        let servers: Vec<String> = told.pserver_endpoints.iter().map(ToString::to_string).collect();
        arguments.set_item("pservers", servers.join(","))?;
    }
    if let Some(passes) = told.passes {
        arguments.set_item("num_passes", passes)?;
    }
    if let Some(master) = &told.master {
        arguments.set_item("master_endpoint", master.to_string())?;
    }
    if told.mode != silent.mode {
        arguments.set_item("mode", told.mode.to_string())?;
    }
    if let Some(milliseconds) = told.rpc_deadline_ms {
        arguments.set_item("timeout_seconds", milliseconds as f64 / 1000.0)?;
    }
    if let Some(token) = &told.token {
        arguments.set_item("job_token", token.expose())?;
    }
    for (name, text) in [
        ("checkpoint_dir", told.checkpoint_dir),
        ("log_dir", told.log_dir),
        ("output_dir", told.output_dir),
        ("job_name", told.job),
        ("username", told.user),
        ("datacenter", told.datacenter),
    ] {
        if !text.is_empty() {
            arguments.set_item(name, text)?;
        }
    }
    Ok(arguments)
}
