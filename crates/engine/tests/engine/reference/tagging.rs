//! Costs over sequences: every way to tag or to align is written down.

use super::{Given, Matrix};

/// Every list of `length` numbers below `base`.
fn ways(base: usize, length: usize) -> impl Iterator<Item = Vec<usize>> {
    let digits =
        move |number: usize| (0..length).map(move |at| number / base.pow(at as u32) % base);
    (0..base.pow(length as u32)).map(move |number| digits(number).collect())
}

impl Given<'_> {
    fn rows_of(&self, input: usize) -> Vec<std::ops::Range<usize>> {
        let offsets = self.inputs[input].offsets.as_ref().unwrap();
        offsets.windows(2).map(|pair| pair[0]..pair[1]).collect()
    }

    fn ids(&self, input: usize, rows: std::ops::Range<usize>) -> Vec<usize> {
        rows.map(|row| self.inputs[input].lists[row][0].0).collect()
    }

    /// The score of tagging a sequence so.
    fn score(&self, rows: std::ops::Range<usize>, tags: &[usize]) -> f64 {
        let learnt = &self.parameters[0];
        let own: f64 = rows.zip(tags).map(|(row, tag)| self.row(0, row)[*tag]).sum();
        let between: f64 = tags.windows(2).map(|pair| learnt[2 + pair[0]][pair[1]]).sum();
        own + between + learnt[0][tags[0]] + learnt[1][tags[tags.len() - 1]]
    }

    pub(super) fn crf(&self) -> Matrix {
        let cost = |(sample, rows): (usize, std::ops::Range<usize>)| {
            if rows.is_empty() {
                return vec![0.0];
            }
            let all = ways(self.inputs[0].width, rows.len());
            let sum: f64 = all.map(|tags| self.score(rows.clone(), &tags).exp()).sum();
            let cost = sum.ln() - self.score(rows.clone(), &self.ids(1, rows));
            let weight = if self.inputs.len() > 2 { self.number(2, sample) } else { 1.0 };
            vec![cost * weight]
        };
        self.rows_of(0).into_iter().enumerate().map(cost).collect()
    }

    pub(super) fn crf_decoding(&self) -> Matrix {
        let mut best = Vec::new();
        for rows in self.rows_of(0).into_iter().filter(|rows| !rows.is_empty()) {
            let score = |tags: &Vec<usize>| self.score(rows.clone(), tags);
            let all = ways(self.inputs[0].width, rows.len());
            let own = all.max_by(|a, b| score(a).total_cmp(&score(b))).unwrap();
            for (row, tag) in rows.zip(own) {
                best.push(match self.inputs.len() {
                    1 => tag as f64,
                    _ => f64::from(u8::from(self.ids(1, row..row + 1) != [tag])),
                });
            }
        }
        best.into_iter().map(|number| vec![number]).collect()
    }

    pub(super) fn ctc(&self) -> Matrix {
        let (classes, blank) = (self.inputs[0].width, self.attribute("blank", 0.0) as usize);
        let cost = |(rows, labels): (std::ops::Range<usize>, std::ops::Range<usize>)| {
            let labels = self.ids(1, labels);
            let probability = |row: usize, class: usize| {
                let x = self.row(0, row);
                match self.layer.attributes["is_linear"] == true {
                    true => x[class].exp() / x.iter().map(|x| x.exp()).sum::<f64>(),
                    false => x[class],
                }
            };
            let shows = |way: &Vec<usize>| {
                let mut way = way.clone();
                way.dedup();
                way.retain(|class| *class != blank);
                way == labels
            };
            let product = |way: Vec<usize>| -> f64 {
                rows.clone().zip(way).map(|(row, class)| probability(row, class)).product()
            };
            let all = ways(classes, rows.len()).filter(shows).map(product).sum::<f64>();
            vec![-all.ln()]
        };
        self.rows_of(0).into_iter().zip(self.rows_of(1)).map(cost).collect()
    }

    /// The classes of `nce` that a row meets: its label and, as one class has nearly all of the
    /// noise, that one as often as is drawn.
    pub(super) fn nce(&self, row: usize) -> f64 {
        let inputs = self.inputs.len() - 1 - usize::from(self.flag("has_weight"));
        let shares: Vec<f64> =
            serde_json::from_value(self.layer.attributes["distribution"].clone()).unwrap();
        let negatives = self.attribute("negatives", 0.0);
        let noise = super::best(&shares);
        let label = self.inputs[inputs].lists[row][0].0;
        let meet = |class: usize| {
            let p = 1.0 / (1.0 + (-self.product_with(inputs, row, class)).exp());
            (p, negatives * shares[class])
        };
        let ((own, own_noise), (other, other_noise)) = (meet(label), meet(noise));
        let cost = -(own / (own + own_noise)).ln()
            - negatives * (other_noise / (other + other_noise)).ln();
        let weight = if self.flag("has_weight") { self.number(inputs + 1, row) } else { 1.0 };
        cost * weight
    }

    /// From the leaf up to the root, which is 1.
    pub(super) fn hsigmoid(&self, row: usize) -> f64 {
        let inputs = self.inputs.len() - 1;
        let mut node =
            self.inputs[inputs].lists[row][0].0 + self.attribute("classes", 0.0) as usize;
        let mut cost = 0.0;
        while node > 1 {
            let (is_right, above) = (node % 2 == 1, node / 2);
            let score = self.product_with(inputs, row, above - 1);
            let p = 1.0 / (1.0 + (-score).exp());
            cost -= if is_right { p.ln() } else { (1.0 - p).ln() };
            node = above;
        }
        cost
    }

    /// A row of the first `inputs` inputs times a row of their weights, with its bias.
    fn product_with(&self, inputs: usize, row: usize, class: usize) -> f64 {
        let products =
            (0..inputs).map(|at| super::dot(self.row(at, row), &self.parameters[at][class]));
        let bias = self.parameters.get(inputs).map_or(0.0, |bias| bias[0][class]);
        products.sum::<f64>() + bias
    }
}
