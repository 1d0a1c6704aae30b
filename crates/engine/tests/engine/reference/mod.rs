//! What layers compute, written down once more: plainly, row by row, in double precision.

mod group;
mod picture;
mod recurrent;
mod reframe;
mod sequence;
mod tagging;
mod vector;
mod volume;

use engine::activation::Activation;
use engine::batch::{Output, Rows};
use engine::shape::Shape;
use engine::topology::Layer;

pub(crate) type Matrix = Vec<Vec<f64>>;

/// An input of a layer, as numbers and as lists.
struct Input {
    width: usize,
    rows: Matrix,
    lists: Vec<Vec<(usize, f64)>>,
    offsets: Option<Vec<usize>>,
    nests: Option<Vec<usize>>,
}

/// What is computed from.
struct Given<'a> {
    layer: &'a Layer,
    outputs: &'a [Output],
    /// The same, made easy to look into.
    inputs: Vec<Input>,
    /// Without the bias.
    parameters: &'a [Matrix],
    /// Height and width of the first input, if it is known as a picture.
    frame: Option<(usize, usize)>,
    /// Planes of the first input, if it is known as a three-dimensional picture.
    depth: Option<usize>,
}

/// The output of a layer in a test, from what its inputs gave.
pub(crate) fn forward(
    layer: &Layer,
    inputs: &[Output],
    parameters: &[Matrix],
    shape: &Shape,
) -> Matrix {
    let own = parameters.len() - usize::from(layer.has_bias);
    let outputs = inputs;
    let inputs: Vec<Input> = inputs.iter().map(Input::of).collect();
    let offsets = inputs[0].offsets.clone();
    let parameters_of_layer = &parameters[..own];
    let Shape { frame, depth, .. } = *shape;
    let given = Given { layer, outputs, inputs, parameters: parameters_of_layer, frame, depth };
    let mut rows = given.forward();
    if layer.has_bias {
        // One number for each column, or for each channel.
        let bias = &parameters[own][0];
        let biased = |row: &Vec<f64>| {
            let columns = row.iter().enumerate();
            columns.map(|(column, x)| x + bias[column * bias.len() / row.len()]).collect()
        };
        rows = rows.iter().map(biased).collect();
    }
    let rows = activate(layer.activation, &rows, offsets.as_deref());
    let stays = 1.0 - f64::from(layer.drop_rate);
    rows.iter().map(|row| row.iter().map(|x| x * stays).collect()).collect()
}

/// The rows of an output; ids as numbers.
pub(crate) fn matrix(output: &Output) -> Matrix {
    let all: Vec<f64> = match &output.rows {
        Rows::Dense(values) => values.iter().map(|value| f64::from(*value)).collect(),
        Rows::Integer(ids) => ids.iter().map(|id| *id as f64).collect(),
        Rows::Sparse(_) => Vec::new(),
    };
    all.chunks(output.width.max(1)).map(<[f64]>::to_vec).collect()
}

impl Input {
    fn of(output: &Output) -> Input {
        let lists = match &output.rows {
            Rows::Dense(_) => Vec::new(),
            Rows::Integer(ids) => ids.iter().map(|id| vec![(*id as usize, 1.0)]).collect(),
            Rows::Sparse(lists) => {
                let value = |entry| lists.values.as_ref().map_or(1.0, |values| values[entry]);
                let entry = |entry: usize| (lists.ids[entry] as usize, f64::from(value(entry)));
                let list = |pair: &[usize]| (pair[0]..pair[1]).map(entry).collect();
                lists.offsets.windows(2).map(list).collect()
            }
        };
        let (offsets, nests) = (output.sequences.clone(), output.nests.clone());
        Input { width: output.width, rows: matrix(output), lists, offsets, nests }
    }

    /// Where the rows of each sample begin.
    fn samples(&self) -> Vec<usize> {
        let offsets = self.offsets.as_ref().unwrap();
        match &self.nests {
            Some(nests) => nests.iter().map(|sequence| offsets[*sequence]).collect(),
            None => offsets.clone(),
        }
    }

    fn len(&self) -> usize {
        self.rows.len().max(self.lists.len())
    }
}

fn zip(a: &[f64], b: &[f64], f: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| f(*a, *b)).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    zip(a, b, |a, b| a * b).iter().sum()
}

fn add(sum: &mut Vec<f64>, term: &[f64]) {
    *sum = if sum.is_empty() { term.to_vec() } else { zip(sum, term, |a, b| a + b) };
}

fn best(row: &[f64]) -> usize {
    let highest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    row.iter().position(|number| *number == highest).unwrap()
}

impl Given<'_> {
    fn attribute(&self, name: &str, default: f64) -> f64 {
        self.layer.attributes.get(name).map_or(default, |value| value.as_f64().unwrap())
    }

    fn text(&self, name: &str) -> &str {
        self.layer.attributes[name].as_str().unwrap()
    }

    fn flag(&self, name: &str) -> bool {
        self.layer.attributes.get(name).is_some_and(|value| value == true)
    }

    fn row(&self, input: usize, row: usize) -> &[f64] {
        &self.inputs[input].rows[row]
    }

    fn number(&self, input: usize, row: usize) -> f64 {
        self.row(input, row)[0]
    }

    /// Row `row` of input `input` times a matrix.
    fn product(&self, input: usize, row: usize, weight: &Matrix) -> Vec<f64> {
        let taken = &self.inputs[input];
        let entries: Vec<(usize, f64)> = match taken.lists.get(row) {
            Some(list) => list.clone(),
            None => taken.rows[row].iter().copied().enumerate().collect(),
        };
        let mut sum = vec![0.0; weight[0].len()];
        for (column, number) in entries {
            add(&mut sum, &weight[column].iter().map(|w| w * number).collect::<Vec<_>>());
        }
        sum
    }

    fn forward(&self) -> Matrix {
        if let Some(rows) =
            self.of_pictures().or_else(|| self.of_reframed()).or_else(|| self.of_volumes())
        {
            return rows;
        }
        match self.layer.kind.as_str() {
            "pooling" | "sequence_end" => self.of_sequences(),
            "crf" => self.crf(),
            "crf_decoding" => self.crf_decoding(),
            "cross_entropy_over_beam" => self.cross_entropy_over_beam(),
            "ctc" => self.ctc(),
            "expand" => self.expand(),
            "kmax_seq_score" => self.best_places(),
            "lstmemory" | "grumemory" | "recurrent" => self.recurrent(),
            "recurrent_group" => self.group(),
            "resize" => {
                let size = self.attribute("size", 0.0) as usize;
                self.inputs[0].rows.concat().chunks(size).map(<[f64]>::to_vec).collect()
            }
            "row_conv" => self.row_conv(),
            "sub_nested_seq" => self.sub_nested_sequence(),
            "sequence_concat" => self.sequence_concat(),
            "sequence_reshape" => self.sequence_reshape(),
            "sequence_slice" => self.sequence_slice(),
            "trans" => {
                let rows = &self.inputs[0].rows;
                (0..rows.len()).map(|i| rows.iter().map(|row| row[i]).collect()).collect()
            }
            _ => (0..self.inputs[0].len()).map(|row| self.of_row(row)).collect(),
        }
    }

    fn of_sequences(&self) -> Matrix {
        let input = &self.inputs[0];
        let reduce = |pair: &[usize]| {
            let rows = &input.rows[pair[0]..pair[1]];
            let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
                return vec![0.0; input.width];
            };
            let columns = (0..first.len()).map(|column| rows.iter().map(move |row| row[column]));
            let count = rows.len() as f64;
            if self.layer.kind == "sequence_end" {
                return if self.text("end") == "first" { first.clone() } else { last.clone() };
            }
            match self.text("pooling") {
                "max" => columns.map(|column| column.fold(f64::NEG_INFINITY, f64::max)).collect(),
                pooling => {
                    let share = match pooling {
                        "sum" => 1.0,
                        "average" => 1.0 / count,
                        "sqrt_n" => 1.0 / count.sqrt(),
                        other => panic!("no reference for pooling {other}"),
                    };
                    columns.map(|column| column.sum::<f64>() * share).collect()
                }
            }
        };
        let offsets = match self.layer.attributes.get("of") {
            Some(of) if of == "sequence" => input.offsets.clone().unwrap(),
            _ => input.samples(),
        };
        offsets.windows(2).map(reduce).collect()
    }

    fn of_row(&self, row: usize) -> Vec<f64> {
        let x = |input| self.row(input, row);
        match self.layer.kind.as_str() {
            "addto" => {
                (1..self.inputs.len()).fold(x(0).to_vec(), |a, i| zip(&a, x(i), |a, b| a + b))
            }
            "concat" => (0..self.inputs.len()).flat_map(|input| x(input).to_vec()).collect(),
            "cos_sim" => {
                let length = |row: &[f64]| dot(row, row).sqrt();
                let cosine = |b: &[f64]| dot(x(0), b) / (length(x(0)) * length(b));
                let scale = self.attribute("scale", 1.0);
                x(1).chunks(x(0).len()).map(|b| cosine(b) * scale).collect()
            }
            "dot_prod" => vec![dot(x(0), x(1))],
            "factorization_machine" => vec![self.pairs(row)],
            "fc" => {
                let mut sum = Vec::new();
                for (input, weight) in self.parameters.iter().enumerate() {
                    add(&mut sum, &self.product(input, row, weight));
                }
                sum
            }
            "gru_step" => self.gru_step(x(0), x(1)),
            "lstm_step" => self.lstm_step(x(0), x(1)),
            "hsigmoid" => vec![self.hsigmoid(row)],
            "interpolation" => {
                let w = self.number(2, row);
                zip(x(0), x(1), |a, b| w * a + (1.0 - w) * b)
            }
            "max_id" => vec![best(x(0)) as f64],
            "mixed" => self.mixed(row),
            "nce" => vec![self.nce(row)],
            "repeat" => {
                let times = self.attribute("times", 0.0) as usize;
                match self.flag("is_by_column") {
                    true => x(0).iter().flat_map(|x| vec![*x; times]).collect(),
                    false => x(0).repeat(times),
                }
            }
            "scaling" => x(0).iter().map(|number| number * self.number(1, row)).collect(),
            "slope_intercept" => {
                let (slope, intercept) =
                    (self.attribute("slope", 0.0), self.attribute("intercept", 0.0));
                x(0).iter().map(|number| slope * number + intercept).collect()
            }
            _ => match self.of_vectors(row) {
                Some(made) => made,
                None => vec![self.cost(row) * self.weight(row)],
            },
        }
    }

    /// Of a factorization machine: over all pairs of columns, or of entries of a list.
    fn pairs(&self, row: usize) -> f64 {
        let entries: Vec<(usize, f64)> = match self.inputs[0].lists.get(row) {
            Some(list) => list.clone(),
            None => self.row(0, row).iter().copied().enumerate().collect(),
        };
        let factors = &self.parameters[0];
        let mut sum = 0.0;
        for (place, (i, x)) in entries.iter().enumerate() {
            for (j, y) in &entries[place + 1..] {
                sum += dot(&factors[*i], &factors[*j]) * x * y;
            }
        }
        sum
    }

    fn mixed(&self, row: usize) -> Vec<f64> {
        let (mut input, mut slot) = (0, 0);
        let mut sum = Vec::new();
        for projection in self.layer.attributes["projections"].as_array().unwrap() {
            let number = |name: &str| projection.get(name).and_then(serde_json::Value::as_f64);
            let weight = self.parameters.get(slot);
            let name = projection["name"].as_str().unwrap();
            let is_learnt = projection.get("is_padding_learnt").is_some_and(|value| value == true);
            let term = match name {
                "context" => {
                    let window = ["start", "length"].map(|name| number(name).unwrap() as isize);
                    self.context(input, row, window, weight.filter(|_| is_learnt))
                }
                "convolution" => self.projected_convolution(projection, slot, input, row),
                "dotmul" => zip(self.row(input, row), &weight.unwrap()[0], |x, w| x * w),
                "dotmul_operator" => {
                    let scale = number("scale").unwrap();
                    zip(self.row(input, row), self.row(input + 1, row), |a, b| a * b * scale)
                }
                "full_matrix" | "table" => self.product(input, row, weight.unwrap()),
                "identity" => {
                    let x = self.row(input, row);
                    let begin = number("offset").unwrap_or(0.0) as usize;
                    let size = number("size").map_or(x.len() - begin, |size| size as usize);
                    x[begin..begin + size].to_vec()
                }
                "scaling" => {
                    self.row(input, row).iter().map(|x| x * weight.unwrap()[0][0]).collect()
                }
                "slice" => {
                    let ranges = projection["slices"].as_array().unwrap().iter();
                    let end = |range: &serde_json::Value, at: usize| range[at].as_u64().unwrap();
                    let range = |range| end(range, 0) as usize..end(range, 1) as usize;
                    ranges.flat_map(|each| self.row(input, row)[range(each)].to_vec()).collect()
                }
                "trans_full_matrix" => {
                    weight.unwrap().iter().map(|w| dot(w, self.row(input, row))).collect()
                }
                other => panic!("no reference for projection {other}"),
            };
            match self.flag("is_concatenated") {
                true => sum.extend(term),
                false => add(&mut sum, &term),
            }
            input += if name == "dotmul_operator" { 2 } else { 1 };
            let has_slot = !matches!(name, "context" | "dotmul_operator" | "identity" | "slice");
            slot += usize::from(has_slot || is_learnt);
        }
        sum
    }

    /// What costs are multiplied with.
    fn weight(&self, row: usize) -> f64 {
        let place = if self.layer.kind == "rank" { 3 } else { 2 };
        if self.inputs.len() > place { self.number(place, row) } else { 1.0 }
    }

    fn cost(&self, row: usize) -> f64 {
        let x = self.row(0, row);
        let id = || self.inputs[1].lists[row][0].0;
        let huber = |delta: f64| {
            let cost = |d: f64| match d.abs() {
                d if d <= delta => 0.5 * d * d,
                d => delta * (d - 0.5 * delta),
            };
            zip(x, self.row(1, row), |x, y| cost(x - y)).iter().sum()
        };
        match self.layer.kind.as_str() {
            "cross_entropy" => -x[id()].ln(),
            "cross_entropy_with_selfnorm" => {
                let z: f64 = x.iter().sum();
                -(x[id()] / z).ln() + self.attribute("alpha", 0.1) * z.ln().powi(2)
            }
            "huber_classification" => match x[0] * if id() == 1 { 1.0 } else { -1.0 } {
                a if a > 1.0 => 0.0,
                a if a > -1.0 => (1.0 - a) * (1.0 - a),
                a => -4.0 * a,
            },
            "huber_regression" => huber(self.attribute("delta", 1.0)),
            "multi_binary_label_cross_entropy" => {
                let is_one = |column| self.inputs[1].lists[row].iter().any(|(id, _)| *id == column);
                let label = |column: usize| match self.inputs[1].lists.is_empty() {
                    true => self.row(1, row)[column],
                    false => f64::from(u8::from(is_one(column))),
                };
                let cost =
                    |(i, p): (usize, &f64)| label(i) * p.ln() + (1.0 - label(i)) * (1.0 - p).ln();
                -x.iter().enumerate().map(cost).sum::<f64>()
            }
            "rank" => {
                let difference = x[0] - self.number(1, row);
                let label = match self.inputs[2].lists.get(row) {
                    Some(list) => list[0].0 as f64,
                    None => self.number(2, row),
                };
                difference.exp().ln_1p() - difference * label
            }
            "smooth_l1" => huber(1.0),
            "square_error" => zip(x, self.row(1, row), |x, y| (x - y) * (x - y)).iter().sum(),
            "sum" => x.iter().sum(),
            other => panic!("no reference for {other}"),
        }
    }
}

fn activate(activation: Activation, rows: &Matrix, offsets: Option<&[usize]>) -> Matrix {
    let softmax = |numbers: &[f64]| -> Vec<f64> {
        let sum: f64 = numbers.iter().map(|x| x.exp()).sum();
        numbers.iter().map(|x| x.exp() / sum).collect()
    };
    match activation {
        Activation::Softmax => rows.iter().map(|row| softmax(row)).collect(),
        Activation::SequenceSoftmax => {
            let mut result = rows.clone();
            for pair in offsets.unwrap().windows(2) {
                for column in 0..rows.first().map_or(0, Vec::len) {
                    let own: Vec<f64> = rows[pair[0]..pair[1]].iter().map(|r| r[column]).collect();
                    for (row, number) in (pair[0]..pair[1]).zip(softmax(&own)) {
                        result[row][column] = number;
                    }
                }
            }
            result
        }
        _ => rows
            .iter()
            .map(|row| row.iter().map(|x| activate_one(activation, *x)).collect())
            .collect(),
    }
}

fn activate_one(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::Linear | Activation::Softmax | Activation::SequenceSoftmax => x,
        Activation::Tanh => x.tanh(),
        Activation::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Activation::Relu => x.max(0.0),
        Activation::Brelu => x.clamp(0.0, 24.0),
        Activation::SoftRelu => x.exp().ln_1p(),
        Activation::Stanh => 1.7159 * (2.0 / 3.0 * x).tanh(),
        Activation::Abs => x.abs(),
        Activation::Square => x * x,
        Activation::Exponential => x.exp(),
        Activation::Log => x.ln(),
        Activation::Sqrt => x.sqrt(),
        Activation::Reciprocal => 1.0 / x,
        Activation::SoftSign => x / (1.0 + x.abs()),
    }
}
