//! Every decoder of bytes from outside, tried with mutations of good input. To add one, write its
//! `Row` beside those of its kind and name it below; `fuzz/` gives the same rows to libFuzzer.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod decoders {
    pub(crate) mod allocation;
    pub(crate) mod harness;
    pub(crate) mod mutation;

    pub(crate) mod control;
    pub(crate) mod data;
    pub(crate) mod model;
    pub(crate) mod network;
    pub(crate) mod servers;
}

use decoders::{allocation, control, data, harness, model, network, servers};

#[global_allocator]
static ALLOCATOR: allocation::Counting = allocation::Counting;

macro_rules! rows {
    ($($kind:ident::$row:ident),* $(,)?) => {
        $(
            #[test]
            fn $row() {
                harness::check(&$kind::$row());
            }
        )*
    };
}

rows! {
    control::conf_py,
    control::job_spec,
    control::last_line,
    control::machine_reply,
    control::machine_request,
    control::readiness_line,
    control::supervisor_command,
    control::supervisor_event,
    data::journal,
    data::journal_log,
    data::master_answer,
    data::master_request,
    data::recordio_file,
    model::tar,
    network::client_stream,
    network::join,
    network::joined,
    network::payload,
    network::refusal,
    network::server_stream,
    servers::checkpoint,
    servers::shard_request,
}

#[test]
fn a_decoder_that_panics_or_allocates_much_or_blames_others_is_found() {
    use contract::{Error, Kind};
    use harness::{Row, fault_of};
    let row = |decode: fn(&[u8]) -> contract::Result<()>| Row {
        name: "bad",
        samples: vec![b"good".to_vec()],
        decode,
        rounds: 1,
        bytes_max: 1 << 20,
    };
    let said = |decode| fault_of(&row(decode), b"input").unwrap_or_default();
    assert_eq!(said(|_| Ok(())), "");
    assert_eq!(said(|_| Err(Error::new(Kind::Damaged, "refused"))), "");
    assert_eq!(said(|bytes| panic!("{bytes:?}")), "panic");
    assert!(said(|_| Err(Error::new(Kind::Io, "disk"))).starts_with("Io error"));
    let fault = said(|_| {
        std::hint::black_box(vec![0_u8; 2 << 20]);
        Ok(())
    });
    assert_eq!(fault, format!("{} bytes allocated, not {}", 2 << 20, 1 << 20));
}
