//! The activations, each after a layer that does little else.

use super::{Case, SEQUENCES};
use engine::activation::Activation;
use serde_json::json;

pub(super) fn cases() -> Vec<Case> {
    Activation::ALL.into_iter().map(case).collect()
}

fn case(activation: Activation) -> Case {
    // Numbers that stay where the function is defined, and reach its bounds.
    let (below, slope) = match activation {
        Activation::Log | Activation::Sqrt | Activation::Reciprocal => ("exponential", 1.0),
        Activation::Brelu => ("linear", 30.0),
        _ => ("linear", 1.0),
    };
    let case = Case::new("slope_intercept", &format!("with {activation:?}"), move |net, level| {
        let input = net.activated("a", level, 3, below);
        net.add(json!({
            "name": "out", "kind": "slope_intercept", "inputs": [input],
            "attributes": {"slope": slope, "intercept": 0.0}, "activation": activation,
        }))
    });
    match activation {
        Activation::SequenceSoftmax => case.with_batches(SEQUENCES),
        Activation::Relu | Activation::Brelu | Activation::Abs => case.with_kinks(),
        _ => case,
    }
}
