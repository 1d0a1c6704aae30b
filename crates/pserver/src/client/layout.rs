//! Which link leads to which part of the model, worked out once; and what callers may ask for.

use crate::message::ValueType;
use contract::mode::Mode;
use contract::port::Ports;
use contract::{Error, Kind, Result};
use table::model::{Model, ModelIndex, Parameter, Shape};
use table::placement;

/// Links are numbered server by server, each server's dense ports first.
pub(super) struct Layout {
    parameters: Vec<Placed>,
    servers: usize,
    dense_ports: usize,
    sparse_ports: usize,
}

/// One parameter, dealt out.
pub(super) struct Placed {
    name: String,
    pub(super) name_hash: u64,
    shape: Shape,
    mode: Mode,
    /// How its gradients travel, and the values that a step computes with.
    pub(super) value_type: ValueType,
    /// Dense: the blocks of each shard, rising.
    blocks: Vec<Vec<u64>>,
}

impl Layout {
    pub(super) fn new(model: &Model, servers: u32, ports: Ports) -> Layout {
        let servers = servers as usize;
        let (dense_ports, sparse_ports) = (ports.dense.into(), ports.sparse.into());
        let shards = servers * dense_ports;
        let parameters = model.parameters.iter().map(|parameter| Placed::new(parameter, shards));
        Layout { parameters: parameters.collect(), servers, dense_ports, sparse_ports }
    }

    /// Lets values travel as `value_type`, but for those of sync parameters, whose equality to the
    /// bit is a promise.
    pub(super) fn with_values(mut self, value_type: ValueType) -> Layout {
        for placed in self.parameters.iter_mut().filter(|placed| placed.mode != Mode::Sync) {
            placed.value_type = value_type;
        }
        self
    }

    /// Server and port of every link.
    pub(super) fn links(&self) -> impl Iterator<Item = (u32, u32)> + use<> {
        let ports = self.dense_ports + self.sparse_ports;
        (0..self.servers * ports).map(move |link| ((link / ports) as u32, (link % ports) as u32))
    }

    /// The number, among those of its kind, of the shard behind a link, if it holds this kind.
    pub(super) fn shard(&self, link: usize, is_sparse: bool) -> Option<usize> {
        let ports = self.dense_ports + self.sparse_ports;
        let (server, port) = (link / ports, link % ports);
        match is_sparse && self.sparse_ports > 0 {
            false => (port < self.dense_ports).then(|| server * self.dense_ports + port),
            true => {
                let port = port.checked_sub(self.dense_ports)?;
                Some(server * self.sparse_ports + port)
            }
        }
    }

    /// Number of shards that hold rows.
    pub(super) fn sparse_shards(&self) -> usize {
        self.servers * if self.sparse_ports > 0 { self.sparse_ports } else { self.dense_ports }
    }

    /// The index of a parameter in the model.
    pub(super) fn find(&self, name: &str) -> Result<ModelIndex> {
        let found = self.parameters.iter().position(|placed| placed.name == name);
        found.map(ModelIndex).ok_or_else(|| {
            Error::new(Kind::NotFound, "the model has no such parameter").with("parameter", name)
        })
    }

    pub(super) fn placed(&self, parameter: ModelIndex) -> Result<&Placed> {
        self.parameters.get(parameter.0).ok_or_else(|| {
            Error::invalid("the model has no such parameter")
                .with("parameter", parameter)
                .with("parameters", self.parameters.len())
        })
    }

    /// Refuses a parameter of the model that is named twice: its gradients would be counted twice.
    pub(super) fn check_once(&self, parameters: impl Iterator<Item = ModelIndex>) -> Result<()> {
        let mut seen = vec![false; self.parameters.len()];
        for parameter in parameters {
            let placed = self.placed(parameter)?;
            if std::mem::replace(&mut seen[parameter.0], true) {
                return Err(placed.error("a parameter is in one push twice; merge its gradients"));
            }
        }
        Ok(())
    }
}

impl Placed {
    fn new(parameter: &Parameter, shards: usize) -> Placed {
        let name_hash = placement::name_hash(&parameter.name);
        let mut blocks = Vec::new();
        if let Shape::Dense { elements } = parameter.shape {
            blocks.resize(shards, Vec::new());
            for block in 0..placement::blocks_of(elements) {
                let bucket = placement::bucket_of(name_hash, block);
                blocks[placement::shard_of(bucket, shards as u32) as usize].push(block);
            }
        }
        let (name, shape, mode) = (parameter.name.clone(), parameter.shape, parameter.mode);
        Placed { name, name_hash, shape, mode, value_type: ValueType::F32, blocks }
    }

    /// The blocks of a dense parameter that a shard holds.
    pub(super) fn blocks(&self, shard: usize) -> &[u64] {
        self.blocks.get(shard).map_or(&[], Vec::as_slice)
    }

    /// Checks that `values` are all values of a dense parameter.
    pub(super) fn check_dense(&self, values: usize) -> Result<()> {
        match self.shape {
            Shape::Dense { elements } if elements == values as u64 => Ok(()),
            Shape::Dense { elements } => Err(self
                .error("dense values have another length than the parameter")
                .with("expected", elements)
                .with("found", values)),
            Shape::Sparse { .. } => Err(self.error("the parameter is sparse: give keys and rows")),
        }
    }

    /// Checks that there is a row of values for every key, and every key may be. Returns the
    /// width of a row.
    pub(super) fn check_sparse(&self, keys: &[u64], values: usize) -> Result<usize> {
        let width = self.width()?;
        if Some(values) != keys.len().checked_mul(width) {
            return Err(self
                .error("values do not fit the keys")
                .with("keys", keys.len())
                .with("width", width)
                .with("expected", keys.len().saturating_mul(width))
                .with("found", values));
        }
        if u32::try_from(keys.len()).is_err() {
            let many = Error::new(Kind::LimitExceeded, "too many keys in one call");
            return Err(many.with("parameter", &self.name).with("keys", keys.len()));
        }
        if let Shape::Sparse { rows: Some(rows), .. } = self.shape
            && let Some(key) = keys.iter().find(|key| **key >= rows)
        {
            return Err(self
                .error("key is not below the number of rows")
                .with("key", key)
                .with("rows", rows));
        }
        Ok(width)
    }

    /// The width of a sparse parameter's rows.
    pub(super) fn width(&self) -> Result<usize> {
        match self.shape {
            Shape::Sparse { width, .. } => Ok(width as usize),
            Shape::Dense { .. } => Err(self.error("the parameter is dense: it has no keys")),
        }
    }

    fn error(&self, message: &str) -> Error {
        Error::invalid(message).with("parameter", &self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::testing;
    use crate::message::Join;

    #[test]
    fn links_lead_to_the_shards_that_servers_take_themselves_for() {
        for (servers, dense, sparse) in [(1, 1, 1), (3, 2, 1), (2, 1, 3), (2, 2, 0)] {
            let ports = Ports { dense, sparse, ..Ports::default() };
            let layout = Layout::new(&testing::model(), servers, ports);
            assert_eq!(layout.links().count(), (servers * u32::from(dense + sparse)) as usize);
            for (link, (server, port)) in layout.links().enumerate() {
                let join = Join {
                    rank: 0,
                    trainers: 1,
                    server,
                    servers,
                    port,
                    dense_ports: dense.into(),
                    sparse_ports: sparse.into(),
                    model: testing::model(),
                    epoch: None,
                    lag_ratio_max: None,
                    attempt: None,
                };
                let place = join.place().unwrap();
                for parameter in &join.model.parameters {
                    let is_sparse = parameter.shape.is_sparse();
                    let expected = join.holds(parameter.shape).then(|| place.shard() as usize);
                    assert_eq!(layout.shard(link, is_sparse), expected);
                    if let (Some(shard), Shape::Dense { elements }) = (expected, parameter.shape) {
                        let placed = layout.placed(layout.find(&parameter.name).unwrap()).unwrap();
                        let blocks: Vec<u64> = place.blocks(placed.name_hash, elements).collect();
                        assert_eq!(placed.blocks(shard), blocks);
                    }
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_the_model_is_named() {
        let layout = Layout::new(&testing::model(), 1, Ports::default());
        let check = |outcome: Result<()>, expect: &str| {
            assert_eq!(outcome.unwrap_err().to_string(), expect);
        };
        let dense = layout.placed(testing::DENSE).unwrap();
        let sparse = layout.placed(testing::SPARSE).unwrap();
        check(
            dense.check_dense(1),
            "dense values have another length than the parameter (parameter: weights, expected: \
             100000, found: 1)",
        );
        check(
            sparse.check_sparse(&[1, 2], 3).map(|_| ()),
            "values do not fit the keys (parameter: table, keys: 2, width: 4, expected: 8, found: 3)",
        );
        check(
            sparse.check_sparse(&[1, 5000], 8).map(|_| ()),
            "key is not below the number of rows (parameter: table, key: 5000, rows: 1000)",
        );
        assert!(sparse.check_dense(4).is_err());
        assert!(dense.check_sparse(&[], 0).is_err());
        assert!(layout.placed(ModelIndex(9)).is_err());
        assert!(layout.check_once([0, 1, 0].map(ModelIndex).into_iter()).is_err());
        assert_eq!(layout.find("none").unwrap_err().kind(), Kind::NotFound);
    }
}
