//! Which numbers dropout takes away.

use crate::net::Net;
use crate::trial::{Trial, numbers};
use engine::NetworkConfig;
use engine::batch::Rows;
use engine::shape::{Level, Value};
use serde_json::json;

const COLUMNS: usize = 501;

/// What of 40 rows of ones two layers leave in training.
fn masks(seed: u64, step: u64, rate: f32) -> [Vec<f32>; 2] {
    masks_with(NetworkConfig { seed, ..crate::net::config() }, step, rate)
}

fn masks_with(config: NetworkConfig, step: u64, rate: f32) -> [Vec<f32>; 2] {
    let mut net = Net::new();
    let data = net.data("x", Value::Dense, Level::Single, COLUMNS);
    for name in ["a", "b"] {
        net.add(json!({"name": name, "kind": "addto", "inputs": [data], "drop_rate": rate}));
    }
    let cost = net.add(json!({"name": "cost", "kind": "sum", "inputs": ["a"]}));
    net.topology.outputs = vec![cost, "a".to_owned(), "b".to_owned()];
    let mut batch = net.batch(&[1; 40], 1);
    batch.inputs[0].rows = Rows::Dense(vec![1.0; 40 * COLUMNS]);
    let network = net.network_with(config);
    let trial = Trial::with_batch(network, batch, 1);
    let seen = trial.train_at(&[], step).seen;
    ["a", "b"].map(|name| numbers(&trial.network.output(&seen, name).unwrap()).to_vec())
}

#[test]
fn the_same_seed_and_step_drop_the_same() {
    assert_eq!(masks(5, 9, 0.5), masks(5, 9, 0.5));
}

#[test]
fn another_step_seed_or_layer_drops_others() {
    let [a, b] = masks(5, 9, 0.5);
    for other in [&b, &masks(5, 10, 0.5)[0], &masks(6, 9, 0.5)[0]] {
        // Independent masks of a half agree in half of the places.
        let same = a.iter().zip(other).filter(|(a, b)| a == b).count() as f64 / a.len() as f64;
        assert!((same - 0.5).abs() < 0.02, "{same}");
    }
}

#[test]
fn the_parts_that_threads_work_on_drop_others() {
    let [mask, _] = masks_with(NetworkConfig { threads: 2, ..crate::net::config() }, 1, 0.5);
    let (first, second) = mask.split_at(mask.len() / 2);
    let same = first.iter().zip(second).filter(|(a, b)| a == b).count() as f64;
    let same = same / first.len() as f64;
    assert!((same - 0.5).abs() < 0.02, "{same}");
}

#[test]
fn a_share_of_the_rate_becomes_zero_and_the_rest_stays_as_it_is() {
    for rate in [0.1, 0.5, 0.9] {
        let [mask, _] = masks(1, 1, rate);
        assert!(mask.iter().all(|number| *number == 0.0 || *number == 1.0));
        let share = |mask: &mut dyn Iterator<Item = &f32>| {
            let (mut zeros, mut all) = (0.0, 0.0);
            for number in mask {
                zeros += f32::from(u8::from(*number == 0.0));
                all += 1.0;
            }
            zeros / all
        };
        // 20 040 numbers: three standard deviations are 0.011; of half of them, 0.015.
        assert!((share(&mut mask.iter()) - rate).abs() < 0.011);
        // Two numbers are drawn at once; each must have the chance.
        assert!((share(&mut mask.iter().step_by(2)) - rate).abs() < 0.015);
        assert!((share(&mut mask.iter().skip(1).step_by(2)) - rate).abs() < 0.015);
    }
}
