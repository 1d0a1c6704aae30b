//! Rows by 64-bit key, created at first touch: what an embedding is made of.
//!
//! This file joins the parts: [`Index`] (hash to row number), [`Rows`] (row number to row),
//! [`Lookahead`] (which hides the waits for memory) and [`Cut`]. It deletes nothing: rows stay until
//! the table goes.

use super::cut::{Cut, SavedRows};
use super::index::{Hash, Index, NONE};
use super::lookahead::{self, Guess, Lookahead};
use super::rows::Rows;
use super::{Row, RowRef, Shape};
use contract::{Error, Kind, Result};

/// Rows that a table can have: their numbers are 32 bits wide.
const ROWS_MAX: u32 = u32::MAX - 1;

/// Rows by key, each of the same [`Shape`].
#[derive(Debug)]
pub struct SparseTable {
    rows: Rows,
    index: Index,
    bytes_max: usize,
    cut: Option<Cut>,
}

impl SparseTable {
    /// An empty table that will hold at most `bytes_max` bytes, copies for a cut not counted.
    pub fn new(shape: Shape, bytes_max: usize) -> SparseTable {
        SparseTable { rows: Rows::new(shape), index: Index::new(), bytes_max, cut: None }
    }

    /// How wide the rows are.
    pub fn shape(&self) -> Shape {
        self.rows.shape()
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.len() as usize
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory held, copies for a cut included.
    pub fn bytes(&self) -> usize {
        self.rows.bytes() + self.index.bytes() + self.displaced_bytes()
    }

    /// Visits the rows of `keys` in order, to change them. A missing row is created: it is all
    /// zeros when `create` gets its key and itself, and is visited thereafter. A key that comes
    /// twice is visited twice.
    ///
    /// # Errors
    /// [`Kind::LimitExceeded`] when a row cannot be created. The keys before it have been visited,
    /// it and those behind it have not.
    #[inline(always)]
    pub fn visit(
        &mut self,
        keys: &[u64],
        create: impl FnMut(u64, Row<'_>),
        mut visit: impl FnMut(usize, Row<'_>),
    ) -> Result<()> {
        self.visit_numbered(keys, create, |position, _, row| visit(position, row))
    }

    /// Like [`SparseTable::visit`], but `visit` also gets the number of the row, for
    /// [`SparseTable::visit_again`].
    ///
    /// # Errors
    /// As [`SparseTable::visit`].
    #[inline(always)]
    pub fn visit_numbered(
        &mut self,
        keys: &[u64],
        mut create: impl FnMut(u64, Row<'_>),
        mut visit: impl FnMut(usize, u32, Row<'_>),
    ) -> Result<()> {
        let mut ahead = Lookahead::new(keys, self.shape().stride());
        for (position, &key) in keys.iter().enumerate() {
            let guess = ahead.next(&self.index, &self.rows);
            let row = self.find_or_create(key, guess, &mut create)?;
            if let Some(cut) = &mut self.cut {
                cut.before_change(row, &self.rows);
            }
            visit(position, row, self.rows.row_mut(row));
        }
        Ok(())
    }

    /// Visits rows in order, to change them, by the numbers that they had when they were visited
    /// before: rows keep them, and finding a row is half of a visit.
    #[inline(always)]
    pub fn visit_again(&mut self, rows: &[u32], mut visit: impl FnMut(usize, Row<'_>)) {
        let words = self.shape().stride();
        for (position, &row) in rows.iter().enumerate() {
            if let Some(&next) = rows.get(position + lookahead::DISTANCE) {
                self.rows.prefetch(next, words);
            }
            if let Some(cut) = &mut self.cut {
                cut.before_change(row, &self.rows);
            }
            visit(position, self.rows.row_mut(row));
        }
    }

    /// Like [`SparseTable::visit`], but the rows are only read, so that nothing is copied for a
    /// running cut. Missing rows are created all the same.
    ///
    /// # Errors
    /// As [`SparseTable::visit`].
    pub fn read(
        &mut self,
        keys: &[u64],
        create: impl FnMut(u64, Row<'_>),
        mut visit: impl FnMut(usize, RowRef<'_>),
    ) -> Result<()> {
        self.read_numbered(keys, create, |position, _, row| visit(position, row))
    }

    /// Like [`SparseTable::read`], but `visit` also gets the number of the row, for
    /// [`SparseTable::visit_again`].
    ///
    /// # Errors
    /// As [`SparseTable::visit`].
    #[inline(always)]
    pub fn read_numbered(
        &mut self,
        keys: &[u64],
        mut create: impl FnMut(u64, Row<'_>),
        mut visit: impl FnMut(usize, u32, RowRef<'_>),
    ) -> Result<()> {
        let mut ahead = Lookahead::new(keys, self.shape().value_end());
        for (position, &key) in keys.iter().enumerate() {
            let guess = ahead.next(&self.index, &self.rows);
            let row = self.find_or_create(key, guess, &mut create)?;
            visit(position, row, self.rows.row(row));
        }
        Ok(())
    }

    /// Visits the rows of `keys` in order, to read them. Missing rows stay missing.
    pub fn peek(&self, keys: &[u64], mut visit: impl FnMut(usize, Option<RowRef<'_>>)) {
        let mut ahead = Lookahead::new(keys, self.shape().value_end());
        for (position, &key) in keys.iter().enumerate() {
            let row = self.find(key, ahead.next(&self.index, &self.rows));
            visit(position, row.map(|row| self.rows.row(row)));
        }
    }

    /// Adds the rows of `keys`, none of which may be there: for loading a checkpoint. `fill` gets
    /// the position of a key and its row, all zeros.
    ///
    /// # Errors
    /// [`Kind::AlreadyExists`] when a row is there already, and as [`SparseTable::visit`]. The keys
    /// before it have been added.
    pub fn insert(&mut self, keys: &[u64], mut fill: impl FnMut(usize, Row<'_>)) -> Result<()> {
        let mut ahead = Lookahead::new(keys, self.shape().stride());
        for (position, &key) in keys.iter().enumerate() {
            let guess = ahead.next(&self.index, &self.rows);
            if self.find(key, guess).is_some() {
                return Err(Error::new(Kind::AlreadyExists, "the table has this row already")
                    .with("key", key));
            }
            let row = self.create(key, guess.hash)?;
            fill(position, self.rows.row_mut(row));
        }
        Ok(())
    }

    /// Reads up to `count` rows in order of creation, from the `from`-th on. Rows never change
    /// places, so that a long scan can be cut into short ones.
    pub fn scan(&self, from: usize, count: usize, mut visit: impl FnMut(u64, RowRef<'_>)) {
        let end = self.len().min(from.saturating_add(count));
        for row in from..end {
            let row = row as u32;
            visit(self.rows.key(row), self.rows.row(row));
        }
    }

    /// Begins a cut: [`SparseTable::next_saved`] will hand out every row that is there now, as it
    /// is now. One cut at a time.
    pub fn begin_cut(&mut self) {
        assert!(self.cut.is_none(), "a cut begins while another is under way");
        self.cut = Some(Cut::new(&self.rows));
    }

    /// The next rows of the cut, every row once, in no promised order; `None` ends it.
    pub fn next_saved(&mut self) -> Option<SavedRows> {
        let saved = self.cut.as_mut()?.next_saved(&self.rows);
        if saved.is_none() {
            self.cut = None;
        }
        saved
    }

    /// Ends a cut that nobody wants any more.
    pub fn abandon_cut(&mut self) {
        self.cut = None;
    }

    /// Whether a cut is under way: begun, and [`SparseTable::next_saved`] has not said `None`.
    pub fn is_cutting(&self) -> bool {
        self.cut.is_some()
    }

    /// Memory held for the cut alone. It grows with the rows that change before their turn, up to
    /// the size of all rows; whoever has to bound it calls [`SparseTable::next_saved`] more often.
    pub fn displaced_bytes(&self) -> usize {
        self.cut.as_ref().map_or(0, Cut::bytes)
    }

    #[inline(always)]
    fn find_or_create(
        &mut self,
        key: u64,
        guess: Guess,
        create: &mut impl FnMut(u64, Row<'_>),
    ) -> Result<u32> {
        if let Some(row) = self.find(key, guess) {
            return Ok(row);
        }
        let row = self.create(key, guess.hash)?;
        create(key, self.rows.row_mut(row));
        Ok(row)
    }

    #[inline(always)]
    fn find(&self, key: u64, guess: Guess) -> Option<u32> {
        if guess.row != NONE && self.rows.key(guess.row) == key {
            return Some(guess.row);
        }
        self.index.find(guess.hash, |row| self.rows.key(row) == key)
    }

    #[inline(never)]
    fn create(&mut self, key: u64, hash: Hash) -> Result<u32> {
        let growth = self.index.growth_bytes(hash) + self.rows.growth_bytes();
        let held = self.rows.bytes() + self.index.bytes();
        check_room(self.rows.len(), held, growth, self.bytes_max)?;
        let row = self.rows.push(key);
        self.index.insert(hash, row);
        Ok(row)
    }
}

fn check_room(rows: u32, held: usize, growth: usize, bytes_max: usize) -> Result<()> {
    if rows >= ROWS_MAX {
        let message = "the sparse table is full; use more servers or ports for sparse parameters";
        return Err(Error::new(Kind::LimitExceeded, message).with("rows_max", ROWS_MAX));
    }
    if growth > 0 && held.saturating_add(growth) > bytes_max {
        let message =
            "the sparse table would outgrow its memory limit; raise it or use more servers";
        return Err(Error::new(Kind::LimitExceeded, message)
            .with("rows", rows)
            .with("bytes", held)
            .with("bytes_max", bytes_max));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys whose hashes differ in bits that the index does not look at.
    fn colliding(part_and_tag: u64, count: u64) -> Vec<u64> {
        (0..count).map(|low| Hash::key_with((part_and_tag << 24) | (low * 77))).collect()
    }

    #[test]
    fn keys_with_equal_tags_are_told_apart() {
        // The last home, where a run reaches over the end of its part, and the first.
        for part_and_tag in [u64::MAX >> 24, 0, 0x12_3456_789a] {
            let keys = colliding(part_and_tag, 300);
            let mut table = SparseTable::new(Shape { width: 1, state: 0, counters: 0 }, usize::MAX);
            for round in 1..=3 {
                let mut visits = 0;
                table
                    .visit(
                        &keys,
                        |_, row| row.value.fill(1.0),
                        |position, row| {
                            row.value[0] += position as f32;
                            visits += 1;
                        },
                    )
                    .unwrap();
                assert_eq!((visits, table.len()), (300, 300), "round {round}");
            }
            table.peek(&keys, |position, row| {
                assert_eq!(row.unwrap().value, [1.0 + 3.0 * position as f32]);
            });
            let strangers = colliding(part_and_tag ^ 1, 10);
            table.peek(&strangers, |_, row| assert_eq!(row, None));
        }
    }

    #[test]
    fn rows_are_found_again_by_their_numbers() {
        let mut table = SparseTable::new(Shape { width: 1, state: 0, counters: 0 }, usize::MAX);
        let keys: Vec<u64> = (0..300).map(|key| key * 7919 % 100).collect();
        let mut numbers = Vec::new();
        table
            .visit_numbered(
                &keys,
                |key, row| row.value[0] = key as f32,
                |_, number, _| numbers.push(number),
            )
            .unwrap();
        table.begin_cut();
        let mut visits = 0;
        table.visit_again(&numbers, |position, row| {
            visits += 1;
            row.value[0] += 1000.0 * (keys[position] + 1) as f32;
        });
        assert_eq!((visits, table.len()), (300, 100));
        // Each key comes three times.
        table.peek(&keys, |position, row| {
            let key = keys[position] as f32;
            assert_eq!(row.unwrap().value, [key + 3000.0 * (key + 1.0)]);
        });
        // A cut has the rows as they were before.
        let mut saved = 0;
        while let Some(rows) = table.next_saved() {
            rows.iter().for_each(|(key, row)| assert_eq!(row.value, [key as f32]));
            saved += rows.len();
        }
        assert_eq!(saved, 100);
    }

    #[test]
    fn the_number_of_rows_is_limited() {
        assert!(check_room(ROWS_MAX - 1, 0, 0, 0).is_ok());
        let error = check_room(ROWS_MAX, 0, 0, usize::MAX).unwrap_err();
        assert_eq!(error.kind(), Kind::LimitExceeded);
    }
}
