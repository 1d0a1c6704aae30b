//! Layers over three-dimensional pictures: pixel by pixel, all five loops.

use super::picture::on_side;
use super::{Given, Matrix};

/// Channels, depth, height and width.
type Sides = [usize; 4];

fn at(sides: Sides, place: Sides) -> usize {
    (0..4).fold(0, |sum, side| sum * sides[side] + place[side])
}

/// Every place of a row, by its four sides.
fn places(sides: Sides) -> impl Iterator<Item = Sides> {
    (0..sides.iter().product()).map(move |place: usize| {
        let [_, depth, height, width] = sides;
        let plane = place / (height * width);
        [plane / depth, plane % depth, place / width % height, place % width]
    })
}

impl Given<'_> {
    /// The output, if the layer is one of these.
    pub(super) fn of_volumes(&self) -> Option<Matrix> {
        let rows = &self.inputs[0].rows;
        let by_row = |of: &dyn Fn(&[f64]) -> Vec<f64>| rows.iter().map(|row| of(row)).collect();
        Some(match self.layer.kind.as_str() {
            "img_conv3d" => by_row(&|row| self.deep_convolution(row)),
            "img_pool3d" => by_row(&|row| self.deep_pool(row)),
            _ => return None,
        })
    }

    fn sides(&self) -> Sides {
        let ((height, width), depth) = (self.frame.unwrap(), self.depth.unwrap());
        [self.inputs[0].width / (depth * height * width), depth, height, width]
    }

    fn triple(&self, name: &str) -> [usize; 3] {
        let triple = self.layer.attributes[name].as_array().unwrap();
        [0, 1, 2].map(|side| triple[side].as_u64().unwrap() as usize)
    }

    fn deep_convolution(&self, row: &[f64]) -> Vec<f64> {
        let is_transposed = self.flag("is_transposed");
        let [filter, stride, padding] =
            ["filter_size", "stride", "padding"].map(|name| self.triple(name));
        let (input, filters) = (self.sides(), self.attribute("filters", 0.0) as usize);
        let mut output = [filters, 0, 0, 0];
        for side in 0..3 {
            output[side + 1] = match is_transposed {
                false => (input[side + 1] + 2 * padding[side] - filter[side]) / stride[side] + 1,
                true => (input[side + 1] - 1) * stride[side] + filter[side] - 2 * padding[side],
            };
        }
        let (wide, narrow) = if is_transposed { (output, input) } else { (input, output) };
        let groups = self.attribute("groups", 1.0) as usize;
        let (wide_share, narrow_share) = (wide[0] / groups, narrow[0] / groups);
        let mut made = vec![0.0; output.iter().product()];
        for place in places(narrow) {
            let taps = [wide_share, filter[0], filter[1], filter[2]];
            for tap in places(taps) {
                let mut source = [place[0] / narrow_share * wide_share + tap[0], 0, 0, 0];
                let is_in = (0..3).all(|side| {
                    let moves = [stride[side], padding[side], 1];
                    let on = on_side(place[side + 1], tap[side + 1], moves, wide[side + 1]);
                    source[side + 1] = on.unwrap_or(0);
                    on.is_some()
                });
                if is_in {
                    let weight = self.parameters[0][place[0]][at(taps, tap)];
                    let (wide_place, narrow_place) = (at(wide, source), at(narrow, place));
                    match is_transposed {
                        false => made[narrow_place] += weight * row[wide_place],
                        true => made[wide_place] += weight * row[narrow_place],
                    }
                }
            }
        }
        made
    }

    fn deep_pool(&self, row: &[f64]) -> Vec<f64> {
        let [size, stride, padding] =
            ["pool_size", "stride", "padding"].map(|name| self.triple(name));
        let input = self.sides();
        let mut output = input;
        for side in 0..3 {
            let steps = (input[side + 1] + 2 * padding[side] - size[side]) as f64;
            let steps = steps / stride[side] as f64;
            let steps = if self.flag("is_rounded_up") { steps.ceil() } else { steps.floor() };
            output[side + 1] = steps as usize + 1;
        }
        let value = |place: Sides| {
            let mut seen = Vec::new();
            for tap in places([1, size[0], size[1], size[2]]) {
                let on = [0, 1, 2].map(|side| {
                    let moves = [stride[side], padding[side], 1];
                    on_side(place[side + 1], tap[side + 1], moves, input[side + 1])
                });
                if let [Some(plane), Some(y), Some(x)] = on {
                    seen.push(row[at(input, [place[0], plane, y, x])]);
                }
            }
            self.pooled(seen)
        };
        places(output).map(value).collect()
    }
}
