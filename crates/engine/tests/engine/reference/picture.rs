//! Layers over pictures: pixel by pixel, without any of the engine's ways to be quick.

use super::{Given, Input, Matrix};
use engine::topology::Layer;

/// A picture as rows hold it.
#[derive(Clone, Copy)]
pub(super) struct Picture {
    pub(super) channels: usize,
    pub(super) height: usize,
    pub(super) width: usize,
}

impl Picture {
    pub(super) fn at(&self, channel: usize, y: usize, x: usize) -> usize {
        (channel * self.height + y) * self.width + x
    }

    pub(super) fn pixels(&self) -> usize {
        self.height * self.width
    }
}

/// Where a tap of a window at a place lies on a side, if it is on it.
pub(super) fn on_side(place: usize, tap: usize, moves: [usize; 3], length: usize) -> Option<usize> {
    let [stride, padding, dilation] = moves;
    (place * stride + tap * dilation).checked_sub(padding).filter(|pixel| *pixel < length)
}

impl Given<'_> {
    /// The output, if the layer is one over pictures.
    pub(super) fn of_pictures(&self) -> Option<Matrix> {
        let rows = &self.inputs[0].rows;
        let by_row = |of: &dyn Fn(&[f64]) -> Vec<f64>| rows.iter().map(|row| of(row)).collect();
        Some(match self.layer.kind.as_str() {
            "img_conv" if self.flag("is_transposed") => by_row(&|row| self.spread(row)),
            "img_conv" => by_row(&|row| self.convolve(row)),
            "img_pool" => by_row(&|row| self.pool(row, self.picture())),
            "spp" => by_row(&|row| self.pyramid(row)),
            "maxout" => by_row(&|row| self.maxout(row)),
            "cross_channel_norm" => by_row(&|row| self.normalize_channels(row)),
            "img_cmrnorm" => by_row(&|row| self.normalize_maps(row)),
            "batch_norm" => self.normalize_batch(),
            _ => return None,
        })
    }

    /// A convolution that is a projection: as the layer over its input alone, which is as large as
    /// the first.
    pub(super) fn projected_convolution(
        &self,
        projection: &serde_json::Value,
        slot: usize,
        input: usize,
        row: usize,
    ) -> Vec<f64> {
        let attributes = projection.as_object().unwrap().clone();
        let layer = Layer { attributes, ..self.layer.clone() };
        let outputs = &self.outputs[input..=input];
        let inputs = outputs.iter().map(Input::of).collect();
        let parameters = &self.parameters[slot..=slot];
        let alone = Given { layer: &layer, outputs, inputs, parameters, ..*self };
        match alone.flag("is_transposed") {
            true => alone.spread(alone.row(0, row)),
            false => alone.convolve(alone.row(0, row)),
        }
    }

    pub(super) fn pair(&self, name: &str) -> [usize; 2] {
        let pair = self.layer.attributes[name].as_array().unwrap();
        [0, 1].map(|side| pair[side].as_u64().unwrap() as usize)
    }

    /// The picture that the first input is known as.
    pub(super) fn picture_of_frame(&self) -> Picture {
        let (height, width) = self.frame.unwrap();
        Picture { channels: self.inputs[0].width / (height * width), height, width }
    }

    pub(super) fn picture(&self) -> Picture {
        let size = self.inputs[0].width;
        let said = self.layer.attributes.get("channels").and_then(serde_json::Value::as_u64);
        let (height, width) = self.frame.unwrap_or_else(|| {
            let side = ((size / said.unwrap() as usize) as f64).sqrt() as usize;
            (side, side)
        });
        Picture { channels: size / (height * width), height, width }
    }

    /// Every product of a convolution: pixel of the wide picture, row and column of the weight,
    /// pixel of the narrow one.
    fn products(&self, wide: Picture, narrow: Picture) -> Vec<[usize; 4]> {
        let groups = self.attribute("groups", 1.0) as usize;
        let [down, across] = self.pair("filter_size");
        let moves =
            |side: usize| ["stride", "padding", "dilation"].map(|name| self.pair(name)[side]);
        let (wide_share, narrow_share) = (wide.channels / groups, narrow.channels / groups);
        let mut all = Vec::new();
        for filter in 0..narrow.channels {
            for place in 0..narrow.pixels() {
                let (line, stop) = (place / narrow.width, place % narrow.width);
                for tap in 0..wide_share * down * across {
                    let (channel, y, x) =
                        (tap / (down * across), tap / across % down, tap % across);
                    let channel = filter / narrow_share * wide_share + channel;
                    let y = on_side(line, y, moves(0), wide.height);
                    let x = on_side(stop, x, moves(1), wide.width);
                    if let (Some(y), Some(x)) = (y, x) {
                        let target = narrow.at(filter, line, stop);
                        all.push([wide.at(channel, y, x), filter, tap, target]);
                    }
                }
            }
        }
        all
    }

    fn convolve(&self, row: &[f64]) -> Vec<f64> {
        let wide = self.picture();
        let places = |side: usize, length: usize| {
            let reach = (self.pair("filter_size")[side] - 1) * self.pair("dilation")[side] + 1;
            (length + 2 * self.pair("padding")[side] - reach) / self.pair("stride")[side] + 1
        };
        let channels = self.attribute("filters", 0.0) as usize;
        let (height, width) = (places(0, wide.height), places(1, wide.width));
        let narrow = Picture { channels, height, width };
        let mut output = vec![0.0; channels * narrow.pixels()];
        for [pixel, filter, tap, target] in self.products(wide, narrow) {
            output[target] += row[pixel] * self.parameters[0][filter][tap];
        }
        output
    }

    fn spread(&self, row: &[f64]) -> Vec<f64> {
        let narrow = self.picture();
        let length = |side: usize, places: usize| {
            let reach = (self.pair("filter_size")[side] - 1) * self.pair("dilation")[side] + 1;
            (places - 1) * self.pair("stride")[side] + reach - 2 * self.pair("padding")[side]
        };
        let channels = self.attribute("filters", 0.0) as usize;
        let (height, width) = (length(0, narrow.height), length(1, narrow.width));
        let wide = Picture { channels, height, width };
        let mut output = vec![0.0; channels * wide.pixels()];
        for [target, channel, tap, pixel] in self.products(wide, narrow) {
            output[target] += row[pixel] * self.parameters[0][channel][tap];
        }
        output
    }

    fn pool(&self, row: &[f64], picture: Picture) -> Vec<f64> {
        let ([down, across], stride) = (self.pair("pool_size"), self.pair("stride"));
        let padding = self.pair("padding");
        let places = |side: usize, length: usize| {
            let room = (length + 2 * padding[side] - self.pair("pool_size")[side]) as f64;
            let steps = room / stride[side] as f64;
            1 + if self.flag("is_rounded_up") { steps.ceil() } else { steps.floor() } as usize
        };
        let (lines, stops) = (places(0, picture.height), places(1, picture.width));
        let mut output = Vec::new();
        for place in 0..picture.channels * lines * stops {
            let (channel, line, stop) =
                (place / (lines * stops), place / stops % lines, place % stops);
            let taps = (0..down * across).filter_map(|tap| {
                let moves = |side: usize| [stride[side], padding[side], 1];
                let y = on_side(line, tap / across, moves(0), picture.height)?;
                let x = on_side(stop, tap % across, moves(1), picture.width)?;
                Some(row[picture.at(channel, y, x)])
            });
            output.push(self.pooled(taps.collect()));
        }
        output
    }

    pub(super) fn pooled(&self, seen: Vec<f64>) -> f64 {
        match (seen.len(), self.text("pooling")) {
            (0, _) => 0.0,
            (_, "max") => seen.into_iter().fold(f64::NEG_INFINITY, f64::max),
            (count, _) => seen.iter().sum::<f64>() / count as f64,
        }
    }

    fn pyramid(&self, row: &[f64]) -> Vec<f64> {
        let picture = self.picture();
        let mut output = Vec::new();
        for level in 0..self.attribute("levels", 0.0) as u32 {
            let places = 1_usize << level;
            let bounds = |length: usize, place: usize| {
                let window = length.div_ceil(places);
                let padding = (window * places - length).div_ceil(2);
                let begin = (place * window).saturating_sub(padding);
                begin..(place * window + window).saturating_sub(padding).clamp(begin, length)
            };
            for place in 0..picture.channels * places * places {
                let (channel, line, stop) =
                    (place / (places * places), place / places % places, place % places);
                let mut seen = Vec::new();
                for y in bounds(picture.height, line) {
                    let pixels = bounds(picture.width, stop);
                    seen.extend(pixels.map(|x| row[picture.at(channel, y, x)]));
                }
                output.push(self.pooled(seen));
            }
        }
        output
    }

    fn maxout(&self, row: &[f64]) -> Vec<f64> {
        let pixels = self.picture().pixels();
        let groups = row.chunks(pixels * self.attribute("groups", 1.0) as usize);
        let largest = |group: &[f64], pixel: usize| {
            group[pixel..].iter().step_by(pixels).copied().fold(f64::NEG_INFINITY, f64::max)
        };
        groups.flat_map(|group| (0..pixels).map(move |pixel| largest(group, pixel))).collect()
    }

    fn normalize_channels(&self, row: &[f64]) -> Vec<f64> {
        let pixels = self.picture_of_frame().pixels();
        let value = |place: usize| {
            let squares = row[place % pixels..].iter().step_by(pixels).map(|x| x * x);
            let scale = self.parameters[0][place / pixels][0];
            row[place] / (squares.sum::<f64>() + 1e-6).sqrt() * scale
        };
        (0..row.len()).map(value).collect()
    }

    fn normalize_maps(&self, row: &[f64]) -> Vec<f64> {
        let picture = self.picture();
        let size = self.attribute("size", 0.0);
        let (scale, power) = (self.attribute("scale", 0.0) / size, self.attribute("power", 0.0));
        let begin = (size as usize - 1) / 2;
        let value = |place: usize| {
            let (channel, pixel) = (place / picture.pixels(), place % picture.pixels());
            let near = (channel + begin + 1).saturating_sub(begin + begin + 1)
                ..(channel + size as usize - begin).min(picture.channels);
            let squares = near.map(|near| row[near * picture.pixels() + pixel].powi(2));
            row[place] * (1.0 + scale * squares.sum::<f64>()).powf(-power)
        };
        (0..row.len()).map(value).collect()
    }

    fn normalize_batch(&self) -> Matrix {
        let rows = &self.inputs[0].rows;
        let channels = self.parameters[0][0].len();
        let pixels = self.inputs[0].width / channels;
        let of_channel = |channel: usize| {
            rows.iter().flat_map(move |row| row[channel * pixels..][..pixels].to_vec())
        };
        let mean_of = |numbers: Vec<f64>| numbers.iter().sum::<f64>() / numbers.len() as f64;
        let statistics = |channel: usize| {
            if self.flag("use_global_stats") {
                let variance = self.parameters[2][0][channel].max(0.0);
                return (self.parameters[1][0][channel], variance);
            }
            let mean = mean_of(of_channel(channel).collect());
            (mean, mean_of(of_channel(channel).map(|x| (x - mean).powi(2)).collect()))
        };
        let statistics: Vec<(f64, f64)> = (0..channels).map(statistics).collect();
        let normalize = |(place, x): (usize, &f64)| {
            let (mean, variance) = statistics[place / pixels];
            let spread = (variance + self.attribute("epsilon", 0.0)).sqrt();
            (x - mean) / spread * self.parameters[0][0][place / pixels]
        };
        rows.iter().map(|row| row.iter().enumerate().map(normalize).collect()).collect()
    }
}
