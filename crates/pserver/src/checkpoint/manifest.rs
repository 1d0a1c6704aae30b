//! What a shard publishes when its data file is complete. Pure: bytes in, bytes out.
//!
//! A manifest is JSON for people and tools, and its last field is the CRC-32 of all bytes before the
//! comma in front of that field: a digit that has changed on the disk must not pass for a number.

use super::FORMAT;
use super::names::{Layout, Ports, ShardName};
use crate::shard::{CutFacts, TableFacts};
use contract::mode::Mode;
use contract::{Error, Kind, Result};
use serde::{Deserialize, Serialize};
use table::model::Model;
use table::optimizer::Update;
use table::placement::BUCKETS;

/// The largest manifest that is read: the model of the most parameters with the longest names.
pub(super) const MANIFEST_BYTES_MAX: u64 = 512 << 20;

/// One shard's word for its part of a cut.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    pub(super) format: u32,
    pub(super) shard: ShardFacts,
    /// The named columns of every parameter that the shard holds.
    pub(super) tables: Vec<TableFacts>,
    pub(super) model: Model,
}

/// What differs from shard to shard, and is small.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ShardFacts {
    pub(super) name: ShardName,
    pub(super) layout: Layout,
    /// The buckets that the shard holds: the first, and the first behind them.
    pub(super) buckets: (u32, u32),
    pub(super) cut: CutFacts,
    pub(super) data: DataFacts,
}

/// The data file that belongs to a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DataFacts {
    pub(super) file: String,
    pub(super) bytes: u64,
    pub(super) sections: u64,
    /// CRC-32 of the checksums of all sections.
    pub(super) checksum: u32,
}

impl Manifest {
    pub(super) fn encode(&self) -> Result<Vec<u8>> {
        let mut text = serde_json::to_vec_pretty(self).map_err(|source| {
            Error::new(Kind::Invalid, "manifest cannot be written").because(source)
        })?;
        text.truncate(text.len() - CLOSING.len());
        let tail = tail_of(&text);
        text.extend_from_slice(tail.as_bytes());
        Ok(text)
    }

    /// Reads a manifest; whether it makes sense is [`Manifest::check`]'s question.
    pub(super) fn decode(bytes: &[u8]) -> Result<Manifest> {
        /// The one field that every format has.
        #[derive(Deserialize)]
        struct Probe {
            format: u32,
        }
        let unreadable = |source| damaged("manifest cannot be read").because(source);
        let end = bytes.len().checked_sub(TAIL_BYTES);
        let (body, tail) = bytes.split_at(end.ok_or_else(|| damaged("manifest is too short"))?);
        if tail != tail_of(body).as_bytes() {
            return Err(damaged("manifest does not have its checksum"));
        }
        let Probe { format } = serde_json::from_slice(bytes).map_err(unreadable)?;
        if format != FORMAT {
            let message = "manifest is of another format; use the release that wrote it";
            return Err(Error::new(Kind::Unsupported, message)
                .with("format", format)
                .with("supported", FORMAT));
        }
        serde_json::from_slice(&[body, CLOSING].concat()).map_err(unreadable)
    }

    /// Checks that it is what a shard of this name can have written for this cut.
    pub(super) fn check(&self, name: ShardName, cut: u64) -> Result<()> {
        let shard = &self.shard;
        let claims = (shard.name, shard.cut.cut, shard.layout.shards(name.ports));
        if claims != (name, cut, name.shards) {
            return Err(damaged("manifest is of another shard or cut than its name says")
                .with("shard", shard.name)
                .with("cut", shard.cut.cut));
        }
        if shard.layout.dense.max(shard.layout.sparse) > BUCKETS {
            return Err(damaged("manifest claims more shards than there are buckets"));
        }
        if (shard.buckets.0..shard.buckets.1) != name.buckets() || shard.data.file != name.data() {
            return Err(damaged("manifest claims other buckets or another file than its shard's")
                .with("buckets", format!("{}..{}", shard.buckets.0, shard.buckets.1))
                .with("data", &shard.data.file));
        }
        self.model
            .check()
            .map_err(|source| damaged("manifest has no possible model").because(source))?;
        let expected = tables_of(&self.model, shard.layout, name.ports)?;
        if self.tables.len() != expected.len() {
            return Err(damaged("manifest does not have the tables of its model")
                .with("tables", self.tables.len())
                .with("expected", expected.len()));
        }
        match self.tables.iter().zip(&expected).find(|(found, expected)| found != expected) {
            None => Ok(()),
            Some((found, expected)) => {
                let message = "checkpoint has other columns than this release keeps; restore with \
                               the release that wrote it";
                Err(Error::new(Kind::Unsupported, message)
                    .with("found", format!("{found:?}"))
                    .with("expected", format!("{expected:?}")))
            }
        }
    }
}

impl ShardFacts {
    /// Whether updates of the shard wait for all trainers, so that its version is everybody's.
    pub(super) fn is_sync(&self, model: &Model) -> bool {
        model.parameters.iter().any(|parameter| {
            parameter.mode == Mode::Sync && self.layout.holds(self.name.ports, parameter.shape)
        })
    }
}

/// What the shards of a kind hold of a model.
pub(super) fn tables_of(model: &Model, layout: Layout, ports: Ports) -> Result<Vec<TableFacts>> {
    let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect();
    let held = model.parameters.iter().enumerate();
    held.filter(|(_, parameter)| layout.holds(ports, parameter.shape))
        .map(|(place, parameter)| {
            let is_sparse = parameter.shape.is_sparse();
            let update = Update::new(&model.optimizer, &parameter.settings, is_sparse)?;
            Ok(TableFacts {
                parameter: place,
                name: parameter.name.clone(),
                is_sparse,
                columns: names(&update.columns().state),
                counters: names(&update.columns().counters),
            })
        })
        .collect()
}

/// How the pretty JSON of an object ends.
const CLOSING: &[u8] = b"\n}";
const TAIL_BYTES: usize = ",\n  \"crc32\": \"00000000\"\n}\n".len();

fn tail_of(body: &[u8]) -> String {
    format!(",\n  \"crc32\": \"{:08x}\"\n}}\n", crc32fast::hash(body))
}

fn damaged(message: &str) -> Error {
    Error::new(Kind::Damaged, message)
}
