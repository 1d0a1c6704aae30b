//! What is on disk: it survives, a torn end is cut off, and damage is named.

use super::data::tasks;
use contract::Kind;
use master::journal::{Journal, Recovered};
use master::message::{Get, Next};
use master::queue::{Change, Queue, Rules};
use std::path::{Path, PathBuf};
use std::time::Instant;

fn lease(task: u64) -> Vec<Change> {
    vec![Change::Leased { task, owner: 7, name: "trainer 0".to_owned() }]
}

fn log(folder: &Path) -> PathBuf {
    folder.join("log-0")
}

/// A folder whose log has these changes, a record each.
fn written(batches: &[Vec<Change>]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let (mut journal, recovered) = Journal::open(folder.path()).unwrap();
    assert_eq!(recovered, Recovered::default());
    for batch in batches {
        journal.append(batch).unwrap();
    }
    folder
}

fn changes(folder: &Path) -> contract::Result<Vec<Change>> {
    Journal::open(folder).map(|(_, recovered)| recovered.changes)
}

#[test]
fn changes_come_back_in_their_order() {
    let folder = written(&[lease(1), [lease(2), lease(3)].concat()]);
    assert_eq!(changes(folder.path()).unwrap(), [lease(1), lease(2), lease(3)].concat());
}

#[test]
fn a_log_that_is_torn_anywhere_keeps_all_whole_records_and_can_be_continued() {
    let whole = std::fs::read(log(written(&[lease(1), lease(2)]).path())).unwrap();
    let first = std::fs::read(log(written(&[lease(1)]).path())).unwrap().len();
    // In and around every header, and here and there in the contents.
    let is_tried = |at: &usize| at % first < 14 || at % first > first - 3 || at.is_multiple_of(9);
    for length in (0..whole.len()).filter(is_tried) {
        let end = if length < first { first } else { whole.len() };
        // The file may have grown before its content was there.
        for grown in [length, (length + 20).min(end), end] {
            let folder = tempfile::tempdir().unwrap();
            let mut torn = whole[..length].to_vec();
            torn.resize(grown, 0);
            std::fs::write(log(folder.path()), torn).unwrap();
            let kept = if length >= first { 1 } else { 0 };
            let (mut journal, recovered) = Journal::open(folder.path()).unwrap();
            assert_eq!(recovered.changes, lease(1)[..kept], "cut at {length}");
            journal.append(&lease(9)).unwrap();
            drop(journal);
            let expected = [lease(1)[..kept].to_vec(), lease(9)].concat();
            assert_eq!(changes(folder.path()).unwrap(), expected, "cut at {length}");
        }
    }
}

#[test]
fn any_flipped_bit_before_the_last_record_is_an_error_with_file_and_offset() {
    let folder = written(&[lease(1), lease(2), lease(3)]);
    let good = std::fs::read(log(folder.path())).unwrap();
    let first = std::fs::read(log(written(&[lease(1)]).path())).unwrap().len();
    for at in 0..2 * first {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 8);
        std::fs::write(log(folder.path()), bad).unwrap();
        let error = changes(folder.path()).unwrap_err();
        assert_eq!(error.kind(), Kind::Damaged, "bit of byte {at}");
        let offset = at / first * first;
        let context: Vec<_> = error.context().collect();
        assert!(context.contains(&("offset", &offset.to_string())), "{error}");
        assert!(context.iter().any(|(key, value)| *key == "file" && value.ends_with("log-0")));
    }
}

#[test]
fn compaction_keeps_the_facts_and_forgets_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let (mut journal, _) = Journal::open(folder.path()).unwrap();
    let (mut queue, now) = (Queue::new(Rules::default()), Instant::now());
    queue.fill(now, tasks(5));
    let Next::Task(task) = queue.get(now, 7, &Get::default()) else { panic!("there are five") };
    journal.append(&queue.take_changes()).unwrap();
    journal.compact(queue.facts()).unwrap();
    assert!(queue.finish(now, 7, task.lease(), Some(1)));
    journal.append(&queue.take_changes()).unwrap();
    drop(journal);
    let (_, Recovered { facts, changes }) = Journal::open(folder.path()).unwrap();
    assert_eq!(changes.len(), 1);
    let recovered = Queue::recover(Rules::default(), facts, &changes, now).unwrap();
    assert_eq!(recovered.facts(), queue.facts());
    let mut names: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["lock", "log-1", "snapshot-1"]);
}

#[test]
fn a_crash_in_the_middle_of_a_compaction_loses_nothing() {
    let folder = written(&[lease(1)]);
    let old = std::fs::read(log(folder.path())).unwrap();
    let (mut journal, recovered) = Journal::open(folder.path()).unwrap();
    journal.compact(&recovered.facts).unwrap();
    drop(journal);
    // The snapshot was there, its log not yet, and the old files still.
    std::fs::remove_file(folder.path().join("log-1")).unwrap();
    std::fs::write(log(folder.path()), &old).unwrap();
    let (_, recovered) = Journal::open(folder.path()).unwrap();
    assert_eq!(recovered.changes, [], "those are in the snapshot");
    assert!(!log(folder.path()).exists());
}

#[test]
fn a_damaged_snapshot_is_an_error_at_every_byte() {
    let folder = tempfile::tempdir().unwrap();
    let (mut journal, recovered) = Journal::open(folder.path()).unwrap();
    journal.compact(&recovered.facts).unwrap();
    drop(journal);
    let path = folder.path().join("snapshot-1");
    let good = std::fs::read(&path).unwrap();
    let damaged = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        Journal::open(folder.path()).unwrap_err().kind() == Kind::Damaged
    };
    for at in 0..good.len() {
        assert!(damaged(&good[..at]), "cut at {at}");
        let mut flipped = good.clone();
        flipped[at] ^= 0x10;
        assert!(damaged(&flipped), "byte {at}");
    }
    assert!(damaged(&[&good[..], b"x"].concat()));
}

#[test]
fn changes_that_do_not_fit_what_came_before_are_refused() {
    let folder = written(&[lease(3)]);
    let (_, Recovered { facts, changes }) = Journal::open(folder.path()).unwrap();
    let error = Queue::recover(Rules::default(), facts, &changes, Instant::now()).unwrap_err();
    assert_eq!(error.kind(), Kind::Damaged);
}

/// A journal whose snapshot is this.
fn snapshot(facts: &str) -> contract::Result<Queue> {
    let folder = tempfile::tempdir().unwrap();
    let crc = |bytes: &[u8]| crc32c::crc32c(bytes).to_le_bytes();
    let header = [(facts.len() as u32).to_le_bytes(), crc(facts.as_bytes())].concat();
    let record = [&header[..], &crc(&header), facts.as_bytes()].concat();
    std::fs::write(folder.path().join("snapshot-1"), record).unwrap();
    let (_, Recovered { facts, changes }) = Journal::open(folder.path())?;
    Queue::recover(Rules::default(), facts, &changes, Instant::now())
}

/// What an earlier release has written in its fourth pass: one task of two is done.
const OLD_FACTS: &str = r#"{"dataset":{"patterns":["/d"],"files":[{"path":"/d","format":"text",
    "bytes":4}],"parts":[{"file":0,"number":0,"offset":0,"bytes":2},{"file":0,"number":1,"offset":2,
    "bytes":2}],"parts_per_task":1},"pass":3,"tasks":[{"epoch":4,"failures":0,"state":{"Settled":
    {"Done":{"epoch":4,"cut":9}}},"before":{"Done":{"epoch":3,"cut":7}}},{"epoch":3,"failures":0,
    "state":"Todo","before":{"Done":{"epoch":3,"cut":8}}}],"todo":[1],"cut":9,"restores":[],
    "grant":null,"settled":1}"#;

#[test]
fn the_journal_of_an_earlier_release_is_continued_and_what_it_does_not_know_is_refused() {
    let mut queue = snapshot(OLD_FACTS).unwrap();
    assert_eq!((queue.pass(), queue.open_tasks()), (3, (1, 0)));
    let error = queue.reopen(Instant::now(), 6, 1).unwrap_err();
    assert_eq!(error.kind(), Kind::Conflict, "pass 1 may have been in checkpoint 7: {error}");
    let reopened = queue.reopen(Instant::now(), 7, 2).unwrap();
    assert_eq!((reopened.pass, reopened.reopened), (2, 2));
}

#[test]
fn absurd_numbers_in_a_journal_are_refused() {
    for (good, absurd) in [
        (r#""pass":3"#, r#""pass":18446744073709551615"#),
        (r#""pass":3"#, r#""pass":0"#),
        (r#""epoch":3,"failures":0"#, r#""epoch":18446744073709551615,"failures":0"#),
        (r#""failures":0"#, r#""failures":4294967295"#),
        (r#""todo":[1]"#, r#""todo":[18446744073709551615]"#),
        (r#""settled":1"#, r#""settled":18446744073709551615"#),
        (
            r#""settled":1"#,
            r#""settled":1,"past":{"spans":[{"passes":9,"runs":[[2,"set_aside"]]}],"forgotten":0}"#,
        ),
        (
            r#""settled":1"#,
            r#""settled":1,"past":{"spans":[{"passes":1,"runs":[[3,"set_aside"]]}],"forgotten":0}"#,
        ),
        (
            r#""settled":1"#,
            r#""settled":1,"past":{"spans":[{"passes":0,"runs":[[2,"set_aside"]]}],"forgotten":0}"#,
        ),
        (r#""settled":1"#, r#""settled":1,"newer":true"#),
        (r#""parts_per_task":1"#, r#""parts_per_task":0"#),
    ] {
        assert!(OLD_FACTS.contains(good), "{good}");
        let error = snapshot(&OLD_FACTS.replacen(good, absurd, 1)).unwrap_err();
        assert_eq!(error.kind(), Kind::Damaged, "{absurd}: {error}");
    }
}

#[test]
fn a_folder_serves_one_master_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, _) = Journal::open(folder.path()).unwrap();
    assert_eq!(Journal::open(folder.path()).unwrap_err().kind(), Kind::Conflict);
    drop(journal);
    Journal::open(folder.path()).unwrap();
}
