//! Layers that compare, combine and scale rows.

use super::{Given, dot, zip};

impl Given<'_> {
    /// A row of the output, if the layer is one of these.
    pub(super) fn of_vectors(&self, row: usize) -> Option<Vec<f64>> {
        let x = |input| self.row(input, row);
        Some(match self.layer.kind.as_str() {
            "clip" => {
                let (min, max) = (self.attribute("min", 0.0), self.attribute("max", 0.0));
                // The attributes are single precision.
                let (min, max) = (f64::from(min as f32), f64::from(max as f32));
                x(0).iter().map(|x| x.clamp(min, max)).collect()
            }
            "conv_shift" => {
                let (a, b) = (x(0), x(1));
                let at = |i: usize, j: usize| (i + j + a.len() - (b.len() - 1) / 2) % a.len();
                let sum = |i: usize| b.iter().enumerate().map(|(j, b)| a[at(i, j)] * b).sum();
                (0..a.len()).map(sum).collect()
            }
            "l2_distance" => {
                vec![zip(x(0), x(1), |a, b| (a - b).powi(2)).iter().sum::<f64>().sqrt()]
            }
            "linear_comb" => {
                let size = x(1).len() / x(0).len();
                let column = |i: usize| {
                    x(0).iter().enumerate().map(|(j, weight)| weight * x(1)[j * size + i]).sum()
                };
                (0..size).map(column).collect()
            }
            "multiplex" => {
                let which = self.inputs[0].lists[row][0].0;
                x(which + 1).to_vec()
            }
            "out_prod" => x(0).iter().flat_map(|a| x(1).iter().map(move |b| a * b)).collect(),
            "power" => x(0).iter().map(|number| number.powf(self.number(1, row))).collect(),
            "prelu" => {
                let shared = self.attribute("partial_sum", 0.0) as usize;
                let slope = |column: usize| self.parameters[0][0][column / shared];
                let value = |(i, x): (usize, &f64)| if *x > 0.0 { *x } else { x * slope(i) };
                x(0).iter().enumerate().map(value).collect()
            }
            "row_l2_norm" => {
                let length = dot(x(0), x(0)).sqrt();
                x(0).iter().map(|x| x / length).collect()
            }
            "scale_shift" => x(0).iter().map(|x| x * self.parameters[0][0][0]).collect(),
            "sum_to_one_norm" => {
                let sum: f64 = x(0).iter().sum();
                x(0).iter().map(|x| x / sum).collect()
            }
            "tensor" => {
                let matrices = self.parameters[0].chunks(x(0).len());
                let value = |matrix: &[Vec<f64>]| -> f64 {
                    matrix.iter().zip(x(0)).map(|(row, a)| a * dot(row, x(1))).sum()
                };
                matrices.map(value).collect()
            }
            _ => return None,
        })
    }
}
