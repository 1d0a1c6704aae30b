//! Layers that move, add, leave out or blend the pixels of pictures.

use super::image::{oblong, over_oblong};
use super::{Case, SINGLE};
use serde_json::json;

pub(super) fn cases() -> Vec<Case> {
    let pad = json!({"channels": [1, 0], "height": [0, 2], "width": [1, 1]});
    let crop = |axis: usize, offsets: &[usize], shape: &[usize]| json!({"axis": axis, "offsets": offsets, "shape": shape});
    vec![
        over_oblong("bilinear_interp", "to larger", json!({"height": 5, "width": 7})),
        over_oblong("bilinear_interp", "to smaller", json!({"height": 2, "width": 1})),
        over_oblong("pad", "on all sides", pad),
        over_oblong("crop", "of height and width", crop(1, &[1, 2], &[2, 2])),
        over_oblong("crop", "of channels too", crop(0, &[1, 0, 1], &[1, 3, 4])),
        Case::new("crop", "as another picture", |net, level| {
            let inputs = [oblong(net, level), net.picture("like", level, [1, 2, 2])];
            net.add(json!({
                "name": "out", "kind": "crop", "inputs": inputs,
                "attributes": {"axis": 1, "offsets": [1, 3], "shape": null},
            }))
        })
        .of_any_lengths(),
        over_oblong("rotate", "of oblong pictures", json!({"height": 3, "width": 5})),
        over_oblong("switch_order", "to rows", json!({"reshape_axis": 1})).with_batches(SINGLE),
        Case::new("switch_order", "to a row a pixel, and back", |net, level| {
            let input = oblong(net, level);
            let pixels = net.add(json!({
                "name": "pixels", "kind": "switch_order", "inputs": [input],
                "attributes": {"reshape_axis": 3},
            }));
            net.add(json!({
                "name": "out", "kind": "resize", "inputs": [pixels], "attributes": {"size": 30},
            }))
        })
        .with_batches(SINGLE),
        block_expand(json!({"block": [2, 3], "stride": [1, 2], "padding": [0, 0], "channels": 2})),
        block_expand(json!({"block": [2, 2], "stride": [2, 3], "padding": [1, 1], "channels": 2})),
    ]
}

/// The sequence that it makes, made one row.
fn block_expand(attributes: serde_json::Value) -> Case {
    Case::new("block_expand", "of oblong pictures", move |net, level| {
        let input = oblong(net, level);
        let rows = net.add(json!({
            "name": "rows", "kind": "block_expand", "inputs": [input], "attributes": attributes,
        }));
        let last = net.add(json!({
            "name": "weighed", "kind": "fc", "inputs": [rows], "attributes": {"size": 3},
            "activation": "tanh",
        }));
        net.add(json!({
            "name": "out", "kind": "pooling", "inputs": [last],
            "attributes": {"pooling": "sum"},
        }))
    })
    .with_batches(SINGLE)
}
