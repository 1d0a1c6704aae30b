//! Decoders of what starts and watches a job: specifications, readiness lines, `conf.py`, and the
//! lines between launcher, supervisor and node.

use super::harness::Row;
use contract::job::JobSpec;
use contract::ready::{Farewell, Ready};
use contract::{Error, Kind, Result};
use scheduler::ssh::conf::Conf;
use scheduler::ssh::message::{self, Reply, Request};
use scheduler::supervisor::message::{Command, Event, decode};

fn text(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes)
        .map_err(|source| Error::new(Kind::Damaged, "not UTF-8").because(source))
}

fn lines(samples: &[&str]) -> Vec<Vec<u8>> {
    samples.iter().map(|line| line.as_bytes().to_vec()).collect()
}

/// The line by which a server says that it serves.
pub(crate) fn readiness_line() -> Row {
    let line = r#"{"paddle_ready":1,"role":"pserver","rank":3,"addresses":["0.0.0.0"],"port":7164,"ports_num":1,"ports_num_for_sparse":2}"#;
    Row {
        name: "readiness line",
        samples: lines(&[line, "some other output"]),
        decode: |bytes| Ready::parse(text(bytes)?).map(drop),
        rounds: 20_000,
        bytes_max: 1 << 20,
    }
}

/// The last line of a server, which conductors and `paddle_k8s` read.
pub(crate) fn last_line() -> Row {
    let line = r#"{"paddle_farewell":1,"trainers_joined":2,"was_stopped":true,"is_unsaved":true}"#;
    Row {
        name: "last line of a server",
        samples: lines(&[
            line,
            r#"{"paddle_farewell":1,"trainers_joined":2,"goodbyes":[[1,3],[4,1]]}"#,
            "other output",
        ]),
        decode: |bytes| Farewell::parse(text(bytes)?).map(drop),
        rounds: 20_000,
        bytes_max: 1 << 20,
    }
}

/// A job as front doors describe it.
pub(crate) fn job_spec() -> Row {
    let named = r#"{"version":1,"name":"ctr","user":"u","datacenter":"d","package":"/p","entry":"python train.py"}"#;
    let spec = JobSpec::from_json(named).unwrap_or_default();
    let spec = JobSpec { trainers: 4, pservers: 2, master: true, ..spec };
    let full = spec.to_json().unwrap_or_default();
    Row {
        name: "job spec",
        samples: lines(&[named, &full]),
        decode: |bytes| JobSpec::from_json(text(bytes)?).map(drop),
        rounds: 10_000,
        bytes_max: 4 << 20,
    }
}

/// What Python found in the `conf.py` of an SSH cluster. The file itself is CPython's to parse, in
/// a process of its own.
pub(crate) fn conf_py() -> Row {
    let names = r#"{"names": {"HOSTS": {"value": ["root@192.168.0.1:22", "paddle@node-2"], "line": 2}, "PADDLE_NIC": {"value": "eth0", "line": 6}, "PADDLE_PORT": {"value": 7164, "line": 7}, "USE": {"value": [1, -2500.0, null, true], "line": 9}}}"#;
    Row {
        name: "conf.py",
        samples: lines(&[names, r#"{"names": {"HOSTS": {"value": ["a", "b"], "line": 1}}}"#]),
        decode: |bytes| Conf::from_answer(bytes).map(drop),
        rounds: 20_000,
        bytes_max: 4 << 20,
    }
}

/// What a conductor asks an ssh machine.
pub(crate) fn machine_request() -> Row {
    let probe = r#"{"probe":{"nic":"eth0","root_dir":"/w","will_copy":true}}"#;
    let gather = r#"{"gather":{"name":"log"}}"#;
    let kill = r#"{"kill":{"root_dir":"/w","directory":null}}"#;
    Row {
        name: "request to a machine",
        samples: lines(&[probe, gather, kill]),
        decode: |bytes| read(message::read::<Request>(&mut &*bytes)),
        rounds: 10_000,
        bytes_max: 1 << 20,
    }
}

/// What an ssh machine answers.
pub(crate) fn machine_reply() -> Row {
    let opened = r#"{"paddle_node":{"version":1,"release":"0.1.0"}}"#;
    let probed = r#"{"probed":{"address":"10.0.0.5","root_dir":"/w","has_rsync":true,"search_path":"/bin"}}"#;
    let needed = r#"{"needed":{"paths":["train.py"]}}"#;
    let gathered = r#"{"gathered":{"manifest":null,"passed_over":["a socket"]}}"#;
    let failed = r#"{"failed":{"message":"no","is_invalid":false}}"#;
    Row {
        name: "reply of a machine",
        samples: lines(&[opened, probed, needed, gathered, failed]),
        decode: |bytes| read(message::read::<Reply>(&mut &*bytes)),
        rounds: 10_000,
        bytes_max: 1 << 20,
    }
}

fn read<T>(line: impl Future<Output = Result<Option<T>>>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .map_err(|source| Error::io("cannot start a runtime", source))?;
    runtime.block_on(line).map(drop)
}

/// What a conductor says to a supervisor.
pub(crate) fn supervisor_command() -> Row {
    let start = r#"{"start":{"replica":"trainer-1","attempt":2,"argv":["python","train.py"],"env":{"A":"b"},"directory":"/w","log":"log/train.log","is_server":false,"metrics":null,"memory_bytes_max":null,"cpu_milli_max":1500,"preamble":["first"],"confinement":{"run_as":{"uid":7,"gid":7},"root":{"sandbox":{"exposed":["/opt"],"hidden":["/srv"]},"mounts":[{"source":"/a","target":"/b","is_read_only":true}],"kept":["/w"],"files":{"/trainer_id":"1\n"},"devices":[]},"gpus":null},"stopped_seconds_max":45}}"#;
    let signal = r#"{"signal":{"replicas":["pserver-0"],"signal":"terminate"}}"#;
    Row {
        name: "supervisor command",
        samples: lines(&[start, signal, r#""close""#]),
        decode: |bytes| decode::<Command>(text(bytes)?).map(drop),
        rounds: 20_000,
        bytes_max: 1 << 20,
    }
}

/// What a supervisor says to a conductor.
pub(crate) fn supervisor_event() -> Row {
    let opened = r#"{"opened":{"version":1}}"#;
    let exited = r#"{"exited":{"replica":"trainer-1","code":137,"message":"x"}}"#;
    let log = r#"{"log":{"replica":"master-0","output":{"text":"one\ntwo\n"}}}"#;
    Row {
        name: "supervisor event",
        samples: lines(&[opened, exited, log]),
        decode: |bytes| decode::<Event>(text(bytes)?).map(drop),
        rounds: 20_000,
        bytes_max: 1 << 20,
    }
}
