//! Decoders of data and of the master that deals it out: RecordIO files, journals, messages.

use super::harness::Row;
use contract::Result;
use master::journal::{Journal, Recovered};
use master::message::{Next, Request, decode};
use master::queue::{Queue, Rules};
use master::records::{ReadOptions, Records};
use master::task::{Format, Piece, RecordRange};
use recordio::{Index, Layout, Reader, WriteOptions, Writer};
use std::path::Path;
use std::time::Instant;

const CHUNK_BYTES_MAX: u64 = 1 << 20;

/// A RecordIO file, also with checksums that fit what was changed: others stop most of it.
pub(crate) fn recordio_file() -> Row {
    let file = |chunk_bytes, compressor| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records");
        let options = WriteOptions { chunk_bytes, compressor, ..WriteOptions::default() };
        let mut writer = Writer::create(&path, options).unwrap();
        for number in 0..40_u32 {
            writer.write(format!("record {number}").repeat(3).as_bytes()).unwrap();
        }
        writer.close().unwrap();
        std::fs::read(path).unwrap()
    };
    let compressors = recordio::Compressor::ALL;
    Row {
        name: "RecordIO file",
        samples: compressors.iter().map(|compressor| file(300, *compressor)).collect(),
        decode: decode_recordio,
        rounds: 3000,
        // Half as much again while a chunk grows, and the file itself.
        bytes_max: 4 * CHUNK_BYTES_MAX,
    }
}

fn decode_recordio(bytes: &[u8]) -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records");
    std::fs::write(&path, bytes).unwrap();
    let as_it_is = read_recordio(&path);
    let (index, damage) = Index::salvage(&path)?;
    let mut honest = bytes.to_vec();
    for chunk in index.chunks() {
        let start = chunk.offset as usize;
        let stored = start + recordio::HEADER_BYTES..start + chunk.bytes as usize;
        let checksum = crc32fast::hash(&bytes[stored]).to_le_bytes();
        let at = start + if index.layout() == Some(Layout::Go) { 4 } else { 8 };
        honest[at..at + 4].copy_from_slice(&checksum);
    }
    std::fs::write(&path, &honest).unwrap();
    if let Ok(records) = read_recordio(&path) {
        assert!(damage.is_none(), "damage looked like an end");
        assert_eq!(records, index.records());
    }
    as_it_is.map(drop)
}

fn read_recordio(path: &Path) -> Result<u64> {
    let options = recordio::ReadOptions { chunk_bytes_max: CHUNK_BYTES_MAX, ..Default::default() };
    let mut reader = Reader::open(&[path.to_path_buf()], options)?;
    let mut records = 0;
    while reader.read()?.is_some() {
        records += 1;
    }
    Ok(records)
}

/// What a trainer asks the master.
pub(crate) fn master_request() -> Row {
    let requests = [
        r#"{"get":{"pass":3,"leases":[{"task":1,"epoch":2}],"wait_ms":5000,"name":"trainer 0"}}"#,
        r#"{"finish":{"lease":{"task":3,"epoch":1},"cut":5}}"#,
        r#"{"fail":{"lease":{"task":3,"epoch":1},"reason":"no"}}"#,
        r#"{"set_dataset":{"patterns":["data/*"],"wait_ms":5000}}"#,
        r#"{"request_save":{"trainer":"0","duration_ms":60000}}"#,
        r#"{"reopen":{"cut":4,"restore":77}}"#,
        r#"{"leave":{}}"#,
    ];
    Row {
        name: "request to the master",
        samples: requests.map(|request| request.as_bytes().to_vec()).into(),
        decode: |bytes| decode::<Request>(bytes).map(drop),
        rounds: 20_000,
        bytes_max: 1 << 20,
    }
}

/// What the master answers; a trainer tries to read the pieces of a task.
pub(crate) fn master_answer() -> Row {
    let piece = Piece {
        path: file!().to_owned(),
        format: Format::Text,
        file_bytes: 1000,
        offset: 10,
        bytes: 10,
        number: 0,
        records: Some(RecordRange { first: 1, count: 2, of: 9 }),
    };
    let task = format!(
        r#"{{"task":{{"id":1,"epoch":2,"pass":0,"lease_ms":15000,"pieces":[{}]}}}}"#,
        serde_json::to_string(&piece).unwrap()
    );
    let over = r#"{"pass_over":{"pass":1,"done":3,"set_aside":0}}"#;
    Row {
        name: "answer of the master",
        samples: [task.as_str(), over, r#""wait""#].map(|text| text.as_bytes().to_vec()).into(),
        decode: |bytes| match decode::<Next>(bytes)? {
            Next::Task(task) => {
                let options = ReadOptions { blocks_ahead: 1, record_bytes_max: 1 << 20 };
                let mut records = Records::open(task.pieces, options)?;
                while let Ok(Some(_)) = records.read() {}
                Ok(())
            }
            _ => Ok(()),
        },
        rounds: 3000,
        bytes_max: 4 << 20,
    }
}

const FACTS: &str = r#"{"dataset":{"patterns":["/d"],"files":[{"path":"/d","format":"text","bytes":4}],"parts":[{"file":0,"number":0,"offset":0,"bytes":2},{"file":0,"number":1,"offset":2,"bytes":2}],"task_ends":[1,2]},"pass":3,"tasks":[{"epoch":4,"failures":0,"state":{"Settled":{"Done":{"epoch":4,"cut":9}}},"before":{"Done":{"epoch":3,"cut":7}}},{"epoch":4,"failures":1,"state":{"Pending":{"owner":7,"name":"t"}},"before":{"SetAside":{"reason":"r"}}}],"todo":[],"cut":9,"restores":[[3,4]],"grant":{"trainer":"t","at_unix_ms":5,"duration_ms":6},"settled":1,"past":{"spans":[{"passes":2,"runs":[[1,{"done":3}],[1,"set_aside"]]}],"forgotten":0}}"#;

/// The master's state on disk: a snapshot with honest checksums, and files as they are.
pub(crate) fn journal() -> Row {
    Row {
        name: "journal of the master",
        samples: vec![FACTS.as_bytes().to_vec()],
        decode: decode_journal,
        // A file is synced in each.
        rounds: 400,
        bytes_max: 8 << 20,
    }
}

fn decode_journal(facts: &[u8]) -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("snapshot-1"), record(facts)).unwrap();
    work_with(folder.path())
}

/// A log of the master's changes, behind a snapshot and from the beginning: as it is, and with
/// checksums that fit what was changed.
pub(crate) fn journal_log() -> Row {
    let log =
        |batches: &[&str]| batches.iter().flat_map(|batch| record(batch.as_bytes())).collect();
    let dataset = &FACTS[..FACTS.find(r#","pass":"#).unwrap_or_default()];
    let filled = format!(r#"[{{"filled":{dataset}}}}}]"#);
    Row {
        name: "log of the master",
        samples: vec![
            log(&[
                r#"[{"finished":{"task":1,"cut":10}},{"leased":{"task":0,"owner":8,"name":"u"}}]"#,
                r#"[{"returned":{"task":0,"is_blamed":true}}]"#,
                r#"[{"granted":{"trainer":"u","at_unix_ms":5,"duration_ms":6}}]"#,
            ]),
            log(&[
                r#"[{"set_aside":{"task":1,"reason":"no"}}]"#,
                r#"[{"reopened":{"cut":8,"restore":5}}]"#,
            ]),
            log(&[&filled, r#"[{"leased":{"task":1,"owner":8,"name":"u"}}]"#]),
        ],
        decode: |bytes| {
            let as_it_is = decode_log(bytes);
            let with_checksums = decode_log(&honest(bytes));
            as_it_is.or(with_checksums)
        },
        // Files are synced in each.
        rounds: 200,
        bytes_max: 8 << 20,
    }
}

fn decode_log(log: &[u8]) -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("log-0"), log).unwrap();
    let from_nothing = work_with(folder.path());
    std::fs::write(folder.path().join("log-1"), log).unwrap();
    std::fs::write(folder.path().join("snapshot-1"), record(FACTS.as_bytes())).unwrap();
    from_nothing.or(work_with(folder.path()))
}

/// The same records with the checksums of what they contain.
fn honest(log: &[u8]) -> Vec<u8> {
    let (mut log, mut at) = (log.to_vec(), 0);
    while let Some(length) = log.get(at..at + 4) {
        let length = u32::from_le_bytes([length[0], length[1], length[2], length[3]]) as usize;
        let Some(content) = log.get(at + 12..at + 12 + length) else { break };
        let renewed = record(content);
        log[at..at + 12].copy_from_slice(&renewed[..12]);
        at += renewed.len();
    }
    log
}

fn record(content: &[u8]) -> Vec<u8> {
    let crc = |bytes: &[u8]| crc32c::crc32c(bytes).to_le_bytes();
    let header = [(content.len() as u32).to_le_bytes(), crc(content)].concat();
    [&header[..], &crc(&header), content].concat()
}

/// What is accepted can be worked with.
fn work_with(folder: &Path) -> Result<()> {
    let (_, Recovered { facts, changes }) = Journal::open(folder)?;
    let mut queue = Queue::recover(Rules::default(), facts, &changes, Instant::now())?;
    queue.status();
    for task in 0..4 {
        let lease = master::task::Lease { task, epoch: 4 };
        queue.finish(Instant::now(), 7, lease, Some(10));
        queue.get(Instant::now(), 8, &Default::default());
    }
    let reopened = queue.reopen(Instant::now(), 5, 99).map(drop);
    queue.status();
    reopened
}
