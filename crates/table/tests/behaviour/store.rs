//! The stores against simple models of them.

use contract::Kind;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;
use table::placement::BLOCK_ELEMENTS;
use table::store::{DenseTable, Row, RowRef, SavedBlock, SavedRows, Shape, SparseTable};

/// Rows so wide that a cut hands out a dozen at a time.
const WIDE: Shape = Shape { width: 2, state: 2_000, counters: 1 };
const NARROW: Shape = Shape { width: 2, state: 4, counters: 1 };

/// What a row holds: its value, the last element of its state, its counter.
type Content = ([f32; 2], f32, u32);
type Model = BTreeMap<u64, Content>;

fn table(shape: Shape) -> SparseTable {
    SparseTable::new(shape, usize::MAX)
}

/// How rows begin in these tests.
fn create(key: u64, Row { value, state, counters }: Row<'_>) {
    assert!(value.iter().chain(&*state).all(|element| *element == 0.0));
    assert_eq!(counters, [0]);
    value.copy_from_slice(&created(key).0);
}

fn created(key: u64) -> Content {
    ([key as f32, 0.5], 0.0, 0)
}

/// An update whose result tells which one it was.
fn change(stamp: u32, Row { value, state, counters }: Row<'_>) {
    let last = state.len() - 1;
    value[1] += 1.0;
    state[last] = stamp as f32;
    counters[0] = stamp;
}

fn changed(stamp: u32, before: Content) -> Content {
    let [first, second] = before.0;
    ([first, second + 1.0], stamp as f32, stamp)
}

fn content(row: RowRef<'_>) -> Content {
    (row.value.try_into().unwrap(), *row.state.last().unwrap(), row.counters[0])
}

/// Adds rows of a cut to those collected; each may come once.
fn collect(saved: &SavedRows, rows: &mut Model) {
    assert!(!saved.is_empty());
    assert_eq!(saved.iter().count(), saved.len());
    for (key, row) in saved.iter() {
        assert_eq!(rows.insert(key, content(row)), None, "row {key} was handed out twice");
    }
}

fn rows_of(table: &SparseTable) -> Model {
    let mut rows = Model::new();
    // In short scans, as an export does it.
    for from in (0..table.len() + 7).step_by(7) {
        table.scan(from, 7, |key, row| {
            assert_eq!(rows.insert(key, content(row)), None);
        });
    }
    rows
}

#[derive(Debug, Clone)]
enum Step {
    Visit(Vec<u64>),
    Read(Vec<u64>),
    Peek(Vec<u64>),
    Insert(u64),
    BeginCut,
    Save,
    AbandonCut,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Few keys, so that they come again, within one request too; and the ends of the range.
    let key = prop_oneof![8 => 0..60_u64, 1 => Just(u64::MAX), 1 => any::<u64>()];
    let keys = vec(key.clone(), 0..50);
    let step = prop_oneof![
        6 => keys.clone().prop_map(Step::Visit),
        3 => keys.clone().prop_map(Step::Read),
        2 => keys.prop_map(Step::Peek),
        2 => key.prop_map(Step::Insert),
        2 => Just(Step::BeginCut),
        3 => Just(Step::Save),
        1 => Just(Step::AbandonCut),
    ];
    vec(step, 0..60)
}

/// A table, its model, and the cut under way: what it must yield and what it has yielded.
struct Pair {
    table: SparseTable,
    model: Model,
    cut: Option<(Model, Model)>,
}

impl Pair {
    fn run(&mut self, stamp: u32, step: Step) {
        let model = &mut self.model;
        match step {
            Step::Visit(keys) => {
                self.table.visit(&keys, create, |_, row| change(stamp, row)).unwrap();
                for key in keys {
                    let row = model.entry(key).or_insert_with(|| created(key));
                    *row = changed(stamp, *row);
                }
            }
            Step::Read(keys) => {
                let displaced_bytes = self.table.displaced_bytes();
                let mut seen = Vec::new();
                self.table
                    .read(&keys, create, |position, row| seen.push((position, content(row))))
                    .unwrap();
                let expected = keys.iter().enumerate().map(|(position, &key)| {
                    (position, *model.entry(key).or_insert_with(|| created(key)))
                });
                assert_eq!(seen, expected.collect::<Vec<_>>());
                assert_eq!(self.table.displaced_bytes(), displaced_bytes);
            }
            Step::Peek(keys) => {
                let mut seen = Vec::new();
                self.table.peek(&keys, |_, row| seen.push(row.map(content)));
                let expected: Vec<_> = keys.iter().map(|key| model.get(key).copied()).collect();
                assert_eq!(seen, expected);
            }
            Step::Insert(key) => {
                let result = self.table.insert(&[key], |_, row| create(key, row));
                let is_there = model.contains_key(&key);
                assert_eq!(result.err().map(|e| e.kind()), is_there.then_some(Kind::AlreadyExists));
                model.entry(key).or_insert_with(|| created(key));
            }
            Step::BeginCut => {
                if self.cut.is_none() {
                    self.table.begin_cut();
                    self.cut = Some((model.clone(), Model::new()));
                }
            }
            Step::Save => self.save(),
            Step::AbandonCut => {
                self.table.abandon_cut();
                self.cut = None;
            }
        }
        assert_eq!(self.table.is_cutting(), self.cut.is_some());
        assert_eq!(self.table.len(), self.model.len());
    }

    fn save(&mut self) {
        let Some((_, rows)) = &mut self.cut else {
            assert!(self.table.next_saved().is_none());
            return;
        };
        match self.table.next_saved() {
            Some(saved) => collect(&saved, rows),
            None => {
                let (expected, rows) = self.cut.take().unwrap();
                assert_eq!(rows, expected);
                assert_eq!(self.table.displaced_bytes(), 0);
            }
        }
    }
}

proptest! {
    #[test]
    fn a_sparse_table_is_a_map_and_a_cut_is_what_it_was_when_the_cut_began(steps in steps()) {
        let mut pair = Pair { table: table(WIDE), model: Model::new(), cut: None };
        for (stamp, step) in steps.into_iter().enumerate() {
            pair.run(stamp as u32 + 1, step);
        }
        while pair.cut.is_some() {
            pair.save();
        }
        prop_assert_eq!(rows_of(&pair.table), pair.model);
    }

    #[test]
    fn a_dense_cut_is_what_the_table_was_when_the_cut_began(
        steps in vec((0..6_usize, any::<bool>()), 0..30), begin in 0..30_usize,
    ) {
        let mut table = dense(&[0, 2, 3, 5, 8, 9]);
        let (mut expected, mut saved) = (Vec::new(), Vec::new());
        for (stamp, (position, is_save)) in steps.into_iter().enumerate() {
            if stamp == begin {
                table.begin_cut();
                expected = blocks_of(&table);
            }
            if is_save {
                saved.extend(table.next_saved());
            } else {
                stamp_block(&mut table, position, stamp as f32 + 1.0);
            }
        }
        saved.extend(std::iter::from_fn(|| table.next_saved()));
        saved.sort_by_key(|block| block.number);
        prop_assert!(saved == expected);
        prop_assert_eq!((table.is_cutting(), table.displaced_bytes()), (false, 0));
    }
}

#[test]
fn a_cut_through_many_rows_goes_on_while_they_change_and_new_ones_come() {
    let mut table = table(NARROW);
    let keys = |first: u64| (first..first + 50_000).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let before: Vec<u64> = keys(0).collect();
    table.visit(&before, create, |_, row| change(1, row)).unwrap();
    let expected = rows_of(&table);
    table.begin_cut();
    let mut rows = Model::new();
    // Old rows and new ones, in strides that meet saved and unsaved ones alike.
    for (round, first) in (0..50_000).step_by(5_000).enumerate() {
        let mixed: Vec<u64> = keys(first).step_by(7).collect();
        table.visit(&mixed, create, |_, row| change(2 + round as u32, row)).unwrap();
        assert!(table.displaced_bytes() > 0);
        collect(&table.next_saved().unwrap(), &mut rows);
    }
    while let Some(saved) = table.next_saved() {
        collect(&saved, &mut rows);
    }
    assert!(rows == expected);
    assert!(table.len() > before.len());
}

#[test]
fn a_million_rows_cost_at_most_twenty_bytes_each_beyond_what_they_hold() {
    let shape = Shape { width: 2, state: 2, counters: 0 };
    let mut table = SparseTable::new(shape, usize::MAX);
    let keys: Vec<u64> = (0..1_000_000).collect();
    table.visit(&keys, |_, _| {}, |position, row| row.value[0] = position as f32).unwrap();
    assert_eq!(table.len(), keys.len());
    let overhead_bytes = table.bytes() - table.len() * 4 * size_of::<f32>();
    assert!(overhead_bytes < 20 * table.len(), "{overhead_bytes} bytes");
    table.peek(&keys, |position, row| assert_eq!(row.unwrap().value, [position as f32, 0.0]));
}

#[test]
fn a_table_with_few_rows_is_small() {
    let mut table = table(NARROW);
    table.visit(&[1, 2, 3], create, |_, _| {}).unwrap();
    assert!(table.bytes() < 16 << 10, "{} bytes", table.bytes());
}

#[test]
fn a_table_stops_at_its_memory_limit_and_keeps_what_it_has() {
    let bytes_max = 100_000;
    let mut table = SparseTable::new(NARROW, bytes_max);
    let keys: Vec<u64> = (0..100_000).collect();
    let mut visits = 0;
    let error = table.visit(&keys, create, |_, _| visits += 1).unwrap_err();
    assert_eq!(error.kind(), Kind::LimitExceeded);
    assert!(error.context().any(|pair| pair == ("bytes_max", "100000")), "{error}");
    assert!(table.bytes() <= bytes_max);
    assert!(visits > 0);
    assert_eq!(table.len(), visits);
    // Rows that are there can still be read and changed.
    table.visit(&keys[..visits], create, |_, row| change(1, row)).unwrap();
    assert_eq!(rows_of(&table).len(), visits);
}

#[test]
fn rows_wider_than_a_slab_and_rows_without_values_work() {
    for width in [0, 1_000_000] {
        let mut table = SparseTable::new(Shape { width, state: 0, counters: 0 }, usize::MAX);
        table.visit(&[7, 8, 7], |_, _| {}, |_, row| row.value.fill(3.0)).unwrap();
        let mut keys = Vec::new();
        table.scan(0, usize::MAX, |key, row| {
            assert_eq!(row.value.len(), width);
            assert!(row.value.iter().all(|element| *element == 3.0));
            keys.push(key);
        });
        assert_eq!(keys, [7, 8]);
    }
}

#[test]
fn inserting_a_row_twice_is_refused_even_within_one_call() {
    let mut table = table(NARROW);
    let error = table.insert(&[5, 6, 5], |_, _| {}).unwrap_err();
    assert_eq!(error.kind(), Kind::AlreadyExists);
    assert_eq!(table.len(), 2);
}

/// Elements of a parameter of ten blocks, the last of which has 100.
const ELEMENTS: u64 = 9 * BLOCK_ELEMENTS as u64 + 100;

fn dense(blocks: &[u64]) -> DenseTable {
    DenseTable::new(ELEMENTS, blocks.to_vec(), 2, 1, usize::MAX).unwrap()
}

fn stamp_block(table: &mut DenseTable, position: usize, stamp: f32) {
    let block = table.block_mut(position);
    block.value.fill(stamp);
    block.state.fill(-stamp);
    block.counters[0] += 1;
    *block.version += 1;
}

fn blocks_of(table: &DenseTable) -> Vec<SavedBlock> {
    let blocks = (0..table.len()).map(|position| table.block(position));
    blocks
        .map(|block| SavedBlock {
            number: block.number,
            value: block.value.to_vec(),
            state: block.state.to_vec(),
            counters: block.counters.to_vec(),
            version: block.version,
        })
        .collect()
}

#[test]
fn neighbouring_dense_blocks_are_lent_as_one_slice() {
    let mut table = dense(&[1, 4, 9]);
    for position in 0..3 {
        stamp_block(&mut table, position, position as f32 + 1.0);
    }
    let check = |positions: std::ops::Range<usize>, lens: &[(f32, usize)]| {
        let expected: Vec<f32> =
            lens.iter().flat_map(|&(stamp, len)| std::iter::repeat_n(stamp, len)).collect();
        assert!(table.values(positions) == expected);
    };
    check(0..2, &[(1.0, BLOCK_ELEMENTS), (2.0, BLOCK_ELEMENTS)]);
    check(1..3, &[(2.0, BLOCK_ELEMENTS), (3.0, 100)]);
    check(2..2, &[]);
    assert_eq!((table.position_of(4), table.position_of(5)), (Some(1), None));
    let last = table.block(2);
    assert_eq!((last.number, last.value.len(), last.state.len()), (9, 100, 200));
    assert_eq!((last.counters, table.version(2)), (&[1][..], 1));
    let values_and_states = (2 * BLOCK_ELEMENTS + 100) * 3 * size_of::<f32>();
    assert_eq!(table.bytes(), values_and_states + 3 * (4 + 8 + 8));
}

#[test]
fn a_dense_table_that_cannot_be_is_refused() {
    let check = |elements: u64, blocks: &[u64], columns: usize, kind: Kind| {
        let table = DenseTable::new(elements, blocks.to_vec(), columns, 0, 1 << 20);
        assert_eq!(table.unwrap_err().kind(), kind);
    };
    check(ELEMENTS, &[2, 1], 0, Kind::Invalid);
    check(ELEMENTS, &[1, 1], 0, Kind::Invalid);
    check(ELEMENTS, &[10], 0, Kind::Invalid);
    check(0, &[0], 0, Kind::Invalid);
    check(ELEMENTS, &[0], 16, Kind::LimitExceeded);
    check(u64::MAX, &[u64::MAX / BLOCK_ELEMENTS as u64], usize::MAX, Kind::LimitExceeded);
    assert!(DenseTable::new(0, Vec::new(), 1, 1, 0).unwrap().is_empty());
}
