//! The layers: each one small file and one line in the table below.
//!
//! A layer says what its output and parameters are before any data is seen (`plan`) and computes
//! its output (`forward`); Burn finds the gradient. Bias, activation and dropout are the same for
//! all and are added by the network, so `forward` returns what comes before them.

mod addto;
mod batch_norm;
mod bilinear_interp;
mod block_expand;
mod boxes;
mod cell_step;
mod clip;
mod concat;
mod conv_shift;
mod cos_sim;
mod cost;
mod crf_decoding;
mod crop;
mod cross_channel_norm;
mod data;
mod detection_output;
mod dot_prod;
mod eos;
mod expand;
mod factorization_machine;
mod fc;
mod finish;
mod group;
mod img_cmrnorm;
mod img_conv;
mod img_conv3d;
mod img_pool;
mod img_pool3d;
mod interpolation;
mod kmax_seq_score;
mod l2_distance;
mod linear_comb;
mod max_id;
mod maxout;
mod mixed;
mod multiplex;
mod out_prod;
mod pad;
mod places;
mod pooling;
mod power;
mod prelu;
mod priorbox;
mod recurrent;
mod repeat;
mod resize;
mod roi_pool;
mod rotate;
mod row_conv;
mod row_l2_norm;
mod rowwise;
mod sampling_id;
mod scale_shift;
mod scale_sub_region;
mod scaling;
mod sequence_concat;
mod sequence_end;
mod sequence_reshape;
mod sequence_slice;
mod slope_intercept;
mod spp;
mod sub_nested_seq;
mod sum_to_one_norm;
mod switch_order;
mod tensor;
mod trans;

pub(crate) use finish::Node;

use crate::activation::Activation;
use crate::argument::{Argument, Value};
use crate::batch::NO_ID;
use crate::chance::Chance;
use crate::row_sums::RowLists;
use crate::shape::{Level, Shape};
use crate::topology::{self, at};
use burn::tensor::{Device, Tensor};
use contract::{Error, Kind, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;

/// The longest row, and the most rows of a parameter that is not sparse: a GPU counts in `i32`.
pub const SIZE_MAX: usize = i32::MAX as usize;

/// Makes a layer of its description.
type Build = fn(&topology::Layer) -> Result<Box<dyn Layer>>;

/// Every layer there is.
const TABLE: &[(&str, Build)] = &[
    ("addto", addto::build),
    ("batch_norm", batch_norm::build),
    ("beam_search", group::build_beam_search),
    ("bilinear_interp", bilinear_interp::build),
    ("block_expand", block_expand::build),
    ("clip", clip::build),
    ("concat", concat::build),
    ("conv_shift", conv_shift::build),
    ("cos_sim", cos_sim::build),
    ("crf", cost::crf::build),
    ("crf_decoding", crf_decoding::build),
    ("crop", crop::build),
    ("cross_channel_norm", cross_channel_norm::build),
    ("cross_entropy", cost::cross_entropy::build),
    ("cross_entropy_over_beam", cost::cross_entropy_over_beam::build),
    ("cross_entropy_with_selfnorm", cost::cross_entropy_with_selfnorm::build),
    ("ctc", cost::ctc::build),
    ("data", data::build),
    ("detection_output", detection_output::build),
    ("dot_prod", dot_prod::build),
    ("eos", eos::build),
    ("expand", expand::build),
    ("factorization_machine", factorization_machine::build),
    ("fc", fc::build),
    ("gru_step", cell_step::build_gru),
    ("grumemory", recurrent::build_gru),
    ("hsigmoid", cost::hsigmoid::build),
    ("huber_classification", cost::huber_classification::build),
    ("huber_regression", cost::huber_regression::build),
    ("img_cmrnorm", img_cmrnorm::build),
    ("img_conv", img_conv::build),
    ("img_conv3d", img_conv3d::build),
    ("img_pool", img_pool::build),
    ("img_pool3d", img_pool3d::build),
    ("interpolation", interpolation::build),
    ("kmax_seq_score", kmax_seq_score::build),
    ("l2_distance", l2_distance::build),
    ("lambda", cost::lambda::build),
    ("linear_comb", linear_comb::build),
    ("lstm_step", cell_step::build_lstm),
    ("lstmemory", recurrent::build_lstm),
    ("max_id", max_id::build),
    ("maxout", maxout::build),
    ("mixed", mixed::build),
    ("multi_binary_label_cross_entropy", cost::multi_binary_label_cross_entropy::build),
    ("multibox_loss", cost::multibox_loss::build),
    ("multiplex", multiplex::build),
    ("nce", cost::nce::build),
    ("out_prod", out_prod::build),
    ("pad", pad::build),
    ("pooling", pooling::build),
    ("power", power::build),
    ("prelu", prelu::build),
    ("priorbox", priorbox::build),
    ("rank", cost::rank::build),
    ("recurrent", recurrent::build_simple),
    ("recurrent_group", group::build),
    ("recurrent_group_output", group::build_output),
    ("repeat", repeat::build),
    ("resize", resize::build),
    ("roi_pool", roi_pool::build),
    ("rotate", rotate::build),
    ("row_conv", row_conv::build),
    ("row_l2_norm", row_l2_norm::build),
    ("sampling_id", sampling_id::build),
    ("scale_shift", scale_shift::build),
    ("scale_sub_region", scale_sub_region::build),
    ("scaling", scaling::build),
    ("sequence_concat", sequence_concat::build),
    ("sequence_end", sequence_end::build),
    ("sequence_reshape", sequence_reshape::build),
    ("sequence_slice", sequence_slice::build),
    ("slope_intercept", slope_intercept::build),
    ("smooth_l1", cost::smooth_l1::build),
    ("spp", spp::build),
    ("square_error", cost::square_error::build),
    ("sub_nested_seq", sub_nested_seq::build),
    ("sum", cost::sum::build),
    ("sum_to_one_norm", sum_to_one_norm::build),
    ("switch_order", switch_order::build),
    ("tensor", tensor::build),
    ("trans", trans::build),
];

/// What a kind of layer is.
pub(crate) trait Layer: Send + Sync {
    /// What it makes of such inputs.
    ///
    /// # Errors
    /// If it cannot take them: says both sizes.
    fn plan(&self, inputs: &[Shape]) -> Result<Plan>;

    /// Its output, before bias, activation and dropout.
    fn forward(&self, run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument>;

    /// Its output with its bias, if it has one, and an activation, if it has a faster way to all
    /// three.
    fn forward_finished(
        &self,
        _run: &Run<'_>,
        _inputs: &[&Argument],
        _activation: Activation,
    ) -> Option<Result<Argument>> {
        None
    }

    /// The numbers of its bias, if it adds it to such an output itself: it is then the last of the
    /// parameters that `forward` has. Otherwise a bias has a number for each column.
    fn own_bias(&self, _output: &Shape) -> Option<usize> {
        None
    }

    /// For a cost: what its gradient is multiplied with. Its output is one number a row.
    fn coefficient(&self) -> Option<f32> {
        None
    }

    /// Whether what a sample gives depends on that sample alone, so that a batch may be computed
    /// in parts.
    fn is_sample_by_sample(&self) -> bool {
        true
    }

    /// Whether it has to run also if its inputs have no rows at all.
    fn runs_without_rows(&self, _inputs: &[Shape]) -> bool {
        false
    }

    /// Whether bias, activation and dropout make sense.
    fn can_be_finished(&self) -> bool {
        self.coefficient().is_none()
    }
}

/// What a layer gives and needs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// Its output.
    pub shape: Shape,
    /// Its parameters, in the order in which they are handed to it.
    pub parameters: Vec<Slot>,
}

/// A parameter of a layer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Slot {
    /// The end of its default name: `w0`, `wbias`.
    pub name: String,
    /// Rows and columns; 0 rows for keys without a bound.
    pub dims: [usize; 2],
    /// Its first values, unless the user says otherwise.
    pub initial: Initial,
    /// The input whose ids are its rows, if that is a data layer: then it may be sparse.
    pub key_input: Option<usize>,
    /// Whether training measures it, where others are learnt: it has no gradient, and new values
    /// after each step.
    pub is_measured: bool,
}

/// The first values of a parameter, as the parameter server names them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum Initial {
    /// All 0.
    Zero,
    /// All the same.
    Constant {
        /// The value.
        value: f32,
    },
    /// Normally distributed.
    Normal {
        /// The mean.
        mean: f64,
        /// The standard deviation.
        std: f64,
    },
}

impl Plan {
    /// Without parameters.
    pub(crate) fn of(shape: Shape) -> Plan {
        Plan { shape, parameters: Vec::new() }
    }
}

impl Slot {
    /// The weight of input `input`: rows by columns, from N(0, 1/√rows).
    pub(crate) fn weight(input: usize, dims: [usize; 2]) -> Slot {
        // Without a bound on the keys there is no number of rows to go by.
        let std = if dims[0] == 0 { 0.01 } else { 1.0 / (dims[0] as f64).sqrt() };
        let initial = Initial::Normal { mean: 0.0, std };
        Slot { name: format!("w{input}"), dims, initial, key_input: None, is_measured: false }
    }

    /// The same, looked up by the ids of that input.
    pub(crate) fn table(input: usize, shape: &Shape, width: usize) -> Slot {
        let key_input = shape.is_data.then_some(input);
        Slot { key_input, ..Slot::weight(input, [shape.size, width]) }
    }

    fn bias(size: usize) -> Slot {
        let name = "wbias".to_owned();
        Slot { name, initial: Initial::Zero, ..Slot::weight(0, [1, size]) }
    }
}

/// What a layer finds around it when it runs.
pub(crate) struct Run<'a> {
    /// Its parameters, in the order of its plan.
    pub(crate) parameters: &'a [Tensor<2>],
    /// For sparse parameters, by slot: where the ids of their input are in the parameter's rows.
    pub(crate) lookups: &'a [Option<&'a [u32]>],
    /// What decides what is left to chance.
    pub(crate) chance: Chance,
    /// What is known of its inputs.
    pub(crate) shapes: &'a [Shape],
    pub(crate) is_training: bool,
    /// Where it computes.
    pub(crate) device: &'a Device,
    /// What it measured, by slot.
    pub(crate) measured: RefCell<Vec<(usize, Vec<f32>)>>,
}

impl Run<'_> {
    pub(crate) fn parameter(&self, slot: usize) -> Tensor<2> {
        self.parameters[slot].clone()
    }

    /// Tells the new values of a parameter that training measures.
    pub(crate) fn measure(&self, slot: usize, values: Vec<f32>) {
        self.measured.borrow_mut().push((slot, values));
    }

    /// The rows of the parameter in `slot` that the ids of `input` ask for.
    pub(crate) fn lists(&self, slot: usize, input: &Argument) -> Result<RowLists> {
        let lookup = self.lookups.get(slot).copied().flatten();
        let rows = |ids: &[u64]| match lookup {
            Some(lookup) => lookup.to_vec(),
            None => ids.iter().map(|id| *id as u32).collect(),
        };
        let (ids, mut lists) = match &input.value {
            Value::Integer(ids) => (&ids[..], RowLists::one_each(rows(ids))),
            Value::Sparse(lists) => {
                let (offsets, weights) = (lists.offsets.clone(), lists.values.clone());
                (&lists.ids[..], RowLists { offsets, rows: rows(&lists.ids), weights })
            }
            Value::Dense(_) => return Err(Error::invalid("needs ids but its input has numbers")),
        };
        if ids.contains(&NO_ID) {
            lists.retain(|entry| ids[entry] != NO_ID);
        }
        Ok(lists)
    }
}

/// The names of all layers.
pub fn kinds() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|(kind, _)| *kind)
}

/// What a layer gives and needs, bias included; errors name the layer.
pub fn plan(layer: &topology::Layer, inputs: &[Shape]) -> Result<Plan> {
    check_and_plan(layer, inputs).map_err(|error| at(layer, error))
}

fn check_and_plan(layer: &topology::Layer, inputs: &[Shape]) -> Result<Plan> {
    let built = lookup(layer)?(layer)?;
    if !(0.0..1.0).contains(&layer.drop_rate) {
        return Err(Error::invalid("drop_rate must be at least 0 and below 1")
            .with("drop_rate", layer.drop_rate));
    }
    if layer.error_clip.is_some_and(|clip| clip.is_nan() || clip <= 0.0) {
        return Err(Error::invalid("error_clipping_threshold must be above 0"));
    }
    let is_plain = layer.activation == Activation::Linear
        && !layer.has_bias
        && layer.drop_rate == 0.0
        && layer.error_clip.is_none();
    if !built.can_be_finished() && !is_plain {
        return Err(Error::invalid("takes neither activation nor bias nor dropout")
            .with("kind", &layer.kind));
    }
    if layer.drop_rate > 0.0 && layer.activation.is_softmax() {
        return Err(Error::invalid(
            "dropout after softmax would not leave probabilities; put it on the input instead",
        ));
    }
    let mut plan = built.plan(inputs)?;
    if layer.has_bias {
        let size = built.own_bias(&plan.shape).unwrap_or(plan.shape.size);
        plan.parameters.push(Slot::bias(size));
    }
    let is_counted = plan.shape.value == crate::shape::Value::Dense;
    let widths = plan.parameters.iter().map(|slot| slot.dims[1]);
    match widths.chain(is_counted.then_some(plan.shape.size)).find(|width| *width > SIZE_MAX) {
        None => Ok(plan),
        Some(width) => Err(Error::new(Kind::LimitExceeded, "rows would be too long")
            .with("size", width)
            .with("limit", SIZE_MAX)),
    }
}

/// The layer behind a description; errors name the layer.
pub(crate) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    lookup(layer).and_then(|build| build(layer)).map_err(|error| at(layer, error))
}

fn lookup(layer: &topology::Layer) -> Result<Build> {
    let entry = TABLE.iter().find(|(kind, _)| *kind == layer.kind);
    entry.map(|(_, build)| *build).ok_or_else(|| {
        Error::new(Kind::Unsupported, "there is no such layer").with("kind", &layer.kind)
    })
}

/// The attributes of a layer as its kind declares them.
pub(crate) fn attributes<T: DeserializeOwned>(layer: &topology::Layer) -> Result<T> {
    serde_json::from_value(layer.attributes.clone().into()).map_err(|source| {
        Error::invalid(format!("wrong attributes: {source}")).with("kind", &layer.kind)
    })
}

/// Checks that a layer whose kind declares no attributes has none.
pub(crate) fn no_attributes(layer: &topology::Layer) -> Result<()> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Nothing {}
    attributes::<Nothing>(layer).map(|_| ())
}

/// Checks the number of inputs.
pub(crate) fn expect_inputs(
    inputs: &[Shape],
    accepted: std::ops::RangeInclusive<usize>,
) -> Result<()> {
    if accepted.contains(&inputs.len()) {
        return Ok(());
    }
    let expected = match (accepted.start(), accepted.end()) {
        (from, to) if from == to => from.to_string(),
        (from, &usize::MAX) => format!("{from} or more"),
        (from, to) => format!("{from} to {to}"),
    };
    Err(Error::invalid("takes another number of inputs")
        .with("expected", expected)
        .with("got", inputs.len()))
}

/// Checks that an input has numbers, not ids.
pub(crate) fn expect_dense(what: &str, shape: &Shape) -> Result<()> {
    if shape.value == crate::shape::Value::Dense {
        return Ok(());
    }
    Err(Error::invalid(format!("{what} must be dense but is {shape}")))
}

/// Checks that the rows of an input are those of sequences, of which a sample may have several.
pub(crate) fn expect_sequence(input: &Shape) -> Result<()> {
    match input.level {
        Level::Sequence | Level::Nested => Ok(()),
        Level::Single => Err(Error::invalid(format!("needs a sequence but its input is {input}"))),
    }
}

/// Checks that a sample of an input is one sequence.
pub(crate) fn expect_one_sequence(input: &Shape) -> Result<()> {
    match input.level {
        Level::Nested => {
            Err(Error::invalid(format!("needs one sequence a sample but its input is {input}")))
        }
        Level::Single | Level::Sequence => expect_sequence(input),
    }
}

/// Checks that a sample of an input is one row.
pub(crate) fn expect_one_row(input: &Shape) -> Result<()> {
    match input.level {
        Level::Single => Ok(()),
        Level::Sequence | Level::Nested => {
            Err(Error::invalid(format!("needs one row a sample but its input is {input}")))
        }
    }
}

/// Checks that two inputs are equally wide.
pub(crate) fn expect_same_size(what: [&str; 2], shapes: [&Shape; 2]) -> Result<()> {
    if shapes[0].size == shapes[1].size {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{} has size {} but {} has size {}; they must be the same",
        what[0], shapes[0].size, what[1], shapes[1].size
    )))
}

/// Checks that inputs that are taken row by row are all sequences, or none.
pub(crate) fn expect_same_level(inputs: &[Shape]) -> Result<()> {
    match inputs.windows(2).find(|pair| pair[0].level != pair[1].level) {
        None => Ok(()),
        Some(pair) => Err(Error::invalid(format!(
            "inputs must all be sequences or none; one is {}, another {}",
            pair[0], pair[1]
        ))),
    }
}

/// Checks, now that data is there, that inputs taken row by row have the same rows.
pub(crate) fn expect_same_rows(inputs: &[&Argument]) -> Result<()> {
    for pair in inputs.windows(2) {
        let is_like = pair[0].sequences == pair[1].sequences && pair[0].nests == pair[1].nests;
        if pair[0].rows() != pair[1].rows() || !is_like {
            return Err(Error::invalid(
                "inputs are sequences of different lengths in the same sample; \
                 this layer takes them row by row",
            )
            .with("rows", format!("{} and {}", pair[0].rows(), pair[1].rows())));
        }
    }
    Ok(())
}
