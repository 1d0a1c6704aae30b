//! What lines become.

use super::*;
use engine::batch::{Input, Lists, Rows};

#[test]
fn a_batch_has_what_the_lines_say() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "a", text(1..4));
    let batches = read(&feed(config(vec![path], 3)), 0).unwrap();
    let lists = Lists { offsets: vec![0, 1, 3, 6], ids: vec![1, 2, 3, 3, 4, 5], values: None };
    assert_eq!(
        batches,
        [Batch {
            samples: 3,
            inputs: vec![
                Input::single(Rows::Dense(vec![1.5, -0.25, 2.5, -0.25, 3.5, -0.25])),
                Input::single(Rows::Sparse(lists)),
                Input::single(Rows::Integer(vec![1, 2, 3])),
                Input::single(Rows::Integer(vec![1, 0, 1])),
            ]
        }]
    );
}

#[test]
fn batches_go_on_over_files_and_do_not_depend_on_threads() {
    let folder = tempfile::tempdir().unwrap();
    let cuts = [0, 7, 7, 40, 41, 100];
    let paths: Vec<PathBuf> = cuts
        .windows(2)
        .enumerate()
        .map(|(number, cut)| write(folder.path(), &number.to_string(), text(cut[0]..cut[1])))
        .collect();
    let expected = read(&feed(config(paths.clone(), 16)), 0).unwrap();
    let sizes: Vec<usize> = expected.iter().map(|batch| batch.samples).collect();
    assert_eq!(sizes, [16, 16, 16, 16, 16, 16, 4]);
    assert!(numbers(&expected).into_iter().eq(0..100));
    for threads in [1, 3, 8] {
        let feed = feed(Config { threads, ..config(paths.clone(), 16) });
        for pass in 0..2 {
            assert_eq!(read(&feed, pass).unwrap(), expected);
        }
    }
}

#[test]
fn slots_that_nobody_wants_are_passed_over_and_one_may_feed_two_layers() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "a", text(5..7));
    let mut layers = layers().split_off(2);
    layers.push(Layer { name: "again".to_owned(), ..layers[0].clone() });
    let plan = Plan::new(Format::MultiSlot, Some(4), &layers).unwrap();
    let feed = Feed::new(plan, config(vec![path], 8)).unwrap();
    let [ids, labels] = [vec![5, 6], vec![1, 0]].map(|ids| Input::single(Rows::Integer(ids)));
    let inputs = vec![ids.clone(), labels, ids];
    assert_eq!(read(&feed, 0).unwrap(), [Batch { samples: 2, inputs }]);
}

#[test]
fn sequences_of_ids_and_of_numbers_keep_their_lengths() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "a", "3 1 2 3 4 0 1 2 3\n0 0\n1 7 2 8 9\n");
    let layers = [("words", sequence(Value::Integer, 10)), ("rows", sequence(Value::Dense, 2))];
    let layers: Vec<Layer> = layers
        .into_iter()
        .enumerate()
        .map(|(place, (name, shape))| Layer { name: name.to_owned(), shape, place })
        .collect();
    let plan = Plan::new(Format::MultiSlot, None, &layers).unwrap();
    let expected = vec![
        Input::sequence(Rows::Integer(vec![1, 2, 3, 7]), vec![0, 3, 3, 4]),
        Input::sequence(Rows::Dense(vec![0., 1., 2., 3., 8., 9.]), vec![0, 2, 2, 3]),
    ];
    // In one block, and put together from blocks of one.
    for (batch_size, skipping) in [(3, Malformed::Fail), (3, Malformed::Skip)] {
        let config = Config { malformed: skipping, ..config(vec![path.clone()], batch_size) };
        let feed = Feed::new(plan.clone(), config).unwrap();
        assert_eq!(read(&feed, 0).unwrap(), [Batch { samples: 3, inputs: expected.clone() }]);
    }
    let broken = write(folder.path(), "b", "3 1 2 3 4 0 1 2 3\nx\n0 0\n2 1 1 3 0 0 0\n1 7 2 8 9\n");
    let config = Config { malformed: Malformed::Skip, ..config(vec![broken], 3) };
    let feed = Feed::new(plan, config).unwrap();
    assert_eq!(read(&feed, 0).unwrap(), [Batch { samples: 3, inputs: expected }]);
    assert_eq!(feed.skipped(), 2);
}

#[test]
fn criteo_lines_become_the_samples_of_the_python_reader() {
    let folder = tempfile::tempdir().unwrap();
    let numbers = "1\t-3\t\t50\t64000\t1\t2\t3\t4\t5\t6\t7\t8";
    let categories: Vec<String> = (0..26).map(|column| format!("c{column}")).collect();
    let path = write(folder.path(), "a", format!("1\t{numbers}\t{}\n", categories.join("\t")));
    let shape = |value, size| Shape { size, value, ..Shape::dense(size) };
    let mut layers = vec![Layer { name: "x".into(), shape: Shape::dense(13), place: 0 }];
    for place in 1..27 {
        let shape = shape(Value::Integer, 1000);
        layers.push(Layer { name: format!("C{place}"), shape, place });
    }
    layers.push(Layer { name: "click".into(), shape: shape(Value::Integer, 2), place: 27 });
    let format = Format::Criteo { hash_size: 1000 };
    let plan = Plan::new(format, None, &layers).unwrap();
    let batches = read(&Feed::new(plan, config(vec![path], 4)).unwrap(), 0).unwrap();
    let Rows::Dense(dense) = &batches[0].inputs[0].rows else { panic!() };
    assert_eq!(dense[..6], [0.05, 0.0, 0.0, 1.0, 1.0, 0.002]);
    // zlib.crc32(b"0:c0") % 1000, zlib.crc32(b"25:c25") % 1000
    assert_eq!(batches[0].inputs[1].rows, Rows::Integer(vec![CRC_FIRST]));
    assert_eq!(batches[0].inputs[26].rows, Rows::Integer(vec![CRC_LAST]));
    assert_eq!(batches[0].inputs[27].rows, Rows::Integer(vec![1]));

    let too_small = shape(Value::Integer, 999);
    layers[3].shape = too_small;
    let error = Plan::new(format, None, &layers).unwrap_err();
    assert!(error.to_string().contains("an id below 1000"), "{error}");
    assert!(error.to_string().contains("data layer: C3"), "{error}");
}

const CRC_FIRST: u64 = 923;
const CRC_LAST: u64 = 301;

#[test]
fn what_a_line_cannot_hold_is_refused_before_anything_is_read() {
    let shape = |value, level| Shape { size: 4, value, level, ..Shape::dense(4) };
    let check = |shape, place, expect: &str| {
        let layers = [Layer { name: "x".to_owned(), shape, place }];
        let error = Plan::new(Format::MultiSlot, Some(2), &layers).unwrap_err();
        assert!(error.to_string().contains(expect), "{error}");
    };
    check(shape(Value::SparseFloat, Level::Single), 0, "no pairs of ids and numbers");
    check(shape(Value::Integer, Level::Nested), 0, "nested sequence");
    check(shape(Value::SparseBinary, Level::Sequence), 0, "sparse binary sequence");
    check(shape(Value::Dense, Level::Single), 2, "a sample has 2 values");
    for (name, config) in
        [("batch_size", config(vec![], 0)), ("threads", Config { threads: 0, ..config(vec![], 1) })]
    {
        let plan = Plan::new(Format::MultiSlot, None, &layers()).unwrap();
        let Err(error) = Feed::new(plan, config) else { panic!("{name} was accepted") };
        assert!(error.message().contains(name), "{error}");
    }
}
