//! Objects in pictures: prior boxes, the loss of SSD, what is found and how well, and regions.

use crate::gradients;
use crate::net::Net;
use crate::trial::{Trial, assert_near, numbers};
use engine::batch::{Input, Rows};
use engine::shape::{Level, Value};
use serde_json::{Value as Json, json};

const VARIANCE: [f32; 4] = [0.1, 0.1, 0.2, 0.2];

/// Prior boxes of a map of one line and two columns over a picture of 10 lines and 20 columns.
fn prior_boxes(net: &mut Net) -> String {
    let inputs = [
        net.picture("map", Level::Single, [3, 1, 2]),
        net.picture("image", Level::Single, [1, 10, 20]),
    ];
    net.add(json!({
        "name": "priors", "kind": "priorbox", "inputs": inputs,
        "attributes": {
            "min_size": [4.0], "max_size": [9.5], "aspect_ratio": [2.0], "variance": VARIANCE,
        },
    }))
}

#[test]
fn prior_boxes_lie_around_the_middle_of_each_pixel() {
    let mut net = Net::new();
    prior_boxes(&mut net);
    let found = Trial::new(&net, &[1, 1, 1], 1).look("priors");
    let mut expected = Vec::new();
    for x in [5.0, 15.0] {
        // A square of 4; one of √(4·9.5), cut off to 6; 4·√2 by 4/√2, and the other way round.
        let (long, short) = (4.0 * 2_f64.sqrt(), 4.0 / 2_f64.sqrt());
        for (width, height) in [(4.0, 4.0), (6.0, 6.0), (long, short), (short, long)] {
            expected.extend([
                (x - width / 2.0) / 20.0,
                (5.0 - height / 2.0) / 10.0,
                (x + width / 2.0) / 20.0,
                (5.0 + height / 2.0) / 10.0,
            ]);
            expected.extend(VARIANCE.map(f64::from));
        }
    }
    assert_eq!(found.width, 64);
    assert_near("priors", numbers(&found), &expected, 1e-6);
}

/// A network with prior boxes and answers of a small convolution over the map.
fn judged(kind: &str, with_label: bool, attributes: &Json) -> Net {
    let mut net = Net::new();
    let priors = prior_boxes(&mut net);
    let mut answer = |name: &str, filters: usize| {
        net.add(json!({
            "name": name, "kind": "img_conv", "inputs": ["map"], "has_bias": true,
            "attributes": {
                "filters": filters, "filter_size": [1, 1], "stride": [1, 1], "padding": [0, 0],
                "dilation": [1, 1], "groups": 1, "channels": null, "is_bias_shared": true,
                "is_transposed": false,
            },
        }))
    };
    let answers = [answer("locations", 4 * 4), answer("scores", 4 * 3)];
    let mut inputs = vec![priors];
    if with_label {
        inputs.push(net.data("label", Value::Dense, Level::Sequence, 6));
    }
    inputs.extend(answers);
    net.topology.outputs = vec![net.add(json!({
        "name": "out", "kind": kind, "inputs": inputs, "attributes": attributes,
    }))];
    net
}

fn loss_attributes() -> Json {
    json!({
        "classes": 3, "background": 0, "overlap_threshold": 0.7, "negative_overlap": 0.5,
        "negatives": 1.0,
    })
}

/// A trial of the loss with these objects.
fn loss_trial(labels: &[f32], offsets: &[usize]) -> Trial {
    let net = judged("multibox_loss", true, &loss_attributes());
    let mut batch = net.batch(&vec![1; offsets.len() - 1], 5);
    let label = net.topology.layers.iter().filter(|layer| layer.kind == "data");
    let place = label.map(|layer| &layer.name).position(|name| name == "label").unwrap();
    batch.inputs[place] = Input::sequence(Rows::Dense(labels.to_vec()), offsets.to_vec());
    Trial::with_batch(net.network(), batch, 5)
}

/// Over the first prior box, and over the last.
const LABELS: [f32; 12] =
    [1.0, 0.16, 0.31, 0.37, 0.68, 0.0, /**/ 2.0, 0.69, 0.2, 0.82, 0.8, 1.0];

#[test]
fn the_loss_has_the_gradient_that_differences_show() {
    gradients::check(&loss_trial(&LABELS, &[0, 2]), true);
}

#[test]
fn the_loss_is_that_of_the_boxes_of_objects_and_of_as_many_others() {
    let trial = loss_trial(&LABELS, &[0, 2]);
    let [priors, locations, scores] =
        ["priors", "locations", "scores"].map(|layer| trial.look(layer));
    let numbers_of = |output: &engine::batch::Output| -> Vec<f64> {
        numbers(output).iter().map(|number| f64::from(*number)).collect()
    };
    let priors = numbers_of(&priors);
    // Channels last: the answers of a box are 2 pixels apart.
    let answers = |output: &engine::batch::Output, each: usize| -> Vec<Vec<f64>> {
        let (all, boxes) = (numbers_of(output), 8);
        let of_box = |place: usize| {
            (0..each).map(|at| all[(place % 4 * each + at) * 2 + place / 4]).collect()
        };
        (0..boxes).map(of_box).collect()
    };
    let (locations, scores) = (answers(&locations, 4), answers(&scores, 3));
    let softmax = |scores: &[f64]| -> Vec<f64> {
        let sum: f64 = scores.iter().map(|score| score.exp()).sum();
        scores.iter().map(|score| score.exp() / sum).collect()
    };
    let middle = |side: &[f64]| [(side[0] + side[2]) / 2.0, (side[1] + side[3]) / 2.0];
    let extent = |side: &[f64]| [side[2] - side[0], side[3] - side[1]];
    let mut loss = 0.0;
    // Which boxes answer: by overlap the first for the first object, and the last for the second.
    let matched = [(0, 1, &LABELS[1..5]), (7, 2, &LABELS[7..11])];
    for (place, class, truth) in matched {
        let truth: Vec<f64> = truth.iter().map(|side| f64::from(*side)).collect();
        let prior = &priors[place * 8..place * 8 + 4];
        let ([x, y], [own_x, own_y]) = (middle(&truth), middle(prior));
        let ([width, height], [own_width, own_height]) = (extent(&truth), extent(prior));
        let wanted = [
            (x - own_x) / own_width / 0.1,
            (y - own_y) / own_height / 0.1,
            (width / own_width).ln() / 0.2,
            (height / own_height).ln() / 0.2,
        ];
        for side in 0..4 {
            let distance = (locations[place][side] - wanted[side]).abs();
            loss += if distance < 1.0 { 0.5 * distance * distance } else { distance - 0.5 };
        }
        loss -= softmax(&scores[place])[class].ln();
    }
    // Of boxes that overlap no object by half or more, as box 2 does, the two most sure ones.
    let far: Vec<usize> = (1..7).filter(|place| *place != 2).collect();
    let mut sure: Vec<(f64, usize)> = far
        .iter()
        .map(|place| {
            let shares = softmax(&scores[*place]);
            (shares[1].max(shares[2]), *place)
        })
        .collect();
    sure.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (_, place) in &sure[..2] {
        loss -= softmax(&scores[*place])[0].ln();
    }
    assert_near("loss", numbers(&trial.look("out")), &[loss / 2.0], 1e-5);
}

#[test]
fn every_sample_shows_the_loss_of_the_batch_and_it_is_learnt_from_once() {
    let one = loss_trial(&LABELS, &[0, 2]);
    let two = loss_trial(&LABELS, &[0, 2, 2]);
    let shown = numbers(&two.look("out")).to_vec();
    assert_eq!(shown[0], shown[1]);
    // A second picture without objects has no examples.
    assert_near("loss", &shown[..1], &[f64::from(numbers(&one.look("out"))[0])], 1e-6);
    for (one, two) in one.train().gradients.iter().zip(two.train().gradients) {
        let one: Vec<f64> = one.as_ref().unwrap().iter().map(|x| f64::from(*x)).collect();
        assert_near("gradient", &two.unwrap(), &one, 1e-5);
    }
    let nothing = loss_trial(&[], &[0, 0]);
    assert_eq!(numbers(&nothing.look("out")), [0.0]);
}

#[test]
fn labels_that_are_no_objects_are_refused() {
    let refuse = |label: [f32; 6]| {
        let trial = loss_trial(&label, &[0, 1]);
        let values: Vec<&[f32]> = trial.values.iter().map(Vec::as_slice).collect();
        trial.network.train(&trial.prepared, &values, 0).err().unwrap().to_string()
    };
    for (label, expected) in [
        ([3.0, 0.1, 0.1, 0.2, 0.2, 0.0], "class 3 but num_classes is 3"),
        ([0.5, 0.1, 0.1, 0.2, 0.2, 0.0], "whole number"),
        ([1.0, 0.3, 0.1, 0.2, 0.2, 0.0], "left is below right"),
        ([1.0, 0.1, f32::NAN, 0.2, 0.2, 0.0], "left is below right"),
    ] {
        let error = refuse(label);
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn objects_are_found_once_each_and_the_best_are_kept() {
    let find = |keep: usize| {
        let attributes = json!({
            "classes": 3, "background": 0, "nms_threshold": 0.4, "nms_top_k": 5,
            "keep_top_k": keep, "confidence_threshold": 0.2,
        });
        let net = judged("detection_output", false, &attributes);
        let mut trial = Trial::new(&net, &[1, 1], 1);
        for values in &mut trial.values {
            values.fill(0.0);
        }
        // No location moves a box; every pixel scores alike: boxes 0 and 1 show class 1, and 1 is
        // the better one; box 3 shows class 2.
        let place = trial.place("_scores.wbias");
        trial.values[place] = vec![
            0.0, 2.0, 0.0, /**/ 0.0, 3.0, 0.0, /**/ 9.0, 0.0, 0.0, /**/ 0.0, 0.0,
            4.0,
        ];
        trial.look("out")
    };
    let found = find(10);
    assert_eq!((found.width, found.sequences.clone()), (7, Some(vec![0, 4, 8])));
    let rows: Vec<&[f32]> = numbers(&found).chunks(7).collect();
    let heads: Vec<(f32, f32)> = rows.iter().map(|row| (row[0], row[1])).collect();
    let once = [(0.0, 1.0), (0.0, 1.0), (0.0, 2.0), (0.0, 2.0)];
    let again = once.map(|(_, class)| (1.0, class));
    assert_eq!(heads, [once, again].concat());
    let share = 3_f64.exp() / (3_f64.exp() + 2.0);
    assert_near("box", &rows[0][2..], &[share, 0.1, 0.2, 0.4, 0.8], 1e-5);
    let best = find(3);
    assert_eq!(best.sequences, Some(vec![0, 3, 6]));
    let classes: Vec<f32> = numbers(&best).chunks(7).map(|row| row[1]).collect();
    assert_eq!(classes, [1.0, 2.0, 2.0, 1.0, 2.0, 2.0]);
}

/// The figure for these boxes and objects of two pictures.
fn precision(settings: &Json, found: [&[[f32; 7]]; 2], labels: [&[[f32; 6]]; 2]) -> f64 {
    let mut net = Net::new();
    net.data("found", Value::Dense, Level::Sequence, 7);
    net.data("label", Value::Dense, Level::Sequence, 6);
    net.evaluate("detection_map", &["found", "label"], settings);
    let mut batch = net.batch(&[1, 1], 1);
    let offsets = |first: usize, second: usize| vec![0, first, first + second];
    let all = found.concat().concat();
    batch.inputs[0] = Input::sequence(Rows::Dense(all), offsets(found[0].len(), found[1].len()));
    let all = labels.concat().concat();
    batch.inputs[1] = Input::sequence(Rows::Dense(all), offsets(labels[0].len(), labels[1].len()));
    let network = net.network();
    let seen = network.test(&network.prepare(batch).unwrap(), &[]).unwrap();
    let mut tally = network.tally().unwrap();
    tally.add(&seen).unwrap();
    tally.read()[0].1
}

#[test]
fn precision_is_averaged_over_recall_and_classes() {
    let settings = |ap_type: &str, difficult: bool| {
        json!({
            "overlap_threshold": 0.5, "background": 0, "evaluate_difficult": difficult,
            "ap_type": ap_type,
        })
    };
    let near = [0.1, 0.1, 0.5, 0.5];
    let far = [0.6, 0.6, 0.9, 0.9];
    let found = |class: f32, score: f32, at: [f32; 4]| -> [f32; 7] {
        [0.0, class, score, at[0], at[1], at[2], at[3]]
    };
    let label = |class: f32, at: [f32; 4], difficult: f32| -> [f32; 6] {
        [class, at[0], at[1], at[2], at[3], difficult]
    };
    // Of class 1 there are two objects and three boxes: right, wrong (found already), right. The
    // precisions are 1, ½ and ⅔ at recalls of ½, ½ and 1. Nobody finds the object of class 2.
    let boxes: [&[[f32; 7]]; 2] =
        [&[found(1.0, 0.9, near), found(1.0, 0.8, near)], &[found(1.0, 0.7, far)]];
    let objects: [&[[f32; 6]]; 2] =
        [&[label(1.0, near, 0.0)], &[label(1.0, far, 0.0), label(2.0, near, 0.0)]];
    let integral = precision(&settings("Integral", false), boxes, objects);
    assert!((integral - 100.0 * (0.5 + 0.5 * 2.0 / 3.0) / 2.0).abs() < 1e-9, "{integral}");
    let points = precision(&settings("11point", false), boxes, objects);
    let expected = 100.0 * (6.0 + 5.0 * 2.0 / 3.0) / 11.0 / 2.0;
    assert!((points - expected).abs() < 1e-9, "{points}");
    // An object that is difficult to see, and its box, count only if that is asked for.
    let hard: [&[[f32; 6]]; 2] = [&[label(1.0, near, 1.0)], &[label(1.0, far, 0.0)]];
    let easy = precision(&settings("Integral", false), boxes, hard);
    assert!((easy - 100.0).abs() < 1e-9, "{easy}");
    let all = precision(&settings("Integral", true), boxes, hard);
    assert!((all - 100.0 * (0.5 + 0.5 * 2.0 / 3.0)).abs() < 1e-9, "{all}");
}

/// Two pictures of one channel of 3 x 4, and regions of them.
fn regions(rois: &[f32], scale: f32) -> Trial {
    let mut net = Net::new();
    let fed = net.picture("fed", Level::Single, [1, 3, 4]);
    let input = net.add(json!({
        "name": "a", "kind": "scale_shift", "inputs": [fed], "has_bias": true,
    }));
    let rois_layer = net.data("rois", Value::Dense, Level::Sequence, 5);
    let out = net.add(json!({
        "name": "out", "kind": "roi_pool", "inputs": [input, rois_layer],
        "attributes": {"height": 2, "width": 2, "spatial_scale": scale, "channels": null},
    }));
    net.train(&out, false);
    let count = rois.len() / 5;
    let mut batch = net.batch(&[count, 0], 3);
    let pixels = (0..24).map(|pixel| ((pixel * 7) % 24) as f32 / 10.0).collect();
    batch.inputs[0] = Input::single(Rows::Dense(pixels));
    batch.inputs[1].rows = Rows::Dense(rois.to_vec());
    Trial::with_batch(net.network(), batch, 3)
}

#[test]
fn regions_give_the_largest_pixel_of_each_cell() {
    // The whole first picture; the middle of the second, of which cells share lines and columns;
    // a region that lies outside.
    let rois =
        [[0.0, 0.0, 0.0, 6.0, 4.0], [1.0, 2.0, 2.0, 4.0, 4.0], [1.0, 20.0, 20.0, 24.0, 24.0]];
    let mut trial = regions(&rois.concat(), 0.5);
    trial.values = vec![vec![1.0], vec![0.0]];
    let pixel = |sample: usize, y: usize, x: usize| {
        f64::from((((sample * 12 + y * 4 + x) * 7) % 24) as f32 / 10.0)
    };
    let largest = |sample: usize, lines: [usize; 2], columns: [usize; 2]| {
        let lines = lines[0]..lines[1];
        let all = lines.flat_map(|y| (columns[0]..columns[1]).map(move |x| pixel(sample, y, x)));
        all.fold(f64::NEG_INFINITY, f64::max)
    };
    let expected = [
        largest(0, [0, 2], [0, 2]),
        largest(0, [0, 2], [2, 4]),
        largest(0, [1, 3], [0, 2]),
        largest(0, [1, 3], [2, 4]),
        pixel(1, 1, 1),
        pixel(1, 1, 2),
        pixel(1, 2, 1),
        pixel(1, 2, 2),
        0.0,
        0.0,
        0.0,
        0.0,
    ];
    assert_near("regions", numbers(&trial.look("out")), &expected, 1e-6);
}

#[test]
fn regions_have_the_gradient_that_differences_show() {
    let rois = [[0.0, 0.0, 0.0, 6.0, 4.0], [1.0, 2.0, 2.0, 4.0, 4.0]];
    let trial = regions(&rois.concat(), 0.5);
    gradients::check(&trial, true);
}

#[test]
fn regions_of_samples_that_are_not_there_are_refused() {
    let trial = regions(&[2.0, 0.0, 0.0, 1.0, 1.0], 1.0);
    let values: Vec<&[f32]> = trial.values.iter().map(Vec::as_slice).collect();
    let error = trial.network.train(&trial.prepared, &values, 0).err().unwrap().to_string();
    assert!(error.contains("0 to 1, but is 2"), "{error}");
}
