//! A network with a batch and values, ready to be asked.

use crate::net::Net;
use crate::random::Random;
use engine::batch::{Batch, Output};
use engine::{Network, NetworkIndex, Prepared, Trained};

pub(crate) struct Trial {
    pub(crate) network: Network,
    pub(crate) prepared: Prepared,
    /// By place of the parameter.
    pub(crate) values: Vec<Vec<f32>>,
}

impl Trial {
    /// Random data and values; the seed is printed, for when the test fails.
    pub(crate) fn new(net: &Net, lengths: &[usize], seed: u64) -> Trial {
        println!("seed {seed}, lengths {lengths:?}");
        Trial::with_batch(net.network(), net.batch(lengths, seed), seed)
    }

    /// A value depends on seed, parameter, row and column alone, be the parameter sparse or not.
    pub(crate) fn with_batch(network: Network, batch: Batch, seed: u64) -> Trial {
        let prepared = network.prepare(batch).unwrap_or_else(|error| panic!("{error}"));
        let values = network.parameters().iter().enumerate().map(|(place, parameter)| {
            let all = 0..parameter.dims[0] as u64;
            let rows =
                prepared.keys(NetworkIndex(place)).map_or_else(|| all.collect(), <[u64]>::to_vec);
            let row = |row: u64| {
                let mut random = Random::new(seed ^ (place as u64 + 1) << 32 ^ row << 16);
                (0..parameter.dims[1]).map(move |_| random.number())
            };
            rows.into_iter().flat_map(row).collect()
        });
        let values = values.collect();
        Trial { network, prepared, values }
    }

    pub(crate) fn train(&self) -> Trained {
        self.train_at(&self.values, 0)
    }

    pub(crate) fn train_at(&self, values: &[Vec<f32>], step: u64) -> Trained {
        let trained = self.network.train(&self.prepared, &slices(values), step);
        trained.unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) fn look(&self, layer: &str) -> Output {
        let output = self.network.look(&self.prepared, &slices(&self.values), layer);
        output.unwrap_or_else(|error| panic!("{error}"))
    }

    /// The place of a parameter.
    pub(crate) fn place(&self, name: &str) -> usize {
        self.network.parameters().iter().position(|parameter| parameter.name == name).unwrap()
    }
}

pub(crate) fn slices(values: &[Vec<f32>]) -> Vec<&[f32]> {
    values.iter().map(Vec::as_slice).collect()
}

/// Numbers of an output that has them.
pub(crate) fn numbers(output: &Output) -> &[f32] {
    match &output.rows {
        engine::batch::Rows::Dense(values) => values,
        other => panic!("no numbers: {other:?}"),
    }
}

/// Compares to a share of the largest number.
pub(crate) fn assert_near(what: &str, found: &[f32], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{what}: numbers");
    let scale = expected.iter().fold(1.0_f64, |scale, number| scale.max(number.abs()));
    for (place, (found, expected)) in found.iter().zip(expected).enumerate() {
        let is_near = (f64::from(*found) - expected).abs() <= tolerance * scale;
        assert!(is_near, "{what}: number {place} is {found} instead of {expected}");
    }
}
