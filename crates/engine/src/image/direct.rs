//! Convolution without columns: the window reads the picture where it lies.
//!
//! The columns of a picture repeat each pixel as often as the window sees it, and a product of
//! matrices copies them once more into panels; with few filters both take as long as the product.
//! Here each channel is copied once, into lines with zeros between them for the padding, of which
//! the end of one line and the beginning of the next are the same. Then what a tap of the window
//! sees from all places, one after the other, is a run of numbers that begins at an offset of the
//! tap's own, and the innermost loop multiplies vectors of that run with the weights of several
//! filters. It also computes a few numbers between lines that nobody reads.
//!
//! With a stride, each channel is split into one plane for every residue of pixels, so that what a
//! tap sees is a run again. The gradient of the input, where the stride is 1, is the convolution of
//! the output's gradient with the weights turned around; that of the weights is the sum of products
//! of the same runs with the gradient.

use super::Axis;
use super::fold::{self, Window};
use pulp::{Arch, Simd, WithSimd};

/// Vectors along a run, or taps, that are computed at a time, and filters: with 16 registers and
/// with 32, which hold the sums, one vector of each run, and a weight.
const VECTORS: usize = 3;
const FILTERS: usize = 4;
const FILTERS_MANY: usize = 8;

/// Numbers behind the last plane that the last vectors of a run may reach.
const BEYOND: usize = 64;

/// Numbers of a gradient's block that stay in the first-level cache.
const BLOCK_NUMBERS: usize = 8 * 1024;

/// What the processor at hand computes at a time.
#[derive(Debug, Clone, Copy)]
struct Tile {
    lanes: usize,
    filters: usize,
}

impl WithSimd for Tile {
    type Output = Tile;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) -> Tile {
        let filters = if S::REGISTER_COUNT >= 32 { FILTERS_MANY } else { FILTERS };
        Tile { lanes: S::F32_LANES, filters }
    }
}

/// Where pictures of one size lie when they are arranged for a window.
#[derive(Debug, Clone)]
pub(super) struct Grid {
    window: Window,
    /// Numbers of a channel with all its planes, of a plane, and of a line.
    channel: usize,
    plane: usize,
    pitch: usize,
    /// Where the run of each tap begins in its channel.
    taps: Vec<usize>,
    /// Numbers of a run, with those between lines, in whole vectors.
    run: usize,
    tile: Tile,
}

/// One residue of the pixels along a side: those that the window sees at multiples of the stride.
struct Residue {
    /// Zeros before the first pixel.
    zeros: usize,
    first_pixel: usize,
    pixels: usize,
}

impl Residue {
    fn new(axis: &Axis, number: usize, length: usize) -> Residue {
        let zeros = axis.padding.saturating_sub(number).div_ceil(axis.stride).min(length);
        let first_pixel = (zeros * axis.stride + number).saturating_sub(axis.padding);
        let pixels = axis.length.saturating_sub(first_pixel).div_ceil(axis.stride);
        Residue { zeros, first_pixel, pixels: pixels.min(length - zeros) }
    }
}

/// The stops of the window along a side, and those that its last tap sees beyond.
fn length(axis: &Axis) -> usize {
    axis.places + (axis.window - 1) * axis.dilation / axis.stride
}

impl Grid {
    pub(super) fn new(window: &Window) -> Grid {
        let tile = Arch::new().dispatch(Tile { lanes: 0, filters: 0 });
        let [down, across] = window;
        let (lines, width) = (length(down), length(across));
        let shared = (0..across.stride).map(|number| {
            let residue = Residue::new(across, number, width);
            residue.zeros.min(width - residue.zeros - residue.pixels)
        });
        // A line must still hold what is computed for all places.
        let shared = shared.min().unwrap_or(0).min(width - across.places);
        let pitch = width - shared;
        let plane = lines * pitch + shared;
        let taps = (0..down.window).flat_map(|y| (0..across.window).map(move |x| (y, x)));
        let taps = taps.map(|(y, x)| {
            let (y, x) = (y * down.dilation, x * across.dilation);
            let residue = y % down.stride * across.stride + x % across.stride;
            residue * plane + y / down.stride * pitch + x / across.stride
        });
        let run = (down.places - 1) * pitch + across.places;
        Grid {
            window: *window,
            channel: down.stride * across.stride * plane,
            plane,
            pitch,
            taps: taps.collect(),
            run: run.next_multiple_of(tile.lanes),
            tile,
        }
    }

    /// The share of what is computed that is read.
    pub(super) fn efficiency(&self) -> f32 {
        fold::places(&self.window) as f32 / self.run as f32
    }

    /// Numbers of a picture that is arranged.
    fn picture(&self, channels: usize) -> usize {
        channels * self.channel + BEYOND
    }

    /// Pictures that are computed together.
    fn block(&self) -> usize {
        (BLOCK_NUMBERS / (self.run * self.tile.filters)).max(1)
    }

    /// Memory for a block of pictures. It has the zeros that `arrange` does not write.
    fn memory(&self, channels: usize) -> Vec<f32> {
        vec![0.0; self.block() * self.picture(channels)]
    }

    /// Copies the channels of a picture to where they are read.
    fn arrange(&self, channels: &[f32], arranged: &mut [f32]) {
        let [down, across] = &self.window;
        let planes = channels.chunks_exact(down.length * across.length);
        for (source, target) in planes.zip(arranged.chunks_exact_mut(self.channel)) {
            for (residue, target) in target.chunks_exact_mut(self.plane).enumerate() {
                if !self.taps.iter().any(|tap| tap / self.plane == residue) {
                    continue;
                }
                let lines = Residue::new(down, residue / across.stride, length(down));
                let columns = Residue::new(across, residue % across.stride, length(across));
                for line in 0..lines.pixels {
                    let from = (lines.first_pixel + line * down.stride) * across.length;
                    let source = &source[from..][..across.length];
                    let target = &mut target[(lines.zeros + line) * self.pitch + columns.zeros..];
                    let target = &mut target[..columns.pixels];
                    if target.is_empty() {
                        continue;
                    }
                    let source = &source[columns.first_pixel..];
                    if across.stride == 1 {
                        target.copy_from_slice(&source[..target.len()]);
                    } else {
                        let source = source.iter().step_by(across.stride);
                        target.iter_mut().zip(source).for_each(|(to, from)| *to = *from);
                    }
                }
            }
        }
    }

    /// Copies the gradient of a picture's output to where it is read: a vector of each filter of a
    /// tile, then the next of each. Zeros, which it does not write, are between the lines. `tile`
    /// is the distance from one tile of filters to the next.
    fn spread(&self, gradient: &[f32], runs: &mut [f32], tile: usize) {
        let [down, across] = &self.window;
        let Tile { lanes, filters } = self.tile;
        for (filter, source) in gradient.chunks_exact(down.places * across.places).enumerate() {
            let runs = &mut runs[filter / filters * tile + filter % filters * lanes..];
            for (line, source) in source.chunks_exact(across.places).enumerate() {
                let (mut at, mut source) = (line * self.pitch, source);
                while !source.is_empty() {
                    let count = source.len().min(lanes - at % lanes);
                    let (own, rest) = source.split_at(count);
                    let target = at / lanes * lanes * filters + at % lanes;
                    runs[target..][..count].copy_from_slice(own);
                    (at, source) = (at + count, rest);
                }
            }
        }
    }

    /// Where what each weight of a filter is multiplied with begins.
    fn offsets(&self, channels: usize) -> Vec<usize> {
        let channels = (0..channels).map(|channel| channel * self.channel);
        channels.flat_map(|begin| self.taps.iter().map(move |tap| begin + tap)).collect()
    }

    /// The weights of `filters` filters as they are read: those of a few filters side by side.
    /// `weight` gives that of a filter for a place in the order of channels and taps.
    pub(super) fn weights(
        &self,
        filters: usize,
        channels: usize,
        weight: impl Fn(usize, usize) -> f32,
    ) -> Vec<f32> {
        let (together, entries) = (self.tile.filters, channels * self.taps.len());
        let mut arranged = vec![0.0; filters.next_multiple_of(together) * entries];
        for (block, arranged) in arranged.chunks_exact_mut(together * entries).enumerate() {
            let own = block * together..filters.min((block + 1) * together);
            for (entry, arranged) in arranged.chunks_exact_mut(together).enumerate() {
                own.clone().zip(arranged).for_each(|(filter, to)| *to = weight(filter, entry));
            }
        }
        arranged
    }

    /// Convolves pictures, and gives every channel of an output to `store` with its number and
    /// line by line, each in the first numbers of `pitch`.
    pub(super) fn convolve(
        &self,
        weights: &[f32],
        pictures: &[f32],
        picture: usize,
        mut store: impl FnMut(usize, usize, &mut dyn Iterator<Item = &[f32]>),
    ) {
        let [down, across] = &self.window;
        let channels = picture / (down.length * across.length);
        let offsets = self.offsets(channels);
        let mut memory = self.memory(channels);
        let mut runs = vec![0.0; self.tile.filters * self.run];
        let blocks = pictures.chunks(self.block() * picture);
        for (block, pictures) in blocks.enumerate() {
            let arranged = memory.chunks_exact_mut(self.picture(channels));
            let pictures = pictures.chunks_exact(picture);
            let count = pictures.len();
            arranged.zip(pictures).for_each(|(to, from)| self.arrange(from, to));
            for (place, weights) in
                weights.chunks_exact(offsets.len() * self.tile.filters).enumerate()
            {
                let arranged = memory.chunks_exact(self.picture(channels)).take(count);
                for (number, arranged) in arranged.enumerate() {
                    let kernel = Convolve { weights, offsets: &offsets, arranged, runs: &mut runs };
                    Arch::new().dispatch(kernel);
                    for (filter, run) in runs.chunks_exact(self.run).enumerate() {
                        let lines = run.chunks(self.pitch).take(down.places);
                        let mut lines = lines.map(|line| &line[..across.places]);
                        let picture = block * self.block() + number;
                        store(picture, place * self.tile.filters + filter, &mut lines);
                    }
                }
            }
        }
    }

    /// Adds to the weights' gradient, a row for each filter, what pictures and the gradients of
    /// their outputs give.
    pub(super) fn add_weights(
        &self,
        [pictures, gradients]: [&[f32]; 2],
        [picture, gradient]: [usize; 2],
        found: &mut [f32],
    ) {
        let [down, across] = &self.window;
        let channels = picture / (down.length * across.length);
        let filters = gradient / fold::places(&self.window);
        let offsets = self.offsets(channels);
        // What a tile of filters has for a picture, and for a block of them.
        let own = self.tile.filters * self.run;
        let tile = self.block() * own;
        let mut memory = self.memory(channels);
        let mut runs = vec![0.0; filters.div_ceil(self.tile.filters) * tile];
        let pictures = pictures.chunks(self.block() * picture);
        for (pictures, gradients) in pictures.zip(gradients.chunks(self.block() * gradient)) {
            let pictures = pictures.chunks_exact(picture);
            let count = pictures.len();
            let arranged = memory.chunks_exact_mut(self.picture(channels));
            arranged.zip(pictures).for_each(|(to, from)| self.arrange(from, to));
            for (place, gradient) in gradients.chunks_exact(gradient).enumerate() {
                self.spread(gradient, &mut runs[place * own..], tile);
            }
            let rows = found.chunks_mut(self.tile.filters * offsets.len());
            for (found, runs) in rows.zip(runs.chunks_exact(tile)) {
                Arch::new().dispatch(AddWeights {
                    runs: &runs[..count * own],
                    run: self.run,
                    arranged: &memory[..count * self.picture(channels)],
                    picture: self.picture(channels),
                    offsets: &offsets,
                    found,
                });
            }
        }
    }
}

/// The products of a picture with some filters, to runs.
struct Convolve<'a> {
    weights: &'a [f32],
    offsets: &'a [usize],
    arranged: &'a [f32],
    runs: &'a mut [f32],
}

impl WithSimd for Convolve<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        if S::REGISTER_COUNT >= 32 {
            self.run::<S, FILTERS_MANY>(simd);
        } else {
            self.run::<S, FILTERS>(simd);
        }
    }
}

impl Convolve<'_> {
    #[inline(always)]
    fn run<S: Simd, const K: usize>(self, simd: S) {
        let Convolve { weights, offsets, arranged, runs } = self;
        let (weights, _) = weights.as_chunks::<K>();
        let run = runs.len() / K;
        let mut at = 0;
        while at < run {
            let from = &arranged[at..];
            match (run - at) / S::F32_LANES {
                1 => keep::<S, K, 1>(sums(simd, weights, offsets, from), runs, at),
                2 => keep::<S, K, 2>(sums(simd, weights, offsets, from), runs, at),
                _ => keep::<S, K, VECTORS>(sums(simd, weights, offsets, from), runs, at),
            }
            at += VECTORS * S::F32_LANES;
        }
    }
}

/// Products of some weights of each filter with vectors of the runs at these offsets.
#[inline(always)]
fn sums<S: Simd, const K: usize, const V: usize>(
    simd: S,
    weights: &[[f32; K]],
    offsets: &[usize],
    from: &[f32],
) -> [[S::f32s; V]; K] {
    let mut sums = [[simd.splat_f32s(0.0); V]; K];
    for (weights, offset) in weights.iter().zip(offsets) {
        let seen = S::as_simd_f32s(&from[*offset..][..V * S::F32_LANES]).0.as_chunks::<V>().0[0];
        for (sums, weight) in sums.iter_mut().zip(weights) {
            let weight = simd.splat_f32s(*weight);
            for (sum, seen) in sums.iter_mut().zip(&seen) {
                *sum = simd.mul_add_e_f32s(weight, *seen, *sum);
            }
        }
    }
    sums
}

#[inline(always)]
fn keep<S: Simd, const K: usize, const V: usize>(
    sums: [[S::f32s; V]; K],
    runs: &mut [f32],
    at: usize,
) {
    let run = runs.len() / K;
    for (sums, run) in sums.iter().zip(runs.chunks_exact_mut(run)) {
        let (target, _) = S::as_mut_simd_f32s(&mut run[at..][..V * S::F32_LANES]);
        target.copy_from_slice(sums);
    }
}

/// Some rows of the weights' gradient from a block of pictures.
struct AddWeights<'a> {
    /// Gradients of outputs, as [`Grid::spread`] leaves them.
    runs: &'a [f32],
    /// Numbers of a run.
    run: usize,
    arranged: &'a [f32],
    /// Numbers of an arranged picture.
    picture: usize,
    offsets: &'a [usize],
    found: &'a mut [f32],
}

impl WithSimd for AddWeights<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        if S::REGISTER_COUNT >= 32 {
            self.run::<S, FILTERS_MANY>(simd);
        } else {
            self.run::<S, FILTERS>(simd);
        }
    }
}

impl AddWeights<'_> {
    #[inline(always)]
    fn run<S: Simd, const K: usize>(mut self, simd: S) {
        let (many, rest) = self.offsets.as_chunks::<VECTORS>();
        for (place, offsets) in many.iter().enumerate() {
            self.add::<S, K, VECTORS>(simd, *offsets, place * VECTORS);
        }
        for (place, offset) in rest.iter().enumerate() {
            self.add::<S, K, 1>(simd, [*offset], many.len() * VECTORS + place);
        }
    }

    #[inline(always)]
    fn add<S: Simd, const K: usize, const T: usize>(
        &mut self,
        simd: S,
        offsets: [usize; T],
        at: usize,
    ) {
        let mut sums = [[simd.splat_f32s(0.0); T]; K];
        let (gradients, _) = S::as_simd_f32s(self.runs).0.as_chunks::<K>();
        let pictures = self.arranged.chunks_exact(self.picture);
        for (arranged, gradients) in pictures.zip(gradients.chunks_exact(self.run / S::F32_LANES)) {
            let seen = offsets.map(|offset| S::as_simd_f32s(&arranged[offset..][..self.run]).0);
            add_runs(simd, &mut sums, gradients, seen);
        }
        for (row, sums) in self.found.chunks_exact_mut(self.offsets.len()).zip(&sums) {
            for (found, sum) in row[at..][..T].iter_mut().zip(sums) {
                *found += simd.reduce_sum_f32s(*sum);
            }
        }
    }
}

#[inline(always)]
fn add_runs<S: Simd, const K: usize, const T: usize>(
    simd: S,
    sums: &mut [[S::f32s; T]; K],
    gradients: &[[S::f32s; K]],
    seen: [&[S::f32s]; T],
) {
    let seen = seen.map(|seen| &seen[..gradients.len()]);
    for (place, gradients) in gradients.iter().enumerate() {
        let seen = seen.map(|seen| seen[place]);
        for (sums, gradient) in sums.iter_mut().zip(gradients) {
            for (sum, seen) in sums.iter_mut().zip(&seen) {
                *sum = simd.mul_add_e_f32s(*gradient, *seen, *sum);
            }
        }
    }
}
