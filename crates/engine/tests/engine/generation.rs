//! Beam search against all sentences there are, each scored word by word by a recurrent group with
//! the same parameters.

use crate::net::Net;
use crate::trial::{Trial, numbers};
use engine::batch::{Input, NO_ID, Rows};
use engine::shape::{Level, Value};
use serde_json::json;
use std::collections::HashMap;

const WORDS: usize = 4;
const END: u64 = 1;
const BEGIN: u64 = 0;
const LENGTH_MAX: usize = 3;
const SAMPLES: usize = 3;

/// What a step does with a word, what it remembers and what the sample is.
fn step(links: &serde_json::Value) -> serde_json::Value {
    json!({
        "links": links,
        "memories": [{"name": "before", "of": "h", "size": 3, "boot": "begin"}],
        "layers": [
            {"name": "h", "kind": "fc", "inputs": ["word", "before", "static"],
             "attributes": {"size": 3}, "activation": "tanh", "has_bias": true},
            {"name": "p", "kind": "fc", "inputs": ["h"], "attributes": {"size": WORDS},
             "activation": "softmax", "has_bias": true},
        ],
        "outputs": ["p"],
    })
}

/// Names of the parameters of a step, in the order of its layers.
const STEP: [&str; 6] = ["h.w0", "h.w1", "h.w2", "h.wbias", "p.w0", "p.wbias"];

fn searching(beam_size: usize, results: usize) -> Net {
    let mut net = Net::new();
    let inputs = [
        net.data("static", Value::Dense, Level::Single, 2),
        net.data("boot", Value::Dense, Level::Single, 3),
    ];
    let links = json!([
        {"name": "static", "role": "whole"}, {"name": "begin", "role": "boot"},
        {"name": "word", "role": "word"},
    ]);
    let parameters: Vec<&str> = std::iter::once("table").chain(STEP).collect();
    net.topology.outputs = vec![net.add(json!({
        "name": "out", "kind": "beam_search", "inputs": inputs, "parameters": parameters,
        "attributes": {
            "step": step(&links), "words": WORDS, "embedding_size": 2, "bos_id": BEGIN,
            "eos_id": END, "beam_size": beam_size, "max_length": LENGTH_MAX, "results": results,
        },
    }))];
    net
}

fn scoring() -> Net {
    let mut net = Net::new();
    let inputs = [
        net.data("static", Value::Dense, Level::Single, 2),
        net.data("boot", Value::Dense, Level::Single, 3),
    ];
    let ids = net.data("ids", Value::Integer, Level::Sequence, WORDS);
    let word = net.add(json!({
        "name": "word", "kind": "mixed", "inputs": [ids], "parameters": ["table"],
        "attributes": {"projections": [{"name": "table", "size": 2}]},
    }));
    let links = json!([
        {"name": "static", "role": "whole"}, {"name": "begin", "role": "boot"},
        {"name": "word", "role": "part"},
    ]);
    net.add(json!({
        "name": "out", "kind": "recurrent_group", "inputs": [&inputs[0], &inputs[1], &word],
        "parameters": STEP, "attributes": {"is_reversed": false, "step": step(&links)},
    }));
    net
}

/// All sentences: those that end, and those that are cut off.
fn sentences() -> Vec<Vec<u64>> {
    let mut complete = Vec::new();
    let mut open = vec![Vec::new()];
    for _ in 0..LENGTH_MAX {
        let longer = open.iter().flat_map(|words: &Vec<u64>| {
            (0..WORDS as u64).map(move |word| [words.as_slice(), &[word]].concat())
        });
        let (ended, rest) = longer.partition(|words: &Vec<u64>| words.last() == Some(&END));
        complete.extend::<Vec<_>>(ended);
        open = rest;
    }
    complete.extend(open);
    complete
}

/// The logarithm of how probable a sentence is for each sample.
fn score(words: &[u64], search: &Trial, data: &[Input]) -> Vec<f64> {
    let before: Vec<u64> =
        std::iter::once(BEGIN).chain(words.iter().copied()).take(words.len()).collect();
    let offsets = (0..=SAMPLES).map(|sample| sample * words.len()).collect();
    let ids = Input::sequence(Rows::Integer(before.repeat(SAMPLES)), offsets);
    let net = scoring();
    let batch = engine::batch::Batch {
        samples: SAMPLES,
        inputs: vec![data[0].clone(), data[1].clone(), ids],
    };
    let mut trial = Trial::with_batch(net.network(), batch, 1);
    let names: Vec<String> =
        trial.network.parameters().iter().map(|parameter| parameter.name.clone()).collect();
    trial.values = names.iter().map(|name| search.values[search.place(name)].clone()).collect();
    let output = trial.look("out");
    let rows: Vec<&[f32]> = numbers(&output).chunks(WORDS).collect();
    rows.chunks(words.len())
        .map(|rows| {
            let pairs = rows.iter().zip(words);
            pairs.map(|(row, word)| f64::from(row[*word as usize]).ln()).sum()
        })
        .collect()
}

/// What a search found: by sample, sentences with their scores.
fn found(trial: &Trial, results: usize) -> Vec<Vec<(Vec<u64>, f32)>> {
    let output = trial.look("out");
    let ids = output.ids.clone().unwrap();
    let mut rest = ids.split(|id| *id == NO_ID);
    let scores = numbers(&output).chunks(results);
    scores
        .map(|scores| {
            scores
                .iter()
                .map(|score| {
                    let sentence = rest.next().unwrap();
                    assert_eq!(sentence[0] as usize, sentence.len() - 1, "its length comes first");
                    (sentence[1..].to_vec(), *score)
                })
                .collect()
        })
        .collect()
}

fn search(beam_size: usize, results: usize, seed: u64) -> (Trial, Vec<Input>) {
    let net = searching(beam_size, results);
    let batch = net.batch(&[1; SAMPLES], seed);
    let data = batch.inputs.clone();
    let mut trial = Trial::with_batch(net.network(), batch, seed);
    // Larger ones, so that samples and words differ.
    trial.values.iter_mut().flatten().for_each(|number| *number *= 3.0);
    (trial, data)
}

#[test]
fn a_beam_wide_enough_finds_the_best_sentences_in_their_order() {
    const ALL: usize = 100;
    for seed in 0..4 {
        let (trial, data) = search(ALL, 10, seed);
        let mut scores: HashMap<Vec<u64>, Vec<f64>> = HashMap::new();
        for words in sentences() {
            let score = score(&words, &trial, &data);
            scores.insert(words, score);
        }
        for (sample, sentences) in found(&trial, 10).iter().enumerate() {
            let mut best: Vec<f64> = scores.values().map(|scores| scores[sample]).collect();
            best.sort_by(|a, b| b.total_cmp(a));
            assert_eq!(sentences.len(), 10);
            for ((words, score), best) in sentences.iter().zip(best) {
                let known = scores[words][sample];
                assert!((f64::from(*score) - known).abs() < 1e-4, "{words:?}: {score}, {known}");
                assert!((known - best).abs() < 1e-4, "{words:?}: {known} instead of {best}");
            }
        }
    }
}

#[test]
fn a_beam_of_one_takes_the_best_word_each_time() {
    for seed in 0..4 {
        let (trial, data) = search(1, 1, seed);
        for (sample, sentences) in found(&trial, 1).iter().enumerate() {
            let words = &sentences[0].0;
            for length in 1..=words.len() {
                let best = (0..WORDS as u64)
                    .map(|word| [&words[..length - 1], &[word]].concat())
                    .map(|words| (score(&words, &trial, &data)[sample], words))
                    .max_by(|a, b| a.0.total_cmp(&b.0))
                    .unwrap();
                assert_eq!(best.1, words[..length]);
            }
            assert!(words.last() == Some(&END) || words.len() == LENGTH_MAX);
        }
    }
}

#[test]
fn where_there_are_fewer_sentences_than_wanted_the_others_are_empty_and_impossible() {
    const ALL: usize = 100;
    let count = sentences().len();
    let (trial, _) = search(ALL, ALL, 1);
    for sentences in found(&trial, ALL) {
        assert!(sentences[..count].iter().all(|(words, score)| !words.is_empty() && *score < 0.0));
        let rest = &sentences[count..];
        assert!(rest.iter().all(|(words, score)| words.is_empty() && *score == f32::NEG_INFINITY));
    }
}
