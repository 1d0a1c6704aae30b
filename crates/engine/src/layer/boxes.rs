//! What layers that judge prior boxes take: the boxes, and for every feature map the locations and
//! the scores of the classes, channels last when they are put together.

use super::{Run, expect_dense};
use crate::argument::{Argument, numbers};
use crate::column_sums::pick_columns;
use crate::detection::{PRIOR_NUMBERS, Prior};
use crate::image::Image;
use crate::shape::Shape;
use burn::tensor::Tensor;
use contract::{Error, Result};

/// Checks prior boxes, then as many layers of locations as of scores.
pub(super) fn expect_boxes(
    priors: &Shape,
    answers: &[Shape],
    classes: usize,
    background: usize,
) -> Result<()> {
    expect_dense("priorbox", priors)?;
    if classes < 2 || background >= classes {
        return Err(Error::invalid("num_classes must be 2 or more, and background_id one of them")
            .with("num_classes", classes)
            .with("background_id", background));
    }
    if !answers.len().is_multiple_of(2) || answers.is_empty() {
        return Err(Error::invalid("needs as many layers of locations as of confidences"));
    }
    let count = priors.size / PRIOR_NUMBERS;
    let (locations, scores) = answers.split_at(answers.len() / 2);
    for (what, layers, each) in [("input_loc", locations, 4), ("input_conf", scores, classes)] {
        for layer in layers {
            expect_dense(what, layer)?;
            super::expect_one_row(layer)?;
        }
        let size: usize = layers.iter().map(|layer| layer.size).sum();
        if size != count * each {
            return Err(Error::invalid(format!(
                "{what} has {size} numbers in all but the {count} prior boxes need {each} each, \
                 {}",
                count * each
            )));
        }
    }
    Ok(())
}

/// The prior boxes.
pub(super) fn read_priors(priors: &Argument) -> Result<Vec<Prior>> {
    Ok(Prior::all(&numbers(priors.dense()?)))
}

/// Locations and scores of the whole, box by box; `first` is the place of the first such input.
pub(super) fn join(run: &Run<'_>, inputs: &[&Argument], first: usize) -> Result<[Tensor<2>; 2]> {
    let half = (inputs.len() - first) / 2;
    let join = |begin: usize| {
        let parts = (begin..begin + half).map(|place| {
            let (x, shape) = (inputs[place].dense()?, &run.shapes[place]);
            // A layer that is no picture has one pixel, and its channels are last already.
            let Ok(image) = Image::known(shape) else { return Ok(x) };
            let columns = (0..image.size())
                .map(|at| Some(at % image.channels * image.pixels() + at / image.channels));
            Ok(pick_columns(x, columns))
        });
        Ok::<_, Error>(Tensor::cat(parts.collect::<Result<Vec<_>>>()?, 1))
    };
    Ok([join(first)?, join(first + half)?])
}
