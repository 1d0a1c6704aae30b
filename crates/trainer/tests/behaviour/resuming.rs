//! A training that is saved, and gone on with elsewhere, comes to the values of one that never
//! stopped; what cannot be gone on with is refused.

use crate::net::{WORDS, batch, network, optimizer, parameters};
use contract::Kind;
use std::path::Path;
use std::sync::Arc;
use table::optimizer::Settings;
use trainer::model_file::{Missing, load_pass};
use trainer::{Parameters, Trainer, View};

const SAMPLES: usize = 8;
const STEPS: usize = 5;
const DECAY: Settings =
    Settings { learning_rate: 1.0, momentum: None, l1: 0.0, l2: 0.1, clip: None };
const ADAM: &str = r#"{"rule": {"name": "adam"}, "learning_rate": 0.01}"#;
const OPTIMIZERS: [&str; 4] = [
    ADAM,
    r#"{"rule": {"name": "momentum"}, "learning_rate": 0.05}"#,
    r#"{"rule": {"name": "adagrad"}, "learning_rate": 0.1,
        "schedule": {"name": "pass_manual", "segments": "0:1,1:0.5"}}"#,
    r#"{"rule": {"name": "momentum", "momentum": 0.9}, "learning_rate": 0.01,
        "schedule": {"name": "poly", "a": 0.1, "b": 0.5}, "average": {"window": 0.5}}"#,
];

fn start(json: &str, words: Option<usize>) -> (Trainer, Arc<Parameters>) {
    let parameters = parameters(words, DECAY);
    let trainer = Trainer::local(network(words), Arc::clone(&parameters), optimizer(json));
    (trainer.unwrap(), parameters)
}

fn train_pass(trainer: &mut Trainer, pass: usize) {
    trainer.start_pass().unwrap();
    for step in 0..STEPS {
        trainer.forward_backward(batch(pass * STEPS + step, 0, SAMPLES)).unwrap();
        trainer.update().unwrap();
    }
    trainer.finish_pass().unwrap();
}

fn values(parameters: &Parameters, view: View) -> Vec<Vec<f32>> {
    let mut found = Vec::new();
    for description in parameters.descriptions() {
        if description.elements().is_some() {
            found.push(parameters.fetch(&description.name, view).unwrap());
        } else {
            parameters
                .scan(&description.name, view, &mut |keys, rows| {
                    found.push(keys.iter().map(|key| *key as f32).collect());
                    found.push(rows.to_vec());
                    Ok(())
                })
                .unwrap();
        }
    }
    found
}

#[test]
fn a_training_goes_on_where_it_was_saved() {
    for (json, words) in
        OPTIMIZERS.iter().flat_map(|json| [Some(WORDS), None].map(|words| (json, words)))
    {
        let folder = tempfile::tempdir().unwrap();
        let saved = folder.path().join("pass-00000");
        let (mut whole, expected) = start(json, words);
        train_pass(&mut whole, 0);
        whole.save(&saved, vec![("note.txt".to_owned(), b"x".to_vec())]).unwrap();
        train_pass(&mut whole, 1);

        let (mut resumed, found) = start(json, words);
        load_pass(&found, &saved, Missing::Fail).unwrap();
        assert!(resumed.load_state(&saved).unwrap());
        train_pass(&mut resumed, 1);
        for view in [View::Present, View::Averaged] {
            assert_eq!(values(&found, view), values(&expected, view), "{json} {words:?} {view:?}");
        }
        assert_eq!(std::fs::read(saved.join("note.txt")).unwrap(), b"x");
    }
}

fn save(json: &str, directory: &Path) {
    let (mut trainer, _) = start(json, Some(WORDS));
    train_pass(&mut trainer, 0);
    trainer.save(directory, Vec::new()).unwrap();
}

#[test]
fn the_state_of_another_optimizer_or_network_is_refused_and_nothing_is_changed() {
    let folder = tempfile::tempdir().unwrap();
    save(ADAM, folder.path());
    let (mut other, parameters) = start(OPTIMIZERS[1], Some(WORDS));
    let before = values(&parameters, View::Present);
    assert_eq!(other.load_state(folder.path()).unwrap_err().kind(), Kind::Conflict);
    assert_eq!(values(&parameters, View::Present), before);
    let path = folder.path().join("trainer_state");
    let mut renamed = std::fs::read(&path).unwrap();
    let at = renamed.windows(4).position(|four| four == br#""w0""#).unwrap();
    renamed[at + 2] = b'9';
    std::fs::write(&path, renamed).unwrap();
    let (mut other, _) = start(ADAM, Some(WORDS));
    assert_eq!(other.load_state(folder.path()).unwrap_err().kind(), Kind::Conflict);
}

#[test]
fn a_directory_without_state_is_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let (mut trainer, _) = start(ADAM, Some(WORDS));
    assert!(!trainer.load_state(folder.path()).unwrap());
}

#[test]
fn damaged_state_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    save(ADAM, folder.path());
    let path = folder.path().join("trainer_state");
    let right = std::fs::read(&path).unwrap();
    let mut longer = right.clone();
    longer.push(0);
    let mut huge = right.clone();
    huge[..8].fill(0xff);
    for wrong in [&right[..right.len() - 1], &right[..20], &right[..4], &[], &longer, &huge] {
        std::fs::write(&path, wrong).unwrap();
        let (mut trainer, _) = start(ADAM, Some(WORDS));
        let error = trainer.load_state(folder.path()).unwrap_err();
        assert_eq!(error.kind(), Kind::Damaged, "{error}");
    }
}

#[test]
fn files_beside_the_parameters_stay_in_their_directory() {
    let folder = tempfile::tempdir().unwrap();
    let (trainer, _) = start(ADAM, Some(WORDS));
    for name in ["../x", "a/b", "trainer_state", "w0", ""] {
        let files = vec![(name.to_owned(), Vec::new())];
        let error = trainer.save(&folder.path().join("pass"), files).unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid, "{name}");
    }
}
