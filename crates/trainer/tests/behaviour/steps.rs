//! One step after the other: what a trainer shows, counts and refuses.

use crate::net::{self, TABLE, WORDS, batch, network, optimizer, parameters};
use contract::Kind;
use engine::batch::Rows;
use std::sync::Arc;
use table::optimizer::Settings;
use trainer::{Description, Inference, Parameters, Trainer, View};

const PLAIN: &str = r#"{"rule": {"name": "momentum"}, "learning_rate": 0.01}"#;
const AVERAGED: &str = r#"{"rule": {"name": "momentum"}, "learning_rate": 0.01,
                           "average": {"window": 0.5}}"#;

fn trainer(json: &str) -> Trainer {
    let parameters = parameters(Some(WORDS), Settings::default());
    Trainer::local(network(Some(WORDS)), parameters, optimizer(json)).unwrap()
}

fn get(trainer: &Trainer, name: &str) -> Vec<f32> {
    trainer.parameters().get(name, View::Present).unwrap()
}

#[test]
fn an_update_is_the_rate_times_the_gradient() {
    let mut trainer = trainer(PLAIN);
    let before = [get(&trainer, TABLE), get(&trainer, "w2")];
    trainer.forward_backward(batch(0, 0, 4)).unwrap();
    let dense = trainer.gradient("w2").unwrap();
    assert_eq!((dense.keys, dense.values.len()), (None, 5));
    let expected: Vec<f32> =
        before[1].iter().zip(dense.values).map(|(w, g)| w - 0.01 * g).collect();
    let rows = trainer.gradient(TABLE).unwrap();
    let keys = rows.keys.unwrap().to_vec();
    let mut table = before[0].clone();
    for (key, gradient) in keys.iter().zip(rows.values.chunks(4)) {
        for (w, g) in table[*key as usize * 4..].iter_mut().zip(gradient) {
            *w -= 0.01 * g;
        }
    }
    trainer.update().unwrap();
    for (found, expected) in get(&trainer, "w2").iter().zip(expected) {
        assert!((found - expected).abs() < 1e-7, "{found} for {expected}");
    }
    for (found, expected) in get(&trainer, TABLE).iter().zip(table) {
        assert!((found - expected).abs() < 1e-7, "{found} for {expected}");
    }
}

#[test]
fn the_cost_falls_and_a_test_shows_it() {
    let mut trainer = trainer(PLAIN);
    let test = |trainer: &mut Trainer| {
        trainer.test_begin().unwrap();
        let (cost, samples) = trainer.test_batch(batch(0, 0, 8)).unwrap();
        assert_eq!(samples, 8);
        cost
    };
    let first = test(&mut trainer);
    let step = trainer.forward_backward(batch(0, 0, 8)).unwrap();
    assert_eq!((step.cost, step.samples), (first, 8));
    for _ in 0..50 {
        trainer.forward_backward(batch(0, 0, 8)).unwrap();
        trainer.update().unwrap();
    }
    let last = test(&mut trainer);
    assert!(last < first / 2.0, "{last} after {first}");
}

#[test]
fn metrics_are_of_a_batch_a_pass_or_a_test() {
    let mut trainer = trainer(PLAIN);
    trainer.start_pass().unwrap();
    let mut means = Vec::new();
    for step in 0..3 {
        let found = trainer.forward_backward(batch(step, 0, 4)).unwrap();
        assert_eq!(found.metrics[0].0, "mean");
        means.push(found.metrics[0].1);
    }
    let mean = means.iter().sum::<f64>() / 3.0;
    assert!((trainer.pass_metrics()[0].1 - mean).abs() < 1e-9);
    trainer.test_begin().unwrap();
    trainer.test_batch(batch(1, 0, 4)).unwrap();
    assert!((trainer.test_metrics()[0].1 - means[1]).abs() < 1e-9);
    trainer.start_pass().unwrap();
    assert_eq!(trainer.pass_metrics()[0].1, 0.0);
}

#[test]
fn a_test_creates_no_rows_and_uses_averages() {
    let mut trainer = trainer(AVERAGED);
    let rows = |trainer: &Trainer| {
        let mut rows = 0;
        let mut count = |keys: &[u64], _: &[f32]| {
            rows += keys.len();
            Ok(())
        };
        trainer.parameters().scan(TABLE, View::Present, &mut count).unwrap();
        rows
    };
    trainer.test_begin().unwrap();
    trainer.test_batch(batch(0, 0, 8)).unwrap();
    assert_eq!(rows(&trainer), 0);
    for step in 0..5 {
        trainer.forward_backward(batch(step, 0, 8)).unwrap();
        trainer.update().unwrap();
    }
    assert!(rows(&trainer) > 0);
    trainer.test_begin().unwrap();
    let (tested, _) = trainer.test_batch(batch(0, 0, 8)).unwrap();
    let present = trainer.forward_backward(batch(0, 0, 8)).unwrap().cost;
    assert_ne!(tested, present);
    let ask = |view| {
        let parameters = Arc::clone(trainer.parameters());
        let inference = Inference::new(network(Some(WORDS)), parameters, view).unwrap();
        let outputs = inference.run(batch(0, 0, 8)).unwrap();
        let Rows::Dense(costs) = &outputs[0].rows else { panic!("a cost is dense") };
        costs.iter().map(|cost| f64::from(*cost)).sum::<f64>()
    };
    assert_eq!((ask(View::Averaged), ask(View::Present)), (tested, present));
}

#[test]
fn any_layer_of_the_last_batch_can_be_looked_at() {
    let mut trainer = trainer(PLAIN);
    assert_eq!(trainer.look("out").unwrap_err().kind(), Kind::Conflict);
    trainer.forward_backward(batch(0, 0, 4)).unwrap();
    assert_eq!(trainer.look("cost").unwrap().rows.len(1), 4);
    let hidden = trainer.look("hidden").unwrap();
    assert_eq!((hidden.width, hidden.rows.len(5)), (5, 4));
    assert_eq!(trainer.look("nothing").unwrap_err().kind(), Kind::NotFound);
}

#[test]
fn a_cost_that_is_no_number_names_its_cause_and_changes_nothing() {
    let check = |trainer: &mut Trainer, number: f32, place: &str| {
        let before = [get(trainer, TABLE), get(trainer, "w1")];
        let mut bad = batch(0, 0, 4);
        let Rows::Dense(values) = &mut bad.inputs[1].rows else { panic!("x is dense") };
        values[2] = number;
        let error = trainer.forward_backward(bad).unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid);
        let text = error.to_string();
        assert!(text.contains("learning rate") && text.contains(place), "{text}");
        assert_eq!(trainer.update().unwrap_err().kind(), Kind::Conflict);
        let after = [get(trainer, TABLE), get(trainer, "w1")];
        for (before, after) in before.iter().flatten().zip(after.iter().flatten()) {
            assert_eq!(before.to_bits(), after.to_bits());
        }
    };
    let mut trainer = trainer(PLAIN);
    check(&mut trainer, f32::NAN, "the data of: x");
    trainer.parameters().set("w2", &[f32::INFINITY; 5]).unwrap();
    check(&mut trainer, 0.0, "parameter: w2");
    trainer.parameters().set("w2", &[3e38; 5]).unwrap();
    check(&mut trainer, 0.0, "the output of layer: cost");
}

#[test]
fn gradients_are_applied_once() {
    let mut trainer = trainer(PLAIN);
    assert_eq!(trainer.update().unwrap_err().kind(), Kind::Conflict);
    trainer.forward_backward(batch(0, 0, 4)).unwrap();
    trainer.update().unwrap();
    assert_eq!(trainer.update().unwrap_err().kind(), Kind::Conflict);
}

#[test]
fn a_parameter_is_trained_by_the_trainer_that_took_it_last() {
    let mut first = trainer(PLAIN);
    first.forward_backward(batch(0, 0, 4)).unwrap();
    first.update().unwrap();
    let parameters = Arc::clone(first.parameters());
    let network = network(Some(WORDS));
    let mut second = Trainer::local(network, parameters, optimizer(AVERAGED)).unwrap();
    assert_eq!(get(&first, TABLE), get(&second, TABLE));
    second.forward_backward(batch(0, 0, 4)).unwrap();
    second.update().unwrap();
    first.forward_backward(batch(0, 0, 4)).unwrap();
    let error = first.update().unwrap_err();
    assert!(error.message().contains("another trainer"), "{error}");
}

#[test]
fn a_network_says_what_its_model_lacks() {
    let check = |change: fn(&mut Vec<Description>), text: &str| {
        let mut descriptions = net::descriptions(Some(WORDS), Settings::default());
        change(&mut descriptions);
        let parameters = Arc::new(Parameters::new(descriptions, 1).unwrap());
        let made = Trainer::local(network(Some(WORDS)), parameters, optimizer(PLAIN));
        let error = made.err().unwrap().to_string();
        assert!(error.contains(text), "{error}");
    };
    check(|descriptions| drop(descriptions.pop()), "parameter: b2");
    check(|descriptions| descriptions[1].dims = [4, 6], "4 x 6 in the model but 4 x 5");
    check(|descriptions| descriptions[0].is_sparse = false, "sparse_update");
}

#[test]
fn trainers_and_parameters_can_be_shared_between_threads() {
    fn check<T: Send + Sync>() {}
    check::<Parameters>();
    check::<Trainer>();
    check::<Inference>();
}
