//! Reading and writing values, in this process and on servers, comes to the same.

use crate::net::{self, TABLE, WORDS, network, optimizer, parameters};
use crate::servers::Servers;
use contract::Kind;
use std::sync::Arc;
use table::optimizer::Settings;
use trainer::{Parameters, Trainer, View};

const PLAIN: &str = r#"{"rule": {"name": "momentum"}, "learning_rate": 0.01}"#;

/// Runs `check` with values here, with an optimizer bound to them, and with values on servers.
fn everywhere(words: Option<usize>, check: impl Fn(&Parameters)) {
    check(&parameters(words, Settings::default()));
    let local = parameters(words, Settings::default());
    let _trainer = Trainer::local(network(words), Arc::clone(&local), optimizer(PLAIN)).unwrap();
    check(&local);
    let servers = Servers::start(2, 1);
    let remote = parameters(words, Settings::default());
    let config = servers.config(0);
    let _trainer =
        Trainer::remote(network(words), Arc::clone(&remote), optimizer(PLAIN), config).unwrap();
    check(&remote);
}

fn rows(parameters: &Parameters) -> Vec<(u64, Vec<f32>)> {
    let mut rows = Vec::new();
    let mut page = |keys: &[u64], values: &[f32]| {
        rows.extend(keys.iter().copied().zip(values.chunks(4).map(<[f32]>::to_vec)));
        Ok(())
    };
    parameters.scan(TABLE, View::Present, &mut page).unwrap();
    rows.sort_by_key(|(key, _)| *key);
    rows
}

#[test]
fn first_values_are_the_same_everywhere_and_reading_creates_nothing() {
    let expected = parameters(Some(WORDS), Settings::default());
    everywhere(Some(WORDS), |parameters| {
        for name in [TABLE, "w0", "b1"] {
            let found = parameters.get(name, View::Present).unwrap();
            assert_eq!(found, expected.get(name, View::Present).unwrap(), "{name}");
        }
        assert!(rows(parameters).is_empty());
    });
}

#[test]
fn what_is_set_is_read_back_by_key_by_range_and_as_a_whole() {
    everywhere(Some(WORDS), |parameters| {
        let first = parameters.get(TABLE, View::Present).unwrap();
        parameters.set_rows(TABLE, &[7, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]).unwrap();
        let mut found = vec![0.0; 12];
        parameters.get_rows(TABLE, &[2, 3, 7], &mut found, View::Present).unwrap();
        assert_eq!(found[..4], [5.0, 6.0, 7.0, 8.0]);
        assert_eq!(found[4..8], first[12..16]);
        assert_eq!(found[8..], [1.0, 2.0, 3.0, 4.0]);
        let mut range = [0.0; 3];
        parameters.read_range(TABLE, 27, &mut range, View::Present).unwrap();
        assert_eq!(range, [first[27], 1.0, 2.0]);
        let expected = vec![(2, vec![5.0, 6.0, 7.0, 8.0]), (7, vec![1.0, 2.0, 3.0, 4.0])];
        assert_eq!(rows(parameters), expected);

        let whole: Vec<f32> = (0..WORDS * 4).map(|number| number as f32).collect();
        parameters.set(TABLE, &whole).unwrap();
        assert_eq!(parameters.get(TABLE, View::Averaged).unwrap(), whole);
        parameters.set("w2", &[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        parameters.write_range("w2", 1, &[7.0, 8.0]).unwrap();
        assert_eq!(parameters.get("w2", View::Averaged).unwrap(), [1.0, 7.0, 8.0, 4.0, 5.0]);
        parameters.get_rows("w2", &[3, 1], &mut range[..2], View::Present).unwrap();
        assert_eq!(range[..2], [4.0, 7.0]);
    });
}

#[test]
fn keys_without_a_bound_are_rows_without_a_whole() {
    everywhere(None, |parameters| {
        let keys = [u64::MAX - 1, 0, 1 << 63];
        let values: Vec<f32> = (0..12).map(|number| number as f32).collect();
        parameters.set_rows(TABLE, &keys, &values).unwrap();
        let mut found = vec![0.0; 12];
        parameters.get_rows(TABLE, &keys, &mut found, View::Present).unwrap();
        assert_eq!(found, values);
        assert_eq!(rows(parameters).len(), 3);
        let error = parameters.get(TABLE, View::Present).unwrap_err();
        assert_eq!(error.kind(), Kind::Unsupported);
        assert!(error.message().contains("scan"), "{error}");
    });
}

#[test]
fn mistakes_are_named_before_anything_changes() {
    everywhere(Some(WORDS), |parameters| {
        let check = |result: contract::Result<()>, text: &str| {
            let error = result.unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        };
        check(parameters.set("nothing", &[]), "no such parameter");
        check(parameters.set("w2", &[0.0; 4]), "expected: 5");
        check(parameters.set_rows(TABLE, &[WORDS as u64], &[0.0; 4]), "key: 50");
        check(parameters.set_rows(TABLE, &[1], &[0.0; 5]), "values: 5");
        check(parameters.write_range(TABLE, 2, &[0.0; 4]), "whole rows");
        check(parameters.write_range("w2", u64::MAX, &[0.0; 4]), "range");
        check(parameters.read_range("w2", 3, &mut [0.0; 3], View::Present), "range");
        check(parameters.scan("w2", View::Present, &mut |_, _| Ok(())), "only sparse");
        assert!(rows(parameters).is_empty());
    });
    let descriptions = net::descriptions(None, Settings::default());
    let twice = [descriptions.clone(), descriptions].concat();
    let error = Parameters::new(twice, 1).err().unwrap();
    assert!(error.message().contains("same name"), "{error}");
}

#[test]
fn a_row_that_is_set_while_training_owes_nothing_for_the_time_before() {
    let settings = Settings { l2: 0.5, ..Settings::default() };
    let parameters = parameters(Some(WORDS), settings);
    let network = network(Some(WORDS));
    let mut trainer = Trainer::local(network, Arc::clone(&parameters), optimizer(PLAIN)).unwrap();
    for step in 0..5 {
        trainer.forward_backward(net::batch(step, 0, 4)).unwrap();
        trainer.update().unwrap();
    }
    parameters.set_rows(TABLE, &[40], &[1.0; 4]).unwrap();
    let mut row = [0.0; 4];
    parameters.get_rows(TABLE, &[40], &mut row, View::Present).unwrap();
    assert_eq!(row, [1.0; 4]);
}

#[test]
fn a_row_that_is_set_in_mid_training_owes_no_decay_from_before() {
    let check = |mut trainer: Trainer| {
        for step in 0..5 {
            trainer.forward_backward(net::batch(step, 0, 4)).unwrap();
            trainer.update().unwrap();
        }
        let mut found = vec![0.0; 4];
        trainer.parameters().set_rows(TABLE, &[3], &[1.0; 4]).unwrap();
        trainer.parameters().get_rows(TABLE, &[3], &mut found, View::Present).unwrap();
        assert_eq!(found, [1.0; 4]);
    };
    let decaying = || parameters(Some(WORDS), Settings { l2: 0.5, ..Settings::default() });
    check(Trainer::local(network(Some(WORDS)), decaying(), optimizer(PLAIN)).unwrap());
    let servers = Servers::start(1, 1);
    let config = servers.config(0);
    check(Trainer::remote(network(Some(WORDS)), decaying(), optimizer(PLAIN), config).unwrap());
}
