//! Projections, each of one input (operators: of two) and one small file: their sum or, for a
//! `concat` of projections, their columns side by side.

mod context;
mod dotmul;
mod dotmul_operator;
mod full_matrix;
mod identity;
mod scaling;
mod table;
mod trans_full_matrix;

use super::{Layer, Plan, Run, Slot, attributes, expect_same_level, expect_same_rows};
use crate::argument::Argument;
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
    Dotmul(dotmul::Dotmul),
    DotmulOperator(dotmul_operator::DotmulOperator),
    FullMatrix(full_matrix::FullMatrix),
    Identity(identity::Identity),
    Scaling(scaling::Scaling),
    Table(table::Table),
    TransFullMatrix(trans_full_matrix::TransFullMatrix),
}

impl Description {
    fn projection(&self) -> &dyn Projection {
        match self {
            Description::Context(projection) => projection,
            Description::Dotmul(projection) => projection,
            Description::DotmulOperator(projection) => projection,
            Description::FullMatrix(projection) => projection,
            Description::Identity(projection) => projection,
            Description::Scaling(projection) => projection,
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

    /// Its output's size and, if it has one, its parameter, the first of its inputs being input `place`. `wanted`
    /// is the size of the whole layer, if it was given.
    fn plan(
        &self,
        place: usize,
        inputs: &[Shape],
        wanted: Option<usize>,
    ) -> Result<(usize, Option<Slot>)>;

    /// Its output. `slot` is the place of its parameter among the layer's.
    fn forward(&self, run: &Run<'_>, slot: usize, inputs: &[&Argument]) -> Result<Tensor<2>>;
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
        Ok(Plan { shape: inputs[0].with_size(size), parameters })
    }

    fn forward(&self, run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        expect_same_rows(inputs)?;
        let mut outputs = Vec::new();
        let mut slot = 0;
        for (place, projection) in self.projections() {
            let taken = &inputs[place..place + projection.inputs()];
            outputs.push(projection.forward(run, slot, taken)?);
            slot += usize::from(projection.has_parameter());
        }
        let output = match self.is_concatenated {
            true => Some(Tensor::cat(outputs, 1)),
            false => outputs.into_iter().reduce(|sum, output| sum + output),
        };
        let output = output.ok_or_else(|| Error::invalid("mixed has no projections"))?;
        Ok(Argument::like(inputs[0], output))
    }
}
