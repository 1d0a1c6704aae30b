//! Models go to files and come back, from this process and from servers.

use crate::net::{SEED, TABLE, WORDS, batch, network, optimizer, parameters};
use crate::servers::Servers;
use contract::Kind;
use std::path::Path;
use std::sync::Arc;
use table::optimizer::Settings;
use trainer::model_file::{
    Missing, from_tar, init_from_safetensors, init_from_tar, load_pass, pass_directory, save_pass,
    to_safetensors, to_tar,
};
use trainer::{Description, Parameters, Trainer, View};

const ADAGRAD: &str = r#"{"rule": {"name": "adagrad"}, "learning_rate": 0.1}"#;

/// Everything that is in a model: dense values, and the rows that exist or all of them.
fn contents(parameters: &Parameters) -> Vec<Vec<(u64, Vec<u32>)>> {
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    let content = |description: &Description| {
        if description.elements().is_some() {
            return vec![(0, bits(&parameters.fetch(&description.name, View::Present).unwrap()))];
        }
        let mut rows = Vec::new();
        let mut page = |keys: &[u64], values: &[f32]| {
            rows.extend(keys.iter().copied().zip(values.chunks(4).map(bits)));
            Ok(())
        };
        parameters.scan(&description.name, View::Present, &mut page).unwrap();
        rows.sort();
        rows
    };
    parameters.descriptions().iter().map(content).collect()
}

/// Saves models that were trained here and on servers, bounded and not, and hands `check` the model
/// and an untouched one of the same descriptions, again here or on servers.
fn round_trips(check: impl Fn(&Parameters, &Parameters)) {
    for words in [Some(WORDS), None] {
        let settings = Settings { l2: 0.01, ..Settings::default() };
        let new = || parameters(words, settings);
        let train = |trainer: &mut Trainer| {
            for step in 0..4 {
                trainer.forward_backward(batch(step, 0, 8)).unwrap();
                trainer.update().unwrap();
            }
        };
        let local = new();
        let mut trainer =
            Trainer::local(network(words), Arc::clone(&local), optimizer(ADAGRAD)).unwrap();
        train(&mut trainer);
        check(&local, &new());

        let (servers, others) = (Servers::start(2, 1), Servers::start(1, 1));
        let join = |servers: &Servers| {
            Trainer::remote(network(words), new(), optimizer(ADAGRAD), servers.config(0)).unwrap()
        };
        let (mut trainer, other) = (join(&servers), join(&others));
        train(&mut trainer);
        assert_eq!(contents(trainer.parameters()), contents(&local));
        check(trainer.parameters(), other.parameters());
    }
}

#[test]
fn a_tar_brings_a_model_back() {
    round_trips(|model, new| {
        let mut tar = Vec::new();
        to_tar(model, &mut tar, View::Present).unwrap();
        init_from_tar(new, &tar[..]).unwrap();
        assert_eq!(contents(new), contents(model));
        let alone = from_tar(&tar[..], SEED).unwrap();
        assert_eq!(alone.descriptions(), model.descriptions());
        assert_eq!(contents(&alone), contents(model));
    });
}

#[test]
fn safetensors_bring_a_model_back() {
    round_trips(|model, new| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        to_safetensors(model, &path, View::Present).unwrap();
        init_from_safetensors(new, &path).unwrap();
        assert_eq!(contents(new), contents(model));
    });
}

#[test]
fn a_pass_directory_brings_a_model_back() {
    round_trips(|model, new| {
        let folder = tempfile::tempdir().unwrap();
        for _ in 0..2 {
            let path = save_pass(model, folder.path(), 3, View::Present).unwrap();
            assert_eq!(path, folder.path().join("pass-00003"));
        }
        load_pass(new, &pass_directory(folder.path(), 3), Missing::Fail).unwrap();
        assert_eq!(contents(new), contents(model));
    });
}

#[test]
fn averages_are_saved_where_they_are_asked_for() {
    let averaged = optimizer(
        r#"{"rule": {"name": "momentum"}, "learning_rate": 0.1, "average": {"window": 0.5}}"#,
    );
    let model = parameters(Some(WORDS), Settings::default());
    let network = network(Some(WORDS));
    let mut trainer = Trainer::local(network, Arc::clone(&model), averaged).unwrap();
    for step in 0..4 {
        trainer.forward_backward(batch(step, 0, 8)).unwrap();
        trainer.update().unwrap();
    }
    let mut tar = Vec::new();
    to_tar(&model, &mut tar, View::Averaged).unwrap();
    let saved = from_tar(&tar[..], SEED).unwrap();
    for name in [TABLE, "w0", "b2"] {
        let get = |model: &Parameters, view| model.fetch(name, view).unwrap();
        assert_eq!(get(&saved, View::Present), get(&model, View::Averaged));
        assert_ne!(get(&saved, View::Present), get(&model, View::Present));
    }
}

#[test]
fn a_tar_has_the_originals_members() {
    let parameters =
        Parameters::new(vec![Description::dense("___fc_layer_0__.w0", [1, 2])], 1).unwrap();
    parameters.store("___fc_layer_0__.w0", &[1.0, -2.0]).unwrap();
    let mut bytes = Vec::new();
    to_tar(&parameters, &mut bytes, View::Present).unwrap();
    let mut archive = tar::Archive::new(&bytes[..]);
    let members: Vec<(String, Vec<u8>)> = archive
        .entries()
        .unwrap()
        .map(|entry| {
            let mut entry = entry.unwrap();
            let mut bytes = Vec::new();
            std::io::Read::read_to_end(&mut entry, &mut bytes).unwrap();
            (entry.path().unwrap().display().to_string(), bytes)
        })
        .collect();
    let data = [0, 0, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 128, 63, 0, 0, 0, 192];
    assert_eq!(members[0], ("___fc_layer_0__.w0".to_owned(), data.to_vec()));
    assert_eq!(members[1].0, "___fc_layer_0__.w0.protobuf");
    // Ours, behind all that the original looks for.
    assert_eq!(members[2].0, "checksums.json");
    assert_eq!(members.len(), 3);
}

#[test]
fn only_what_model_and_tar_share_is_set_and_sizes_must_match() {
    let model = |descriptions: Vec<Description>| Parameters::new(descriptions, 1).unwrap();
    let saved = model(vec![Description::dense("a", [2, 2]), Description::dense("b", [1, 3])]);
    saved.store("a", &[1.0; 4]).unwrap();
    let mut tar = Vec::new();
    to_tar(&saved, &mut tar, View::Present).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model");
    to_safetensors(&saved, &path, View::Present).unwrap();

    let other = model(vec![Description::dense("c", [1, 1]), Description::sparse("a", [2, 2])]);
    init_from_tar(&other, &tar[..]).unwrap();
    assert_eq!(other.fetch("a", View::Present).unwrap(), [1.0; 4]);
    let small = model(vec![Description::dense("a", [1, 3])]);
    let loads = [init_from_tar(&small, &tar[..]), init_from_safetensors(&small, &path)];
    for error in loads.map(Result::unwrap_err) {
        let text = error.to_string();
        assert!(text.contains("file: 4") && text.contains("model: 3 (1 x 3)"), "{text}");
    }
}

#[test]
fn long_names_and_slashes_are_names_too() {
    let long = "layer/".repeat(60);
    let names = ["a/b", long.trim_end_matches('/')];
    let descriptions = names.map(|name| Description::dense(name, [1, 1])).to_vec();
    let model = Parameters::new(descriptions, 1).unwrap();
    names.iter().for_each(|name| model.store(name, &[4.0]).unwrap());
    let mut tar = Vec::new();
    to_tar(&model, &mut tar, View::Present).unwrap();
    let found = from_tar(&tar[..], 1).unwrap();
    assert_eq!(contents(&found), contents(&model));
    let folder = tempfile::tempdir().unwrap();
    let error = save_pass(&model, folder.path(), 0, View::Present).unwrap_err();
    assert!(error.message().contains("tar or safetensors"), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn names_that_a_format_cannot_tell_apart_are_refused() {
    let names = ["a", "a.protobuf"].map(|name| Description::dense(name, [1, 1]));
    let model = Parameters::new(names.to_vec(), 1).unwrap();
    assert!(to_tar(&model, Vec::new(), View::Present).is_err());
}

#[test]
fn the_library_of_the_format_reads_our_safetensors() {
    let model = parameters(None, Settings::default());
    model.store_rows(TABLE, &[9, u64::MAX - 1], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    to_safetensors(&model, &path, View::Present).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let tensor = tensors.tensor(TABLE).unwrap();
    assert_eq!((tensor.shape(), tensor.dtype()), (&[2, 4][..], safetensors::Dtype::F32));
    assert_eq!(tensor.data()[..4], 1_f32.to_le_bytes());
    let keys = tensors.tensor("table.keys").unwrap();
    assert_eq!((keys.shape(), keys.dtype()), (&[2][..], safetensors::Dtype::U64));
    assert_eq!(keys.data()[..8], 9_u64.to_le_bytes());
    assert_eq!(tensors.tensor("w0").unwrap().shape(), [4, 5]);
}

#[test]
fn a_missing_parameter_is_treated_as_asked() {
    let folder = tempfile::tempdir().unwrap();
    let model = |names: &[&str]| {
        let new = |name: &&str| Description {
            initializer: table::initializer::Initializer::Constant { value: 2.0 },
            ..Description::dense(*name, [1, 2])
        };
        Parameters::new(names.iter().map(new).collect(), 1).unwrap()
    };
    let path = save_pass(&model(&["a"]), folder.path(), 0, View::Present).unwrap();
    let check = |missing: Missing, expect: Option<[f32; 2]>| {
        let both = model(&["a", "b"]);
        let loaded = load_pass(&both, &path, missing).map(|absent| {
            assert_eq!(absent, ["b"]);
            both.fetch("b", View::Present)
        });
        match expect {
            Some(expect) => assert_eq!(loaded.unwrap().unwrap(), expect),
            None => assert_eq!(loaded.unwrap_err().kind(), Kind::NotFound),
        }
    };
    check(Missing::Fail, None);
    check(Missing::Rand, Some([2.0; 2]));
    check(Missing::Zero, Some([0.0; 2]));
    // Another model's.
    let other = load_pass(&model(&["c"]), &path, Missing::Rand).unwrap_err();
    assert!(other.message().contains("of another model"), "{other}");
}

#[test]
fn a_directory_that_is_not_done_is_loaded_only_where_parameters_may_be_missing() {
    let folder = tempfile::tempdir().unwrap();
    let model = parameters(Some(WORDS), Settings::default());
    let path = save_pass(&model, folder.path(), 0, View::Present).unwrap();
    std::fs::remove_file(path.join("done")).unwrap();
    let new = parameters(Some(WORDS), Settings::default());
    let load = |path: &Path, missing| load_pass(&new, path, missing);
    assert!(load(&path, Missing::Fail).unwrap_err().message().contains("`done`"));
    assert_eq!(load(&path, Missing::Rand).unwrap(), Vec::<String>::new());
    let nowhere = load(&folder.path().join("nowhere"), Missing::Rand).unwrap_err();
    assert_eq!(nowhere.kind(), Kind::NotFound);
}
