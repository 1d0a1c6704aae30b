//! Samples that are kept in memory, shuffled and shared.

use super::*;
use contract::Kind;
use feed::{Memory, Share};

fn memory(shuffle: Option<u64>) -> Memory {
    Memory { shuffle, bytes_max: 1 << 30 }
}

fn sorted(mut numbers: Vec<u64>) -> Vec<u64> {
    numbers.sort_unstable();
    numbers
}

#[test]
fn samples_in_memory_are_shuffled_anew_for_every_pass_and_alike_in_every_process() {
    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> = (0..3)
        .map(|file| write(folder.path(), &file.to_string(), text(file * 999..(file + 1) * 999)))
        .collect();
    let make = |shuffle, threads| {
        let memory = Some(memory(shuffle));
        feed(Config { memory, threads, ..config(paths.clone(), 64) })
    };
    let first = make(Some(3), 1);
    let [zero, one] = [0, 1].map(|pass| numbers(&read(&first, pass).unwrap()));
    assert_ne!(zero, one);
    for numbers in [&zero, &one] {
        assert!(sorted(numbers.clone()).into_iter().eq(0..2997));
    }
    let again = make(Some(3), 4);
    // A process that was started again begins in the middle.
    assert_eq!(numbers(&read(&again, 1).unwrap()), one);
    assert_eq!(numbers(&read(&again, 0).unwrap()), zero);
    assert_ne!(numbers(&read(&make(Some(4), 1), 0).unwrap()), zero);
    assert!(numbers(&read(&make(None, 2), 0).unwrap()).into_iter().eq(0..2997));
}

#[test]
fn samples_keep_their_values_when_they_are_shuffled() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "a", text(0..100));
    let shuffled = feed(Config { memory: Some(memory(Some(1))), ..config(vec![path.clone()], 1) });
    let plain = read(&feed(config(vec![path], 1)), 0).unwrap();
    for batch in read(&shuffled, 0).unwrap() {
        let number = numbers(std::slice::from_ref(&batch))[0];
        assert_eq!(batch, plain[number as usize]);
    }
}

#[test]
fn trainers_that_share_all_lines_have_each_of_them_once_whatever_their_seeds() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "a", text(0..1000));
    for is_in_memory in [true, false] {
        let mut all = Vec::new();
        for rank in 0..3 {
            let share = Some(Share { rank, trainers: 3 });
            let memory = is_in_memory.then(|| memory(Some(rank)));
            let config = Config { share, memory, ..config(vec![path.clone()], 64) };
            let own = numbers(&read(&feed(config), 0).unwrap());
            assert!((333..=334).contains(&own.len()), "{}", own.len());
            all.extend(own);
        }
        assert!(sorted(all).into_iter().eq(0..1000));
    }
}

#[test]
fn more_memory_than_allowed_is_an_error_that_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "a", text(0..10_000));
    let memory = Some(Memory { bytes_max: 1000, ..memory(None) });
    let feed = feed(Config { memory, ..config(vec![path], 64) });
    let error = feed.pass(0, &|| Ok(())).err().unwrap();
    assert_eq!(error.kind(), Kind::LimitExceeded);
    assert!(error.message().contains("memory_bytes_max"), "{error}");
}
