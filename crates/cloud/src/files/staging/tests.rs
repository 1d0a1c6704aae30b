//! Uploads on the disk: what survives, what is noticed, what is cleaned up.

use super::*;
use proptest::prelude::*;

const CHUNK: u64 = 4096;

fn begin(bytes: u64, source: &str) -> Begin {
    Begin {
        path: "/pfs/dc/home/wu/file".to_owned(),
        bytes,
        chunk_bytes: CHUNK,
        source: source.to_owned(),
        mode: None,
        modified_ms: None,
        if_absent: false,
        if_match: None,
    }
}

fn content(bytes: u64) -> Vec<u8> {
    (0..bytes).map(|at| at.to_le_bytes()[0] ^ at.to_le_bytes()[1]).collect()
}

fn chunk_of(content: &[u8], index: u64) -> Vec<u8> {
    let at = usize::try_from(index * CHUNK).unwrap();
    content[at..content.len().min(at + CHUNK as usize)].to_vec()
}

fn sums(content: &[u8]) -> Vec<Checksum> {
    content.chunks(CHUNK as usize).map(Checksum::of).collect()
}

impl Staged {
    /// The same upload, as the next request finds it.
    fn again(&self) -> Staged {
        Staged::load(self.directory.clone(), &self.summed).unwrap().unwrap()
    }
}

fn put(staged: &Staged, index: u64, bytes: &[u8], sum: Checksum) -> Result<()> {
    // Told before and behind a chunk in turns.
    let told = match index % 2 {
        0 => Told::Before(sum),
        _ => Told::After(Vec::new()),
    };
    let behind = if index.is_multiple_of(2) { &[][..] } else { &sum.0[..] };
    let mut chunk = staged.again().receive(index, told)?;
    let bytes = [bytes, behind].concat();
    for mut piece in bytes.chunks(1000) {
        while !piece.is_empty() {
            let taken = chunk.take(piece)?;
            piece = &piece[taken..];
            if chunk.is_full() {
                chunk = chunk.flush()?;
            }
        }
    }
    chunk.finish()
}

fn put_all(staged: &Staged, content: &[u8]) {
    for index in 0..staged.chunks.count() {
        let chunk = chunk_of(content, index);
        let sum = Checksum::of(&chunk);
        put(staged, index, &chunk, sum).unwrap();
    }
}

fn staging() -> (tempfile::TempDir, Staging) {
    let root = tempfile::tempdir().unwrap();
    let staging = Staging::open(&root.path().join("uploads"), false).unwrap();
    (root, staging)
}

#[test]
fn an_upload_is_whole_when_every_chunk_has_arrived() {
    let (_root, staging) = staging();
    let content = content(3 * CHUNK + 100);
    let staged = staging.begin("wu", &begin(content.len() as u64, "s")).unwrap();
    assert_eq!(staged.missing().unwrap(), [Span { first: 0, count: 4 }]);
    for index in [3, 0, 2] {
        let chunk = chunk_of(&content, index);
        let sum = Checksum::of(&chunk);
        put(&staged, index, &chunk, sum).unwrap();
    }
    assert_eq!(staged.missing().unwrap(), [Span { first: 1, count: 1 }]);
    let spans = staged.verify(&sums(&content)).unwrap().unwrap_err();
    assert_eq!(spans, [Span { first: 1, count: 1 }]);
    put_all(&staged, &content);
    let whole = staged.verify(&sums(&content)).unwrap().unwrap();
    assert_eq!(fs::read(staged.data()).unwrap(), content);
    // While it is being published nobody writes.
    let refused = put(&staged, 0, &chunk_of(&content, 0), Checksum::of(&chunk_of(&content, 0)));
    assert_eq!(refused.unwrap_err().kind(), Kind::Conflict);
    drop(whole);
}

#[test]
fn the_same_source_goes_on_and_another_one_begins() {
    let (_root, staging) = staging();
    let asked = begin(10 * CHUNK, "one");
    let first = staging.begin("wu", &asked).unwrap();
    let chunk = vec![7; CHUNK as usize];
    put(&first, 4, &chunk, Checksum::of(&chunk)).unwrap();
    let again = staging.earlier("wu", &asked).unwrap();
    assert_eq!(again.id, first.id);
    assert_eq!(again.missing().unwrap().len(), 2);
    assert!(staging.earlier("wu", &begin(10 * CHUNK, "two")).is_none());
    assert!(staging.earlier("wu", &begin(9 * CHUNK, "one")).is_none());
    assert!(staging.earlier("eve", &asked).is_none());
    assert!(staging.earlier("wu", &begin(10 * CHUNK, "")).is_none());
    assert_eq!(staging.reserved("wu"), 10 * CHUNK);
    assert!(staging.find("eve", &first.id).unwrap().is_none());
    for id in ["", "..", "../eve", &"a".repeat(100), "a/b"] {
        assert!(staging.find("wu", id).unwrap().is_none(), "{id}");
    }
}

#[test]
fn damage_is_noticed_wherever_it_happens() {
    let (_root, staging) = staging();
    let content = content(5 * CHUNK);
    let staged = staging.begin("wu", &begin(5 * CHUNK, "s")).unwrap();
    let (good, bad) = (chunk_of(&content, 0), vec![1; CHUNK as usize]);
    // On the way.
    let damaged = put(&staged, 0, &bad, Checksum::of(&good)).unwrap_err();
    assert_eq!(damaged.kind(), Kind::Damaged);
    assert!(put(&staged, 0, &[1; 10], Checksum::of(&[1; 10])).is_err());
    assert!(put(&staged, 0, &[1; CHUNK as usize + 1], Checksum::of(&bad)).is_err());
    assert!(put(&staged, 5, &good, Checksum::of(&good)).is_err());
    assert_eq!(staged.missing().unwrap(), [Span { first: 0, count: 5 }]);
    // On the disk, after it has arrived.
    put_all(&staged, &content);
    let data = File::options().write(true).open(staged.data()).unwrap();
    let before = changed(&data).unwrap();
    // The kernel's clock may not have moved since.
    let deadline = Instant::now() + Duration::from_secs(30);
    while changed(&data).unwrap() == before && Instant::now() < deadline {
        data.write_all_at(b"rot", 2 * CHUNK + 17).unwrap();
    }
    let spans = staged.verify(&sums(&content)).unwrap().unwrap_err();
    assert_eq!(spans, [Span { first: 2, count: 1 }]);
    put(&staged, 2, &chunk_of(&content, 2), Checksum::of(&chunk_of(&content, 2))).unwrap();
    // Another content than the sender has.
    put(&staged, 1, &bad, Checksum::of(&bad)).unwrap();
    let spans = staged.verify(&sums(&content)).unwrap().unwrap_err();
    assert_eq!(spans, [Span { first: 1, count: 1 }]);
    assert!(staged.verify(&sums(&content)[1..]).is_err());
}

#[test]
fn what_an_earlier_server_wrote_is_read_again() {
    let (root, staging) = staging();
    let content = content(3 * CHUNK);
    let staged = staging.begin("wu", &begin(3 * CHUNK, "s")).unwrap();
    put_all(&staged, &content);
    let data = File::options().write(true).open(staged.data()).unwrap();
    data.write_all_at(b"rot", CHUNK + 17).unwrap();
    for is_shared in [false, true] {
        let staging = Staging::open(&root.path().join("uploads"), is_shared).unwrap();
        let staged = staging.find("wu", &staged.id).unwrap().unwrap();
        let spans = staged.verify(&sums(&content)).unwrap().unwrap_err();
        assert_eq!(spans, [Span { first: 1, count: 1 }]);
        put(&staged, 1, &chunk_of(&content, 1), Checksum::of(&chunk_of(&content, 1))).unwrap();
        staged.verify(&sums(&content)).unwrap().unwrap();
        data.write_all_at(b"rot", CHUNK + 17).unwrap();
    }
}

#[test]
fn unchanged_chunks_come_from_the_file_that_is_there() {
    let (root, staging) = staging();
    let old = content(4 * CHUNK);
    let mut new = content(6 * CHUNK);
    new[CHUNK as usize + 5] ^= 1;
    let path = root.path().join("old");
    fs::write(&path, &old).unwrap();
    let staged = staging.begin("wu", &begin(new.len() as u64, "s")).unwrap();
    staged.reuse(&File::open(&path).unwrap(), &sums(&new)).unwrap();
    let missing = [Span { first: 1, count: 1 }, Span { first: 4, count: 2 }];
    assert_eq!(staged.missing().unwrap(), missing);
    for index in [1, 4, 5] {
        let chunk = chunk_of(&new, index);
        put(&staged, index, &chunk, Checksum::of(&chunk)).unwrap();
    }
    staged.verify(&sums(&new)).unwrap().unwrap();
    assert_eq!(fs::read(staged.data()).unwrap(), new);
}

#[test]
fn what_nobody_continues_is_removed_and_the_rest_stays() {
    let (root, staging) = staging();
    let staged = staging.begin("wu", &begin(CHUNK, "s")).unwrap();
    let left = staging.scratch("wu").unwrap().keep();
    assert_eq!(staging.sweep(Duration::from_secs(3600)), 0);
    assert!(staging.find("wu", &staged.id).unwrap().is_some());
    assert_eq!(staging.sweep(Duration::ZERO), 2);
    assert!(staging.find("wu", &staged.id).unwrap().is_none() && !left.exists());
    assert_eq!(fs::read_dir(root.path().join("uploads/wu")).unwrap().count(), 0);
}

#[test]
fn an_upload_that_has_ended_is_in_nobodys_way_and_known_until_it_is_swept() {
    let (root, staging) = staging();
    let staged = staging.begin("wu", &begin(CHUNK, "s")).unwrap();
    let earlier = staging.find("wu", &staged.id).unwrap().unwrap();
    let entry = Entry {
        path: "/pfs/dc/home/wu/file".to_owned(),
        kind: contract::api::file::EntryKind::File,
        bytes: CHUNK,
        modified_ms: 0,
        mode: 0o644,
        etag: "e".to_owned(),
    };
    staged.finish(&entry).unwrap();
    let folder = root.path().join("uploads/wu");
    let names = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(names.collect::<Vec<_>>(), [ENDED]);
    assert_eq!(staging.reserved("wu"), 0);
    // Also for somebody who found it before it ended.
    assert_eq!(earlier.done(), Some(entry.clone()));
    assert_eq!(staging.find("wu", &staged.id).unwrap().unwrap().done(), Some(entry));
    assert_eq!(staging.sweep(Duration::from_secs(3600)), 0);
    assert_eq!(staging.sweep(Duration::ZERO), 1);
    assert!(staging.find("wu", &staged.id).unwrap().is_none());
}

#[test]
fn a_disk_that_is_full_says_so_at_the_beginning() {
    let (_root, staging) = staging();
    // More than any disk here has.
    let asked = Begin { chunk_bytes: 64 << 20, ..begin(1 << 42, "s") };
    let error = staging.begin("wu", &asked).unwrap_err();
    assert_eq!(error.kind(), Kind::LimitExceeded, "{error}");
    assert_eq!(staging.reserved("wu"), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]

    #[test]
    fn what_is_kept_of_an_upload_may_be_anything(meta in any::<Vec<u8>>(), parts in any::<Vec<u8>>()) {
        let (_root, staging) = staging();
        let staged = staging.begin("wu", &begin(3 * CHUNK, "s")).unwrap();
        fs::write(staged.directory.join(PARTS), &parts).unwrap();
        let _ = staged.missing().unwrap();
        let content = content(3 * CHUNK);
        prop_assert!(staged.verify(&sums(&content)).unwrap().is_err());
        fs::write(staged.directory.join(META), &meta).unwrap();
        let _ = staging.find("wu", &staged.id);
        let _ = staging.reserved("wu");
        prop_assert!(staging.earlier("wu", &begin(3 * CHUNK, "s")).is_none());
    }
}
