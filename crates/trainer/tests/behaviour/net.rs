//! A small network with a table, its model, and batches for it.

use engine::batch::{Batch, Input, Rows};
use engine::{Network, NetworkConfig};
use serde_json::json;
use std::sync::Arc;
use table::initializer::Initializer;
use table::optimizer::{Optimizer, Settings};
use trainer::{Description, Parameters};

pub(crate) const WORDS: usize = 50;
pub(crate) const SEED: u64 = 7;
/// Its rows are looked up by the ids of `words`.
pub(crate) const TABLE: &str = "table";

/// `out = fc(tanh(fc(embedding(words), x)))`, with the squared error to `y`. `words` are any keys
/// if there is no bound.
pub(crate) fn network(words: Option<usize>) -> Arc<Network> {
    let data = |name: &str, value: &str, size: Option<usize>| {
        let attributes = json!({"value": value, "level": "single", "size": size});
        json!({"name": name, "kind": "data", "attributes": attributes})
    };
    let parameters: Vec<_> = descriptions(words, Settings::default())
        .into_iter()
        .map(|one| json!({"name": one.name, "dims": one.dims, "is_sparse": one.is_sparse}))
        .collect();
    let topology = json!({
        "layers": [
            data("words", "integer", words),
            data("x", "dense", Some(3)),
            data("y", "dense", Some(1)),
            {"name": "embedding", "kind": "mixed", "inputs": ["words"], "parameters": [TABLE],
             "attributes": {"size": 4, "projections": [{"name": "table"}]}},
            {"name": "hidden", "kind": "fc", "inputs": ["embedding", "x"], "has_bias": true,
             "attributes": {"size": 5}, "activation": "tanh", "parameters": ["w0", "w1", "b1"]},
            {"name": "out", "kind": "fc", "inputs": ["hidden"], "has_bias": true,
             "attributes": {"size": 1}, "parameters": ["w2", "b2"]},
            {"name": "cost", "kind": "square_error", "inputs": ["out", "y"]},
        ],
        "parameters": parameters,
        "outputs": ["cost"],
        "evaluators": [{"name": "mean", "kind": "sum", "inputs": ["out"]}],
    });
    let topology = serde_json::from_value(topology).unwrap();
    Arc::new(Network::new(topology, NetworkConfig::default()).unwrap())
}

pub(crate) fn descriptions(words: Option<usize>, settings: Settings) -> Vec<Description> {
    let initializer = Initializer::Uniform { low: -0.5, high: 0.5 };
    let random = |one: Description| Description { initializer, settings, ..one };
    vec![
        random(Description::sparse(TABLE, [words.unwrap_or(0), 4])),
        random(Description::dense("w0", [4, 5])),
        random(Description::dense("w1", [3, 5])),
        Description::dense("b1", [1, 5]),
        random(Description::dense("w2", [5, 1])),
        Description::dense("b2", [1, 1]),
    ]
}

pub(crate) fn parameters(words: Option<usize>, settings: Settings) -> Arc<Parameters> {
    Arc::new(Parameters::new(descriptions(words, settings), SEED).unwrap())
}

pub(crate) fn optimizer(json: &str) -> Optimizer {
    serde_json::from_str(json).unwrap()
}

/// Samples `from..to` of the batch of a step; ids repeat within it, and differ between steps.
pub(crate) fn batch(step: usize, from: usize, to: usize) -> Batch {
    let each = || (from..to).map(|sample| step * 5 + sample);
    let number = |seed: usize| ((seed * 37 % 101) as f32 - 50.0) / 60.0;
    let words = each().map(|seed| (seed * seed % 17 % WORDS) as u64).collect();
    let x = each().flat_map(|seed| [number(seed), number(seed + 1), number(seed + 2)]).collect();
    let y = each().map(|seed| number(3 * seed)).collect();
    let input = Input::single;
    Batch {
        samples: to - from,
        inputs: vec![input(Rows::Integer(words)), input(Rows::Dense(x)), input(Rows::Dense(y))],
    }
}
