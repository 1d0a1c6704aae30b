//! Files that were cut off, changed or made up: an error each time, never a panic, never half a
//! model that passes for a whole one.

use contract::Kind;
use proptest::prelude::*;
use std::path::Path;
use trainer::model_file::{
    Missing, from_tar, init_from_safetensors, init_from_tar, load_pass, save_pass, to_safetensors,
    to_tar,
};
use trainer::{Description, Parameters, View};

fn model() -> Parameters {
    let descriptions = vec![
        Description::dense("w", [2, 3]),
        Description::sparse("rows", [3, 2]),
        Description::sparse("keys", [0, 2]),
    ];
    let model = Parameters::new(descriptions, 1).unwrap();
    model.set("w", &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
    model.set_rows("keys", &[5, 1 << 40], &[1.0, 2.0, 3.0, 4.0]).unwrap();
    model
}

fn tar_of(model: &Parameters) -> Vec<u8> {
    let mut bytes = Vec::new();
    to_tar(model, &mut bytes, View::Present).unwrap();
    bytes
}

fn safetensors_of(model: &Parameters, path: &Path) -> Vec<u8> {
    to_safetensors(model, path, View::Present).unwrap();
    std::fs::read(path).unwrap()
}

#[test]
fn a_tar_that_was_cut_off_anywhere_is_an_error() {
    let bytes = tar_of(&model());
    from_tar(&bytes[..], 1).unwrap();
    for length in 0..bytes.len() {
        assert!(from_tar(&bytes[..length], 1).is_err(), "cut at {length}");
        assert!(init_from_tar(&model(), &bytes[..length]).is_err(), "cut at {length}");
    }
}

/// The same members as another program writes them, without an end mark, and where each
/// parameter's description ends.
fn foreign(bytes: &[u8]) -> (Vec<u8>, Vec<usize>) {
    let mut builder = tar::Builder::new(Vec::new());
    let mut ends = Vec::new();
    for entry in tar::Archive::new(bytes).entries().unwrap() {
        let mut entry = entry.unwrap();
        let mut header = tar::Header::new_gnu();
        header.set_size(entry.size());
        let name = entry.path().unwrap().into_owned();
        builder.append_data(&mut header, &name, &mut entry).unwrap();
        if name.extension().is_some_and(|extension| extension == "protobuf") {
            ends.push(builder.get_ref().len());
        }
    }
    let mut written = builder.into_inner().unwrap();
    written.truncate(*ends.last().unwrap());
    (written, ends)
}

#[test]
fn a_tar_of_the_original_has_no_end_mark_and_is_read_if_it_ends_behind_a_description() {
    let (bytes, ends) = foreign(&tar_of(&model()));
    let loaded = from_tar(&bytes[..], 1).unwrap();
    assert_eq!(loaded.get("w", View::Present).unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(loaded.descriptions().len(), 3);
    for length in 0..bytes.len() {
        let is_whole = ends.contains(&length);
        assert_eq!(from_tar(&bytes[..length], 1).is_ok(), is_whole, "cut at {length}");
        assert_eq!(init_from_tar(&model(), &bytes[..length]).is_ok(), is_whole, "cut at {length}");
    }
    // Half of the end mark, and all of it, are fine too; something else behind the members is not.
    for zeros in [512, 1024, 10240] {
        let ended = [&bytes[..], &vec![0; zeros][..]].concat();
        from_tar(&ended[..], 1).unwrap();
    }
    for rest in [1, 511, 513] {
        let ended = [&bytes[..], &vec![0; rest][..]].concat();
        assert_eq!(from_tar(&ended[..], 1).err().unwrap().kind(), Kind::Damaged, "{rest} behind");
    }
}

#[test]
fn safetensors_that_were_cut_off_anywhere_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model");
    let bytes = safetensors_of(&model(), &path);
    init_from_safetensors(&model(), &path).unwrap();
    for length in 0..bytes.len() {
        std::fs::write(&path, &bytes[..length]).unwrap();
        assert!(init_from_safetensors(&model(), &path).is_err(), "cut at {length}");
    }
}

#[test]
fn a_parameter_file_that_was_cut_off_anywhere_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let pass = save_pass(&model(), folder.path(), 0, View::Present).unwrap();
    for name in ["w", "rows", "keys", "keys.keys"] {
        let bytes = std::fs::read(pass.join(name)).unwrap();
        for length in 0..bytes.len() {
            std::fs::write(pass.join(name), &bytes[..length]).unwrap();
            let error = load_pass(&model(), &pass, Missing::Zero).unwrap_err();
            assert_eq!(error.kind(), Kind::Damaged, "{name} cut at {length}: {error}");
        }
        std::fs::write(pass.join(name), &bytes).unwrap();
    }
    load_pass(&model(), &pass, Missing::Fail).unwrap();
}

#[test]
fn claims_that_a_tar_cannot_keep_are_refused() {
    let tar = |members: &[(&str, &[u8])]| {
        let mut builder = tar::Builder::new(Vec::new());
        for (name, bytes) in members {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            builder.append_data(&mut header, name, *bytes).unwrap();
        }
        builder.into_inner().unwrap()
    };
    let check = |bytes: &[u8], kind: Kind, text: &str| {
        let error = from_tar(bytes, 1).err().unwrap();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(text), "{error}");
    };
    // `name: "w" size: n dims: n dims: 1`
    let config = |size: u8| [0x0a, 1, b'w', 0x10, size, 0x48, size, 0x48, 1];
    let mut huge = [0; 16];
    huge[4] = 4;
    huge[8..].fill(0xff);
    check(&tar(&[("w", &huge), ("w.protobuf", &config(1))]), Kind::Damaged, "another size");
    check(&tar(&[("w.protobuf", &config(1))]), Kind::Damaged, "does not have");
    check(&tar(&[("v.protobuf", &config(1))]), Kind::Damaged, "another parameter");
    check(&tar(&[("w.protobuf", &vec![0; (1 << 20) + 1])]), Kind::LimitExceeded, "too long");
    check(&tar(&[("w.protobuf", &[0xff])]), Kind::Damaged, "cannot be read");
    let long = "n".repeat(600);
    check(&tar(&[(&long, &[])]), Kind::LimitExceeded, "name");
    let twice = tar(&[("w.protobuf", &config(1)), ("w.protobuf", &config(1))]);
    check(&twice, Kind::Invalid, "same name");
    let rows = tar(&[("keys", &[0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])]);
    let error = init_from_tar(&model(), &rows[..]).unwrap_err();
    assert!(error.message().contains("keys of a sparse parameter"), "{error}");
}

#[test]
fn claims_that_safetensors_cannot_keep_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model");
    let check = |header: &str, text: &str| {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(&[0; 24]);
        std::fs::write(&path, bytes).unwrap();
        let loaded = init_from_safetensors(&model(), &path);
        match text {
            "" => loaded.unwrap(),
            text => {
                let error = loaded.unwrap_err().to_string();
                assert!(error.contains(text), "{error}");
            }
        }
    };
    let w = |dtype: &str, shape: &str, offsets: &str| {
        format!(r#"{{"w":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}}}"#)
    };
    check(&w("F32", "[2,3]", "[0,24]"), "");
    check(r#"{"__metadata__":{"format":"pt"}}"#, "");
    check(&w("F16", "[2,3]", "[0,12]"), "dtype: F16");
    check(&w("F32", "[2,3]", "[0,25]"), "not in the file");
    check(&w("F32", "[2,3]", "[24,0]"), "not in the file");
    check(&w("F32", "[2,3]", "[0,20]"), "than its shape");
    check(&w("F32", "[4294967296,4294967296,2]", "[0,0]"), "than its shape");
    check(&w("F32", "[5]", "[0,20]"), "another size in the file");
    check(r#"{"keys":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}}"#, "no keys");
    check("[]", "not JSON");
    std::fs::write(&path, u64::MAX.to_le_bytes()).unwrap();
    assert_eq!(init_from_safetensors(&model(), &path).unwrap_err().kind(), Kind::Damaged);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_changed_byte_never_panics(at: prop::sample::Index, value: u8) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model");
        let mut tar = tar_of(&model());
        let place = at.index(tar.len());
        tar[place] = value;
        let _ = from_tar(&tar[..], 1);
        let _ = init_from_tar(&model(), &tar[..]);
        let mut safetensors = safetensors_of(&model(), &path);
        let place = at.index(safetensors.len());
        safetensors[place] = value;
        std::fs::write(&path, &safetensors).unwrap();
        let _ = init_from_safetensors(&model(), &path);
    }

    #[test]
    fn any_values_and_keys_come_back_from_every_format(
        values in prop::collection::vec(any::<u32>().prop_map(f32::from_bits), 6),
        keys in prop::collection::hash_set(any::<u64>(), 0..20),
    ) {
        let (saved, keys) = (model(), Vec::from_iter(keys));
        let rows: Vec<f32> = (0..keys.len() * 2).map(|number| number as f32).collect();
        saved.set("w", &values).unwrap();
        saved.set("rows", &values).unwrap();
        saved.set_rows("keys", &keys, &rows).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model");
        to_safetensors(&saved, &path, View::Present).unwrap();
        let pass = save_pass(&saved, folder.path(), 0, View::Present).unwrap();
        let loaded = [from_tar(&tar_of(&saved)[..], 1).unwrap(), model(), model()];
        init_from_safetensors(&loaded[1], &path).unwrap();
        load_pass(&loaded[2], &pass, Missing::Fail).unwrap();
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        for loaded in loaded {
            for name in ["w", "rows"] {
                prop_assert_eq!(bits(&loaded.get(name, View::Present).unwrap()), bits(&values));
            }
            let mut found = vec![0.0; rows.len()];
            loaded.get_rows("keys", &keys, &mut found, View::Present).unwrap();
            prop_assert_eq!(&found, &rows);
        }
    }
}
