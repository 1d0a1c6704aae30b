//! Convolution as a product of matrices: the weight times the columns of pictures.
//!
//! The columns of several small pictures stand side by side, so that products are wide enough. They
//! are made again for the gradient of the weight: keeping those of a batch would take nine times the
//! memory of its pictures.

use super::convolution::Convolution;
use super::fold;
use crate::product::{Matrix, add_product, multiply};

/// Columns of a product: more pictures are put side by side until there are that many.
const COLUMNS_MIN: usize = 256;

/// What a thread convolves with.
pub(super) struct Columns<'a> {
    of: &'a Convolution,
    places: usize,
    /// Channels of a group in the narrow picture, and rows of the columns.
    channels: usize,
    rows: usize,
    /// Pictures side by side.
    together: usize,
    columns: Vec<f32>,
    /// The group's channels of the narrow pictures, side by side.
    narrow: Vec<f32>,
}

impl<'a> Columns<'a> {
    pub(super) fn new(of: &'a Convolution) -> Self {
        let places = fold::places(&of.window);
        let (channels, rows) = (of.narrow.channels / of.groups, of.weight_width());
        let together = COLUMNS_MIN.div_ceil(places);
        let (columns, narrow) = (Vec::new(), Vec::new());
        Columns { of, places, channels, rows, together, columns, narrow }
    }

    /// Calls `visit` with each group of a few pictures and their number.
    fn blocks(
        &mut self,
        pictures: usize,
        mut visit: impl FnMut(&mut Self, usize, std::ops::Range<usize>),
    ) {
        for begin in (0..pictures).step_by(self.together) {
            let own = begin..pictures.min(begin + self.together);
            self.columns.resize(self.rows * own.len() * self.places, 0.0);
            self.narrow.resize(self.channels * own.len() * self.places, 0.0);
            for group in 0..self.of.groups {
                visit(self, group, own.clone());
            }
        }
    }

    /// Adds to the narrow pictures what the wide ones give.
    pub(super) fn add_narrow(&mut self, weight: &[f32], wide: &[f32], narrow: &mut [f32]) {
        let of = self.of;
        if self.is_plain() {
            let pairs = wide.chunks_exact(of.wide.size());
            for (wide, narrow) in pairs.zip(narrow.chunks_exact_mut(of.narrow.size())) {
                let wide = Matrix::new(wide, self.rows, self.places);
                add_product(Matrix::new(weight, self.channels, self.rows), wide, narrow);
            }
            return;
        }
        self.blocks(narrow.len() / of.narrow.size(), |columns, group, own| {
            let weight = Matrix::new(columns.weight(group, weight), columns.channels, columns.rows);
            columns.unfold(group, wide, own.clone());
            let width = own.len() * columns.places;
            let unfolded = Matrix::new(&columns.columns, columns.rows, width);
            multiply(weight, unfolded, &mut columns.narrow);
            for (place, picture) in own.enumerate() {
                let target = part_mut(&mut narrow[picture * of.narrow.size()..], group, columns);
                let sources = columns.narrow.chunks_exact(width);
                for (target, source) in target.chunks_exact_mut(columns.places).zip(sources) {
                    let source = &source[place * columns.places..];
                    target.iter_mut().zip(source).for_each(|(sum, number)| *sum += number);
                }
            }
        });
    }

    /// Adds to the wide pictures what the narrow ones give.
    pub(super) fn add_wide(&mut self, weight: &[f32], narrow: &[f32], wide: &mut [f32]) {
        let of = self.of;
        if self.is_plain() {
            let pairs = wide.chunks_exact_mut(of.wide.size());
            for (wide, narrow) in pairs.zip(narrow.chunks_exact(of.narrow.size())) {
                let weight = Matrix::new(weight, self.channels, self.rows).transposed();
                add_product(weight, Matrix::new(narrow, self.channels, self.places), wide);
            }
            return;
        }
        self.blocks(narrow.len() / of.narrow.size(), |columns, group, own| {
            let weight = Matrix::new(columns.weight(group, weight), columns.channels, columns.rows);
            columns.gather(group, narrow, own.clone());
            let width = own.len() * columns.places;
            let gathered = Matrix::new(&columns.narrow, columns.channels, width);
            multiply(weight.transposed(), gathered, &mut columns.columns);
            for (place, picture) in own.enumerate() {
                let size = of.wide.size() / of.groups;
                let target = &mut wide[picture * of.wide.size() + group * size..][..size];
                fold::fold(&of.window, &columns.columns, target, [width, place * columns.places]);
            }
        });
    }

    /// Adds to the weight's gradient what pictures give.
    pub(super) fn add_weight(&mut self, wide: &[f32], narrow: &[f32], weight: &mut [f32]) {
        let of = self.of;
        if self.is_plain() {
            let pairs = wide.chunks_exact(of.wide.size());
            for (wide, narrow) in pairs.zip(narrow.chunks_exact(of.narrow.size())) {
                let wide = Matrix::new(wide, self.rows, self.places).transposed();
                add_product(Matrix::new(narrow, self.channels, self.places), wide, weight);
            }
            return;
        }
        self.blocks(narrow.len() / of.narrow.size(), |columns, group, own| {
            columns.unfold(group, wide, own.clone());
            columns.gather(group, narrow, own.clone());
            let width = own.len() * columns.places;
            let unfolded = Matrix::new(&columns.columns, columns.rows, width).transposed();
            let gathered = Matrix::new(&columns.narrow, columns.channels, width);
            let length = columns.channels * columns.rows;
            add_product(gathered, unfolded, &mut weight[group * length..][..length]);
        });
    }

    /// Whether the columns of a picture are the picture, and it is large enough to be multiplied
    /// on its own.
    fn is_plain(&self) -> bool {
        let mut axes = self.of.window.iter();
        let is_one = axes.all(|axis| axis.window == 1 && axis.stride == 1 && axis.padding == 0);
        is_one && self.of.groups == 1 && self.together == 1
    }

    fn weight<'b>(&self, group: usize, weight: &'b [f32]) -> &'b [f32] {
        let length = self.channels * self.rows;
        &weight[group * length..][..length]
    }

    /// The columns of some pictures.
    fn unfold(&mut self, group: usize, wide: &[f32], own: std::ops::Range<usize>) {
        let (of, width) = (self.of, own.len() * self.places);
        let size = of.wide.size() / of.groups;
        for (place, picture) in own.enumerate() {
            let source = &wide[picture * of.wide.size() + group * size..][..size];
            fold::unfold(&of.window, source, &mut self.columns, [width, place * self.places]);
        }
    }

    /// Puts narrow pictures side by side.
    fn gather(&mut self, group: usize, narrow: &[f32], own: std::ops::Range<usize>) {
        let (of, width) = (self.of, own.len() * self.places);
        let size = of.narrow.size() / of.groups;
        for (place, picture) in own.enumerate() {
            let source = &narrow[picture * of.narrow.size() + group * size..][..size];
            let targets = self.narrow.chunks_exact_mut(width);
            for (target, source) in targets.zip(source.chunks_exact(self.places)) {
                target[place * self.places..][..self.places].copy_from_slice(source);
            }
        }
    }
}

/// The channels of a group in a narrow picture, the first of these.
fn part_mut<'a>(narrow: &'a mut [f32], group: usize, columns: &Columns<'_>) -> &'a mut [f32] {
    let length = columns.channels * columns.places;
    &mut narrow[group * length..][..length]
}
