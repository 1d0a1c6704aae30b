//! What training measures: the moving averages of batch normalization.

use crate::net::{Net, config};
use crate::trial::{Trial, assert_near, numbers};
use engine::NetworkConfig;
use engine::shape::Level;
use serde_json::json;

const KEEP: f64 = 0.75;

/// Batch normalization over two channels of four pixels that are fed.
fn net() -> Net {
    let mut net = Net::new();
    let picture = net.picture("x", Level::Single, [2, 2, 2]);
    let out = net.add(json!({
        "name": "out", "kind": "batch_norm", "inputs": [picture], "has_bias": true,
        "attributes": {"channels": null, "epsilon": 1e-5, "moving_average_fraction": KEEP,
                       "use_global_stats": true},
    }));
    net.train(&out, false);
    net
}

/// What the averages of a channel are after some rows: mean, then variance.
fn expect(trial: &Trial, rows: &[&[f32]], channel: usize) -> [f64; 2] {
    let all = rows.iter().flat_map(|row| &row[channel * 4..][..4]).map(|x| f64::from(*x));
    let all: Vec<f64> = all.collect();
    let count = all.len() as f64;
    let mean = all.iter().sum::<f64>() / count;
    let variance = all.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
    let before = |name: &str| f64::from(trial.values[trial.place(name)][channel]);
    let [old_mean, old_variance] = ["_out.w1", "_out.w2"].map(before);
    [KEEP * old_mean + (1.0 - KEEP) * mean, KEEP * old_variance + (1.0 - KEEP) * variance]
}

#[test]
fn averages_move_towards_the_batch() {
    let trial = Trial::new(&net(), &[1; 5], 2);
    let fed = trial.look("x");
    let rows: Vec<&[f32]> = numbers(&fed).chunks(8).collect();
    let measured = trial.train().measured;
    let names: Vec<&str> =
        trial.network.parameters().iter().map(|parameter| parameter.name.as_str()).collect();
    assert_eq!(names, ["_out.w0", "_out.w1", "_out.w2", "_out.wbias"]);
    assert!(measured[0].is_none() && measured[3].is_none());
    let expected = [0, 1].map(|channel| expect(&trial, &rows, channel));
    for (place, what) in [(1, "mean"), (2, "variance")] {
        let expected = expected.map(|channel| channel[place - 1]);
        assert_near(what, measured[place].as_ref().unwrap(), &expected, 1e-6);
    }
}

#[test]
fn a_batch_in_parts_measures_the_mean_of_its_parts() {
    let network = net().network_with(NetworkConfig { threads: 2, ..config() });
    let trial = Trial::with_batch(network, net().batch(&[1; 33], 2), 2);
    let fed = trial.look("x");
    let rows: Vec<&[f32]> = numbers(&fed).chunks(8).collect();
    let measured = trial.train().measured;
    let parts = [&rows[..16], &rows[16..]];
    for channel in [0, 1] {
        let found = parts.map(|rows| expect(&trial, rows, channel));
        let whole = |figure: usize| (found[0][figure] * 16.0 + found[1][figure] * 17.0) / 33.0;
        for (place, what) in [(1, "mean"), (2, "variance")] {
            let value = measured[place].as_ref().unwrap()[channel];
            assert_near(what, &[value], &[whole(place - 1)], 1e-6);
        }
    }
}
