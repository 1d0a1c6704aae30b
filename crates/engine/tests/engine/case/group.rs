//! Recurrent groups: steps with memories, inputs that every step sees, sequences of sequences.

use super::{Case, SEQUENCES};
use engine::shape::Level;
use serde_json::{Value, json};

const NESTED: [(Level, &[usize]); 3] =
    [(Level::Nested, &[1]), (Level::Nested, &[2, 0, 1, 3]), (Level::Nested, &[0, 2])];

/// A group over these inputs.
fn group(inputs: &[String], is_reversed: bool, step: &Value) -> Value {
    json!({
        "name": "out", "kind": "recurrent_group", "inputs": inputs,
        "attributes": {"is_reversed": is_reversed, "step": step},
    })
}

fn link(name: &str, role: &str) -> Value {
    json!({"name": name, "role": role})
}

fn fc(name: &str, inputs: &[&str], size: usize) -> Value {
    json!({
        "name": name, "kind": "fc", "inputs": inputs, "attributes": {"size": size},
        "activation": "tanh", "has_bias": true,
    })
}

fn plain(is_reversed: bool) -> Case {
    let name = if is_reversed { "reversed" } else { "" };
    let case = Case::new("recurrent_group", name, move |net, level| {
        let inputs = [net.input("a", level, 2)];
        net.add(group(
            &inputs,
            is_reversed,
            &json!({
                "links": [link("x", "part")],
                "memories": [{"name": "before", "of": "h", "size": 3}],
                "layers": [fc("h", &["x", "before"], 3)],
                "outputs": ["h"],
            }),
        ))
    });
    case.with_batches(SEQUENCES)
}

/// The cost is computed from what the softmax of every step was applied to.
fn with_cost() -> Case {
    let case = Case::new("recurrent_group", "of probabilities", |net, level| {
        let inputs = [net.input("a", level, 2)];
        let mut softmax = fc("p", &["x", "before"], 3);
        softmax["activation"] = json!("softmax");
        let group = net.add(group(
            &inputs,
            false,
            &json!({
                "links": [link("x", "part")],
                "memories": [{"name": "before", "of": "p", "size": 3}],
                "layers": [softmax],
                "outputs": ["p"],
            }),
        ));
        let label = net.data("label", engine::shape::Value::Integer, level, 3);
        net.add(json!({"name": "cost", "kind": "cross_entropy", "inputs": [group, label]}))
    });
    case.with_batches(SEQUENCES).cost()
}

/// Two memories, one of which begins with a layer and a bias, an input that every step sees, and
/// two outputs.
fn rich() -> Case {
    let case = Case::new("recurrent_group", "with all kinds of inputs", |net, level| {
        let inputs = [
            net.input("a", level, 2),
            net.input("b", level, 3),
            net.input("static", Level::Single, 2),
            net.input("boot", Level::Single, 3),
        ];
        net.add(group(
            &inputs,
            false,
            &json!({
                "links": [
                    link("x", "part"), link("y", "part"), link("static", "whole"),
                    link("begin", "boot"),
                ],
                "memories": [
                    {
                        "name": "h before", "of": "h", "size": 3, "boot": "begin",
                        "has_bias": true, "activation": "tanh",
                    },
                    {"name": "c before", "of": "c", "size": 2, "has_bias": true},
                ],
                "layers": [
                    fc("c", &["x", "c before", "static"], 2),
                    fc("h", &["h before", "y", "c"], 3),
                ],
                "outputs": ["h", "c"],
            }),
        ))
    });
    case.with_batches(SEQUENCES)
}

/// A step that gives what it sees, and what it makes of that alone.
fn seen() -> Case {
    let case = Case::new("recurrent_group", "of what every step sees", |net, level| {
        let inputs = [net.input("a", level, 2), net.input("static", Level::Single, 2)];
        net.add(group(
            &inputs,
            false,
            &json!({
                "links": [link("x", "part"), link("static", "whole")],
                "memories": [
                    {"name": "x before", "of": "x", "size": 2},
                    {"name": "static before", "of": "static", "size": 2},
                ],
                "layers": [
                    fc("once", &["static"], 2),
                    fc("all", &["once", "x before", "static before"], 2),
                ],
                "outputs": ["static", "x", "once", "all", "x before"],
            }),
        ))
    });
    case.with_batches(SEQUENCES)
}

/// Every step looks at all rows of another sequence, weighted by how well they match.
fn attention() -> Case {
    let case = Case::new("recurrent_group", "with attention", |net, level| {
        let inputs = [net.input("a", level, 2), net.input("all", level, 3)];
        net.add(group(
            &inputs,
            false,
            &json!({
                "links": [link("x", "part"), link("all", "whole")],
                "memories": [{"name": "before", "of": "h", "size": 3}],
                "layers": [
                    {"name": "wide", "kind": "expand", "inputs": ["before", "all"]},
                    {"name": "sum", "kind": "addto", "inputs": ["wide", "all"],
                     "activation": "tanh"},
                    {"name": "weight", "kind": "fc", "inputs": ["sum"], "attributes": {"size": 1},
                     "activation": "sequence_softmax"},
                    {"name": "scaled", "kind": "scaling", "inputs": ["all", "weight"]},
                    {"name": "context", "kind": "pooling", "inputs": ["scaled"],
                     "attributes": {"pooling": "sum"}},
                    fc("h", &["x", "context", "before"], 3),
                ],
                "outputs": ["h"],
            }),
        ))
    });
    case.with_batches(SEQUENCES).of_any_lengths()
}

/// A step takes a whole sequence; what it gives is a row of it.
fn over_sequences() -> Case {
    let case = Case::new("recurrent_group", "over nested sequences", |net, _| {
        let inputs = [net.input("a", Level::Nested, 2), net.input("b", Level::Sequence, 2)];
        net.add(group(
            &inputs,
            true,
            &json!({
                "links": [link("x", "part"), link("y", "part")],
                "memories": [{"name": "before", "of": "h", "size": 3}],
                "layers": [
                    {"name": "pooled", "kind": "pooling", "inputs": ["x"],
                     "attributes": {"pooling": "average"}},
                    fc("h", &["pooled", "y", "before"], 3),
                ],
                "outputs": ["h"],
            }),
        ))
    });
    case.with_batches(NESTED)
}

/// A step takes a whole sequence and gives one, with a group of its own in it.
fn nested() -> Case {
    let case = Case::new("recurrent_group", "in a group", |net, _| {
        let inner = json!({
            "links": [link("row", "part"), link("outer", "boot")],
            "memories": [{"name": "before", "of": "h", "size": 2, "boot": "outer"}],
            "layers": [fc("h", &["row", "before"], 2)],
            "outputs": ["h"],
        });
        let inputs = [net.input("a", Level::Nested, 2)];
        net.add(group(
            &inputs,
            false,
            &json!({
                "links": [link("x", "part")],
                "memories": [{"name": "last before", "of": "last", "size": 2}],
                "layers": [
                    {"name": "inside", "kind": "recurrent_group", "inputs": ["x", "last before"],
                     "attributes": {"is_reversed": false, "step": inner}},
                    {"name": "last", "kind": "sequence_end", "inputs": ["inside"],
                     "attributes": {"end": "last"}},
                ],
                "outputs": ["inside"],
            }),
        ))
    });
    case.with_batches(NESTED)
}

/// A step that gives a row and a sequence; a layer takes one of them. Only what is taken has
/// parameters: those of the other would not matter.
fn of_both_levels(place: usize, level: &'static str) -> Case {
    let variant = format!("{place} of a row and a sequence");
    let case = Case::new("recurrent_group_output", &variant, move |net, _| {
        let inputs = [net.input("a", Level::Nested, 2)];
        let plain =
            |name: &str, inputs: &[&str]| json!({"name": name, "kind": "addto", "inputs": inputs});
        let (size, row, rows) = match place {
            0 => (3, fc("h", &["pooled", "before"], 3), plain("rows", &["x"])),
            _ => (2, plain("h", &["pooled", "before"]), fc("rows", &["x"], 2)),
        };
        let mut both = group(
            &inputs,
            false,
            &json!({
                "links": [link("x", "part")],
                "memories": [{"name": "before", "of": "h", "size": size}],
                "layers": [
                    {"name": "pooled", "kind": "pooling", "inputs": ["x"],
                     "attributes": {"pooling": "average"}},
                    row,
                    rows,
                ],
                "outputs": ["h", "rows"],
            }),
        );
        both["name"] = json!("both");
        let both = net.add(both);
        net.add(json!({
            "name": "out", "kind": "recurrent_group_output", "inputs": [both],
            "attributes": {"place": place, "size": size, "level": level},
        }))
    });
    case.with_batches(NESTED)
}

/// Layers that take sequences take each of those of a nested one.
fn of_nested(kind: &'static str, build: impl Fn(&str) -> Value + 'static) -> Case {
    let case = Case::new(kind, "of nested sequences", move |net, _| {
        let input = net.input("a", Level::Nested, 4);
        net.add(build(&input))
    });
    case.with_batches(NESTED)
}

fn step_of_cell(kind: &'static str, parts: usize, has_bias: bool) -> Case {
    let variant = if has_bias { "" } else { "without bias" };
    Case::new(kind, variant, move |net, level| {
        let inputs = [net.input("a", level, parts * 2), net.input("b", level, 2)];
        let mut attributes = json!({
            "activation": "tanh", "gate_activation": "sigmoid", "has_bias": has_bias,
        });
        if parts == 4 {
            attributes["state_activation"] = json!("tanh");
        }
        net.add(json!({"name": "out", "kind": kind, "inputs": inputs, "attributes": attributes}))
    })
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = vec![
        plain(false),
        plain(true),
        with_cost(),
        rich(),
        seen(),
        attention(),
        over_sequences(),
        nested(),
        of_both_levels(0, "sequence"),
        of_both_levels(1, "nested"),
    ];
    for has_bias in [true, false] {
        cases.push(step_of_cell("lstm_step", 4, has_bias));
        cases.push(step_of_cell("gru_step", 3, has_bias));
    }
    cases.push(of_nested("recurrent", |input| {
        json!({"name": "out", "kind": "recurrent", "inputs": [input],
               "attributes": {"activation": "tanh"}})
    }));
    for of in ["sample", "sequence"] {
        cases.push(of_nested("pooling", move |input| {
            json!({"name": "out", "kind": "pooling", "inputs": [input],
                   "attributes": {"pooling": "average", "of": of}})
        }));
        cases.push(of_nested("sequence_end", move |input| {
            json!({"name": "out", "kind": "sequence_end", "inputs": [input],
                   "attributes": {"end": "last", "of": of}})
        }));
    }
    for level in [Level::Single, Level::Sequence] {
        let expand = Case::new("expand", "to nested sequences", move |net, _| {
            let inputs = [net.input("a", level, 2), net.input("b", Level::Nested, 1)];
            let wide = net
                .add(json!({"name": "wide", "kind": "expand", "inputs": [inputs[0], inputs[1]]}));
            // The second input takes part too, so that it has something to learn.
            net.add(json!({
                "name": "out", "kind": "fc", "inputs": [wide, inputs[1]], "attributes": {"size": 2},
            }))
        });
        cases.push(expand.with_batches(NESTED));
    }
    cases
}
