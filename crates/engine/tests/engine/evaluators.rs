//! Evaluators against their definitions, over several batches.

use crate::net::Net;
use crate::random::Random;
use crate::trial::{Trial, assert_near, numbers};
use engine::batch::{Batch, Input, Rows};
use engine::evaluator::Tally;
use engine::shape::{Level, Value};
use serde_json::json;

/// Rows that were scored.
struct Scored {
    width: usize,
    scores: Vec<f32>,
    labels: Vec<u64>,
    weights: Vec<f32>,
}

impl Scored {
    /// Scores of few different values, so that there are ties.
    fn random(rows: usize, width: usize, seed: u64) -> Scored {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let classes = width.max(2) as u64;
        Scored {
            width,
            scores: (0..rows * width).map(|_| random.below(17) as f32 / 16.0).collect(),
            labels: (0..rows).map(|_| random.below(classes)).collect(),
            weights: (0..rows).map(|_| random.below(4) as f32).collect(),
        }
    }

    fn rows(&self) -> impl Iterator<Item = (&[f32], usize, f64)> {
        let weights = self.weights.iter().map(|weight| f64::from(*weight));
        let labels = self.labels.iter().map(|label| *label as usize);
        self.scores.chunks(self.width).zip(labels).zip(weights).map(|((s, l), w)| (s, l, w))
    }

    /// What an evaluator says of it, fed in two batches after one that was cleared.
    fn tally(&self, kind: &str, attributes: &serde_json::Value) -> Vec<(String, f64)> {
        let mut net = Net::new();
        net.data("scores", Value::Dense, Level::Single, self.width);
        net.data("label", Value::Integer, Level::Single, self.width.max(2));
        net.data("weight", Value::Dense, Level::Single, 1);
        net.evaluate(kind, &["scores", "label", "weight"], attributes);
        let network = net.network();
        let mut tally = network.tally().unwrap();
        let feed = |tally: &mut Tally, rows: std::ops::Range<usize>| {
            let scores = self.scores[rows.start * self.width..rows.end * self.width].to_vec();
            let labels = Rows::Integer(self.labels[rows.clone()].to_vec());
            let weights = Rows::Dense(self.weights[rows.clone()].to_vec());
            let inputs = [Rows::Dense(scores), labels, weights];
            let inputs = inputs.map(Input::single).into();
            let batch = Batch { samples: rows.len(), inputs };
            let seen = network.test(&network.prepare(batch).unwrap(), &[]).unwrap();
            tally.add(&seen).unwrap();
        };
        feed(&mut tally, 0..1);
        tally.clear();
        let (half, all) = (self.labels.len() / 3, self.labels.len());
        feed(&mut tally, 0..half);
        feed(&mut tally, half..all);
        tally.read()
    }
}

fn assert_figures(found: &[(String, f64)], expected: &[(&str, f64)]) {
    let names = |(name, _): &(String, f64)| name.clone();
    let found_names: Vec<String> = found.iter().map(names).collect();
    let expected_names: Vec<&str> = expected.iter().map(|(name, _)| *name).collect();
    assert_eq!(found_names, expected_names);
    for ((name, found), (_, expected)) in found.iter().zip(expected) {
        assert!((found - expected).abs() < 1e-9, "{name} is {found} instead of {expected}");
    }
}

#[test]
fn every_evaluator_has_a_test_here() {
    let kinds: Vec<&str> = engine::evaluator::kinds().collect();
    assert_eq!(
        kinds,
        [
            "auc",
            "chunk",
            "classification_error",
            "column_sum",
            "ctc_error",
            "detection_map",
            "pnpair",
            "precision_recall",
            "sum",
            "watch"
        ]
    );
}

#[test]
fn auc_is_the_share_of_pairs_that_are_in_order() {
    for width in [1, 2] {
        let scored = Scored::random(200, width, 11);
        let (mut area, mut pairs) = (0.0, 0.0);
        for (ones, label, weight) in scored.rows() {
            for (zeros, other, other_weight) in scored.rows() {
                if label == 1 && other == 0 {
                    let (one, zero) = (ones[width - 1], zeros[width - 1]);
                    let won =
                        f64::from(u8::from(one > zero)) + f64::from(u8::from(one == zero)) / 2.0;
                    area += weight * other_weight * won;
                    pairs += weight * other_weight;
                }
            }
        }
        assert_figures(&scored.tally("auc", &json!({})), &[("auc", area / pairs)]);
    }
}

#[test]
fn pnpair_divides_pairs_of_a_query_in_order_by_those_that_are_not() {
    let (rows, queries) = (120, 9);
    let mut random = Random::new(19);
    let scores: Vec<f32> = (0..rows).map(|_| random.below(17) as f32 / 16.0).collect();
    let labels: Vec<u64> = (0..rows).map(|_| random.below(3)).collect();
    let query: Vec<u64> = (0..rows).map(|_| random.below(queries)).collect();
    let weights: Vec<f32> = (0..rows).map(|_| random.below(4) as f32).collect();
    let rate = |weight: &dyn Fn(usize) -> f64| {
        let (mut right, mut wrong) = (0.0, 0.0);
        for a in 0..rows {
            for b in 0..a {
                let order = |a: f32, b: f32| f64::from((a - b).signum()) * f64::from(a != b);
                let labels = order(labels[a] as f32, labels[b] as f32);
                let product = order(scores[a], scores[b]) * labels;
                let own = (weight(a) + weight(b)) / 2.0;
                let own = if query[a] == query[b] { own } else { 0.0 };
                right += if product > 0.0 { own } else { 0.0 };
                wrong += if product < 0.0 { own } else { 0.0 };
            }
        }
        assert!(right > 0.0 && wrong > 0.0);
        right / wrong
    };
    let mut net = Net::new();
    // The score is the last column.
    net.data("scores", Value::Dense, Level::Single, 2);
    net.data("label", Value::Integer, Level::Single, 3);
    net.data("query", Value::Integer, Level::Single, queries as usize);
    net.data("weight", Value::Dense, Level::Single, 1);
    net.evaluate("pnpair", &["scores", "label", "query", "weight"], &json!({}));
    net.evaluate("pnpair", &["scores", "label", "query"], &json!({}));
    let network = net.network();
    let mut tally = network.tally().unwrap();
    // A query goes on in the next batch.
    for part in [0..50, 50..rows] {
        let inputs = [
            Rows::Dense(part.clone().flat_map(|row| [1.0 - scores[row], scores[row]]).collect()),
            Rows::Integer(labels[part.clone()].to_vec()),
            Rows::Integer(query[part.clone()].to_vec()),
            Rows::Dense(weights[part.clone()].to_vec()),
        ];
        let batch = Batch { samples: part.len(), inputs: inputs.map(Input::single).into() };
        tally.add(&network.test(&network.prepare(batch).unwrap(), &[]).unwrap()).unwrap();
    }
    let expected = [rate(&|row| f64::from(weights[row])), rate(&|_| 1.0)];
    assert_figures(&tally.read(), &[("pnpair", expected[0]), ("pnpair", expected[1])]);
    tally.clear();
    assert_figures(&tally.read(), &[("pnpair", 0.0), ("pnpair", 0.0)]);
}

#[test]
fn auc_without_both_labels_is_zero() {
    let mut scored = Scored::random(9, 1, 1);
    scored.labels.fill(1);
    assert_figures(&scored.tally("auc", &json!({})), &[("auc", 0.0)]);
}

/// The share of the weight of rows that are wrong.
fn error(scored: &Scored, is_right: impl Fn(&[f32], usize) -> bool) -> f64 {
    let wrong = scored.rows().filter(|(scores, label, _)| !is_right(scores, *label));
    let wrong: f64 = wrong.map(|(_, _, weight)| weight).sum();
    wrong / scored.rows().map(|(_, _, weight)| weight).sum::<f64>()
}

#[test]
fn classification_error_is_the_share_of_labels_not_among_the_best() {
    let scored = Scored::random(200, 4, 12);
    for top_k in [1, 2, 4] {
        let is_right = |scores: &[f32], label: usize| {
            let mut places: Vec<usize> = (0..scores.len()).collect();
            places.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
            places[..top_k].contains(&label)
        };
        let expected = error(&scored, is_right);
        assert!(top_k == 4 || expected > 0.0);
        let found = scored.tally("classification_error", &json!({"top_k": top_k}));
        assert_figures(&found, &[("classification_error", expected)]);
    }
}

#[test]
fn classification_error_of_one_column_compares_with_the_threshold() {
    let scored = Scored::random(200, 1, 13);
    for (attributes, threshold) in [(json!({}), 0.5), (json!({"threshold": 0.3}), 0.3)] {
        let expected = error(&scored, |scores, label| (scores[0] > threshold) == (label == 1));
        let found = scored.tally("classification_error", &attributes);
        assert_figures(&found, &[("classification_error", expected)]);
    }
}

#[test]
fn a_score_that_is_no_number_is_an_error() {
    let mut scored = Scored::random(2, 3, 1);
    scored.scores.fill(f32::NAN);
    scored.weights.fill(1.0);
    let found = scored.tally("classification_error", &json!({}));
    assert_figures(&found, &[("classification_error", 1.0)]);
}

/// Weights of rows that are taken for `class`, that are it, and both.
fn counts(scored: &Scored, class: usize) -> [f64; 3] {
    let mut counts = [0.0; 3];
    for (scores, label, weight) in scored.rows() {
        let taken = match scores {
            [score] => usize::from(*score > 0.5),
            _ => {
                let highest = scores.iter().copied().fold(f32::MIN, f32::max);
                scores.iter().position(|score| *score == highest).unwrap()
            }
        };
        counts[0] += if taken == class { weight } else { 0.0 };
        counts[1] += if label == class { weight } else { 0.0 };
        counts[2] += if taken == class && label == class { weight } else { 0.0 };
    }
    counts
}

fn harmonic(a: f64, b: f64) -> f64 {
    2.0 * a * b / (a + b)
}

#[test]
fn precision_and_recall_are_of_the_positive_label() {
    for (width, positive) in [(3, 2), (1, 1)] {
        let scored = Scored::random(200, width, 14);
        let [taken, actual, right] = counts(&scored, positive);
        let (precision, recall) = (right / taken, right / actual);
        let found = scored.tally("precision_recall", &json!({"positive_label": positive}));
        let expected = [
            ("precision_recall.precision", precision),
            ("precision_recall.recall", recall),
            ("precision_recall.F1-score", harmonic(precision, recall)),
        ];
        assert_figures(&found, &expected);
    }
}

#[test]
fn precision_and_recall_without_a_positive_label_are_means() {
    let scored = Scored::random(200, 3, 15);
    let all = [0, 1, 2].map(|class| counts(&scored, class));
    let precision = all.iter().map(|[taken, _, right]| right / taken).sum::<f64>() / 3.0;
    let recall = all.iter().map(|[_, actual, right]| right / actual).sum::<f64>() / 3.0;
    let sum = |place: usize| all.iter().map(|counts| counts[place]).sum::<f64>();
    let micro = sum(2) / sum(0);
    assert_eq!(sum(0), sum(1));
    let expected = [
        ("precision_recall.macro-average-precision", precision),
        ("precision_recall.macro-average-recall", recall),
        ("precision_recall.macro-average-F1-score", harmonic(precision, recall)),
        ("precision_recall.micro-average-precision", micro),
        ("precision_recall.micro-average-recall", micro),
        ("precision_recall.micro-average-F1-score", micro),
    ];
    assert_figures(&scored.tally("precision_recall", &json!({})), &expected);
}

#[test]
fn the_gradient_of_an_output_that_is_watched_is_kept() {
    let mut net = Net::new();
    let input = net.activated("a", Level::Single, 2, "softmax");
    let label = net.data("label", Value::Integer, Level::Single, 2);
    net.topology.outputs =
        vec![net.add(json!({"name": "cost", "kind": "cross_entropy", "inputs": [input, label]}))];
    let plain = Trial::new(&net, &[1, 1, 1], 3);
    net.evaluate("watch", &["a"], &json!({"gradient": true}));
    let trial = Trial::new(&net, &[1, 1, 1], 3);
    let (plain, trained) = (plain.train(), trial.train());
    // Watching changes nothing of what is learnt.
    let expected: Vec<f64> =
        plain.gradients[0].iter().flatten().map(|number| f64::from(*number)).collect();
    assert_near("gradient", trained.gradients[0].as_ref().unwrap(), &expected, 1e-5);
    // Of the cost -ln p the gradient is -1/p at the label, and 0 elsewhere.
    let found = trial.network.output_gradient(&trained.seen, "a").unwrap();
    let shares = trial.network.output(&trained.seen, "a").unwrap();
    let Rows::Integer(labels) = trial.look("label").rows else { panic!("no ids") };
    let expected = numbers(&shares).iter().enumerate().map(|(place, share)| {
        let is_label = labels[place / 2] == (place % 2) as u64;
        if is_label { -1.0 / f64::from(*share) } else { 0.0 }
    });
    assert_near("of the output", &found, &expected.collect::<Vec<_>>(), 1e-5);
    assert!(trial.network.output_gradient(&plain.seen, "a").is_err());
}

#[test]
fn column_sum_is_the_mean_of_the_last_column() {
    let scored = Scored::random(50, 3, 17);
    let mut net = Net::new();
    net.data("scores", Value::Dense, Level::Single, 3);
    net.data("weight", Value::Dense, Level::Single, 1);
    net.evaluate("column_sum", &["scores", "weight"], &json!({}));
    let inputs = [scored.scores.clone(), scored.weights.clone()].map(Rows::Dense);
    let batch = Batch { samples: 50, inputs: inputs.map(Input::single).into() };
    let network = net.network();
    let mut tally = network.tally().unwrap();
    tally.add(&network.test(&network.prepare(batch).unwrap(), &[]).unwrap()).unwrap();
    let weights: f64 = scored.rows().map(|(_, _, weight)| weight).sum();
    let sum: f64 = scored.rows().map(|(scores, _, weight)| weight * f64::from(scores[2])).sum();
    assert_figures(&tally.read(), &[("column_sum", sum / weights)]);
}

#[test]
fn a_class_that_never_occurs_has_precision_and_recall_one() {
    // Three classes, of which the last is neither predicted nor a label:
    //   row   0  1  2  3
    //   best  0  0  1  1
    //   label 0  1  1  1
    // Class 0: 1 right of 2 predicted and 1 actual; class 1: 2 of 2 and 3; class 2: 0 of 0 and 0,
    // which the original counts as 1 and 1: TP/(TP+FP) is 1 where TP+FP is 0.
    let row = |best: usize| (0..3).map(move |column| f32::from(u8::from(column == best)));
    let scored = Scored {
        width: 3,
        scores: [0, 0, 1, 1].into_iter().flat_map(row).collect(),
        labels: vec![0, 1, 1, 1],
        weights: vec![1.0; 4],
    };
    let precision = (1.0 / 2.0 + 2.0 / 2.0 + 1.0) / 3.0;
    let recall = (1.0 / 1.0 + 2.0 / 3.0 + 1.0) / 3.0;
    let expected = [
        ("precision_recall.macro-average-precision", precision),
        ("precision_recall.macro-average-recall", recall),
        ("precision_recall.macro-average-F1-score", harmonic(precision, recall)),
        ("precision_recall.micro-average-precision", 3.0 / 4.0),
        ("precision_recall.micro-average-recall", 3.0 / 4.0),
        ("precision_recall.micro-average-F1-score", 3.0 / 4.0),
    ];
    assert_figures(&scored.tally("precision_recall", &json!({})), &expected);
    let found = scored.tally("precision_recall", &json!({"positive_label": 2}));
    let ones = ["precision", "recall", "F1-score"].map(|name| format!("precision_recall.{name}"));
    assert_eq!(found, ones.map(|name| (name, 1.0)));
}

#[test]
fn sum_is_the_sum_of_rows_divided_by_their_weight() {
    let mut net = Net::new();
    net.data("x", Value::Dense, Level::Single, 2);
    net.data("id", Value::Integer, Level::Single, 9);
    net.data("weight", Value::Dense, Level::Single, 1);
    net.evaluate("sum", &["x", "weight"], &json!({}));
    net.evaluate("sum", &["x"], &json!({}));
    net.evaluate("sum", &["id"], &json!({}));
    let network = net.network();
    let rows = [
        Rows::Dense(vec![1.0, 2.0, 3.0, 4.0]),
        Rows::Integer(vec![8, 3]),
        Rows::Dense(vec![0.5, 2.0]),
    ];
    let inputs = rows.map(Input::single).into();
    let prepared = network.prepare(Batch { samples: 2, inputs }).unwrap();
    let mut tally = network.tally().unwrap();
    tally.add(&network.test(&prepared, &[]).unwrap()).unwrap();
    let weighted = (0.5 * 3.0 + 2.0 * 7.0) / 2.5;
    assert_figures(&tally.read(), &[("sum", weighted), ("sum", 5.0), ("sum", 5.5)]);
}

#[test]
fn figures_of_nothing_are_zero() {
    let mut net = Net::new();
    net.data("scores", Value::Dense, Level::Single, 2);
    net.data("label", Value::Integer, Level::Single, 2);
    for kind in ["auc", "classification_error", "precision_recall"] {
        net.evaluate(kind, &["scores", "label"], &json!({}));
    }
    net.evaluate("sum", &["scores"], &json!({}));
    let figures = net.network().tally().unwrap().read();
    assert_eq!(figures.len(), 9);
    assert!(figures.iter().all(|(_, figure)| *figure == 0.0), "{figures:?}");
}

/// Sequences, as rows and offsets.
fn sequences(all: &[&[u64]]) -> Input {
    let ends = all.iter().scan(0, |end, one| {
        *end += one.len();
        Some(*end)
    });
    let offsets = std::iter::once(0).chain(ends).collect();
    Input::sequence(Rows::Integer(all.concat()), offsets)
}

#[test]
fn chunks_are_right_if_begin_end_and_type_are() {
    let mut net = Net::new();
    net.data("found", Value::Integer, Level::Sequence, 5);
    net.data("wanted", Value::Integer, Level::Sequence, 5);
    net.evaluate(
        "chunk",
        &["found", "wanted"],
        &json!({"scheme": "IOB", "types": 2, "excluded": []}),
    );
    let network = net.network();
    let mut tally = network.tally().unwrap();
    let mut feed = |found: &[&[u64]], wanted: &[&[u64]]| {
        let inputs = vec![sequences(found), sequences(wanted)];
        let batch = Batch { samples: found.len(), inputs };
        tally.add(&network.test(&network.prepare(batch).unwrap(), &[]).unwrap()).unwrap();
        tally.read()
    };
    // Chunks do not go on from one sequence to the next: 2 right of 4 found and of 3 wanted.
    let figures = feed(&[&[0, 1, 4, 2], &[], &[3, 0]], &[&[0, 1, 4, 0], &[], &[3, 4]]);
    let (precision, recall) = (2.0 / 4.0, 2.0 / 3.0);
    let f1 = 2.0 * precision * recall / (precision + recall);
    let near = |figures: &[(String, f64)], expected: [f64; 6]| {
        let fields =
            ["precision", "recall", "F1-score", "true_chunks", "result_chunks", "correct_chunks"];
        let names = fields.map(|field| format!("chunk.{field}"));
        assert_eq!(figures.len(), names.len());
        for ((name, value), (expected, own)) in figures.iter().zip(expected.iter().zip(names)) {
            assert_eq!(name, &own);
            assert!((value - expected).abs() < 1e-12, "{name} {value} instead of {expected}");
        }
    };
    near(&figures, [precision, recall, f1, 3.0, 4.0, 2.0]);
    // 1 right more, of 1 found and 2 wanted.
    let figures = feed(&[&[0, 1]], &[&[0, 1]]);
    near(&figures, [3.0 / 5.0, 3.0 / 4.0, 2.0 / (5.0 / 3.0 + 4.0 / 3.0), 4.0, 5.0, 3.0]);
}

#[test]
fn a_tagger_shows_its_tags_to_the_chunk_evaluator_with_and_without_a_label() {
    let figures = [1, 2].map(|count| {
        let mut net = Net::new();
        let scores = net.data("scores", Value::Dense, Level::Sequence, 3);
        let label = net.data("label", Value::Integer, Level::Sequence, 3);
        let inputs = &[scores, label][..count];
        net.add(json!({
            "name": "tags", "kind": "crf_decoding", "inputs": inputs, "parameters": ["chain"],
        }));
        net.topology.outputs = vec!["tags".to_owned()];
        let attributes = json!({"scheme": "plain", "types": 2});
        net.evaluate("chunk", &["tags", "label"], &attributes);
        let trial = crate::trial::Trial::new(&net, &[5, 0, 9, 4], 3);
        let values = crate::trial::slices(&trial.values);
        let seen = trial.network.test(&trial.prepared, &values).unwrap();
        let mut tally = trial.network.tally().unwrap();
        tally.add(&seen).unwrap();
        tally.read()
    });
    assert!(figures[0].iter().any(|(_, value)| *value > 0.0), "{figures:?}");
    assert_eq!(figures[0], figures[1]);
}

#[test]
fn ctc_error_is_the_distance_of_what_is_read_per_label() {
    let mut net = Net::new();
    net.data("scores", Value::Dense, Level::Sequence, 3);
    net.data("label", Value::Integer, Level::Sequence, 2);
    net.evaluate("ctc_error", &["scores", "label"], &json!({}));
    let network = net.network();
    // Reads 0 0 1, and 1: one label is missing, one is wrong, of 3 and 2.
    let best = [0, 2, 0, 0, 1, 1, 2];
    let one_hot = |class: usize| (0..3).map(move |place| f32::from(u8::from(place == class)));
    let rows = Rows::Dense(best.into_iter().flat_map(one_hot).collect());
    let scores = Input::sequence(rows, vec![0, 5, 7]);
    let batch = Batch { samples: 2, inputs: vec![scores, sequences(&[&[0, 0, 1], &[0, 0]])] };
    let mut tally = network.tally().unwrap();
    tally.add(&network.test(&network.prepare(batch).unwrap(), &[]).unwrap()).unwrap();
    assert_eq!(tally.read(), [("ctc_error".to_owned(), 2.0 / 5.0)]);
}
