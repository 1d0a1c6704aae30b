//! Training in one process and through servers comes to the same values.

use crate::net::{self, TABLE, WORDS, batch, network, optimizer, parameters};
use crate::servers::Servers;
use std::sync::Arc;
use table::optimizer::Settings;
use trainer::{Fed, Parameters, Trainer, View};

const SAMPLES: usize = 8;
const PASSES: usize = 2;
const STEPS: usize = 6;

const PLAIN: &str = r#"{"rule": {"name": "momentum"}, "learning_rate": 0.05}"#;
const DECAY: Settings =
    Settings { learning_rate: 1.0, momentum: None, l1: 0.0, l2: 0.1, clip: None };

/// Optimizers, each with what it keeps beside values and when it looks at steps and samples.
fn cases() -> Vec<(&'static str, Settings)> {
    let l1 = Settings { l1: 0.01, clip: Some(0.3), ..Settings::default() };
    vec![
        (PLAIN, Settings::default()),
        (PLAIN, DECAY),
        (PLAIN, l1),
        (r#"{"rule": {"name": "momentum", "momentum": 0.9}, "learning_rate": 0.01}"#, DECAY),
        (r#"{"rule": {"name": "adagrad"}, "learning_rate": 0.1}"#, DECAY),
        (r#"{"rule": {"name": "adam"}, "learning_rate": 0.01}"#, Settings::default()),
        (r#"{"rule": {"name": "rmsprop"}, "learning_rate": 0.01}"#, DECAY),
        (
            r#"{"rule": {"name": "momentum"}, "learning_rate": 0.05,
                "schedule": {"name": "poly", "a": 0.1, "b": 0.5},
                "average": {"window": 0.5, "window_max": 3}}"#,
            DECAY,
        ),
    ]
}

/// Trains on the samples `from..to` of every batch.
fn train(trainer: &mut Trainer, from: usize, to: usize) {
    for pass in 0..PASSES {
        trainer.start_pass().unwrap();
        for step in 0..STEPS {
            trainer.forward_backward(batch(pass * STEPS + step, from, to)).unwrap();
            trainer.update().unwrap();
        }
        trainer.finish_pass().unwrap();
    }
}

fn values(parameters: &Parameters, view: View) -> Vec<Vec<f32>> {
    let names = parameters.descriptions().iter().map(|description| &description.name);
    names.map(|name| parameters.fetch(name, view).unwrap()).collect()
}

fn train_locally(json: &str, settings: Settings) -> Arc<Parameters> {
    let parameters = parameters(Some(WORDS), settings);
    let network = network(Some(WORDS));
    let mut trainer = Trainer::local(network, Arc::clone(&parameters), optimizer(json)).unwrap();
    train(&mut trainer, 0, SAMPLES);
    parameters
}

#[test]
fn one_trainer_through_a_server_gives_the_bits_of_training_alone() {
    for (json, settings) in cases() {
        let local = train_locally(json, settings);
        let servers = Servers::start(1, 1);
        let remote = parameters(Some(WORDS), settings);
        let mut trainer = Trainer::remote(
            network(Some(WORDS)),
            Arc::clone(&remote),
            optimizer(json),
            servers.config(0),
        )
        .unwrap();
        train(&mut trainer, 0, SAMPLES);
        for view in [View::Present, View::Averaged] {
            assert_eq!(values(&local, view), values(&remote, view), "{json} {settings:?} {view:?}");
        }
        trainer.goodbye().unwrap();
    }
}

/// As [`train`], with every batch announced while the one before is computed.
fn train_announced(trainer: &mut Trainer) {
    for pass in 0..PASSES {
        trainer.start_pass().unwrap();
        let given = |step| batch(pass * STEPS + step, 0, SAMPLES);
        let mut next: Fed = given(0).into();
        for step in 0..STEPS {
            let this = next;
            // The last of a pass is followed by nothing, and that of a call by one not announced.
            next = match step + 1 < STEPS {
                true => trainer.announce(given(step + 1)).unwrap().into(),
                false => given(0).into(),
            };
            trainer.forward_backward(this).unwrap();
            trainer.update().unwrap();
        }
        trainer.finish_pass().unwrap();
    }
}

#[test]
fn announcing_batches_changes_no_bit() {
    for (json, settings) in cases() {
        let local = train_locally(json, settings);
        let servers = Servers::start(2, 1);
        let remote = parameters(Some(WORDS), settings);
        let (network, optimizer) = (network(Some(WORDS)), optimizer(json));
        let mut trainer =
            Trainer::remote(network, Arc::clone(&remote), optimizer, servers.config(0)).unwrap();
        train_announced(&mut trainer);
        assert_eq!(values(&local, View::Present), values(&remote, View::Present), "{json}");
        trainer.goodbye().unwrap();
    }
    let alone = parameters(Some(WORDS), Settings::default());
    let mut trainer =
        Trainer::local(network(Some(WORDS)), Arc::clone(&alone), optimizer(PLAIN)).unwrap();
    train_announced(&mut trainer);
    let expected = train_locally(PLAIN, Settings::default());
    assert_eq!(values(&expected, View::Present), values(&alone, View::Present));
}

#[test]
fn rows_that_were_set_meanwhile_are_those_that_an_announced_batch_sees() {
    let servers = Servers::start(1, 1);
    let remote = parameters(Some(WORDS), Settings::default());
    let (network, optimizer) = (network(Some(WORDS)), optimizer(PLAIN));
    let mut trainer =
        Trainer::remote(network, Arc::clone(&remote), optimizer, servers.config(0)).unwrap();
    let keys: Vec<u64> = (0..WORDS as u64).collect();
    let mut costs = [0.0; 2];
    for (cost, is_set) in costs.iter_mut().zip([false, true]) {
        remote.store_rows(TABLE, &keys, &vec![0.25; WORDS * 4]).unwrap();
        let next = trainer.announce(batch(1, 0, SAMPLES)).unwrap();
        trainer.forward_backward(batch(0, 0, SAMPLES)).unwrap();
        trainer.update().unwrap();
        if is_set {
            remote.store_rows(TABLE, &keys, &vec![50.0; WORDS * 4]).unwrap();
        }
        *cost = trainer.forward_backward(next).unwrap().cost;
    }
    assert!((costs[0] - costs[1]).abs() > 1e-3, "{costs:?}");
    trainer.goodbye().unwrap();
}

#[test]
fn what_is_wrong_with_an_announced_batch_is_told_when_it_is_run() {
    let parameters = parameters(Some(WORDS), Settings::default());
    let network = network(Some(WORDS));
    let mut trainer = Trainer::local(network, parameters, optimizer(PLAIN)).unwrap();
    let mut wrong = batch(1, 0, SAMPLES);
    wrong.inputs.pop();
    let next = trainer.announce(wrong).unwrap();
    trainer.forward_backward(batch(0, 0, SAMPLES)).unwrap();
    trainer.update().unwrap();
    let error = trainer.forward_backward(next).unwrap_err();
    assert!(error.message().contains("number of data layers"), "{error}");
}

#[test]
fn averages_differ_from_values_only_where_the_optimizer_averages() {
    for (json, settings) in cases() {
        let local = train_locally(json, settings);
        let dense = |view| local.fetch("w2", view).unwrap();
        assert_eq!(dense(View::Present) == dense(View::Averaged), !json.contains("average"));
    }
}

#[test]
fn two_trainers_on_half_batches_are_one_on_whole_ones() {
    for (json, settings) in cases() {
        let local = train_locally(json, settings);
        let servers = Servers::start(2, 2);
        let train_half = |rank: usize| {
            let half = SAMPLES / 2;
            let remote = parameters(Some(WORDS), settings);
            let mut trainer = Trainer::remote(
                network(Some(WORDS)),
                Arc::clone(&remote),
                optimizer(json),
                servers.config(rank as u32),
            )
            .unwrap();
            train(&mut trainer, rank * half, (rank + 1) * half);
            let found = values(&remote, View::Present);
            trainer.goodbye().unwrap();
            found
        };
        let found = std::thread::scope(|scope| {
            let other = scope.spawn(|| train_half(1));
            [train_half(0), other.join().unwrap()]
        });
        assert_eq!(found[0], found[1], "{json}: trainers see different values");
        for (found, expected) in found[0].iter().zip(&values(&local, View::Present)) {
            for (found, expected) in found.iter().zip(expected) {
                assert!((found - expected).abs() < 1e-5, "{json}: {found} for {expected}");
            }
        }
    }
}

#[test]
fn trainer_0_brings_what_was_set_and_servers_make_the_rest() {
    let servers = Servers::start(1, 2);
    let set_some = |parameters: &Parameters| {
        parameters.store("w0", &[0.25; 20]).unwrap();
        parameters.store_rows(TABLE, &[3, 49], &[0.5; 8]).unwrap();
    };
    let join = |rank: u32| {
        let parameters = parameters(Some(WORDS), Settings::default());
        if rank == 0 {
            set_some(&parameters);
        }
        let (network, config) = (network(Some(WORDS)), servers.config(rank));
        Trainer::remote(network, parameters, optimizer(PLAIN), config).unwrap()
    };
    let expected = parameters(Some(WORDS), Settings::default());
    set_some(&expected);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| join(1));
        for trainer in [join(0), other.join().unwrap()] {
            let found = values(trainer.parameters(), View::Present);
            assert_eq!(found, values(&expected, View::Present));
        }
    });
}

#[test]
fn values_that_were_trained_alone_are_brought_to_the_servers() {
    let local = train_locally(PLAIN, DECAY);
    let expected = values(&local, View::Present);
    let servers = Servers::start(1, 1);
    let (network, config) = (network(Some(WORDS)), servers.config(0));
    let mut trainer =
        Trainer::remote(network, Arc::clone(&local), optimizer(PLAIN), config).unwrap();
    assert_eq!(values(&local, View::Present), expected);
    trainer.goodbye().unwrap();
    let error = local.fetch(TABLE, View::Present).unwrap_err();
    assert!(error.message().contains("save the model before"), "{error}");
    assert_eq!(local.fetch("w0", View::Present).unwrap(), expected[1]);
}

#[test]
fn dense_values_are_trained_here_after_a_trainer_on_servers_was_dropped() {
    let servers = Servers::start(1, 1);
    let mut descriptions = net::descriptions(Some(WORDS), Settings::default());
    descriptions[0].is_static = true;
    let parameters = Arc::new(Parameters::new(descriptions, net::SEED).unwrap());
    let (network, config) = (network(Some(WORDS)), servers.config(0));
    let shared = || (Arc::clone(&network), Arc::clone(&parameters));
    let (some, values_here) = shared();
    drop(Trainer::remote(some, values_here, optimizer(PLAIN), config).unwrap());
    let (some, values_here) = shared();
    let mut trainer = Trainer::local(some, values_here, optimizer(PLAIN)).unwrap();
    drop(servers);
    // Neither of these waits for the servers, which are gone.
    train(&mut trainer, 0, SAMPLES);
    parameters.store("w2", &[0.5; 5]).unwrap();
    assert_eq!(parameters.fetch("w2", View::Averaged).unwrap(), [0.5; 5]);
}

#[test]
fn rows_on_other_servers_are_not_left_behind_silently() {
    let parameters = parameters(Some(WORDS), Settings::default());
    let join = |servers: &Servers| {
        let (network, parameters) = (network(Some(WORDS)), Arc::clone(&parameters));
        Trainer::remote(network, parameters, optimizer(PLAIN), servers.config(0))
    };
    let (first, second) = (Servers::start(1, 1), Servers::start(1, 1));
    let mut trainer = join(&first).unwrap();
    train(&mut trainer, 0, SAMPLES);
    drop(trainer);
    let error = join(&second).err().unwrap();
    assert_eq!(error.kind(), contract::Kind::Conflict);
    assert!(error.to_string().contains(TABLE), "{error}");
    // They can still be read where they are.
    values(&parameters, View::Present);
}

#[test]
fn static_parameters_stay_as_they_are_and_never_go_to_the_servers() {
    let servers = Servers::start(1, 1);
    let static_parameters = || {
        let mut descriptions = net::descriptions(Some(WORDS), Settings::default());
        for name in [TABLE, "w1"] {
            let found = descriptions.iter_mut().find(|one| one.name == name).unwrap();
            found.is_static = true;
        }
        Arc::new(Parameters::new(descriptions, net::SEED).unwrap())
    };
    let (local, remote) = (static_parameters(), static_parameters());
    let first = values(&local, View::Present);
    let network = network(Some(WORDS));
    let mut alone =
        Trainer::local(Arc::clone(&network), Arc::clone(&local), optimizer(PLAIN)).unwrap();
    let config = servers.config(0);
    let mut together =
        Trainer::remote(network, Arc::clone(&remote), optimizer(PLAIN), config).unwrap();
    train(&mut alone, 0, SAMPLES);
    train(&mut together, 0, SAMPLES);
    together.goodbye().unwrap();
    let (found, expected) = (values(&remote, View::Present), values(&local, View::Present));
    assert_eq!(found, expected);
    assert_eq!((&found[0], &found[2]), (&first[0], &first[2]));
    assert_ne!(found[1], first[1]);
}
