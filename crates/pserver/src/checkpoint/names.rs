//! The names of folders and files, and which shard a name belongs to. Pure.

use crate::message::Join;
use contract::Result;
use disk::PARTIAL_END;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;
use table::model::Shape;
use table::placement::{ShardPlace, buckets_of};

const DATA_END: &str = ".part";
const MANIFEST_END: &str = ".json";

/// The kind of port that a shard is behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Ports {
    Dense,
    Sparse,
}

/// The number of shards of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Layout {
    /// At least 1.
    pub(super) dense: u32,
    /// With 0 the dense ones hold sparse parameters too.
    pub(super) sparse: u32,
}

impl Layout {
    pub(super) fn of(join: &Join) -> Result<Layout> {
        let shards = |ports| match ports {
            0 => Ok(0),
            _ => ShardPlace::new(join.server, join.servers, 0, ports).map(|place| place.shards()),
        };
        Ok(Layout { dense: shards(join.dense_ports)?, sparse: shards(join.sparse_ports)? })
    }

    pub(super) fn shards(&self, ports: Ports) -> u32 {
        match ports {
            Ports::Dense => self.dense,
            Ports::Sparse => self.sparse,
        }
    }

    /// The names of all shards.
    pub(super) fn names(self) -> impl Iterator<Item = ShardName> {
        [Ports::Dense, Ports::Sparse].into_iter().flat_map(move |ports| {
            let shards = self.shards(ports);
            (0..shards).map(move |shard| ShardName { ports, shard, shards })
        })
    }

    /// Whether shards of a kind hold parameters of this shape.
    pub(super) fn holds(&self, ports: Ports, shape: Shape) -> bool {
        match ports {
            Ports::Dense => !shape.is_sparse() || self.sparse == 0,
            Ports::Sparse => shape.is_sparse(),
        }
    }
}

/// One shard among those of its kind: what its files are named after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ShardName {
    pub(super) ports: Ports,
    pub(super) shard: u32,
    pub(super) shards: u32,
}

impl ShardName {
    pub(super) fn of(join: &Join) -> Result<ShardName> {
        let place = join.place()?;
        let ports = if join.port < join.dense_ports { Ports::Dense } else { Ports::Sparse };
        Ok(ShardName { ports, shard: place.shard(), shards: place.shards() })
    }

    pub(super) fn buckets(&self) -> Range<u32> {
        buckets_of(self.shard, self.shards)
    }

    pub(super) fn data(&self) -> String {
        format!("{self}{DATA_END}")
    }

    pub(super) fn manifest(&self) -> String {
        format!("{self}{MANIFEST_END}")
    }

    fn parse(text: &str) -> Option<ShardName> {
        let (ports, numbers) = match text.strip_prefix("dense-") {
            Some(numbers) => (Ports::Dense, numbers),
            None => (Ports::Sparse, text.strip_prefix("sparse-")?),
        };
        let (shard, shards) = numbers.split_once("-of-")?;
        let name = ShardName { ports, shard: shard.parse().ok()?, shards: shards.parse().ok()? };
        // Only the spelling that we write: `+1` is a number too.
        (name.shard < name.shards && name.to_string() == text).then_some(name)
    }
}

impl fmt::Display for ShardName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ports = match self.ports {
            Ports::Dense => "dense",
            Ports::Sparse => "sparse",
        };
        write!(f, "{ports}-{:05}-of-{:05}", self.shard, self.shards)
    }
}

/// What a file in the folder of a cut is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Data,
    Manifest,
    /// On its way to be one of the others.
    Hidden,
}

/// Whose file this is and what it is; `None` if it is none of ours.
pub(super) fn parse_file(name: &str) -> Option<(ShardName, Role)> {
    let (stem, role) = match name.strip_prefix('.') {
        Some(hidden) => (hidden.strip_suffix(PARTIAL_END)?.split_once('.')?.0, Role::Hidden),
        None => match name.strip_suffix(DATA_END) {
            Some(stem) => (stem, Role::Data),
            None => (name.strip_suffix(MANIFEST_END)?, Role::Manifest),
        },
    };
    Some((ShardName::parse(stem)?, role))
}

/// The folder of a cut.
pub(super) fn cut_folder(cut: u64) -> String {
    format!("cut-{cut:08}")
}

/// The cut that a folder is of.
pub(super) fn parse_cut_folder(name: &str) -> Option<u64> {
    let cut = name.strip_prefix("cut-")?.parse().ok()?;
    (cut_folder(cut) == name).then_some(cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written_and_no_others_are() {
        let layout = Layout { dense: 2, sparse: 65_536 };
        for name in layout.names() {
            assert_eq!(parse_file(&name.data()), Some((name, Role::Data)));
            assert_eq!(parse_file(&name.manifest()), Some((name, Role::Manifest)));
            let hidden = format!(".{name}.Ab3{PARTIAL_END}");
            assert_eq!(parse_file(&hidden), Some((name, Role::Hidden)));
        }
        for foreign in [
            "",
            ".partial",
            "dense-00000-of-00000.json",
            "dense-00001-of-00001.json",
            "dense-0-of-1.json",
            "dense-+0000-of-00001.json",
            "dense-00000-of-00001.json.bak",
            "dense-00000-of-00001",
            "other-00000-of-00001.part",
            "../dense-00000-of-00001.part",
        ] {
            assert_eq!(parse_file(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn cut_folders_sort_by_number_and_are_read_back() {
        for cut in [0, 1, 99_999_999, 100_000_000, u64::MAX] {
            assert_eq!(parse_cut_folder(&cut_folder(cut)), Some(cut));
        }
        assert_eq!(cut_folder(12), "cut-00000012");
        for foreign in ["cut-12", "cut-+0000012", "cut-", "12", "cut-99999999999999999999999"] {
            assert_eq!(parse_cut_folder(foreign), None, "{foreign}");
        }
    }
}
