//! Damaged and hostile files: always a clear error, never a panic, never other values.

use super::{Job, Layout, files, folder};
use contract::{Error, Kind};
use proptest::prelude::*;
use pserver::checkpoint::{Which, list};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;
use table::model::Shape;
use table::optimizer::{AdaGrad, Rule};
use table::placement::mix64;

const LAYOUT: Layout = (1, 1, 1);
const DENSE: &str = "cut-00000012/dense-00000-of-00001";
const SPARSE: &str = "cut-00000012/sparse-00000-of-00001";

/// A job with little in it.
fn sample_job() -> Job {
    let dense = (Shape::Dense { elements: 10 }, BTreeSet::new());
    let sparse = (Shape::Sparse { width: 2, rows: Some(1000) }, (0..20).collect());
    Job::new(Rule::AdaGrad(AdaGrad::default()), &[dense, sparse], 5)
}

/// Its checkpoints 11 and 12. They are written once: many copies are made, and writing them as if
/// they were to survive a power failure takes time.
fn sample(folder: &Path) -> Job {
    static FILES: LazyLock<Vec<(String, Vec<u8>)>> = LazyLock::new(|| {
        let folder = super::folder();
        let job = sample_job();
        job.save(folder.path(), 11, LAYOUT);
        job.save(folder.path(), 12, LAYOUT);
        let files = files(folder.path()).into_iter();
        files.map(|file| (file.clone(), fs::read(folder.path().join(file)).unwrap())).collect()
    });
    for (file, bytes) in FILES.iter() {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    sample_job()
}

/// What restoring says after `change` was done to a file.
fn error_after(file: &str, change: impl FnOnce(&mut Vec<u8>)) -> Error {
    let folder = folder();
    let job = sample(folder.path());
    let path = folder.path().join(file);
    let mut bytes = fs::read(&path).unwrap();
    change(&mut bytes);
    fs::write(&path, bytes).unwrap();
    let error = job.load(folder.path(), Which::Latest, LAYOUT).unwrap_err();
    job.check(folder.path(), Which::Cut(11), (2, 1, 0));
    error
}

fn context<'a>(error: &'a Error, key: &str) -> &'a str {
    error.context().find(|(name, _)| *name == key).map_or("", |(_, value)| value)
}

fn check(error: &Error, file: &str, offset: u64, reason: &str) {
    assert_eq!(error.kind(), Kind::Damaged, "{error}");
    let expected = format!(
        "checkpoint 12 is damaged: {reason}; an older good one is 11: to restore \
         that, move the folders of later ones away"
    );
    assert_eq!(error.message(), expected);
    assert!(context(error, "file").ends_with(file), "{error}");
    assert_eq!(context(error, "offset"), offset.to_string(), "{error}");
}

/// Gives a changed section of a data file the checksums that it would have if it were honest, in
/// the file and in its manifest: what only a hostile hand does.
fn forge(folder: &Path, file: &str, change: impl FnOnce(&mut [u8])) {
    let data = folder.join(format!("{file}.part"));
    let mut bytes = fs::read(&data).unwrap();
    change(&mut bytes[16..]);
    let checksum = crc32fast::hash(&[&bytes[16..44], &bytes[48..]].concat());
    bytes[44..48].copy_from_slice(&checksum.to_le_bytes());
    fs::write(&data, &bytes).unwrap();

    rewrite(&folder.join(format!("{file}.json")), |body| {
        let (before, after) = body.split_once("\"checksum\": ").unwrap();
        let after = after.trim_start_matches(|digit: char| digit.is_ascii_digit());
        let total = crc32fast::hash(&checksum.to_le_bytes());
        format!("{before}\"checksum\": {total}{after}")
    });
}

/// Changes a manifest, with an honest checksum.
fn rewrite(manifest: &Path, change: impl FnOnce(&str) -> String) {
    let text = fs::read_to_string(manifest).unwrap();
    let (body, _) = text.rsplit_once(",\n  \"crc32\"").unwrap();
    let body = change(body);
    let crc = crc32fast::hash(body.as_bytes());
    fs::write(manifest, format!("{body},\n  \"crc32\": \"{crc:08x}\"\n}}\n")).unwrap();
}

fn put_word(bytes: &mut [u8], place: usize, word: u32) {
    bytes[place..place + 4].copy_from_slice(&word.to_le_bytes());
}

#[test]
fn damage_is_named_and_an_older_checkpoint_is_offered() {
    let data = format!("{DENSE}.part");
    let flipped = error_after(&data, |bytes| bytes[60] ^= 1);
    check(&flipped, &data, 16, "section does not have its checksum");
    let mark = error_after(&data, |bytes| bytes[16] ^= 1);
    check(&mark, &data, 16, "no section begins where one should");
    let magic = error_after(&data, |bytes| bytes[0] ^= 1);
    check(&magic, &data, 0, "file does not begin as one of a checkpoint");
    let size = "file does not have the size that its manifest says";
    check(&error_after(&data, |bytes| bytes.truncate(50)), &data, 50, size);
    let longer = error_after(&data, |bytes| bytes.push(0));
    check(&longer, &data, context(&longer, "expected_bytes").parse().unwrap(), size);

    let manifest = format!("{SPARSE}.json");
    let error = error_after(&manifest, |bytes| bytes[30] ^= 1);
    assert_eq!(error.kind(), Kind::Damaged);
    assert!(error.message().starts_with("checkpoint 12 is damaged: manifest does not have its"));
    assert!(error.message().contains("an older good one is 11"), "{error}");
    assert!(context(&error, "file").ends_with(&manifest), "{error}");
}

#[test]
fn a_missing_data_file_is_damage_and_a_missing_manifest_is_an_unfinished_cut() {
    let folder = folder();
    let job = sample(folder.path());
    let data = format!("{SPARSE}.part");
    fs::remove_file(folder.path().join(&data)).unwrap();
    let error = job.load(folder.path(), Which::Latest, LAYOUT).unwrap_err();
    check(&error, &data, 0, "file is missing");
    fs::remove_file(folder.path().join(format!("{SPARSE}.json"))).unwrap();
    job.check(folder.path(), Which::Latest, LAYOUT);
    let error = job.load(folder.path(), Which::Cut(12), LAYOUT).unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound);
    assert!(error.message().contains("an older good one is 11"), "{error}");
}

#[test]
fn an_older_checkpoint_is_offered_only_if_it_seems_good() {
    let folder = folder();
    let job = sample(folder.path());
    let text = |which| job.load(folder.path(), which, LAYOUT).unwrap_err().message().to_owned();
    job.save(folder.path(), 13, LAYOUT);
    let cut = |file: &str| fs::write(folder.path().join(file), "short").unwrap();
    cut("cut-00000013/dense-00000-of-00001.part");
    cut(&format!("{SPARSE}.part"));
    assert!(text(Which::Latest).contains("an older good one is 11"));
    cut("cut-00000011/sparse-00000-of-00001.json");
    assert!(text(Which::Cut(13)).ends_with("there is no older good one"));
    let summary = list(folder.path()).unwrap();
    assert!(summary[0].missing[0].starts_with("manifest is too short"), "{summary:?}");
}

#[test]
fn manifests_of_other_releases_are_not_taken_for_damage() {
    for (from, to, kind, reason) in [
        ("\"format\": 1", "\"format\": 2", Kind::Unsupported, "manifest is of another format"),
        ("\"square_sum\"", "\"sum\"", Kind::Unsupported, "checkpoint has other columns"),
        ("\"cut\": 12", "\"cut\": 11", Kind::Damaged, "manifest is of another shard or cut"),
        ("65536", "65535", Kind::Damaged, "manifest claims other buckets"),
        (".part\"", "/../x\"", Kind::Damaged, "manifest claims other buckets or another file"),
        ("\"dense\": 1", "\"dense\": 9999999", Kind::Damaged, "manifest claims more shards"),
        ("\"seed\": 5", "\"speed\": 5", Kind::Damaged, "manifest cannot be read"),
        ("\"width\": 2", "\"width\": 0", Kind::Damaged, "manifest has no possible model"),
    ] {
        let folder = folder();
        let job = sample(folder.path());
        rewrite(&folder.path().join(format!("{SPARSE}.json")), |body| {
            assert!(body.contains(from), "{from} is not in {body}");
            body.replacen(from, to, 1)
        });
        let error = job.load(folder.path(), Which::Latest, LAYOUT).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.message().contains(reason), "{error}");
        assert!(error.message().contains("an older good one is 11"), "{error}");
    }
}

#[test]
fn claims_of_hostile_sections_are_checked_before_they_are_believed() {
    // Words of the section's head: mark, parameter, parts, value, state, counters, bytes.
    let size = "section does not have the size that its parts claim";
    let shape = "section has parts of another size than the model's";
    for (place, word, reason) in [
        (1, 0, "section is of a parameter that the shard does not hold"),
        (1, u32::MAX, "section is of a parameter that the shard does not hold"),
        (2, 0, size),
        (2, u32::MAX, size),
        (3, u32::MAX, shape),
        (4, u32::MAX, shape),
        (5, u32::MAX, shape),
        (6, u32::MAX, size),
        // The first key, whose rows are below 1000.
        (8, 1000, "section has a block or row that the model does not have"),
    ] {
        let folder = folder();
        let job = sample(folder.path());
        forge(folder.path(), SPARSE, |section| put_word(section, place * 4, word));
        let error = job.load(folder.path(), Which::Latest, LAYOUT).unwrap_err();
        check(&error, &format!("{SPARSE}.part"), 16, reason);
    }
    // Enough parts for 4 GiB, and all numbers in step.
    let folder = folder();
    let job = sample(folder.path());
    forge(folder.path(), SPARSE, |section| {
        let part = 8 + 4 * (2 + 2 + word_at(section, 5));
        let parts = u32::MAX / part;
        put_word(section, 8, parts);
        put_word(section, 24, parts * part);
    });
    let error = job.load(folder.path(), Which::Latest, LAYOUT).unwrap_err();
    check(&error, &format!("{SPARSE}.part"), 16, size);
}

fn word_at(bytes: &[u8], word: usize) -> u32 {
    u32::from_le_bytes(bytes[word * 4..word * 4 + 4].try_into().unwrap())
}

#[test]
fn a_block_that_is_missing_or_comes_twice_is_found() {
    let folder = folder();
    let blocks = (Shape::Dense { elements: 3 * 16_384 }, BTreeSet::new());
    let job = Job::new(Rule::AdaGrad(AdaGrad::default()), &[blocks], 5);
    job.save(folder.path(), 12, LAYOUT);
    forge(folder.path(), DENSE, |section| {
        let stride = word_at(section, 6) / word_at(section, 2);
        put_word(section, 32 + stride as usize, 0);
    });
    let error = job.load(folder.path(), Which::Latest, LAYOUT).unwrap_err();
    assert_eq!(error.kind(), Kind::Damaged);
    assert!(error.message().contains("section has a block for the second time"), "{error}");

    let one = (Shape::Dense { elements: 16_384 }, BTreeSet::new());
    let mut none = Job::new(Rule::AdaGrad(AdaGrad::default()), &[one], 5);
    none.contents.clear();
    none.save(folder.path(), 13, LAYOUT);
    let error = none.load(folder.path(), Which::Latest, LAYOUT).unwrap_err();
    assert!(error.message().contains("blocks of a dense parameter are missing"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() })]

    #[test]
    fn random_damage_gives_an_error_or_the_very_values(
        seed: u64, file: prop::sample::Index, place: prop::sample::Index, kind in 0..5, byte: u8,
    ) {
        let folder = folder();
        let job = sample(folder.path());
        let files = files(folder.path());
        let path = folder.path().join(file.get(&files));
        let mut bytes = fs::read(&path).unwrap();
        let place = place.index(bytes.len());
        match kind {
            0 => bytes[place] ^= byte,
            1 => bytes.truncate(place),
            2 => bytes.insert(place, byte),
            3 => bytes[place..].iter_mut().zip(0..16).for_each(|(byte, i)| *byte = mix64(seed + i) as u8),
            _ => drop(bytes.drain(place..bytes.len().min(place + 16))),
        }
        fs::write(&path, bytes).unwrap();
        list(folder.path()).unwrap();
        for (which, layout) in [(Which::Latest, LAYOUT), (Which::Cut(11), (2, 1, 0))] {
            match job.load(folder.path(), which, layout) {
                Ok(contents) => prop_assert!(contents.unwrap() == job.contents),
                Err(error) => prop_assert_eq!(error.kind(), Kind::Damaged, "{}", error),
            }
        }
    }

    #[test]
    fn a_hostile_section_never_makes_a_reader_panic(
        word in 0..40usize, value in prop_oneof![any::<u32>(), 0..64u32], file in 0..2usize,
    ) {
        let folder = folder();
        let job = sample(folder.path());
        forge(folder.path(), [DENSE, SPARSE][file], |section| {
            if section.len() >= word * 4 + 4 {
                put_word(section, word * 4, value);
            }
        });
        // A forged value is a value; only keys may not come twice, which the test itself asserts.
        let is_key = file == 1 && word >= 8;
        if !is_key && let Err(error) = job.load(folder.path(), Which::Latest, LAYOUT) {
            prop_assert_eq!(error.kind(), Kind::Damaged, "{}", error);
        }
    }
}
