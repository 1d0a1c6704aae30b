//! The layers over three-dimensional pictures.

use super::Case;
use crate::net::Net;
use engine::shape::Level;
use serde_json::{Value, json};

fn with(base: Value, changes: Value) -> Value {
    let (Value::Object(mut base), Value::Object(changes)) = (base, changes) else {
        panic!("attributes are objects");
    };
    base.extend(changes);
    Value::Object(base)
}

fn convolution(changes: Value) -> Value {
    let plain = json!({
        "filters": 2, "filter_size": [2, 3, 3], "stride": [1, 1, 1], "padding": [0, 1, 1],
        "groups": 1, "channels": null, "is_bias_shared": true, "is_transposed": false,
    });
    with(plain, changes)
}

fn pooling(changes: Value) -> Value {
    let plain = json!({
        "pooling": "max", "pool_size": [2, 2, 2], "stride": [2, 2, 2], "padding": [0, 0, 0],
        "channels": null, "is_rounded_up": true,
    });
    with(plain, changes)
}

/// Two channels of 3 x 2 x 3 that a small convolution makes of pictures that are fed.
fn volume(net: &mut Net, level: Level) -> String {
    let fed = net.volume("fed", level, [1, 3, 2, 3]);
    let attributes = convolution(json!({"filter_size": [1, 1, 1], "padding": [0, 0, 0]}));
    net.add(json!({
        "name": "volume", "kind": "img_conv3d", "inputs": [fed], "attributes": attributes,
        "activation": "tanh",
    }))
}

fn over(kind: &'static str, variant: &str, attributes: Value, has_bias: bool) -> Case {
    Case::new(kind, variant, move |net, level| {
        let input = volume(net, level);
        net.add(json!({
            "name": "out", "kind": kind, "inputs": [input], "attributes": attributes,
            "has_bias": has_bias,
        }))
    })
}

pub(super) fn cases() -> Vec<Case> {
    let grouped = json!({"groups": 2, "filters": 4, "stride": [2, 1, 2], "padding": [1, 1, 1]});
    let transposed = json!({
        "is_transposed": true, "stride": [2, 1, 2], "filters": 3, "padding": [0, 1, 0],
    });
    let one_each = json!({"is_bias_shared": false});
    let transposed_groups = json!({
        "is_transposed": true, "groups": 2, "filters": 4, "padding": [1, 0, 1],
    });
    let padded = json!({"pooling": "average", "padding": [1, 0, 1], "pool_size": [2, 1, 3]});
    let overlapping = json!({
        "stride": [1, 1, 1], "pool_size": [3, 2, 2], "is_rounded_up": false, "padding": [1, 0, 0],
    });
    vec![
        over("img_conv3d", "plain", convolution(json!({})), true),
        over("img_conv3d", "with a bias for each pixel", convolution(one_each), true),
        over("img_conv3d", "in groups, far apart", convolution(grouped), false),
        over("img_conv3d", "transposed", convolution(transposed), true),
        over("img_conv3d", "transposed, in groups", convolution(transposed_groups), false),
        over("img_pool3d", "largest", pooling(json!({})), false).with_kinks(),
        over("img_pool3d", "mean, padded", pooling(padded), false),
        over("img_pool3d", "largest, overlapping", pooling(overlapping), false).with_kinks(),
    ]
}
