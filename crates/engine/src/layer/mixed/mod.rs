//! Projections, each of one input (operators: of two) and one small file: their sum or, for a
//! `concat` of projections, their columns side by side.

mod context;
mod convolution;
mod dotmul;
mod dotmul_operator;
mod full_matrix;
mod identity;
mod scaling;
mod slice;
mod table;
mod trans_full_matrix;

use super::{Layer, Plan, Run, Slot, attributes, expect_same_level, expect_same_rows};
use crate::argument::Argument;
use crate::image::Image;
use crate::shape::Shape;
use crate::topology;
use burn::tensor::Tensor;
use contract::{Error, Result};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mixed {
    /// Absent: what the projections give.
    size: Option<usize>,
    /// In the order of the inputs; an operator takes more than one.
    projections: Vec<Description>,
    /// Whether their columns stand side by side instead of being added up.
    #[serde(default)]
    is_concatenated: bool,
}

/// A projection: adding one is a line here and a file.
#[derive(Deserialize)]
#[serde(tag = "name", rename_all = "snake_case", deny_unknown_fields)]
enum Description {
    Context(context::Context),
    Convolution(super::img_conv::ImageConvolution),
    Dotmul(dotmul::Dotmul),
    DotmulOperator(dotmul_operator::DotmulOperator),
    FullMatrix(full_matrix::FullMatrix),
    Identity(identity::Identity),
    Scaling(scaling::Scaling),
    Slice(slice::Slice),
    Table(table::Table),
    TransFullMatrix(trans_full_matrix::TransFullMatrix),
}

impl Description {
    fn projection(&self) -> &dyn Projection {
        match self {
            Description::Context(projection) => projection,
            Description::Convolution(projection) => projection,
            Description::Dotmul(projection) => projection,
            Description::DotmulOperator(projection) => projection,
            Description::FullMatrix(projection) => projection,
            Description::Identity(projection) => projection,
            Description::Scaling(projection) => projection,
            Description::Slice(projection) => projection,
            Description::Table(projection) => projection,
            Description::TransFullMatrix(projection) => projection,
        }
    }
}

/// What a projection is.
trait Projection {
    /// How many inputs it takes.
    fn inputs(&self) -> usize {
        1
    }

    /// Whether it learns something.
    fn has_parameter(&self) -> bool {
        true
    }

    /// The pictures that it makes of such inputs, if it is a convolution.
    fn pictures(&self, _inputs: &[Shape]) -> Result<Option<Image>> {
        Ok(None)
    }

    /// Its output's size and, if it has one, its parameter, the first of its inputs being input
    /// `place`. `wanted` is the size of the whole layer, if it was given.
    fn plan(
        &self,
        place: usize,
        inputs: &[Shape],
        wanted: Option<usize>,
    ) -> Result<(usize, Option<Slot>)>;

    /// The filters that a bias has a number for, of a convolution.
    fn filters(&self) -> Option<usize> {
        None
    }

    /// Its output.
    fn forward(&self, run: &Run<'_>, at: &Wiring, inputs: &[&Argument]) -> Result<Tensor<2>>;
}

/// What belongs to a projection of all that the layer has.
struct Wiring {
    /// The first of its inputs.
    input: usize,
    /// Its parameter.
    slot: usize,
    /// Its part of the bias of convolutions, a number for each filter.
    bias: Option<Tensor<2>>,
}

/// The size of a projection's output: its own, else the layer's.
fn size_of(own: Option<usize>, wanted: Option<usize>) -> Result<usize> {
    own.or(wanted).ok_or_else(|| {
        Error::invalid("give the projection a size, or the mixed layer that it is in")
    })
}

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<Mixed>(layer)?))
}

impl Mixed {
    /// Each projection with the place of its first input.
    fn projections(&self) -> impl Iterator<Item = (usize, &dyn Projection)> {
        self.projections.iter().map(Description::projection).scan(0, |next, projection| {
            let place = *next;
            *next += projection.inputs();
            Some((place, projection))
        })
    }

    /// Size and parameters of the sum.
    fn plan_sum(&self, inputs: &[Shape]) -> Result<(usize, Vec<Slot>)> {
        let mut size = self.size;
        let mut parameters = Vec::new();
        for (place, projection) in self.projections() {
            let taken = &inputs[place..place + projection.inputs()];
            let (gives, slot) = projection.plan(place, taken, size)?;
            if *size.get_or_insert(gives) != gives {
                return Err(Error::invalid(format!(
                    "projection {place} gives size {gives} but the layer has size {}; \
                     projections of a mixed layer are added, so they must be the same",
                    size.unwrap_or(0)
                )));
            }
            parameters.extend(slot);
        }
        Ok((size.unwrap_or(0), parameters))
    }

    /// Size and parameters of the columns side by side: every projection has a size of its own.
    fn plan_concatenated(&self, inputs: &[Shape]) -> Result<(usize, Vec<Slot>)> {
        let mut size = 0_usize;
        let mut parameters = Vec::new();
        for (place, projection) in self.projections() {
            let taken = &inputs[place..place + projection.inputs()];
            let (gives, slot) = projection
                .plan(place, taken, None)
                .map_err(|error| error.with("projection", place))?;
            size = size.saturating_add(gives);
            parameters.extend(slot);
        }
        Ok((size, parameters))
    }

    /// Height and width, if all projections make pictures of the same.
    fn frame(&self, inputs: &[Shape]) -> Result<Option<(usize, usize)>> {
        let mut frames = Vec::new();
        for (place, projection) in self.projections() {
            let pictures = projection.pictures(&inputs[place..place + projection.inputs()])?;
            frames.push(pictures.map(|image| (image.height, image.width)));
        }
        let is_same = frames.windows(2).all(|pair| pair[0] == pair[1]);
        if !is_same && !self.is_concatenated && frames.iter().all(Option::is_some) {
            let sides =
                frames.iter().flatten().map(|(height, width)| format!("{height} x {width}"));
            return Err(Error::invalid(format!(
                "convolutions of a mixed layer are added but give pictures of {}",
                sides.collect::<Vec<_>>().join(" and ")
            )));
        }
        Ok(frames[0].filter(|_| is_same))
    }

    /// The filters of each projection, if all are convolutions.
    fn filters(&self) -> Option<Vec<usize>> {
        self.projections().map(|(_, projection)| projection.filters()).collect()
    }
}

impl Layer for Mixed {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        let needed: usize = self.projections().map(|(_, projection)| projection.inputs()).sum();
        if needed != inputs.len() || needed == 0 {
            return Err(Error::invalid(
                "mixed needs a projection for every input, and at least one",
            )
            .with("projections take", needed)
            .with("inputs", inputs.len()));
        }
        expect_same_level(inputs)?;
        let (size, parameters) = match self.is_concatenated {
            true => self.plan_concatenated(inputs)?,
            false => self.plan_sum(inputs)?,
        };
        let size = Some(size).filter(|size| *size > 0);
        let size = size.ok_or_else(|| Error::invalid("size must be 1 or more"))?;
        let shape = Shape { frame: self.frame(inputs)?, ..inputs[0].with_size(size) };
        Ok(Plan { shape, parameters })
    }

    fn forward(&self, run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        expect_same_rows(inputs)?;
        let learnt = self.projections().filter(|(_, projection)| projection.has_parameter());
        let mut bias = run.parameters.get(learnt.count()).filter(|_| self.filters().is_some());
        let mut outputs = Vec::new();
        let (mut slot, mut filters_before) = (0, 0);
        for (input, projection) in self.projections() {
            let taken = &inputs[input..input + projection.inputs()];
            let filters = projection.filters().unwrap_or(0);
            let part = |bias: &Tensor<2>| bias.clone().narrow(1, filters_before, filters);
            let wiring = Wiring { input, slot, bias: bias.map(part) };
            outputs.push(projection.forward(run, &wiring, taken)?);
            slot += usize::from(projection.has_parameter());
            if self.is_concatenated {
                filters_before += filters;
            } else {
                // The first has added it for all.
                bias = None;
            }
        }
        let output = match self.is_concatenated {
            true => Some(Tensor::cat(outputs, 1)),
            false => outputs.into_iter().reduce(|sum, output| sum + output),
        };
        let output = output.ok_or_else(|| Error::invalid("mixed has no projections"))?;
        Ok(Argument::like(inputs[0], output))
    }

    fn own_bias(&self, _output: &Shape) -> Option<usize> {
        let filters = self.filters()?;
        if self.is_concatenated { Some(filters.iter().sum()) } else { filters.first().copied() }
    }
}
