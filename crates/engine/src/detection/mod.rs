//! Objects in pictures: rectangles, how much two have in common, and how a network describes one
//! relative to a prior box. Used by the layers of SSD and by `detection_map`.

pub(crate) mod loss;
pub(crate) mod matching;

use contract::{Error, Result};

/// Numbers of a prior box: its rectangle, and a variance for each of its sides.
pub(crate) const PRIOR_NUMBERS: usize = 8;
/// Numbers of an object in a label: class, rectangle, and whether it is difficult to see.
pub(crate) const LABEL_NUMBERS: usize = 6;
/// Numbers of an object that was found: sample, class, score, rectangle.
pub(crate) const FOUND_NUMBERS: usize = 7;

/// A rectangle, in shares of the picture's width and height.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rectangle {
    pub(crate) left: f32,
    pub(crate) top: f32,
    pub(crate) right: f32,
    pub(crate) bottom: f32,
}

impl Rectangle {
    /// From its four numbers: left, top, right, bottom.
    pub(crate) fn of(numbers: &[f32]) -> Rectangle {
        let [left, top, right, bottom] = [0, 1, 2, 3].map(|side| numbers[side]);
        Rectangle { left, top, right, bottom }
    }

    pub(crate) fn numbers(&self) -> [f32; 4] {
        [self.left, self.top, self.right, self.bottom]
    }

    fn width(&self) -> f32 {
        self.right - self.left
    }

    fn height(&self) -> f32 {
        self.bottom - self.top
    }

    fn center(&self) -> [f32; 2] {
        [(self.left + self.right) / 2.0, (self.top + self.bottom) / 2.0]
    }

    /// The part of it that is in the picture.
    pub(crate) fn clipped(&self) -> Rectangle {
        Rectangle::of(&self.numbers().map(|side| side.clamp(0.0, 1.0)))
    }

    /// The area that two have in common, divided by the area that they cover together.
    pub(crate) fn overlap(&self, other: &Rectangle) -> f32 {
        let width = self.right.min(other.right) - self.left.max(other.left);
        let height = self.bottom.min(other.bottom) - self.top.max(other.top);
        if width <= 0.0 || height <= 0.0 {
            return 0.0;
        }
        let shared = width * height;
        shared / (self.width() * self.height() + other.width() * other.height() - shared)
    }
}

/// A box that a network's answers are relative to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Prior {
    pub(crate) rectangle: Rectangle,
    /// What the four numbers of an answer are multiplied with.
    variance: [f32; 4],
}

impl Prior {
    /// All prior boxes of a row.
    pub(crate) fn all(row: &[f32]) -> Vec<Prior> {
        let prior = |numbers: &[f32]| Prior {
            rectangle: Rectangle::of(numbers),
            variance: [4, 5, 6, 7].map(|place| numbers[place]),
        };
        row.chunks_exact(PRIOR_NUMBERS).map(prior).collect()
    }

    /// The answer that means `truth`.
    pub(crate) fn encode(&self, truth: &Rectangle) -> [f32; 4] {
        let ([x, y], [own_x, own_y]) = (truth.center(), self.rectangle.center());
        let (width, height) = (self.rectangle.width(), self.rectangle.height());
        let moved = [
            (x - own_x) / width,
            (y - own_y) / height,
            (truth.width() / width).abs().ln(),
            (truth.height() / height).abs().ln(),
        ];
        [0, 1, 2, 3].map(|place| moved[place] / self.variance[place])
    }

    /// What an answer means.
    pub(crate) fn decode(&self, answer: &[f32]) -> Rectangle {
        let [x, y, wide, high] = [0, 1, 2, 3].map(|place| answer[place] * self.variance[place]);
        let (width, height) = (self.rectangle.width(), self.rectangle.height());
        let [own_x, own_y] = self.rectangle.center();
        let (x, y) = (x * width + own_x, y * height + own_y);
        let (half_width, half_height) = (wide.exp() * width / 2.0, high.exp() * height / 2.0);
        Rectangle {
            left: x - half_width,
            top: y - half_height,
            right: x + half_width,
            bottom: y + half_height,
        }
    }
}

/// An object that a label names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Truth {
    pub(crate) class: usize,
    pub(crate) rectangle: Rectangle,
    pub(crate) is_difficult: bool,
}

impl Truth {
    /// The objects of some rows of labels.
    pub(crate) fn all(rows: &[f32]) -> Result<Vec<Truth>> {
        rows.chunks_exact(LABEL_NUMBERS).map(Truth::of).collect()
    }

    fn of(row: &[f32]) -> Result<Truth> {
        let (class, rectangle) = (row[0], Rectangle::of(&row[1..]));
        if class < 0.0 || class.fract() != 0.0 {
            return Err(Error::invalid("the class of an object is a whole number from 0")
                .with("class", class));
        }
        let is_there = rectangle.width() > 0.0 && rectangle.height() > 0.0;
        if !is_there || rectangle.numbers().iter().any(|side| !side.is_finite()) {
            return Err(Error::invalid(
                "the label of an object is class, left, top, right, bottom, difficult, of which \
                 left is below right and top above bottom",
            )
            .with("label", format!("{row:?}")));
        }
        Ok(Truth { class: class as usize, rectangle, is_difficult: row[5].abs() > 1e-6 })
    }
}
