//! `paddle._native.CloudFiles`: the files of a user of the cloud. Values go in and out as JSON, which
//! `paddle/cloud` turns into classes; contents are bytes.

use crate::cloud::{Own, ask, json};
use client::{Client, Item, Options, Outcome, Plan, Watcher};
use contract::api::file::{Relocate, RemoveQuery};
use contract::{Error, Kind, Result};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde::Serialize;
use std::sync::{Arc, Mutex, PoisonError};

/// The files of one user.
#[pyclass(frozen, module = "paddle._native")]
pub(crate) struct CloudFiles(pub(crate) Arc<Own>);

#[pymethods]
impl CloudFiles {
    /// The user's home: `/pfs/<datacenter>/home/<user>`.
    #[getter]
    fn home(&self, py: Python<'_>) -> PyResult<String> {
        ask(&self.0, py, |client| client.home().map(|home| home.to_string()))
    }

    /// What is in a directory, or matches a pattern.
    fn list(&self, py: Python<'_>, path: String, recursive: bool) -> PyResult<String> {
        json(&self.0, py, move |client| client.list_path(&path, recursive))
    }

    /// What a pattern leads to.
    fn expand(&self, py: Python<'_>, path: String) -> PyResult<String> {
        json(&self.0, py, move |client| client.expand(&path))
    }

    /// What is at a path.
    fn stat(&self, py: Python<'_>, path: String) -> PyResult<String> {
        json(&self.0, py, move |client| client.stat(&client.pfs_path(&path)?))
    }

    /// How much is below a path.
    fn usage(&self, py: Python<'_>, path: String) -> PyResult<String> {
        json(&self.0, py, move |client| client.disk_usage(&client.pfs_path(&path)?))
    }

    /// Makes a directory and those above it.
    fn make_directory(&self, py: Python<'_>, path: String) -> PyResult<String> {
        json(&self.0, py, move |client| client.make_directory(&client.pfs_path(&path)?))
    }

    /// Removes a file or directory.
    fn remove(&self, py: Python<'_>, path: String, recursive: bool) -> PyResult<()> {
        ask(&self.0, py, move |client| {
            let path = client.pfs_path(&path)?.to_string();
            client.remove(&RemoveQuery { path, is_recursive: recursive })
        })
    }

    /// Gives a file or directory another name.
    fn rename(&self, py: Python<'_>, old: String, new: String, replace: bool) -> PyResult<String> {
        json(&self.0, py, move |client| {
            let (from, to) = (client.pfs_path(&old)?, client.pfs_path(&new)?);
            let asked =
                Relocate { from: from.to_string(), to: to.to_string(), if_absent: !replace };
            client.rename(&asked)
        })
    }

    /// Copies to the cloud, from it, or inside it, as the command `cp` does.
    #[expect(clippy::too_many_arguments, reason = "arguments of a Python method")]
    fn copy(
        &self,
        py: Python<'_>,
        sources: Vec<String>,
        to: String,
        recursive: bool,
        replace: bool,
    ) -> PyResult<String> {
        json(&self.0, py, move |client| {
            let plan = client.plan_copy(&sources, &to, recursive)?;
            carry_out(client, plan, &Options { if_absent: !replace, ..Options::default() })
        })
    }

    /// A part of a file of this etag, checked.
    #[expect(clippy::too_many_arguments, reason = "arguments of a Python method")]
    fn read<'py>(
        &self,
        py: Python<'py>,
        path: String,
        etag: String,
        offset: u64,
        length: u64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = ask(&self.0, py, move |client| {
            let path = client.pfs_path(&path)?;
            client.patiently(|| client.read_range(&path, &etag, offset, length))
        })?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Makes a link by which everybody may download a file.
    fn publish(&self, py: Python<'_>, path: String) -> PyResult<String> {
        json(&self.0, py, move |client| client.publish(&client.pfs_path(&path)?))
    }

    /// The user's links.
    fn links(&self, py: Python<'_>) -> PyResult<String> {
        json(&self.0, py, |client| client.links())
    }

    /// Ends a link.
    fn revoke(&self, py: Python<'_>, id: String) -> PyResult<()> {
        ask(&self.0, py, move |client| client.revoke_link(&id))
    }
}

/// What was copied.
#[derive(Debug, Default, Serialize)]
struct Copied {
    files: usize,
    /// Bytes of these files.
    bytes: u64,
    /// Bytes that went over the network.
    moved_bytes: u64,
}

fn carry_out(client: &Client, plan: Plan, options: &Options) -> Result<Copied> {
    let told = Told::default();
    client.carry_out(plan, options, &told)?;
    let (copied, mut failures) = told.0.into_inner().unwrap_or_else(PoisonError::into_inner);
    let all = copied.files + failures.len();
    let Some((kind, first)) = failures.pop() else { return Ok(copied) };
    let message = match failures.len() {
        0 if all == 1 => first,
        others => format!("{} of {all} files could not be copied: {first}", others + 1),
    };
    Err(Error::new(kind, message))
}

#[derive(Default)]
struct Told(Mutex<(Copied, Vec<(Kind, String)>)>);

impl Watcher for Told {
    fn moved(&self, _: u64) {}

    fn left_out(&self, name: &str, error: Error) {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.1.push((error.kind(), format!("{name}: {}", error.chain())));
    }

    fn ended(&self, item: &Item, outcome: &Outcome) {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &outcome.error {
            None => {
                told.0.files += 1;
                told.0.bytes += item.bytes;
                told.0.moved_bytes += outcome.moved_bytes;
            }
            Some(error) => {
                let text = format!("{}: {}", item.path, error.chain());
                told.1.push((error.kind(), text));
            }
        }
    }
}
