//! Every update rule against numpy, and sparse rows against dense parameters.

use proptest::prelude::*;
use serde::Deserialize;
use std::sync::LazyLock;
use table::initializer::Initializer;
use table::optimizer::{AdaGrad, Momentum, Now, Optimizer, Rule, Settings, Update};
use table::placement::name_hash;

/// Written by `tests/vectors/generate.py`.
#[derive(Deserialize)]
struct Vectors {
    updates: Vec<Case>,
    starts: Vec<Start>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    optimizer: Optimizer,
    settings: Settings,
    is_sparse: bool,
    start: Vec<f32>,
    touches: Vec<Touch>,
    end: Moment,
    value: Vec<f64>,
    applied: Vec<f64>,
}

#[derive(Deserialize)]
struct Touch {
    #[serde(flatten)]
    moment: Moment,
    gradient: Vec<f32>,
    value: Vec<f64>,
}

#[derive(Deserialize)]
struct Moment {
    step: u64,
    samples: u64,
    pass: u64,
}

#[derive(Deserialize)]
struct Start {
    initializer: Initializer,
    seed: u64,
    parameter: String,
    first: u64,
    values: Vec<f32>,
}

static VECTORS: LazyLock<Vectors> =
    LazyLock::new(|| serde_json::from_str(include_str!("../vectors/optimizer.json")).unwrap());

/// A row or block with its update.
struct Held {
    update: Update,
    value: Vec<f32>,
    state: Vec<f32>,
    counters: Vec<u32>,
}

impl Held {
    fn new(optimizer: &Optimizer, settings: &Settings, is_sparse: bool, start: &[f32]) -> Self {
        let update = Update::new(optimizer, settings, is_sparse).unwrap();
        let state = vec![0.0; update.columns().state.len() * start.len()];
        let counters = vec![0; update.columns().counters.len()];
        Held { update, value: start.to_vec(), state, counters }
    }

    fn apply(&mut self, now: Now, gradient: &[f32]) {
        self.update.apply(&now, gradient, &mut self.value, &mut self.state, &mut self.counters);
    }

    fn catch_up(&mut self, now: Now) {
        self.update.catch_up(&now, &mut self.value, &mut self.state, &mut self.counters);
    }

    fn read(&self, now: Now) -> Vec<f32> {
        let mut out = vec![f32::NAN; self.value.len()];
        self.update.read(&now, &self.value, &self.state, &self.counters, &mut out);
        out
    }

    fn applied(&self) -> Vec<f32> {
        let mut scratch = Vec::new();
        self.update.applied(&self.value, &self.state, &self.counters, &mut scratch).to_vec()
    }
}

#[track_caller]
fn check_close(found: &[f32], expected: &[f64], what: &str) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        let error = (f64::from(*found) - expected).abs();
        assert!(error <= 2e-6 + 1e-5 * expected.abs(), "{what}: {found} for {expected}");
    }
}

#[test]
fn every_rule_gives_the_values_of_numpy() {
    for case in &VECTORS.updates {
        let Case { name, optimizer, settings, is_sparse, start, .. } = case;
        let now = |moment: &Moment| Now {
            step: moment.step,
            rate: optimizer.rate(moment.samples, moment.pass),
        };
        let mut held = Held::new(optimizer, settings, *is_sparse, start);
        for touch in &case.touches {
            held.apply(now(&touch.moment), &touch.gradient);
            check_close(&held.value, &touch.value, &format!("{name}, step {}", touch.moment.step));
        }
        held.catch_up(now(&case.end));
        check_close(&held.value, &case.value, &format!("{name}, at the end"));
        check_close(&held.applied(), &case.applied, &format!("{name}, to be saved"));
    }
}

#[test]
fn initial_values_are_those_of_another_client() {
    for start in &VECTORS.starts {
        let mut values = vec![0.0; start.values.len()];
        let name_hash = name_hash(&start.parameter);
        start.initializer.fill(start.seed, name_hash, start.first, &mut values);
        for (found, expected) in values.iter().zip(&start.values) {
            // The last bit of `ln` and `cos` is the library's.
            let error = (found - expected).abs();
            assert!(error <= expected.abs() * f32::EPSILON, "{found} for {expected}");
        }
    }
}

fn rule() -> impl Strategy<Value = Rule> {
    prop_oneof![
        Just(Rule::Momentum(Momentum::default())),
        (0.01..1.0).prop_map(|epsilon| Rule::AdaGrad(AdaGrad { epsilon, momentum: 0.0 })),
    ]
}

/// Gradients by step; most steps do not touch the row.
fn steps() -> impl Strategy<Value = Vec<Option<[f32; 3]>>> {
    let gradient = prop::array::uniform3(-1.0_f32..1.0);
    prop::collection::vec(prop::option::weighted(0.2, gradient), 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_sparse_row_decays_as_if_it_were_dense(
        rule in rule(),
        (l1, l2, clip) in (0.0..0.002_f32, 0.0..0.2_f32, prop::option::of(0.1..1.0_f32)),
        start in prop::array::uniform3(-1.0_f32..1.0),
        steps in steps(),
        read_at in 0..120_usize,
    ) {
        let optimizer = Optimizer::new(rule, 0.05);
        let settings = Settings { l1, l2, clip, ..Settings::default() };
        let mut dense = Held::new(&optimizer, &settings, false, &start);
        let mut sparse = Held::new(&optimizer, &settings, true, &start);
        for (step, gradient) in steps.iter().enumerate() {
            let now = Now { step: step as u64, rate: optimizer.rate(0, 0) };
            dense.apply(now, &gradient.unwrap_or_default());
            if let Some(gradient) = gradient {
                sparse.apply(now, gradient);
            }
            if step == read_at {
                sparse.catch_up(Now { step: now.step + 1, ..now });
            }
        }
        let end = Now { step: steps.len() as u64, rate: optimizer.rate(0, 0) };
        let read = sparse.read(end);
        sparse.catch_up(end);
        prop_assert_eq!(&read, &sparse.value);
        for (sparse, dense) in sparse.value.iter().zip(&dense.value) {
            prop_assert!((sparse - dense).abs() <= 1e-5, "{} for {}", sparse, dense);
        }
        prop_assert_eq!(&sparse.state, &dense.state);
    }

    #[test]
    fn a_block_may_be_cut_anywhere(
        steps in steps(),
        start in prop::array::uniform3(-1.0_f32..1.0),
        cut in 0..=3_usize,
    ) {
        for case in VECTORS.updates.iter().step_by(7) {
            let mut whole = Held::new(&case.optimizer, &case.settings, false, &start);
            let mut part = Held::new(&case.optimizer, &case.settings, false, &start[cut..]);
            for (step, gradient) in steps.iter().flatten().enumerate() {
                let now = Now { step: step as u64, rate: 0.1 };
                whole.apply(now, gradient);
                part.apply(now, &gradient[cut..]);
            }
            prop_assert_eq!(&whole.value[cut..], &part.value[..]);
        }
    }
}
