//! Each row beside its neighbours in the sequence: `length` rows from `start` on, counted from the
//! row itself. Beyond the ends are zeros, or learnt rows, of which the first stand before the
//! sequence in their order and the others behind it.

use super::super::{Initial, Run, Slot, expect_dense, expect_sequence};
use super::{Projection, Wiring};
use crate::argument::Argument;
use crate::row_sums::{RowLists, row_sums};
use crate::shape::Shape;
use burn::tensor::Tensor;
use contract::{Error, Result};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Context {
    start: isize,
    length: usize,
    #[serde(default)]
    is_padding_learnt: bool,
}

impl Context {
    /// Rows that may be missing before and behind a sequence.
    fn missing(&self) -> [usize; 2] {
        let end = self.start.saturating_add_unsigned(self.length);
        [(-self.start).max(0) as usize, (end - 1).max(0) as usize]
    }

    /// The learnt rows: none if zeros serve.
    fn padding(&self) -> usize {
        if self.is_padding_learnt { self.missing().iter().sum() } else { 0 }
    }
}

impl Projection for Context {
    fn has_parameter(&self) -> bool {
        self.padding() > 0
    }

    fn plan(
        &self,
        place: usize,
        inputs: &[Shape],
        _wanted: Option<usize>,
    ) -> Result<(usize, Option<Slot>)> {
        let input = &inputs[0];
        expect_dense("the input of a context projection", input)?;
        expect_sequence(input)?;
        if self.length == 0 {
            return Err(Error::invalid("context_len must be 1 or more"));
        }
        let dims = [self.padding(), input.size];
        let slot = Slot { initial: Initial::Zero, ..Slot::weight(place, dims) };
        Ok((input.size.saturating_mul(self.length), self.has_parameter().then_some(slot)))
    }

    fn forward(&self, run: &Run<'_>, at: &Wiring, inputs: &[&Argument]) -> Result<Tensor<2>> {
        let mut x = inputs[0].dense()?;
        let [rows, width] = x.dims();
        let [before, _] = self.missing();
        let mut lists = RowLists { offsets: vec![0], ..RowLists::default() };
        for pair in inputs[0].offsets()?.windows(2) {
            for row in pair[0]..pair[1] {
                let first = row as isize + self.start;
                for wanted in first..first.saturating_add_unsigned(self.length) {
                    let ahead = pair[0] as isize - wanted;
                    let behind = wanted - pair[1] as isize;
                    if ahead <= 0 && behind < 0 {
                        lists.rows.push(wanted as u32);
                    } else if self.has_parameter() {
                        let place = if ahead > 0 { -ahead } else { behind };
                        lists.rows.push((rows + before).saturating_add_signed(place) as u32);
                    }
                    lists.offsets.push(lists.rows.len());
                }
            }
        }
        if self.has_parameter() {
            x = Tensor::cat(vec![x, run.parameter(at.slot)], 0);
        }
        Ok(row_sums(x, lists).reshape([rows, self.length * width]))
    }
}
