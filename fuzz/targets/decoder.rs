//! The decoders of `e2e/tests/decoders.rs` for libFuzzer, which finds its way by the branches that
//! are taken. `FUZZ_DECODER` names one; without it the first bytes choose. Model files have a target
//! of their own, `model`.
#![no_main]

#[path = "../../e2e/tests/decoders"]
#[expect(dead_code, reason = "libFuzzer makes the mutations")]
mod decoders {
    pub(crate) mod allocation;
    pub(crate) mod harness;
    pub(crate) mod mutation;

    pub(crate) mod control;
    pub(crate) mod data;
    pub(crate) mod network;
    pub(crate) mod servers;
}

use decoders::harness::{Row, fault_of};
use decoders::{control, data, network, servers};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let rows = vec![
        control::conf_py(),
        control::job_spec(),
        control::last_line(),
        control::machine_reply(),
        control::machine_request(),
        control::readiness_line(),
        control::supervisor_command(),
        control::supervisor_event(),
        data::journal(),
        data::journal_log(),
        data::master_answer(),
        data::master_request(),
        data::recordio_file(),
        network::client_stream(),
        network::join(),
        network::joined(),
        network::payload(),
        network::refusal(),
        network::server_stream(),
        servers::checkpoint(),
        servers::shard_request(),
    ];
    match std::env::var("FUZZ_DECODER") {
        Ok(name) => rows.into_iter().filter(|row| row.name == name).collect(),
        Err(_) => rows,
    }
});

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else { return };
    assert!(!ROWS.is_empty(), "FUZZ_DECODER names none of the decoders");
    let row = &ROWS[*first as usize % ROWS.len()];
    if let Some(fault) = fault_of(row, rest) {
        panic!("{}: {fault}", row.name);
    }
});
