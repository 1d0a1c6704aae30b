//! LambdaRank: the NDCG it shows, and the gradient of the cost behind it.

use crate::net::Net;
use crate::trial::{Trial, assert_near, numbers};
use engine::batch::{Input, Rows};
use engine::shape::{Level, Value};
use serde_json::json;

/// A network whose scores are one parameter times what is fed.
fn trial(scores: &[f32], relevance: &[f32], offsets: &[usize], sorted: Option<usize>) -> Trial {
    let mut net = Net::new();
    let data = net.data("x", Value::Dense, Level::Sequence, scores.len());
    let fc = json!({"name": "a", "kind": "fc", "inputs": [data], "attributes": {"size": 1}});
    let inputs = [net.add(fc), net.data("relevance", Value::Dense, Level::Sequence, 1)];
    net.topology.outputs = vec![net.add(json!({
        "name": "cost", "kind": "lambda", "inputs": inputs,
        "attributes": {"truncation": 2, "sorted": sorted},
    }))];
    // Row i of the data picks number i of the parameter, so its gradient is that of the score.
    let count = scores.len();
    let one_hot =
        (0..count * count).map(|place| f32::from(u8::from(place / count == place % count)));
    let mut batch = net.batch(&vec![1; offsets.len() - 1], 1);
    batch.inputs[0] = Input::sequence(Rows::Dense(one_hot.collect()), offsets.to_vec());
    batch.inputs[1] = Input::sequence(Rows::Dense(relevance.to_vec()), offsets.to_vec());
    let mut trial = Trial::with_batch(net.network(), batch, 1);
    trial.values = vec![scores.to_vec()];
    trial
}

/// The cost whose gradient is taken, in double precision.
fn surrogate(scores: &[f64], relevance: &[f32], sorted: Option<usize>) -> f64 {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|a, b| relevance[*b].total_cmp(&relevance[*a]));
    let power = |place: usize| 2_f64.powf(f64::from(relevance[order[place]]));
    let discount = |place: usize| 1.0 / (place as f64 + 2.0).ln();
    let best: f64 = (0..2).map(|place| (power(place) - 1.0) * discount(place)).sum();
    let sorted = sorted.unwrap_or(scores.len()).min(scores.len());
    let mut sum = 0.0;
    for i in 0..sorted {
        for j in i + 1..scores.len() {
            let moved = if j < sorted { discount(i) - discount(j) } else { discount(i) };
            let weight = ((power(i) - power(j)) * moved).abs() / best;
            sum += weight * (scores[order[j]] - scores[order[i]]).exp().ln_1p();
        }
    }
    sum
}

const SCORES: [f32; 7] = [0.3, -0.2, 0.9, 0.1, 0.5, -0.6, 0.2];
const RELEVANCE: [f32; 7] = [2.0, 0.0, 1.0, 1.0, 0.0, 3.0, 1.0];
const QUERIES: [usize; 3] = [0, 4, 7];

#[test]
fn the_output_is_the_ndcg_of_each_query_for_each_of_its_documents() {
    let trial = trial(&SCORES, &RELEVANCE, &QUERIES, None);
    // By score the first query is 1 2 …, of gains 2¹ − 1 and 2² − 1, the best would be 2 1; the
    // second is 0 1, the best would be 3 1.
    let (first, second) = (1.0 / 2_f64.ln(), 1.0 / 3_f64.ln());
    let one = (first + 3.0 * second) / (3.0 * first + second);
    let two = second / (7.0 * first + second);
    let expected = [one, one, one, one, two, two, two];
    assert_near("ndcg", numbers(&trial.look("cost")), &expected, 1e-6);
}

#[test]
fn the_gradient_is_that_of_the_cost_over_pairs() {
    for sorted in [None, Some(2), Some(3), Some(100)] {
        let trained = trial(&SCORES, &RELEVANCE, &QUERIES, sorted).train();
        let mut expected = Vec::new();
        for query in QUERIES.windows(2) {
            let scores: Vec<f64> =
                SCORES[query[0]..query[1]].iter().map(|score| f64::from(*score)).collect();
            for document in 0..scores.len() {
                let at = |distance: f64| {
                    let mut moved = scores.clone();
                    moved[document] += distance;
                    surrogate(&moved, &RELEVANCE[query[0]..query[1]], sorted)
                };
                expected.push((at(1e-5) - at(-1e-5)) / 2e-5);
            }
        }
        let gradient = trained.gradients[0].clone().unwrap();
        assert_near(&format!("sorted {sorted:?}"), &gradient, &expected, 1e-5);
    }
}

#[test]
fn queries_that_cannot_be_ranked_are_refused() {
    let refuse = |relevance: &[f32], offsets: &[usize]| {
        let trial = trial(&SCORES, relevance, offsets, None);
        let values: Vec<&[f32]> = trial.values.iter().map(Vec::as_slice).collect();
        trial.network.train(&trial.prepared, &values, 0).err().unwrap().to_string()
    };
    let few = refuse(&RELEVANCE, &[0, 6, 7]);
    assert!(few.contains("1 documents") && few.contains("NDCG_num"), "{few}");
    let none = refuse(&[0.0; 7], &QUERIES);
    assert!(none.contains("no document of a query has a score above 0"), "{none}");
}
