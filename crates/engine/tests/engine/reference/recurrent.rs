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
        self.over_sequences(size, |x, before, state| {
            let sum = |at: usize| x[at] + bias[at] + dot(before, &self.column(0, at));
            let sums: Vec<f64> = (0..4 * size).map(sum).collect();
            self.lstm_row(&sums, state, &bias[4 * size..])
        })
    }

    /// Output and state, from the sums that go into the four parts.
    fn lstm_row(&self, sums: &[f64], state: &[f64], peepholes: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let size = state.len();
        let [act, gate, shown] =
            ["activation", "gate_activation", "state_activation"].map(|name| self.function(name));
        let into = |part: usize, at: usize, state: f64| {
            gate(sums[part * size + at] + peepholes[(part - 1) * size + at] * state)
        };
        let kept =
            |at: usize| act(sums[at]) * into(1, at, state[at]) + state[at] * into(2, at, state[at]);
        let new: Vec<f64> = (0..size).map(kept).collect();
        let output = |at: usize| into(3, at, new[at]) * shown(new[at]);
        ((0..size).map(output).collect(), new)
    }

    pub(super) fn lstm_step(&self, sums: &[f64], state: &[f64]) -> Vec<f64> {
        let peepholes = match self.flag("has_bias") {
            true => self.parameters[0][0].clone(),
            false => vec![0.0; 3 * state.len()],
        };
        let (output, new) = self.lstm_row(sums, state, &peepholes);
        [output, new].concat()
    }

    fn gru(&self, size: usize, bias: &[f64]) -> Matrix {
        self.over_sequences(size, |x, before, state| {
            (self.gru_row(&zip(x, &bias[..3 * size], |x, bias| x + bias), before), state.to_vec())
        })
    }

    pub(super) fn gru_step(&self, x: &[f64], before: &[f64]) -> Vec<f64> {
        match self.flag("has_bias") {
            true => self.gru_row(&zip(x, &self.parameters[1][0], |x, bias| x + bias), before),
            false => self.gru_row(x, before),
        }
    }

    fn gru_row(&self, x: &[f64], before: &[f64]) -> Vec<f64> {
        let size = before.len();
        let [act, gate] = ["activation", "gate_activation"].map(|name| self.function(name));
        // The matrix of the gates comes whole before that of the candidate.
        let flat = self.parameters[0].concat();
        let of_gates =
            |at: usize| -> Vec<f64> { (0..size).map(|row| flat[row * 2 * size + at]).collect() };
        let of_candidate = |at: usize| -> Vec<f64> {
            (0..size).map(|row| flat[2 * size * size + row * size + at]).collect()
        };
        let sum = |at: usize| gate(x[at] + dot(before, &of_gates(at)));
        let reset: Vec<f64> = (0..size).map(|at| sum(size + at)).collect();
        let kept = zip(&reset, before, |gate, before| gate * before);
        let output = |at: usize| {
            let new = act(x[2 * size + at] + dot(&kept, &of_candidate(at)));
            (1.0 - sum(at)) * before[at] + sum(at) * new
        };
        (0..size).map(output).collect()
    }
}
