//! Layers that move, add, leave out or blend pixels, written with channel, line and column.

use super::picture::Picture;
use super::{Given, Matrix};

impl Given<'_> {
    /// The output, if the layer is one of these.
    pub(super) fn of_reframed(&self) -> Option<Matrix> {
        let rows = &self.inputs[0].rows;
        let by_row = |of: &dyn Fn(&[f64]) -> Vec<f64>| rows.iter().map(|row| of(row)).collect();
        Some(match self.layer.kind.as_str() {
            "bilinear_interp" => by_row(&|row| self.interpolate(row)),
            "block_expand" => rows.iter().flat_map(|row| self.blocks(row)).collect(),
            "crop" => by_row(&|row| self.crop(row)),
            "pad" => by_row(&|row| self.pad(row)),
            "rotate" => by_row(&|row| self.rotate(row)),
            "switch_order" => {
                let Picture { channels, height, width } = self.picture();
                let size = [channels * height * width, channels * width, channels]
                    [self.attribute("reshape_axis", 0.0) as usize - 1];
                let all = rows.iter().flat_map(|row| self.switched(row)).collect::<Vec<_>>();
                all.chunks(size).map(<[f64]>::to_vec).collect()
            }
            _ => return None,
        })
    }

    fn interpolate(&self, row: &[f64]) -> Vec<f64> {
        let picture = self.picture();
        let [height, width] = ["height", "width"].map(|name| self.attribute(name, 0.0) as usize);
        let along = |place: usize, to: usize, from: usize| match to {
            1 => 0.0,
            _ => place as f64 * (from - 1) as f64 / (to - 1) as f64,
        };
        let mut output = Vec::new();
        for channel in 0..picture.channels {
            for line in 0..height {
                for column in 0..width {
                    let y = along(line, height, picture.height);
                    let x = along(column, width, picture.width);
                    // Every pixel counts by how near it is, and not at all from a distance of 1.
                    let mut sum = 0.0;
                    for pixel in 0..picture.pixels() {
                        let (i, j) = (pixel / picture.width, pixel % picture.width);
                        let near = |a: f64, b: usize| (1.0 - (a - b as f64).abs()).max(0.0);
                        sum += row[picture.at(channel, i, j)] * near(y, i) * near(x, j);
                    }
                    output.push(sum);
                }
            }
        }
        output
    }

    fn blocks(&self, row: &[f64]) -> Matrix {
        let picture = self.picture();
        let ([down, across], stride) = (self.pair("block"), self.pair("stride"));
        let padding = self.pair("padding");
        let places = |side: usize, length: usize, block: usize| {
            1 + (2 * padding[side] + length - block).div_ceil(stride[side])
        };
        let mut output = Vec::new();
        for line in 0..places(0, picture.height, down) {
            for stop in 0..places(1, picture.width, across) {
                let mut seen = Vec::new();
                for channel in 0..picture.channels {
                    for tap in 0..down * across {
                        let y = (line * stride[0] + tap / across).wrapping_sub(padding[0]);
                        let x = (stop * stride[1] + tap % across).wrapping_sub(padding[1]);
                        let is_in = y < picture.height && x < picture.width;
                        seen.push(if is_in { row[picture.at(channel, y, x)] } else { 0.0 });
                    }
                }
                output.push(seen);
            }
        }
        output
    }

    fn crop(&self, row: &[f64]) -> Vec<f64> {
        let picture = self.picture();
        let list = |name: &str| -> Option<Vec<usize>> {
            let list = self.layer.attributes[name].as_array()?;
            Some(list.iter().map(|value| value.as_u64().unwrap() as usize).collect())
        };
        let axis = self.attribute("axis", 0.0) as usize;
        let mut begin = [0; 3];
        begin[axis..].copy_from_slice(&list("offsets").unwrap());
        let mut sides = [picture.channels, picture.height, picture.width];
        // Where another input says the size, it is one square channel.
        let square = |size: usize| vec![(size as f64).sqrt() as usize; 2];
        let shape = list("shape").unwrap_or_else(|| square(self.inputs[1].width));
        sides[axis..].copy_from_slice(&shape);
        let mut output = Vec::new();
        for channel in begin[0]..begin[0] + sides[0] {
            for y in begin[1]..begin[1] + sides[1] {
                for x in begin[2]..begin[2] + sides[2] {
                    output.push(row[picture.at(channel, y, x)]);
                }
            }
        }
        output
    }

    fn pad(&self, row: &[f64]) -> Vec<f64> {
        let picture = self.picture_of_frame();
        let [c, h, w] = ["channels", "height", "width"].map(|name| self.pair(name));
        let (height, width) = (picture.height + h[0] + h[1], picture.width + w[0] + w[1]);
        let channels = picture.channels + c[0] + c[1];
        let padded = Picture { channels, height, width };
        let mut output = vec![0.0; channels * padded.pixels()];
        for channel in 0..picture.channels {
            for y in 0..picture.height {
                for x in 0..picture.width {
                    let target = padded.at(channel + c[0], y + h[0], x + w[0]);
                    output[target] = row[picture.at(channel, y, x)];
                }
            }
        }
        output
    }

    fn rotate(&self, row: &[f64]) -> Vec<f64> {
        let picture = self.picture();
        let turned = Picture { height: picture.width, width: picture.height, ..picture };
        let mut output = vec![0.0; row.len()];
        for channel in 0..picture.channels {
            for y in 0..picture.height {
                for x in 0..picture.width {
                    let target = turned.at(channel, x, picture.height - 1 - y);
                    output[target] = row[picture.at(channel, y, x)];
                }
            }
        }
        output
    }

    fn switched(&self, row: &[f64]) -> Vec<f64> {
        let picture = self.picture();
        let pixels = (0..picture.pixels()).flat_map(|pixel| {
            (0..picture.channels).map(move |channel| channel * picture.pixels() + pixel)
        });
        pixels.map(|place| row[place]).collect()
    }
}
