//! The values of one parameter.
//!
//! Rows and elements begin, change and are read by the same functions as on a server (the store,
//! initializer and update rules of `table`), in the same order, so that training alone and
//! training through one server give the same bits.

use super::View;
use crate::description::Description;
use contract::{Error, Kind, Result};
use std::sync::Arc;
use table::initializer::Initializer;
use table::optimizer::{Now, Update};
use table::placement;
use table::rows;
use table::store::{Shape, SparseTable};

/// The values of one parameter.
pub(super) enum Storage {
    /// All elements, in this process. Copied from the servers, if it is trained there.
    Dense(Dense),
    /// Rows, in this process.
    Rows(Rows),
    /// None: the rows are on servers, or were there when this process left them.
    Away,
}

/// The function of seed, name and index that gives first values.
#[derive(Debug, Clone, Copy)]
pub(super) struct First {
    pub(super) initializer: Initializer,
    pub(super) seed: u64,
    name_hash: u64,
}

impl First {
    pub(super) fn new(description: &Description, seed: u64) -> Self {
        let name_hash = placement::name_hash(&description.name);
        First { initializer: description.initializer, seed, name_hash }
    }

    /// Writes the elements from `first` on.
    pub(super) fn fill(&self, first: u64, out: &mut [f32]) {
        self.initializer.fill(self.seed, self.name_hash, first, out);
    }

    fn fill_row(&self, key: u64, out: &mut [f32]) {
        self.fill(key.wrapping_mul(out.len() as u64), out);
    }
}

/// The optimizer that changes a parameter in this process.
pub(super) struct Training {
    /// Which updater it belongs to.
    owner: u64,
    update: Update,
    now: Now,
}

impl Training {
    pub(super) fn new(owner: u64, update: Update, now: Now) -> Self {
        Training { owner, update, now }
    }

    fn check_owner(training: Option<&Self>, owner: u64) -> Result<()> {
        if training.is_some_and(|training| training.owner == owner) {
            return Ok(());
        }
        Err(Error::new(
            Kind::Conflict,
            "another trainer has taken this parameter over; let each parameter be trained by one \
             trainer and make it static in the others, or create the trainer again",
        ))
    }
}

/// What an optimizer keeps of a parameter, or of some of its rows.
pub(crate) struct Kept {
    /// Of rows: their keys.
    pub(crate) keys: Option<Vec<u64>>,
    pub(crate) values: Vec<f32>,
    pub(crate) state: Vec<f32>,
    pub(crate) counters: Vec<u32>,
}

/// All elements of a dense parameter.
#[derive(Default)]
pub(super) struct Dense {
    /// Made when it is first needed. Shared with whoever reads it, copied if it changes meanwhile.
    value: Option<Arc<Vec<f32>>>,
    /// Whether it may be other than its first values.
    pub(super) is_changed: bool,
    training: Option<Training>,
    state: Vec<f32>,
    counters: Vec<u32>,
}

impl Dense {
    /// The elements, as they are now.
    pub(super) fn value(&mut self, first: &First, elements: usize) -> &mut Arc<Vec<f32>> {
        self.value.get_or_insert_with(|| {
            let mut value = vec![0.0; elements];
            first.fill(0, &mut value);
            Arc::new(value)
        })
    }

    /// The elements, without making them if they are not there.
    pub(super) fn existing(&self) -> Option<&Arc<Vec<f32>>> {
        self.value.as_ref()
    }

    pub(super) fn read(&mut self, first: &First, elements: usize, view: View) -> Arc<Vec<f32>> {
        let value = Arc::clone(self.value(first, elements));
        let (View::Averaged, Some(training)) = (view, &self.training) else { return value };
        let mut average = Vec::new();
        let update = &training.update;
        update.applied(&value, &self.state, &self.counters, &mut average);
        if average.is_empty() { value } else { Arc::new(average) }
    }

    /// Takes values from `start` on; what the optimizer keeps beside them begins anew.
    pub(super) fn set(&mut self, first: &First, elements: usize, start: usize, values: &[f32]) {
        if values.len() == elements {
            self.value = Some(Arc::new(values.to_vec()));
        } else {
            Arc::make_mut(self.value(first, elements))[start..][..values.len()]
                .copy_from_slice(values);
        }
        self.is_changed = true;
        self.state.fill(0.0);
        self.counters.fill(0);
    }

    /// Takes what the servers have; gives back the memory of the values before, if nobody has it.
    pub(super) fn replace(&mut self, values: Vec<f32>) -> Vec<f32> {
        let before = self.value.replace(Arc::new(values));
        before.and_then(|before| Arc::try_unwrap(before).ok()).unwrap_or_default()
    }

    pub(super) fn train(&mut self, training: Training, elements: usize) {
        let columns = training.update.columns();
        self.state = vec![0.0; columns.state.len() * elements];
        self.counters = vec![0; columns.counters.len()];
        self.training = Some(training);
    }

    /// What the optimizer keeps beside the values, and how many numbers of each.
    pub(super) fn kept(&mut self, first: &First, elements: usize) -> Kept {
        let values = self.value(first, elements).to_vec();
        Kept { keys: None, values, state: self.state.clone(), counters: self.counters.clone() }
    }

    pub(super) fn kept_sizes(&self) -> (usize, usize) {
        (self.state.len(), self.counters.len())
    }

    /// Takes what [`Dense::kept`] gave; without values, those that are there stay.
    pub(super) fn restore(&mut self, kept: Kept) {
        if !kept.values.is_empty() {
            self.value = Some(Arc::new(kept.values));
        }
        (self.state, self.counters) = (kept.state, kept.counters);
        self.is_changed = true;
    }

    /// Drops what an optimizer in this process kept.
    pub(super) fn stop_training(&mut self) {
        (self.training, self.state, self.counters) = (None, Vec::new(), Vec::new());
    }

    pub(super) fn apply(&mut self, first: &First, owner: u64, gradient: &[f32]) -> Result<()> {
        Training::check_owner(self.training.as_ref(), owner)?;
        self.value(first, gradient.len());
        let (Some(value), Some(training)) = (&mut self.value, &self.training) else {
            return Ok(());
        };
        let value = Arc::make_mut(value);
        let (state, counters) = (&mut self.state, &mut self.counters);
        training.update.apply(&training.now, gradient, value, state, counters);
        self.is_changed = true;
        Ok(())
    }
}

/// The rows of a sparse parameter.
pub(super) struct Rows {
    table: SparseTable,
    training: Option<Training>,
    fetched: Fetched,
}

/// The rows of the last step, whose gradients are likely to come next.
#[derive(Default)]
struct Fetched {
    keys: Vec<u64>,
    /// Their numbers in the table.
    rows: Vec<u32>,
}

impl Rows {
    pub(super) fn new(width: usize) -> Self {
        let shape = Shape { width, state: 0, counters: 0 };
        let table = SparseTable::new(shape, usize::MAX);
        Rows { table, training: None, fetched: Fetched::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// Writes the rows of `keys`; those that are not there are neither created nor charged.
    pub(super) fn peek(&self, first: &First, keys: &[u64], view: View, out: &mut [f32]) {
        let width = self.table.shape().width;
        let mut scratch = Vec::new();
        self.table.peek(keys, |place, row| {
            let target = &mut out[place * width..][..width];
            match (row, &self.training, view) {
                (None, ..) => first.fill_row(keys[place], target),
                (Some(row), None, _) => target.copy_from_slice(row.value),
                (Some(row), Some(Training { update, .. }), View::Averaged) => target
                    .copy_from_slice(update.applied(
                        row.value,
                        row.state,
                        row.counters,
                        &mut scratch,
                    )),
                (Some(row), Some(Training { update, now, .. }), View::Present) => {
                    update.read(now, row.value, row.state, row.counters, target);
                }
            }
        });
    }

    /// Writes the rows of `keys` for a step: missing ones are created, and all settle what they
    /// owe.
    pub(super) fn fetch(&mut self, first: &First, keys: &[u64], out: &mut [f32]) -> Result<()> {
        let Fetched { keys: known, rows: numbers } = &mut self.fetched;
        known.clear();
        numbers.clear();
        let Some(Training { update, now, .. }) = &self.training else {
            self.peek(first, keys, View::Present, out);
            return Ok(());
        };
        let create = |key: u64, value: &mut [f32]| first.fill_row(key, value);
        rows::fetch(&mut self.table, (update, now), keys, (out, numbers), create)?;
        known.extend_from_slice(keys);
        Ok(())
    }

    /// Takes rows as they are; what the optimizer keeps beside them begins anew, now.
    pub(super) fn set(&mut self, keys: &[u64], values: &[f32]) -> Result<()> {
        let width = self.table.shape().width;
        let training = &self.training;
        self.table.visit(
            keys,
            |_, _| {},
            |place, row| {
                row.state.fill(0.0);
                row.counters.fill(0);
                if let Some(Training { update, now, .. }) = training {
                    // The new row owes nothing for the updates before it.
                    update.catch_up(now, row.value, row.state, row.counters);
                    row.state.fill(0.0);
                }
                row.value.copy_from_slice(&values[place * width..][..width]);
            },
        )
    }

    /// Up to `count` rows in the order of their creation, from the `from`-th on.
    pub(super) fn page(&self, from: usize, count: usize, view: View) -> (Vec<u64>, Vec<f32>) {
        let width = self.table.shape().width;
        let mut keys = Vec::new();
        self.table.scan(from, count, |key, _| keys.push(key));
        let mut values = vec![0.0; keys.len() * width];
        let mut targets = values.chunks_exact_mut(width);
        let mut scratch = Vec::new();
        self.table.scan(from, count, |_, row| {
            let Some(target) = targets.next() else { return };
            match (&self.training, view) {
                (None, _) => target.copy_from_slice(row.value),
                (Some(Training { update, .. }), View::Averaged) => target.copy_from_slice(
                    update.applied(row.value, row.state, row.counters, &mut scratch),
                ),
                (Some(Training { update, now, .. }), View::Present) => {
                    update.read(now, row.value, row.state, row.counters, target);
                }
            }
        });
        (keys, values)
    }

    /// Rows as they lie in the table, what they owe not settled.
    pub(super) fn kept(&self, from: usize, count: usize) -> Kept {
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        let (mut state, mut counters) = (Vec::new(), Vec::new());
        self.table.scan(from, count, |key, row| {
            keys.push(key);
            values.extend_from_slice(row.value);
            state.extend_from_slice(row.state);
            counters.extend_from_slice(row.counters);
        });
        Kept { keys: Some(keys), values, state, counters }
    }

    /// Numbers of state and counters of a row.
    pub(super) fn kept_sizes(&self) -> (usize, usize) {
        let shape = self.table.shape();
        (shape.state, shape.counters)
    }

    /// Forgets all rows.
    pub(super) fn clear(&mut self) {
        self.table = SparseTable::new(self.table.shape(), usize::MAX);
        self.fetched = Fetched::default();
    }

    /// Adds rows that [`Rows::kept`] gave.
    pub(super) fn restore(&mut self, kept: &Kept) -> Result<()> {
        let Shape { width, state, counters } = self.table.shape();
        let keys = kept.keys.as_deref().unwrap_or_default();
        self.table.insert(keys, |place, row| {
            row.value.copy_from_slice(&kept.values[place * width..][..width]);
            row.state.copy_from_slice(&kept.state[place * state..][..state]);
            row.counters.copy_from_slice(&kept.counters[place * counters..][..counters]);
        })
    }

    /// Begins to be trained. Rows have as many columns as their optimizer needs, so those that are
    /// there move to a new table once.
    pub(super) fn train(&mut self, training: Training) -> Result<()> {
        const ROWS_AT_ONCE: usize = 4096;
        let width = self.table.shape().width;
        let columns = training.update.columns();
        let state = columns.state.len() * width;
        let shape = Shape { width, state, counters: columns.counters.len() };
        let mut table = SparseTable::new(shape, usize::MAX);
        for from in (0..self.len()).step_by(ROWS_AT_ONCE) {
            let (keys, values) = self.page(from, ROWS_AT_ONCE, View::Present);
            table.insert(&keys, |place, row| {
                row.value.copy_from_slice(&values[place * width..][..width]);
            })?;
        }
        *self = Rows { table, training: Some(training), fetched: Fetched::default() };
        Ok(())
    }

    pub(super) fn apply(
        &mut self,
        first: &First,
        owner: u64,
        keys: &[u64],
        gradients: &[f32],
    ) -> Result<()> {
        Training::check_owner(self.training.as_ref(), owner)?;
        let Some(Training { update, now, .. }) = &self.training else { return Ok(()) };
        let (table, rule) = (&mut self.table, (update, now));
        if self.fetched.keys == keys {
            rows::update_again(table, rule, &self.fetched.rows, gradients);
            return Ok(());
        }
        rows::update(table, rule, keys, gradients, |key, value| first.fill_row(key, value))
    }
}

impl Storage {
    pub(super) fn new(description: &Description) -> Self {
        match description.is_sparse {
            true => Storage::Rows(Rows::new(description.width())),
            false => Storage::Dense(Dense::default()),
        }
    }

    /// The next update, and all reads until then, happen at `now`.
    pub(super) fn turn(&mut self, owner: u64, now: Now) {
        let training = match self {
            Storage::Dense(dense) => dense.training.as_mut(),
            Storage::Rows(rows) => rows.training.as_mut(),
            Storage::Away => None,
        };
        if let Some(training) = training.filter(|training| training.owner == owner) {
            training.now = now;
        }
    }
}
