//! The decoder of model tars for libFuzzer. Apart from the others (`decoder`), because it brings the
//! tensor library, which takes long to build with sanitizers.
#![no_main]

#[path = "../../e2e/tests/decoders"]
#[expect(dead_code, reason = "libFuzzer makes the mutations")]
mod decoders {
    pub(crate) mod allocation;
    pub(crate) mod harness;
    pub(crate) mod mutation;

    pub(crate) mod model;
}

use decoders::harness::{Row, fault_of};
use decoders::model;
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static ROW: LazyLock<Row> = LazyLock::new(model::tar);

fuzz_target!(|bytes: &[u8]| {
    if let Some(fault) = fault_of(&ROW, bytes) {
        panic!("{}: {fault}", ROW.name);
    }
});
