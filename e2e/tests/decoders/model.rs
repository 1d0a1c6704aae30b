//! Decoders of models on disk.

use super::harness::Row;
use trainer::description::Description;
use trainer::model_file::{from_tar, init_from_tar, to_tar};
use trainer::parameters::Parameters;
use trainer::values::View;

fn parameters() -> Parameters {
    let descriptions = vec![
        Description::dense("fc.w0", [3, 4]),
        Description::dense("fc.wbias", [1, 4]),
        Description::sparse("embedding", [100, 2]),
    ];
    Parameters::new(descriptions, 1).unwrap()
}

/// The tar of `paddle.v2`, into a model that is there and into a new one.
pub(crate) fn tar() -> Row {
    let mut tar = Vec::new();
    to_tar(&parameters(), &mut tar, View::Present).unwrap();
    Row {
        name: "model tar",
        samples: vec![tar],
        decode: |bytes| {
            let made = from_tar(bytes, 1);
            let set = init_from_tar(&parameters(), bytes);
            made.map(drop).and(set)
        },
        rounds: 1000,
        bytes_max: 64 << 20,
    }
}
