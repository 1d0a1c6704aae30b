//! Checkpoints on disk: what is written comes back, on any layout, or a clear error does.

mod damage;

use contract::mode::Mode;
use contract::{Kind, Result};
use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use pserver::checkpoint::{Completed, CutSummary, Directory, Which, Writer, list, newest};
use pserver::message::Join;
use pserver::policy::Record;
use pserver::shard::{CutFacts, Restore, Saved, TableFacts};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use table::initializer::Initializer;
use table::model::{Model, Parameter, Shape};
use table::optimizer::{AdaGrad, Adam, Momentum, Optimizer, Rule, Settings, Update};
use table::placement::{BLOCK_ELEMENTS, blocks_of, bucket_of, mix64, name_hash};
use table::store::{self, SavedBlock, SparseTable};
use tempfile::TempDir;

/// Every block and row of a model by parameter and key: value, state, counters, as bits.
type Contents = BTreeMap<(usize, u64), [Vec<u32>; 3]>;

/// Servers, dense ports, sparse ports.
type Layout = (u32, u32, u32);

/// A model with what it holds.
#[derive(Debug, Clone)]
struct Job {
    model: Model,
    contents: Contents,
}

impl Job {
    /// Parameters by shape, each sparse one with its keys; values are bits drawn from `seed`.
    fn new(rule: Rule, parameters: &[(Shape, BTreeSet<u64>)], seed: u64) -> Job {
        let parameter = |(place, (shape, _)): (usize, &(Shape, _))| Parameter {
            name: format!("parameter {place}"),
            shape: *shape,
            mode: Mode::Sync,
            initializer: Initializer::Zero,
            settings: Settings::default(),
        };
        let model = Model {
            seed,
            // Not a short decimal number: it must survive the manifest's JSON.
            optimizer: Optimizer::new(rule, 0.1 / 3.0),
            parameters: parameters.iter().enumerate().map(parameter).collect(),
        };
        let mut contents = Contents::new();
        for (place, (shape, keys)) in parameters.iter().enumerate() {
            let keys = match shape {
                Shape::Dense { elements } => (0..blocks_of(*elements)).collect(),
                Shape::Sparse { .. } => keys.clone(),
            };
            let facts = table_facts(&model, place);
            for key in keys {
                let value = value_len(*shape, key);
                let lengths = [value, value * facts.columns.len(), facts.counters.len()];
                let bits = |sort: usize, i: usize| {
                    mix64(seed ^ mix64(key) ^ mix64((place << 40 | sort << 32 | i) as u64)) as u32
                };
                let cell =
                    [0, 1, 2].map(|sort| (0..lengths[sort]).map(|i| bits(sort, i)).collect());
                contents.insert((place, key), cell);
            }
        }
        Job { model, contents }
    }

    /// A small one: a dense parameter of three blocks and a sparse one.
    fn small(seed: u64) -> Job {
        let dense = Shape::Dense { elements: 2 * BLOCK_ELEMENTS as u64 + 5 };
        let sparse = Shape::Sparse { width: 4, rows: None };
        let parameters = [(dense, BTreeSet::new()), (sparse, (0..40).map(mix64).collect())];
        Job::new(Rule::Adam(Adam::default()), &parameters, seed)
    }

    /// What trainers say to every shard.
    fn joins(&self, (servers, dense_ports, sparse_ports): Layout) -> Vec<Join> {
        let ports = dense_ports + sparse_ports;
        let join = |shard: u32| Join {
            rank: 0,
            trainers: 1,
            server: shard / ports,
            servers,
            port: shard % ports,
            dense_ports,
            sparse_ports,
            model: self.model.clone(),
            epoch: None,
            lag_ratio_max: None,
            attempt: None,
        };
        (0..servers * ports).map(join).collect()
    }

    /// What a shard saves.
    fn pieces(&self, join: &Join, facts: CutFacts) -> Vec<Saved> {
        let place = join.place().unwrap();
        let held: Vec<usize> = (0..self.model.parameters.len())
            .filter(|number| join.holds(self.model.parameters[*number].shape))
            .collect();
        let tables = held.iter().map(|number| table_facts(&self.model, *number)).collect();
        let mut pieces = vec![Saved::Begin { facts, tables }];
        for parameter in held {
            let Parameter { name, shape, .. } = &self.model.parameters[parameter];
            let cells = self.contents.range((parameter, 0)..=(parameter, u64::MAX));
            let own = cells.filter(|((_, key), _)| place.owns(bucket_of(name_hash(name), *key)));
            let Shape::Sparse { width, .. } = shape else {
                pieces.extend(own.map(|((_, number), [value, state, counters])| Saved::Block {
                    parameter,
                    block: SavedBlock {
                        number: *number,
                        value: floats(value),
                        state: floats(state),
                        counters: counters.clone(),
                        version: 0,
                    },
                }));
                continue;
            };
            let facts = table_facts(&self.model, parameter);
            let width = *width as usize;
            let state = width * facts.columns.len();
            let shape = store::Shape { width, state, counters: facts.counters.len() };
            let mut rows = SparseTable::new(shape, usize::MAX);
            for ((_, key), [value, state, counters]) in own {
                let fill = |_, row: store::Row<'_>| {
                    row.value.copy_from_slice(&floats(value));
                    row.state.copy_from_slice(&floats(state));
                    row.counters.copy_from_slice(counters);
                };
                rows.insert(&[*key], fill).unwrap();
            }
            rows.begin_cut();
            pieces.extend(
                std::iter::from_fn(|| rows.next_saved())
                    .map(|rows| Saved::Rows { parameter, rows }),
            );
        }
        pieces.push(Saved::End);
        pieces
    }

    fn save(&self, folder: &Path, cut: u64, layout: Layout) {
        self.save_keeping(folder, cut, layout, 100);
    }

    fn save_keeping(&self, folder: &Path, cut: u64, layout: Layout, keep: u32) {
        for join in self.joins(layout) {
            let mut writer = Writer::new(folder, keep, &join).unwrap();
            write_all(&mut writer, self.pieces(&join, facts(cut, 10 * cut))).unwrap();
        }
    }

    /// What the shards of a layout get together.
    fn load(&self, folder: &Path, which: Which, layout: Layout) -> Result<Option<Contents>> {
        let mut contents = Contents::new();
        let mut restored = 0;
        let joins = self.joins(layout);
        for join in &joins {
            restored += usize::from(self.load_shard(folder, which, join, &mut contents)?.is_some());
        }
        assert!(restored == 0 || restored == joins.len());
        Ok((restored > 0).then_some(contents))
    }

    fn load_shard(
        &self,
        folder: &Path,
        which: Which,
        join: &Join,
        contents: &mut Contents,
    ) -> Result<Option<CutFacts>> {
        let place = join.place().unwrap();
        let mut directory = Directory { folder: folder.to_path_buf(), which };
        directory.restore(join, &mut |parameter, part| {
            let Parameter { name, shape, .. } = &self.model.parameters[parameter];
            assert!(join.holds(*shape) && place.owns(bucket_of(name_hash(name), part.key)));
            let cell = [bits(part.value), bits(part.state), part.counters.to_vec()];
            assert!(contents.insert((parameter, part.key), cell).is_none(), "a part came twice");
            Ok(())
        })
    }

    fn check(&self, folder: &Path, which: Which, layout: Layout) {
        assert!(self.load(folder, which, layout).unwrap().unwrap() == self.contents, "{layout:?}");
    }
}

fn write_all(writer: &mut Writer, pieces: Vec<Saved>) -> Result<Option<Completed>> {
    let mut completed = None;
    for piece in pieces {
        completed = writer.write(piece)?;
    }
    Ok(completed)
}

fn facts(cut: u64, version: u64) -> CutFacts {
    let trainers = vec![Record { incarnation: 77, sequence: version, batches: 3 }];
    CutFacts { cut, version, pass: 2, samples: 100 * version, incarnation: 9, epoch: 5, trainers }
}

fn table_facts(model: &Model, parameter: usize) -> TableFacts {
    let Parameter { name, shape, settings, .. } = &model.parameters[parameter];
    let update = Update::new(&model.optimizer, settings, shape.is_sparse()).unwrap();
    let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect();
    TableFacts {
        parameter,
        name: name.clone(),
        is_sparse: shape.is_sparse(),
        columns: names(&update.columns().state),
        counters: names(&update.columns().counters),
    }
}

fn value_len(shape: Shape, key: u64) -> usize {
    match shape {
        Shape::Dense { elements } => {
            (elements - key * BLOCK_ELEMENTS as u64).min(BLOCK_ELEMENTS as u64) as usize
        }
        Shape::Sparse { width, .. } => width as usize,
    }
}

fn floats(bits: &[u32]) -> Vec<f32> {
    bits.iter().copied().map(f32::from_bits).collect()
}

fn bits(floats: &[f32]) -> Vec<u32> {
    floats.iter().copied().map(f32::to_bits).collect()
}

/// All files in all cuts, as `cut-00000001/dense-00000-of-00001.json`.
fn files(folder: &Path) -> Vec<String> {
    let mut files = Vec::new();
    for cut in fs::read_dir(folder).unwrap() {
        let cut = cut.unwrap();
        let cut_name = cut.file_name().into_string().unwrap();
        let names = fs::read_dir(cut.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        if names.is_empty() {
            files.push(format!("{cut_name}/"));
        }
        files.extend(names.iter().map(|name| format!("{cut_name}/{name}")));
    }
    files.sort();
    files
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn any_job() -> impl Strategy<Value = Job> {
    let rule = prop_oneof![
        Just(Rule::Momentum(Momentum::default())),
        Just(Rule::AdaGrad(AdaGrad::default())),
        Just(Rule::Adam(Adam::default())),
    ];
    let dense = (1..3 * BLOCK_ELEMENTS as u64)
        .prop_map(|elements| (Shape::Dense { elements }, BTreeSet::new()));
    let sparse = (1..40u32, btree_set(any::<u64>(), 0..300))
        .prop_map(|(width, keys)| (Shape::Sparse { width, rows: None }, keys));
    let parameters = vec(prop_oneof![dense, sparse], 0..5);
    (rule, parameters, any::<u64>())
        .prop_map(|(rule, parameters, seed)| Job::new(rule, &parameters, seed))
}

fn any_layout() -> impl Strategy<Value = Layout> {
    (1..4u32, 1..4u32, 0..4u32)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_layout_restores_what_any_other_has_saved_bit_by_bit_and_once(
        job in any_job(), writers in any_layout(), readers in any_layout(),
    ) {
        let folder = folder();
        job.save(folder.path(), 1, writers);
        let restored = job.load(folder.path(), Which::Latest, readers).unwrap().unwrap();
        prop_assert!(restored == job.contents);
    }
}

#[test]
fn a_long_table_is_many_sections_and_a_wide_row_is_one() {
    let folder = folder();
    let long = (Shape::Sparse { width: 16, rows: None }, (0..40_000).map(mix64).collect());
    let wide = (Shape::Sparse { width: 65_536, rows: Some(9) }, BTreeSet::from([0, 8]));
    let job = Job::new(Rule::Adam(Adam::default()), &[long, wide], 3);
    job.save(folder.path(), 1, (2, 1, 1));
    job.check(folder.path(), Which::Cut(1), (1, 2, 0));
}

#[test]
fn a_manifest_is_published_last_and_by_the_last_piece_alone() {
    let folder = folder();
    let job = Job::small(1);
    let join = &job.joins((1, 1, 0))[0];
    let mut writer = Writer::new(folder.path(), 1, join).unwrap();
    let pieces = job.pieces(join, facts(7, 70));
    let last = pieces.len() - 1;
    for (place, piece) in pieces.into_iter().enumerate() {
        let completed = writer.write(piece).unwrap();
        let files = files(folder.path());
        if place < last {
            assert_eq!(completed, None);
            assert_eq!(files.len(), 1, "{files:?}");
            assert!(files[0].starts_with("cut-00000007/.dense-00000-of-00001."), "{files:?}");
            assert!(job.load(folder.path(), Which::Latest, (1, 1, 0)).is_err());
        } else {
            let names =
                ["json", "part"].map(|end| format!("cut-00000007/dense-00000-of-00001.{end}"));
            assert_eq!(files, names);
            let bytes =
                names.iter().map(|name| fs::metadata(folder.path().join(name)).unwrap().len());
            assert_eq!(completed, Some(Completed { cut: 7, bytes: bytes.sum() }));
        }
    }
    job.check(folder.path(), Which::Latest, (1, 1, 0));
}

#[test]
fn a_cut_is_complete_when_all_shards_have_published_and_latest_is_the_newest_such() {
    let folder = folder();
    let (old, new) = (Job::small(1), Job::small(1));
    assert!(old.load(folder.path(), Which::Common, (1, 1, 1)).unwrap().is_none());
    let error = old.load(folder.path(), Which::Latest, (1, 1, 1)).unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound, "{error}");
    assert_eq!(newest(folder.path()).unwrap(), 0);
    old.save(folder.path(), 1, (2, 1, 1));
    let joins = new.joins((2, 1, 1));
    for (place, join) in joins.iter().enumerate() {
        old.check(folder.path(), Which::Latest, (1, 1, 1));
        let summary = &list(folder.path()).unwrap()[..];
        assert!(summary[0].is_complete);
        if place > 0 {
            let [_, CutSummary { cut: 2, version: 20, is_complete: false, missing, .. }] = summary
            else {
                panic!("{summary:?}");
            };
            assert_eq!(missing.len(), 4 - place, "{missing:?}");
            assert!(missing.contains(&"no sparse-00001-of-00002.json".to_owned()));
        }
        let mut writer = Writer::new(folder.path(), 9, join).unwrap();
        write_all(&mut writer, new.pieces(join, facts(2, 20))).unwrap();
    }
    let summary = list(folder.path()).unwrap();
    assert_eq!(summary.iter().map(|cut| cut.is_complete).collect::<Vec<_>>(), [true, true]);
    assert!(summary.iter().all(|cut| cut.bytes > 0 && cut.missing.is_empty()));
    assert_eq!(newest(folder.path()).unwrap(), 2);
    new.check(folder.path(), Which::Latest, (1, 1, 1));
    old.check(folder.path(), Which::Cut(1), (1, 1, 1));
    fs::create_dir(folder.path().join("cut-281474976710656")).unwrap();
    assert_eq!(newest(folder.path()).unwrap_err().kind(), Kind::Invalid);
}

#[test]
fn cuts_of_which_none_is_complete_are_an_error_that_says_what_is_missing() {
    let folder = folder();
    let job = Job::small(1);
    let joins = job.joins((2, 1, 0));
    let mut writer = Writer::new(folder.path(), 1, &joins[1]).unwrap();
    write_all(&mut writer, job.pieces(&joins[1], facts(4, 40))).unwrap();
    for (which, expected) in [
        (
            Which::Latest,
            "no checkpoint can be restored: checkpoint 4 is incomplete: no dense-00000-of-00002.json",
        ),
        (
            Which::Cut(4),
            "checkpoint 4 is incomplete: no dense-00000-of-00002.json; there is no older good one",
        ),
        (Which::Cut(5), "there is no checkpoint 5"),
    ] {
        let error = job.load(folder.path(), which, (1, 1, 0)).unwrap_err();
        assert_eq!((error.kind(), error.message()), (Kind::NotFound, expected));
    }
}

#[test]
fn shards_that_cut_after_different_updates_make_no_checkpoint_unless_they_are_async() {
    for (mode, is_complete) in [(Mode::Sync, false), (Mode::Async, true), (Mode::Stale(3), true)] {
        let folder = folder();
        let mut job = Job::small(1);
        for parameter in &mut job.model.parameters {
            parameter.mode = mode;
        }
        for (place, join) in job.joins((2, 1, 1)).iter().enumerate() {
            let mut writer = Writer::new(folder.path(), 1, join).unwrap();
            write_all(&mut writer, job.pieces(join, facts(1, 10 + place as u64))).unwrap();
        }
        let summary = &list(folder.path()).unwrap()[0];
        assert_eq!(summary.is_complete, is_complete, "{mode}: {:?}", summary.missing);
    }
}

#[test]
fn a_hybrid_job_is_held_together_by_its_dense_version() {
    let folder = folder();
    let mut job = Job::small(1);
    job.model.parameters[1].mode = Mode::Async;
    for (place, join) in job.joins((2, 1, 1)).iter().enumerate() {
        let version = if join.port == 0 { 10 } else { 30 + place as u64 };
        let mut writer = Writer::new(folder.path(), 1, join).unwrap();
        write_all(&mut writer, job.pieces(join, facts(1, version))).unwrap();
    }
    job.check(folder.path(), Which::Latest, (3, 1, 0));
    // A shard that holds both goes on where the steps were, one of rows alone where pushes were.
    let version = |layout: Layout, shard: usize| {
        let join = &job.joins(layout)[shard];
        let facts = job.load_shard(folder.path(), Which::Latest, join, &mut Contents::new());
        facts.unwrap().unwrap().version
    };
    assert_eq!(version((1, 1, 0), 0), 10);
    assert_eq!(version((1, 1, 1), 1), 33);
}

#[test]
fn a_shard_gets_its_own_facts_back_and_a_new_one_the_furthest() {
    let folder = folder();
    let mut job = Job::small(1);
    for parameter in &mut job.model.parameters {
        parameter.mode = Mode::Async;
    }
    let joins = job.joins((2, 1, 0));
    for (place, join) in joins.iter().enumerate() {
        let mut writer = Writer::new(folder.path(), 1, join).unwrap();
        write_all(&mut writer, job.pieces(join, facts(1, 10 + place as u64))).unwrap();
    }
    let restored = |join: &Join| {
        let facts = job.load_shard(folder.path(), Which::Latest, join, &mut Contents::new());
        facts.unwrap().unwrap()
    };
    assert_eq!(restored(&joins[0]), facts(1, 10));
    assert_eq!(restored(&joins[1]), facts(1, 11));
    // Two ports of one server are the same two shards.
    assert_eq!(restored(&job.joins((1, 2, 0))[0]), facts(1, 10));
    let other = restored(&job.joins((1, 1, 0))[0]);
    // The processes and frames of other shards mean nothing here; how far the data was does.
    let trainers = vec![Record { batches: 3, ..Record::default() }];
    assert_eq!(other, CutFacts { trainers, ..facts(1, 11) });
}

/// In async mode shards cut at different moments, also on either side of the end of a pass.
#[test]
fn trainers_go_on_behind_the_shard_that_is_least_far_in_the_data() {
    let folder = folder();
    let mut job = Job::small(1);
    for parameter in &mut job.model.parameters {
        parameter.mode = Mode::Async;
    }
    for (place, join) in job.joins((3, 1, 0)).iter().enumerate() {
        let (pass, batches) = [(2, 1), (1, 7), (1, 8)][place];
        let trainers = vec![Record { incarnation: 77, sequence: 5, batches }];
        let facts = CutFacts { pass, trainers, ..facts(1, 10) };
        let mut writer = Writer::new(folder.path(), 1, join).unwrap();
        write_all(&mut writer, job.pieces(join, facts)).unwrap();
    }
    let join = &job.joins((1, 1, 0))[0];
    let restored = job.load_shard(folder.path(), Which::Latest, join, &mut Contents::new());
    let CutFacts { pass, trainers, .. } = restored.unwrap().unwrap();
    assert_eq!((pass, trainers), (1, vec![Record { batches: 7, ..Record::default() }]));
}

#[test]
fn another_number_of_trainers_may_restore_and_another_model_may_not() {
    let folder = folder();
    let job = Job::small(1);
    job.save(folder.path(), 1, (1, 1, 1));
    let mut join = job.joins((1, 1, 1))[0].clone();
    join.trainers = 5;
    let restored = job.load_shard(folder.path(), Which::Latest, &join, &mut Contents::new());
    assert_eq!(restored.unwrap(), Some(facts(1, 10)));

    let mut other = Job::small(1);
    other.model.optimizer.learning_rate = 0.5;
    other.save(folder.path(), 2, (1, 1, 1));
    let error = job.load(folder.path(), Which::Latest, (1, 1, 1)).unwrap_err();
    assert_eq!(error.kind(), Kind::Conflict);
    let text = error.message();
    assert!(text.starts_with("checkpoint 2 is of another model: "), "{text}");
    assert!(text.contains("the optimizer is"), "{text}");
    assert!(text.contains("an older good one is 1: to restore that, move the folders"), "{text}");
    let error = other.load(folder.path(), Which::Cut(1), (1, 1, 1)).unwrap_err();
    assert!(error.message().ends_with("there is no older good one"), "{error}");
}

#[test]
fn the_newest_complete_cuts_are_kept_and_nothing_newer_is_touched() {
    let folder = folder();
    let job = Job::small(1);
    let layout = (1, 1, 1);
    for cut in 1..=5 {
        job.save_keeping(folder.path(), cut, layout, 2);
    }
    // The dense shard published 5 when the sparse one had not: it keeps one more.
    let cuts = |folder: &Path| -> BTreeSet<String> {
        files(folder).iter().map(|file| file[..12].to_owned()).collect()
    };
    let kept: BTreeSet<_> = [3, 4, 5].map(|cut| format!("cut-{cut:08}")).into();
    assert_eq!(cuts(folder.path()), kept);
    assert_eq!(files(folder.path()).len(), 2 + 4 + 4);
    job.check(folder.path(), Which::Cut(4), layout);
    job.check(folder.path(), Which::Cut(5), layout);

    // A cut that is newer and incomplete stays, whoever writes an older one.
    let joins = job.joins(layout);
    let mut writer = Writer::new(folder.path(), 2, &joins[1]).unwrap();
    write_all(&mut writer, job.pieces(&joins[1], facts(9, 90))).unwrap();
    job.save_keeping(folder.path(), 6, layout, 1);
    let kept: BTreeSet<_> = [5, 6, 9].map(|cut| format!("cut-{cut:08}")).into();
    assert_eq!(cuts(folder.path()), kept);
    job.check(folder.path(), Which::Latest, layout);
}

#[test]
fn leftovers_go_when_a_newer_cut_is_complete_and_strange_files_stay() {
    let folder = folder();
    let job = Job::small(1);
    job.save(folder.path(), 1, (1, 1, 0));
    for (cut, name) in [
        (2, ".dense-00000-of-00001.Xy12.partial"),
        (2, "dense-00000-of-00001.part"),
        (3, "dense-00000-of-00001.part"),
        (3, "notes.txt"),
        (3, ".dense-00000-of-00001.json"),
        (5, "dense-00000-of-00001.part"),
        (5, ".dense-00000-of-00001.Xy12.partial"),
    ] {
        let cut = folder.path().join(format!("cut-{cut:08}"));
        fs::create_dir_all(&cut).unwrap();
        fs::write(cut.join(name), "left over").unwrap();
    }
    job.save(folder.path(), 4, (1, 1, 0));
    let expected = [
        "cut-00000001/dense-00000-of-00001.json",
        "cut-00000001/dense-00000-of-00001.part",
        "cut-00000003/.dense-00000-of-00001.json",
        "cut-00000003/notes.txt",
        "cut-00000004/dense-00000-of-00001.json",
        "cut-00000004/dense-00000-of-00001.part",
        "cut-00000005/.dense-00000-of-00001.Xy12.partial",
        "cut-00000005/dense-00000-of-00001.part",
    ];
    assert_eq!(files(folder.path()), expected);
}

#[test]
fn files_of_shards_that_are_no_more_are_removed_too() {
    let folder = folder();
    let job = Job::small(1);
    job.save_keeping(folder.path(), 1, (3, 2, 1), 1);
    for cut in 2..=3 {
        job.save_keeping(folder.path(), cut, (1, 1, 0), 1);
    }
    assert_eq!(files(folder.path()).len(), 2);
    job.check(folder.path(), Which::Latest, (2, 1, 1));
}

#[test]
fn a_disk_error_surfaces_once_and_leaves_no_manifest() {
    let folder = folder();
    let job = Job::small(1);
    let join = &job.joins((1, 1, 0))[0];
    let mut writer = Writer::new(folder.path(), 1, join).unwrap();

    // Something else has the name of the cut's folder.
    fs::write(folder.path().join("cut-00000001"), "a file").unwrap();
    let mut pieces = job.pieces(join, facts(1, 10)).into_iter();
    let error = writer.write(pieces.next().unwrap()).unwrap_err();
    assert!(error.to_string().contains("cut-00000001"), "{error}");
    for piece in pieces {
        assert_eq!(writer.write(piece).unwrap(), None);
    }
    fs::remove_file(folder.path().join("cut-00000001")).unwrap();

    // The folder vanishes under the writer.
    let mut pieces = job.pieces(join, facts(2, 20));
    let end = pieces.pop().unwrap();
    write_all(&mut writer, pieces).unwrap();
    fs::remove_dir_all(folder.path().join("cut-00000002")).unwrap();
    let error = writer.write(end).unwrap_err();
    assert!(error.to_string().contains("cut-00000002"), "{error}");
    assert!(files(folder.path()).is_empty());

    // The next cut is not harmed.
    write_all(&mut writer, job.pieces(join, facts(3, 30))).unwrap().unwrap();
    job.check(folder.path(), Which::Latest, (1, 1, 0));

    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let mut writer = Writer::new(&file.join("folder"), 1, join).unwrap();
    let mut pieces = job.pieces(join, facts(1, 10)).into_iter();
    let error = writer.write(pieces.next().unwrap()).unwrap_err();
    assert!(error.to_string().contains("file/folder"), "{error}");
    for piece in pieces {
        assert_eq!(writer.write(piece).unwrap(), None);
    }
    assert_eq!(Writer::new(folder.path(), 0, join).unwrap_err().kind(), Kind::Invalid);
}

#[test]
fn a_cut_that_is_abandoned_or_written_again_leaves_no_trace() {
    let folder = folder();
    let (job, again) = (Job::small(1), Job::small(2));
    let again = Job { model: job.model.clone(), ..again };
    let join = &job.joins((1, 1, 0))[0];
    let mut writer = Writer::new(folder.path(), 1, join).unwrap();
    write_all(&mut writer, job.pieces(join, facts(1, 10))).unwrap().unwrap();
    // A number that is used again: from its beginning on, the old manifest is not believed.
    let mut pieces = again.pieces(join, facts(1, 10));
    let end = pieces.pop().unwrap();
    write_all(&mut writer, pieces).unwrap();
    assert!(!list(folder.path()).unwrap()[0].is_complete);
    writer.write(end).unwrap().unwrap();
    again.check(folder.path(), Which::Latest, (1, 1, 0));

    let mut pieces = job.pieces(join, facts(2, 20));
    pieces.pop();
    write_all(&mut writer, pieces).unwrap();
    write_all(&mut writer, again.pieces(join, facts(3, 30))).unwrap().unwrap();
    assert_eq!(files(folder.path()).len(), 2);
    fn is_send<T: Send>(_: &T) {}
    is_send(&writer);
}
