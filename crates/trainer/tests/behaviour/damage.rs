//! Files that were cut off, changed or made up: an error each time, never a panic, never half a
//! model that passes for a whole one.

use contract::Kind;
use proptest::prelude::*;
use std::io::Read;
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
    model.store("w", &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
    model.store_rows("keys", &[5, 1 << 40], &[1.0, 2.0, 3.0, 4.0]).unwrap();
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

fn tar(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, bytes) in members {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        builder.append_data(&mut header, name, *bytes).unwrap();
    }
    builder.into_inner().unwrap()
}

/// The members of a tar as the original would have written them.
fn without_checksums(tar: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut archive = tar::Archive::new(tar);
    let read = |entry: std::io::Result<tar::Entry<'_, &[u8]>>| {
        let mut entry = entry.unwrap();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        (entry.path().unwrap().display().to_string(), bytes)
    };
    let members: Vec<_> = archive.entries().unwrap().map(read).collect();
    members.into_iter().filter(|(name, _)| name != "checksums.json").collect()
}

/// All values of [`model`], as bits.
fn bits_of(model: &Parameters) -> Vec<u32> {
    let mut keys = [0.0; 4];
    model.fetch_rows("keys", &[5, 1 << 40], &mut keys, View::Present).unwrap();
    let [w, rows] = ["w", "rows"].map(|name| model.fetch(name, View::Present).unwrap());
    [&w[..], &rows, &keys].concat().into_iter().map(f32::to_bits).collect()
}

/// Changes bytes in one of the ways in which files get damaged.
fn mutate(bytes: &mut Vec<u8>, random: &mut impl FnMut(usize) -> usize) {
    let at = random(bytes.len());
    let length = (1 + random(600)).min(bytes.len() - at);
    match random(6) {
        0 => bytes[at] ^= 1 << random(8),
        1 => bytes[at] = random(256) as u8,
        2 => bytes[at..at + length].fill(0),
        3 => drop(bytes.drain(at..at + length)),
        4 => {
            let copy = bytes[at..at + length].to_vec();
            let to = random(bytes.len());
            bytes.splice(to..to, copy);
        }
        _ => {
            let to = random(bytes.len() - length + 1);
            bytes.copy_within(at..at + length, to);
        }
    }
}

#[test]
fn a_tar_with_checksums_never_loads_changed_values() {
    const SEED: u64 = 20_261_116;
    const ROUNDS: usize = 600;
    println!("seed {SEED}");
    let mut state = SEED;
    let mut random = |below: usize| {
        state = table::placement::mix64(state.wrapping_add(0x9e37_79b9_7f4a_7c15));
        (state % below as u64) as usize
    };
    let original = model();
    original.store("rows", &[7.0, 8.0, 9.0, 10.0, 11.0, 12.0]).unwrap();
    let (tar, expected) = (tar_of(&original), bits_of(&original));
    let untouched = bits_of(&model());
    let (mut refused, mut harmless) = (0, 0);
    for round in 0..ROUNDS {
        let mut mutated = tar.clone();
        for _ in 0..1 + random(3) {
            mutate(&mut mutated, &mut random);
        }
        let here = model();
        let outcome = init_from_tar(&here, &mutated[..]);
        let found = bits_of(&here);
        match &outcome {
            Ok(()) => assert_eq!(found, expected, "round {round} loaded changed values"),
            Err(error) => assert_eq!(found, untouched, "round {round} half loaded: {error}"),
        }
        match from_tar(&mutated[..], 1) {
            Ok(alone) => {
                assert_eq!(bits_of(&alone), expected, "round {round} loaded changed values");
                harmless += 1;
            }
            Err(_) => refused += 1,
        }
    }
    // Most of a small tar is padding, which nobody reads.
    println!("{refused} refused, {harmless} loaded unchanged");
    assert!(refused > 0 && harmless > 0, "the mutations try only one thing");
}

#[test]
fn every_changed_byte_of_a_parameter_is_named() {
    let tar = tar_of(&model());
    let values: Vec<usize> = [1.0_f32, 6.0]
        .iter()
        .map(|value| {
            let bytes = value.to_le_bytes();
            tar.windows(4).position(|window| window == bytes).unwrap()
        })
        .collect();
    for at in values {
        let mut mutated = tar.clone();
        mutated[at] ^= 1;
        let error = init_from_tar(&model(), &mutated[..]).unwrap_err();
        assert_eq!(error.kind(), Kind::Damaged);
        assert!(error.to_string().contains("(member: w)"), "{error}");
    }
}

#[test]
fn a_tar_of_the_original_has_no_checksums_and_is_loaded() {
    let members = without_checksums(&tar_of(&model()));
    let members: Vec<(&str, &[u8])> =
        members.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect();
    let loaded = from_tar(&tar(&members)[..], 1).unwrap();
    assert_eq!(bits_of(&loaded), bits_of(&model()));
}

#[test]
fn a_tar_of_ours_that_lost_its_checksums_is_refused() {
    let tar = tar_of(&model());
    let name = b"checksums.json\0";
    let list = tar.windows(name.len()).position(|window| window == name).unwrap();
    let shortened = [&tar[..list], &[0; 1024]].concat();
    let error = init_from_tar(&model(), &shortened[..]).unwrap_err();
    assert_eq!(error.kind(), Kind::Damaged);
    assert!(error.message().contains("checksums are missing"), "{error}");
}

#[test]
fn a_tar_of_another_size_changes_nothing() {
    let descriptions = vec![Description::dense("w", [2, 3]), Description::sparse("rows", [4, 2])];
    let other = Parameters::new(descriptions, 1).unwrap();
    let here = model();
    let error = init_from_tar(&here, &tar_of(&other)[..]).unwrap_err();
    assert!(error.to_string().contains("parameter: rows, file: 8, model: 6 (3 x 2)"), "{error}");
    assert_eq!(bits_of(&here), bits_of(&model()));
}

#[test]
fn a_file_without_parameters_is_refused() {
    for bytes in [Vec::new(), vec![0; 512], vec![0; 1024], vec![0; 10_240], tar(&[])] {
        let error = init_from_tar(&model(), &bytes[..]).unwrap_err();
        assert_eq!(error.kind(), Kind::Damaged, "{} bytes: {error}", bytes.len());
        assert!(from_tar(&bytes[..], 1).is_err());
    }
    let other = Parameters::new(vec![Description::dense("other", [1, 1])], 1).unwrap();
    let error = init_from_tar(&model(), &tar_of(&other)[..]).unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid);
    assert!(error.to_string().contains("in the tar: other, in the model: w, rows"), "{error}");
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
    assert_eq!(loaded.fetch("w", View::Present).unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
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
    check(&twice, Kind::Damaged, "two members");
    let one = [&[0; 4][..], &[4, 0, 0, 0, 1], &[0; 7], &[0; 4]].concat();
    let other = tar(&[("w", &one), ("w.protobuf", &config(2))]);
    check(&other, Kind::Damaged, "another size than its description");
    let members = without_checksums(&tar_of(&model()));
    let members: Vec<(&str, &[u8])> = members
        .iter()
        .filter(|(name, _)| name != "keys.keys")
        .map(|(name, bytes)| (name.as_str(), bytes.as_slice()))
        .collect();
    let error = init_from_tar(&model(), &tar(&members)[..]).unwrap_err();
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
        saved.store("w", &values).unwrap();
        saved.store("rows", &values).unwrap();
        saved.store_rows("keys", &keys, &rows).unwrap();
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
                prop_assert_eq!(bits(&loaded.fetch(name, View::Present).unwrap()), bits(&values));
            }
            let mut found = vec![0.0; rows.len()];
            loaded.fetch_rows("keys", &keys, &mut found, View::Present).unwrap();
            prop_assert_eq!(&found, &rows);
        }
    }
}
