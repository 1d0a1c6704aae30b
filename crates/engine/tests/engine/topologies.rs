//! Mistakes in a topology: each is refused, naming the layer and what does not fit.

use engine::shape::{Level, Shape};
use engine::{Network, NetworkConfig};
use serde_json::{Value, json};
use std::fmt::Write;

/// A right network, as JSON.
fn right() -> Value {
    let data = |name: &str, value: &str, size: usize| {
        json!({
            "name": name, "kind": "data",
            "attributes": {"value": value, "level": "single", "size": size, "frame": null},
        })
    };
    let fc = json!({
        "name": "fc", "kind": "fc", "inputs": ["x"], "attributes": {"size": 2},
        "has_bias": true, "parameters": ["w", "b"], "place": "train.py:7",
    });
    let table = json!({
        "name": "table", "kind": "mixed", "inputs": ["ids"], "parameters": ["t"],
        "attributes": {"projections": [{"name": "table", "size": 2}]},
    });
    json!({
        "layers": [
            data("x", "dense", 3), data("ids", "integer", 5), fc, table,
            {"name": "add", "kind": "addto", "inputs": ["fc", "table"]},
            data("y", "dense", 2),
            {"name": "cost", "kind": "square_error", "inputs": ["add", "y"]},
        ],
        "parameters": [
            {"name": "w", "dims": [3, 2]}, {"name": "b", "dims": [1, 2]},
            {"name": "t", "dims": [5, 2]},
        ],
        "outputs": ["cost"],
        "evaluators": [{"name": "e", "kind": "sum", "inputs": ["add"]}],
    })
}

/// The network with one thing changed.
fn check(refusals: &mut String, mistake: &str, change: impl FnOnce(&mut Value)) {
    let mut topology = right();
    change(&mut topology);
    let topology = serde_json::from_value(topology).unwrap();
    let Err(error) = Network::new(topology, NetworkConfig::default()) else {
        panic!("accepted: {mistake}")
    };
    writeln!(refusals, "{mistake}: {error}").unwrap();
}

const X: usize = 0;
const IDS: usize = 1;
const FC: usize = 2;
const TABLE: usize = 3;
const ADD: usize = 4;
const Y: usize = 5;
const COST: usize = 6;

#[test]
fn the_network_without_mistakes_is_accepted() {
    Network::new(serde_json::from_value(right()).unwrap(), NetworkConfig::default()).unwrap();
}

#[test]
fn layers_in_any_order_are_sorted() {
    let mut topology = right();
    topology["layers"].as_array_mut().unwrap().reverse();
    Network::new(serde_json::from_value(topology).unwrap(), NetworkConfig::default()).unwrap();
}

#[test]
fn a_network_of_many_layers_in_a_row_is_checked_without_running_out_of_stack() {
    let mut topology = right();
    let layers = topology["layers"].as_array_mut().unwrap();
    for number in (0..50_000).rev() {
        let input = if number == 0 { "fc".to_owned() } else { format!("{}", number - 1) };
        layers.push(json!({"name": format!("{number}"), "kind": "addto", "inputs": [input]}));
    }
    Network::new(serde_json::from_value(topology).unwrap(), NetworkConfig::default()).unwrap();
}

#[test]
fn names_and_arrows_that_do_not_fit_are_refused() {
    let mut refusals = String::new();
    let mut check = |mistake: &str, change: fn(&mut Value)| check(&mut refusals, mistake, change);
    check("two layers of one name", |net| net["layers"][TABLE]["name"] = json!("fc"));
    check("two parameters of one name", |net| net["parameters"][1]["name"] = json!("w"));
    check("an unknown input", |net| net["layers"][FC]["inputs"] = json!(["z"]));
    check("a layer that takes itself", |net| net["layers"][ADD]["inputs"] = json!(["add"]));
    check("a circle", |net| net["layers"][FC]["inputs"] = json!(["x", "cost"]));
    check("an unknown kind", |net| net["layers"][FC]["kind"] = json!("conv"));
    check("an unknown parameter", |net| net["layers"][FC]["parameters"][0] = json!("v"));
    check("an unknown output", |net| net["outputs"] = json!(["z"]));
    check("an unknown evaluator", |net| net["evaluators"][0]["kind"] = json!("mood"));
    check("an evaluator of an unknown layer", |net| net["evaluators"][0]["inputs"] = json!(["z"]));
    check("a parameter too few", |net| net["layers"][FC]["parameters"] = json!(["w"]));
    check("a parameter too many", |net| net["layers"][TABLE]["parameters"] = json!(["t", "b"]));
    insta::assert_snapshot!(refusals);
}

#[test]
fn attributes_that_do_not_fit_are_refused() {
    let mut refusals = String::new();
    let mut check = |mistake: &str, change: fn(&mut Value)| check(&mut refusals, mistake, change);
    check("an attribute is missing", |net| net["layers"][FC]["attributes"] = json!({}));
    check("an attribute is unknown", |net| {
        net["layers"][FC]["attributes"] = json!({"size": 2, "colour": "red"});
    });
    check("an attribute has another type", |net| {
        net["layers"][FC]["attributes"] = json!({"size": "two"});
    });
    check("a size of 0", |net| net["layers"][FC]["attributes"] = json!({"size": 0}));
    check("a size beyond memory", |net| {
        net["layers"][FC]["attributes"] = json!({"size": 1_u64 << 40});
    });
    check("no dense size", |net| {
        net["layers"][X]["attributes"] = json!({"value": "dense", "level": "single"});
    });
    check("a picture that does not divide", |net| {
        net["layers"][X]["attributes"]["frame"] = json!([2, 2]);
    });
    check("an unknown projection", |net| {
        net["layers"][TABLE]["attributes"] = json!({"projections": [{"name": "spiral"}]});
    });
    check("an unknown attribute of a projection", |net| {
        net["layers"][TABLE]["attributes"] =
            json!({"projections": [{"name": "table", "size": 2, "colour": 1}]});
    });
    check("a projection too many", |net| {
        let table = json!({"name": "table", "size": 2});
        net["layers"][TABLE]["attributes"] = json!({"projections": [table, table]});
    });
    check("columns beyond the input", |net| {
        net["layers"][TABLE] = json!({
            "name": "table", "kind": "mixed", "inputs": ["x"],
            "attributes": {"projections": [{"name": "identity", "offset": 2, "size": 2}]},
        });
    });
    check("a drop rate of 1", |net| net["layers"][FC]["drop_rate"] = json!(1.0));
    check("a clip of 0", |net| net["layers"][FC]["error_clip"] = json!(0.0));
    check("dropout after softmax", |net| {
        net["layers"][FC]["drop_rate"] = json!(0.5);
        net["layers"][FC]["activation"] = json!("softmax");
    });
    check("a cost with an activation", |net| net["layers"][COST]["activation"] = json!("tanh"));
    check("a threshold of the wrong evaluator", |net| {
        net["evaluators"][0]["attributes"] = json!({"threshold": 0.5});
    });
    insta::assert_snapshot!(refusals);
}

#[test]
fn sizes_that_do_not_fit_are_refused_with_both() {
    let mut refusals = String::new();
    let mut check = |mistake: &str, change: fn(&mut Value)| check(&mut refusals, mistake, change);
    check("a parameter of another size", |net| net["parameters"][0]["dims"] = json!([4, 2]));
    check("inputs of different sizes", |net| {
        net["layers"][TABLE]["attributes"] = json!({"projections": [{"name": "table", "size": 3}]});
        net["parameters"][2]["dims"] = json!([5, 3]);
    });
    check("a label of another size", |net| net["layers"][Y]["attributes"]["size"] = json!(4));
    check("ids where numbers are needed", |net| {
        net["layers"][ADD]["inputs"] = json!(["fc", "ids"]);
    });
    check("ids into fc", |net| net["layers"][FC]["inputs"] = json!(["ids"]));
    check("numbers where ids are needed", |net| net["layers"][TABLE]["inputs"] = json!(["x"]));
    check("no input", |net| net["layers"][ADD]["inputs"] = json!([]));
    check("inputs too many", |net| net["layers"][COST]["inputs"] = json!(["fc", "y", "y", "y"]));
    check("a sequence among rows", |net| {
        net["layers"][IDS]["attributes"]["level"] = json!("sequence");
    });
    check("projections of different sizes", |net| {
        net["layers"][TABLE]["inputs"] = json!(["ids", "x"]);
        net["layers"][TABLE]["attributes"] =
            json!({"projections": [{"name": "table", "size": 2}, {"name": "identity"}]});
    });
    check("a weight of more than one number", |net| {
        net["layers"][COST]["inputs"] = json!(["add", "y", "y"]);
    });
    check("labels of another number of classes", |net| {
        net["layers"][COST] =
            json!({"name": "cost", "kind": "cross_entropy", "inputs": ["add", "ids"]});
    });
    check("more of the best than columns", |net| {
        net["evaluators"][0] = json!({
            "name": "e", "kind": "classification_error", "inputs": ["add", "ids"],
            "attributes": {"top_k": 3},
        });
    });
    check("a positive label beyond the classes", |net| {
        net["evaluators"][0] = json!({
            "name": "e", "kind": "precision_recall", "inputs": ["add", "ids"],
            "attributes": {"positive_label": 2},
        });
    });
    check("an evaluator's weight of more than one number", |net| {
        net["evaluators"][0]["inputs"] = json!(["add", "y"]);
    });
    insta::assert_snapshot!(refusals);
}

#[test]
fn sparse_parameters_where_they_cannot_be_are_refused() {
    let mut refusals = String::new();
    let mut check = |mistake: &str, change: fn(&mut Value)| check(&mut refusals, mistake, change);
    check("of numbers", |net| net["parameters"][0]["is_sparse"] = json!(true));
    check("of computed ids", |net| {
        let layers = net["layers"].as_array_mut().unwrap();
        layers.push(json!({"name": "best", "kind": "max_id", "inputs": ["fc"]}));
        layers[TABLE]["inputs"] = json!(["best"]);
        net["parameters"][2] = json!({"name": "t", "dims": [2, 2], "is_sparse": true});
    });
    check("keys without a bound, not sparse", |net| {
        net["layers"][IDS]["attributes"]["size"] = json!(null);
        net["parameters"][2]["dims"] = json!([0, 2]);
    });
    check("more rows than can be held whole", |net| {
        net["layers"][IDS]["attributes"]["size"] = json!(1_u64 << 40);
        net["parameters"][2]["dims"] = json!([1_u64 << 40, 2]);
    });
    insta::assert_snapshot!(refusals);
}

#[test]
fn a_network_without_a_cost_cannot_be_trained() {
    let mut topology = right();
    topology["outputs"] = json!(["add"]);
    let topology = serde_json::from_value(topology).unwrap();
    let network = Network::new(topology, NetworkConfig::default()).unwrap();
    let input = engine::batch::Input::single;
    let inputs = vec![
        input(engine::batch::Rows::Dense(vec![0.0; 3])),
        input(engine::batch::Rows::Integer(vec![0])),
        input(engine::batch::Rows::Dense(vec![0.0; 2])),
    ];
    let prepared = network.prepare(engine::batch::Batch { samples: 1, inputs }).unwrap();
    let values: [&[f32]; 3] = [&[0.0; 6], &[0.0; 2], &[0.0; 10]];
    let error = network.train(&prepared, &values, 0).err().unwrap();
    assert_eq!(error.message(), "none of the outputs is a cost, so there is nothing to train");
    assert!(network.test(&prepared, &values).is_ok());
}

#[test]
fn threads_out_of_range_are_refused() {
    for threads in [0, engine::pool::THREADS_MAX + 1] {
        let topology = serde_json::from_value(right()).unwrap();
        let config = NetworkConfig { threads, ..NetworkConfig::default() };
        let error = Network::new(topology, config).err().unwrap();
        assert_eq!(error.message(), "trainer_count must be 1 to 1024");
    }
}

/// A group over a sequence and a row, whose step `change` makes wrong.
fn refuse_group(change: impl Fn(&mut Value)) -> String {
    let mut attributes = json!({
        "is_reversed": false,
        "step": {
            "links": [{"name": "x", "role": "part"}, {"name": "begin", "role": "boot"}],
            "memories": [{"name": "before", "of": "h", "size": 2, "boot": "begin"}],
            "layers": [{"name": "h", "kind": "addto", "inputs": ["x", "before"]}],
            "outputs": ["h"],
        },
    });
    change(&mut attributes);
    let kind = "recurrent_group";
    let layer = json!({"name": "group", "kind": kind, "attributes": attributes});
    let layer: engine::topology::Layer = serde_json::from_value(layer).unwrap();
    let sequence = Shape { level: Level::Sequence, ..Shape::dense(2) };
    match engine::layer::plan(&layer, &[sequence, Shape::dense(2)]) {
        Ok(plan) => format!("accepted: {plan:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn steps_that_do_not_fit_are_refused() {
    let mut refusals = String::new();
    let mut check = |mistake: &str, change: &dyn Fn(&mut Value)| {
        writeln!(refusals, "{mistake}: {}", refuse_group(change)).unwrap();
    };
    check("an input that is not linked", &|group| group["step"]["links"] = json!([]));
    check("nothing to go along", &|group| group["step"]["links"][0]["role"] = json!("whole"));
    check("a row to go along", &|group| group["step"]["links"][1]["role"] = json!("part"));
    check("an unknown role", &|group| group["step"]["links"][1]["role"] = json!("guest"));
    check("a memory of nothing", &|group| group["step"]["memories"][0]["of"] = json!("?"));
    check("a memory of another size", &|group| group["step"]["memories"][0]["size"] = json!(3));
    check("a memory that begins with a layer of the step", &|group| {
        group["step"]["memories"][0]["boot"] = json!("h");
    });
    check("a memory of sequences that begins with nothing", &|group| {
        group["step"]["memories"] =
            json!([{"name": "before", "of": "all", "size": 2, "is_sequence": true}]);
        group["step"]["links"][1] = json!({"name": "begin", "role": "whole"});
        group["step"]["layers"] = json!([
            {"name": "all", "kind": "expand", "inputs": ["begin", "before"]},
            {"name": "h", "kind": "addto", "inputs": ["x"]},
        ]);
    });
    check("an id that cannot be", &|group| {
        group["step"]["memories"] = json!([{"name": "before", "of": "h", "size": 2, "boot_id": 2}]);
        group["step"]["layers"][0]["kind"] = json!("max_id");
        group["step"]["layers"][0]["inputs"] = json!(["x"]);
    });
    check("a layer that comes later", &|group| {
        let last = json!({"name": "last", "kind": "addto", "inputs": ["h"]});
        group["step"]["layers"][0]["inputs"] = json!(["x", "last"]);
        group["step"]["layers"].as_array_mut().unwrap().push(last);
    });
    check("a name that is used twice", &|group| {
        let again = json!({"name": "before", "kind": "addto", "inputs": ["h"]});
        group["step"]["layers"].as_array_mut().unwrap().push(again);
    });
    check("data in a step", &|group| {
        let data = json!({
            "name": "data", "kind": "data",
            "attributes": {"value": "dense", "level": "single", "size": 2, "frame": null},
        });
        group["step"]["layers"].as_array_mut().unwrap().push(data);
    });
    check("no output", &|group| group["step"]["outputs"] = json!([]));
    check("an output that is not there", &|group| group["step"]["outputs"] = json!(["?"]));
    check("a word for a truth", &|group| group["is_reversed"] = json!("yes"));
    insta::assert_snapshot!(refusals);
}
