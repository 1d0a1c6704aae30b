//! Recurrent layers: one sequence, one row, one number at a time.

use super::{Given, Matrix, activate_one, dot, zip};

impl Given<'_> {
    /// Runs `step` over the rows of each sequence, from row and state to output and state.
    fn over_sequences(
        &self,
        size: usize,
        step: impl Fn(&[f64], &[f64], &[f64]) -> (Vec<f64>, Vec<f64>),
    ) -> Matrix {
        let input = &self.inputs[0];
        let mut outputs = vec![Vec::new(); input.rows.len()];
        for pair in input.offsets.as_ref().unwrap().windows(2) {
            let (mut output, mut state) = (vec![0.0; size], vec![0.0; size]);
            let rows: Vec<usize> = match self.flag("is_reversed") {
                true => (pair[0]..pair[1]).rev().collect(),
                false => (pair[0]..pair[1]).collect(),
            };
            for row in rows {
                (output, state) = step(&input.rows[row], &output, &state);
                outputs[row].clone_from(&output);
            }
        }
        outputs
    }

    fn function(&self, name: &str) -> impl Fn(f64) -> f64 {
        let activation = serde_json::from_value(self.layer.attributes[name].clone()).unwrap();
        move |x| activate_one(activation, x)
    }

    pub(super) fn recurrent(&self) -> Matrix {
        let parts = match self.layer.kind.as_str() {
            "lstmemory" => 4,
            "grumemory" => 3,
            _ => 1,
        };
        let size = self.parameters[0].len();
        let bias = match self.flag("has_bias") {
            true => self.parameters[1][0].clone(),
            false => vec![0.0; 7 * size],
        };
        match parts {
            4 => self.lstm(size, &bias),
            3 => self.gru(size, &bias),
            _ => {
                let act = self.function("activation");
                self.over_sequences(size, |x, before, state| {
                    let next = |at: usize| act(x[at] + bias[at] + dot(before, &self.column(0, at)));
                    ((0..size).map(next).collect(), state.to_vec())
                })
            }
        }
    }

    fn column(&self, parameter: usize, at: usize) -> Vec<f64> {
        self.parameters[parameter].iter().map(|row| row[at]).collect()
    }

    fn lstm(&self, size: usize, bias: &[f64]) -> Matrix {
        let [act, gate, shown] =
            ["activation", "gate_activation", "state_activation"].map(|name| self.function(name));
        self.over_sequences(size, |x, before, state| {
            let sum = |part: usize, at: usize| {
                let place = part * size + at;
                x[place] + bias[place] + dot(before, &self.column(0, place))
            };
            let peephole =
                |part: usize, at: usize, state: f64| bias[(4 + part) * size + at] * state;
            let new: Vec<f64> = (0..size)
                .map(|at| {
                    let input = gate(sum(1, at) + peephole(0, at, state[at]));
                    let forget = gate(sum(2, at) + peephole(1, at, state[at]));
                    act(sum(0, at)) * input + state[at] * forget
                })
                .collect();
            let output = |at: usize| gate(sum(3, at) + peephole(2, at, new[at])) * shown(new[at]);
            ((0..size).map(output).collect(), new)
        })
    }

    fn gru(&self, size: usize, bias: &[f64]) -> Matrix {
        let [act, gate] = ["activation", "gate_activation"].map(|name| self.function(name));
        // The matrix of the gates comes whole before that of the candidate.
        let flat = self.parameters[0].concat();
        let of_gates =
            |at: usize| -> Vec<f64> { (0..size).map(|row| flat[row * 2 * size + at]).collect() };
        let of_candidate = |at: usize| -> Vec<f64> {
            (0..size).map(|row| flat[2 * size * size + row * size + at]).collect()
        };
        self.over_sequences(size, |x, before, state| {
            let sum = |at: usize| gate(x[at] + bias[at] + dot(before, &of_gates(at)));
            let reset: Vec<f64> = (0..size).map(|at| sum(size + at)).collect();
            let kept = zip(&reset, before, |gate, before| gate * before);
            let output = |at: usize| {
                let place = 2 * size + at;
                let new = act(x[place] + bias[place] + dot(&kept, &of_candidate(at)));
                (1.0 - sum(at)) * before[at] + sum(at) * new
            };
            ((0..size).map(output).collect(), state.to_vec())
        })
    }
}
