//! What the unit tests of the client share.

use contract::mode::Mode;
use table::initializer::Initializer;
use table::model::{Model, Parameter, Shape};
use table::optimizer::Settings;

pub(super) const DENSE: usize = 0;
pub(super) const SPARSE: usize = 1;

/// A dense parameter of seven blocks, the last one short, and a sparse one.
pub(super) fn model() -> Model {
    let parameter = |name: &str, shape| Parameter {
        name: name.to_owned(),
        shape,
        mode: Mode::Sync,
        initializer: Initializer::default(),
        settings: Settings::default(),
    };
    let optimizer = r#"{"learning_rate": 0.5, "rule": {"name": "momentum"}}"#;
    Model {
        seed: 1,
        optimizer: serde_json::from_str(optimizer).unwrap(),
        parameters: vec![
            parameter("weights", Shape::Dense { elements: 100_000 }),
            parameter("table", Shape::Sparse { width: 4, rows: Some(1000) }),
        ],
    }
}
