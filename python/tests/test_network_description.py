"""What programs describe: names, sizes, parameters, feeding order, settings."""

import io
import json

import numpy as np
import pytest

import paddle.v2 as paddle
from paddle import _native, errors
from paddle.v2 import naming
from paddle.v2.topology import Topology


@pytest.fixture(autouse=True)
def fresh_names():
    """Every test counts automatic names from 0."""
    naming.reset()


def dense(name, size):
    return paddle.layer.data(name=name, type=paddle.data_type.dense_vector(size))


def ids(name, size):
    return paddle.layer.data(name=name, type=paddle.data_type.integer_value(size))


def sequence(name, size):
    return paddle.layer.data(name=name, type=paddle.data_type.dense_vector_sequence(size))


def runs(topology):
    """Whether the engine takes the network as a whole."""
    return _native.Network(topology.to_json()).inputs()


def describe_word2vec(words=100):
    table = paddle.attr.Param(
        name="_proj", initial_std=0.001, learning_rate=1, l2_rate=0, sparse_update=True
    )
    context = [ids(name, words) for name in ("firstw", "secondw", "thirdw", "fourthw")]
    label = ids("fifthw", words)
    embedded = [paddle.layer.embedding(input=word, size=32, param_attr=table) for word in context]
    hidden = paddle.layer.fc(
        input=paddle.layer.concat(input=embedded),
        size=256,
        act=paddle.activation.Sigmoid(),
        layer_attr=paddle.attr.Extra(drop_rate=0.5),
        bias_attr=paddle.attr.Param(learning_rate=2),
        param_attr=paddle.attr.Param(initial_std=1 / 16),
    )
    predicted = paddle.layer.fc(input=hidden, size=words, act=paddle.activation.Softmax())
    return paddle.layer.classification_cost(input=predicted, label=label)


def test_fit_a_line_is_described_as_the_engine_reads_it():
    predicted = paddle.layer.fc(input=dense("x", 13), size=1, act=paddle.activation.Linear())
    cost = paddle.layer.square_error_cost(input=predicted, label=dense("y", 1))
    topology = Topology(cost)
    assert runs(topology) == ["x", "y"]
    described = json.loads(topology.to_json())
    assert [layer["kind"] for layer in described["layers"]] == [
        "data",
        "fc",
        "data",
        "square_error",
    ]
    assert described["outputs"] == ["__square_error_cost_0__"]
    assert [(each["name"], each["dims"]) for each in described["parameters"]] == [
        ("___fc_layer_0__.w0", [13, 1]),
        ("___fc_layer_0__.wbias", [1, 1]),
    ]


def test_word2vec_shares_one_sparse_table_and_counts_its_errors():
    topology = Topology(describe_word2vec())
    assert runs(topology) == ["firstw", "secondw", "thirdw", "fourthw", "fifthw"]
    table, weight, bias, *_ = topology.descriptions()
    assert (table["name"], table["dims"], table["is_sparse"]) == ("_proj", [100, 32], True)
    assert table["initializer"] == {"name": "normal", "mean": 0.0, "std": 0.001}
    assert weight["initializer"] == {"name": "normal", "mean": 0.0, "std": 1 / 16}
    assert bias["initializer"] == {"name": "zero"}
    assert list(topology.evaluators) == ["classification_error_evaluator"]


def test_a_click_model_takes_sparse_data_and_keys_without_a_bound():
    keys = paddle.layer.data(name="keys", type=paddle.data_type.sparse_binary_vector(None))
    wide = paddle.layer.data(name="wide", type=paddle.data_type.sparse_float_vector(1000))
    click = dense("click", 1)
    sparse = paddle.attr.Param(sparse_update=True)
    deep = paddle.layer.fc(
        input=paddle.layer.embedding(input=keys, size=8, param_attr=sparse),
        size=4,
        act=paddle.activation.Relu(),
    )
    linear = paddle.layer.fc(input=wide, size=1, act=paddle.activation.Relu(), param_attr=sparse)
    joined = paddle.layer.concat(input=[deep, linear])
    predicted = paddle.layer.fc(input=joined, size=1, act=paddle.activation.Sigmoid())
    cost = paddle.layer.multi_binary_label_cross_entropy_cost(input=predicted, label=click)
    paddle.evaluator.auc(input=predicted, label=click, name="auc")
    topology = Topology(cost)
    assert runs(topology) == ["keys", "wide", "click"]
    assert topology.parameters["___embedding_0__.w0"].dims == (0, 8)
    assert list(topology.evaluators) == ["auc"]


def test_automatic_names_count_by_prefix():
    x = dense("x", 4)
    score = paddle.layer.fc(input=x, size=1)
    words = sequence("words", 4)
    made = [
        paddle.layer.fc(input=x, size=2),
        paddle.layer.embedding(input=ids("word", 9), size=2),
        paddle.layer.mixed(input=x),
        paddle.layer.addto(input=[x, x]),
        paddle.layer.concat(input=[x, x]),
        paddle.layer.dropout(input=x, dropout_rate=0.5),
        paddle.layer.pooling(input=words),
        paddle.layer.first_seq(input=words),
        paddle.layer.last_seq(input=words),
        paddle.layer.cos_sim(a=x, b=x),
        paddle.layer.dot_prod(input1=x, input2=x),
        paddle.layer.scaling(input=x, weight=score),
        paddle.layer.interpolation(input=[x, x], weight=score),
        paddle.layer.slope_intercept(input=x, slope=2),
        paddle.layer.trans(input=x),
        paddle.layer.max_id(input=x),
        paddle.layer.factorization_machine(input=x, factor_size=2),
        paddle.layer.sum_cost(input=x),
        paddle.layer.square_error_cost(input=x, label=x),
        paddle.layer.smooth_l1_cost(input=x, label=x),
        paddle.layer.huber_regression_cost(input=x, label=x),
        paddle.layer.rank_cost(left=score, right=score, label=score),
        paddle.op.exp(x),
    ]
    assert [layer.name for layer in made] == [
        "__fc_layer_1__",
        "__embedding_0__",
        "__mixed_0__",
        "__addto_0__",
        "__concat_0__",
        "__dropout_0__",
        "__seq_pooling_0__",
        "__first_seq_0__",
        "__last_seq_0__",
        "__cos_sim_0__",
        "__dot_prod_layer_0__",
        "__scaling_layer_0__",
        "__interpolation_layer_0__",
        "__slope_intercept_layer_0__",
        "__trans_layer_0__",
        "__maxid_layer_0__",
        "__factorization_machine_0__",
        "__sum_cost_0__",
        "__square_error_cost_0__",
        "__smooth_l1_cost_0__",
        "__huber_regression_cost_0__",
        "__rank_cost_0__",
        "__exp_0__",
    ]
    runs(Topology(made))


def test_data_is_fed_in_the_order_of_the_program():
    label, x = ids("label", 3), dense("x", 2)
    predicted = paddle.layer.fc(input=x, size=3, act=paddle.activation.Softmax())
    topology = Topology(paddle.layer.classification_cost(input=predicted, label=label))
    assert [name for name, _ in topology.data_type()] == ["label", "x"]
    assert list(topology.data_layers()) == ["label", "x"]


def test_only_what_outputs_need_is_in_the_network():
    x, label = dense("x", 2), ids("label", 3)
    predicted = paddle.layer.fc(input=x, size=3, act=paddle.activation.Softmax())
    cost = paddle.layer.classification_cost(input=predicted, label=label)
    inference = Topology(predicted)
    assert list(inference.data_layers()) == ["x"]
    assert inference.evaluators == {}
    assert Topology(cost).get_layer(predicted.name) is predicted


def test_extra_layers_are_computed_beside_the_outputs():
    x = dense("x", 2)
    predicted = paddle.layer.fc(input=x, size=1)
    cost = paddle.layer.square_error_cost(input=predicted, label=dense("y", 1))
    best = paddle.layer.max_id(input=predicted)
    paddle.evaluator.sum(input=best, name="best")
    assert list(Topology(cost).evaluators) == []
    assert list(Topology(cost, extra_layers=best).evaluators) == ["best"]


def test_two_costs_keep_both_figures():
    x, label = dense("x", 2), ids("label", 3)
    costs = [
        paddle.layer.classification_cost(
            input=paddle.layer.fc(input=x, size=3, act=paddle.activation.Softmax()), label=label
        )
        for _ in range(2)
    ]
    names = ["classification_error_evaluator", "classification_error_evaluator_1"]
    assert list(Topology(costs).evaluators) == names


def test_a_mixed_layer_is_the_same_at_once_and_in_a_with_block():
    x, word = dense("x", 4), ids("word", 9)
    at_once = paddle.layer.mixed(
        size=3,
        input=[
            paddle.layer.full_matrix_projection(input=x),
            paddle.layer.table_projection(input=word),
        ],
        name="at_once",
        bias_attr=True,
    )
    with paddle.layer.mixed(size=3, name="in_block", bias_attr=True) as in_block:
        in_block += paddle.layer.full_matrix_projection(input=x)
        in_block += paddle.layer.table_projection(input=word)
    assert list(in_block.parameters) == ["_in_block.w0", "_in_block.w1", "_in_block.wbias"]
    sizes = [[each.dims for each in layer.parameters.values()] for layer in (at_once, in_block)]
    assert sizes[0] == sizes[1] == [(4, 3), (9, 3), (1, 3)]
    runs(Topology([at_once, in_block]))


def test_an_operator_in_a_mixed_layer_takes_two_inputs():
    x, y = dense("x", 4), dense("y", 4)
    layer = paddle.layer.mixed(
        input=[
            paddle.layer.dotmul_operator(a=x, b=y, scale=2),
            paddle.layer.dotmul_projection(input=x, param_attr=paddle.attr.Param(name="own")),
            paddle.layer.identity_projection(input=dense("z", 9), offset=5),
        ]
    )
    assert layer.size == 4
    assert layer.parameters["own"].dims == (1, 4)
    runs(Topology(layer))


def test_layers_are_added_and_multiplied():
    x, y, one = dense("x", 4), dense("y", 4), dense("one", 1)
    made = {
        "x + y": x + y,
        "x + 1": x + 1,
        "1 + x": 1 + x,
        "x - y": x - y,
        "x - 1": x - np.float32(1),
        "1 - x": 1 - x,
        "2 * x": 2 * x,
        "-x": -x,
        "x * one": x * one,
        "one * x": one * x,
    }
    kinds = {text: layer.kind for text, layer in made.items()}
    assert kinds == {
        "x + y": "mixed",
        "x + 1": "slope_intercept",
        "1 + x": "slope_intercept",
        "x - y": "mixed",
        "x - 1": "slope_intercept",
        "1 - x": "slope_intercept",
        "2 * x": "slope_intercept",
        "-x": "slope_intercept",
        "x * one": "scaling",
        "one * x": "scaling",
    }
    assert made["1 - x"].describe()["attributes"] == {"slope": 1.0, "intercept": 1.0}
    assert [parent.name for parent in made["one * x"].parents] == ["x", "one"]
    runs(Topology(list(made.values())))


def test_every_activation_is_known_to_the_engine():
    x = sequence("x", 1)
    for name in paddle.activation.__all__:
        act = getattr(paddle.activation, name)
        if act is not paddle.activation.BaseActivation:
            assert paddle.layer.fc(input=x, size=1, act=act()).activation == act.name


def test_every_pooling_is_known_to_the_engine():
    x = sequence("x", 3)
    for name in ("Max", "Avg", "Sum", "SquareRootN"):
        pooled = paddle.layer.pooling(input=x, pooling_type=getattr(paddle.pooling, name)())
        assert (pooled.size, pooled.shape["level"]) == (3, "single")


@pytest.mark.parametrize(
    ("name", "value", "level"),
    [
        ("dense_vector", "dense", "single"),
        ("dense_array", "dense", "single"),
        ("dense_vector_sequence", "dense", "sequence"),
        ("sparse_binary_vector", "sparse_binary", "single"),
        ("sparse_binary_vector_sequence", "sparse_binary", "sequence"),
        ("sparse_float_vector", "sparse_float", "single"),
        ("sparse_float_vector_sequence", "sparse_float", "sequence"),
        ("integer_value", "integer", "single"),
        ("integer_value_sequence", "integer", "sequence"),
        ("index_slot", "integer", "single"),
    ],
)
def test_data_types_become_shapes(name, value, level):
    type = getattr(paddle.data_type, name)(7)
    layer = paddle.layer.data(name="x", type=type)
    assert (layer.size, layer.shape["value"], layer.shape["level"]) == (7, value, level)


def test_bias_attr_says_whether_there_is_a_bias():
    x = dense("x", 2)

    def biases(function, **arguments):
        return sum(name.endswith("bias") for name in function(input=x, **arguments).parameters)

    assert [biases(paddle.layer.fc, size=1, bias_attr=each) for each in (None, True, False)] == [
        1,
        1,
        0,
    ]
    assert [biases(paddle.layer.addto, bias_attr=each) for each in (None, True, False)] == [0, 1, 0]
    named = paddle.layer.fc(input=x, size=1, bias_attr=paddle.attr.Param(name="my_bias"))
    assert named.parameters["my_bias"].initializer == {"name": "zero"}


def test_first_values_follow_the_attributes():
    x = dense("x", 4)

    def initializer(**said):
        layer = paddle.layer.fc(input=x, size=2, param_attr=paddle.attr.Param(**said))
        return next(iter(layer.parameters.values())).initializer

    assert initializer() == {"name": "normal", "mean": 0.0, "std": 0.5}
    assert initializer(initial_std=0) == {"name": "normal", "mean": 0.0, "std": 0.0}
    assert initializer(initial_mean=1) == {"name": "normal", "mean": 1.0, "std": 0.01}
    uniform = {"name": "uniform", "low": -1.0, "high": 2.0}
    assert initializer(initial_min=-1, initial_max=2) == uniform


def test_a_list_of_attributes_goes_to_the_inputs_in_order():
    named = [paddle.attr.Param(name="first"), paddle.attr.Param(name="second")]
    layer = paddle.layer.fc(input=[dense("x", 3), dense("y", 5)], size=2, param_attr=named)
    assert (layer.parameters["first"].dims, layer.parameters["second"].dims) == ((3, 2), (5, 2))


def test_a_parameter_that_says_nothing_has_the_settings_of_the_optimizer():
    optimizer = paddle.optimizer.Momentum(
        momentum=0.9,
        regularization=paddle.optimizer.L2Regularization(rate=0.25),
        gradient_clipping_threshold=25,
    )
    merged = paddle.optimizer.merge_settings(paddle.attr.Param(), optimizer)
    assert merged == {"learning_rate": 1.0, "l1": 0.0, "l2": 0.25, "clip": 25.0}
    _native.check_settings(json.dumps(merged))


def test_a_zero_of_a_parameter_stays_a_zero():
    optimizer = paddle.optimizer.AdaGrad(
        regularization=[
            paddle.optimizer.L2Regularization(rate=0.25),
            paddle.optimizer.L1Regularization(rate=0.5),
        ],
        gradient_clipping_threshold=25,
    )
    said = paddle.attr.Param(
        learning_rate=0, l1_rate=0, l2_rate=0, momentum=0, gradient_clipping_threshold=0
    )
    merged = paddle.optimizer.merge_settings(said, optimizer)
    assert merged == {"learning_rate": 0.0, "l1": 0.0, "l2": 0.0, "momentum": 0.0}
    _native.check_settings(json.dumps(merged))


@pytest.mark.parametrize(
    ("optimizer", "rule"),
    [
        (paddle.optimizer.Momentum, {"name": "momentum", "momentum": 0.0, "nesterov": False}),
        (paddle.optimizer.AdaGrad, {"name": "adagrad"}),
        (
            paddle.optimizer.DecayedAdaGrad,
            {"name": "decayed_adagrad", "rho": 0.95, "epsilon": 1e-6},
        ),
        (paddle.optimizer.AdaDelta, {"name": "adadelta", "rho": 0.95, "epsilon": 1e-6}),
        (paddle.optimizer.RMSProp, {"name": "rmsprop", "rho": 0.95, "epsilon": 1e-6}),
        (paddle.optimizer.Adam, {"name": "adam", "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}),
        (paddle.optimizer.Adamax, {"name": "adamax", "beta1": 0.9, "beta2": 0.999}),
        (paddle.optimizer.Ftrl, {"name": "ftrl", "beta": 1.0}),
    ],
)
def test_optimizers_have_the_defaults_of_the_original(optimizer, rule):
    assert json.loads(optimizer().to_json()) == {"rule": rule, "learning_rate": 1e-3}


def test_an_optimizer_describes_schedule_and_average():
    optimizer = paddle.optimizer.Adam(
        learning_rate=0.1,
        learning_rate_decay_a=0.5,
        learning_rate_decay_b=0.75,
        model_average=paddle.optimizer.ModelAverage(average_window=0.5, max_average_window=100),
        is_async=True,
        batch_size=32,
    )
    described = json.loads(optimizer.to_json())
    assert described["schedule"] == {"name": "poly", "a": 0.5, "b": 0.75}
    assert described["average"] == {"window": 0.5, "window_max": 100}
    assert optimizer.is_async
    by_pass = paddle.optimizer.Adam(
        learning_rate_schedule="pass_manual", learning_rate_args="1:1,2:0.5"
    )
    schedule = {"name": "pass_manual", "segments": "1:1,2:0.5"}
    assert json.loads(by_pass.to_json())["schedule"] == schedule


def test_a_network_can_be_written_and_read_back():
    topology = Topology(describe_word2vec())
    file = io.BytesIO()
    topology.serialize_for_inference(file)
    file.seek(0)
    again = Topology.load(file)
    assert again.to_json() == topology.to_json()
    assert again.data_type() == topology.data_type()

    def comparable(descriptions):
        return [{**each, "attr": None} for each in descriptions]

    assert comparable(again.descriptions()) == comparable(topology.descriptions())


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b'{"format": "paddle.v2 network", "version": 1}']
)
def test_a_file_that_is_not_a_network_is_refused(content):
    with pytest.raises(errors.InvalidError, match="serialize_for_inference"):
        Topology.load(io.BytesIO(content))


def test_a_network_may_be_deeper_than_the_stack():
    layer = dense("x", 1)
    for _ in range(2000):
        layer = layer + 1
    assert len(Topology(layer).layers) == 2001


def test_a_layer_knows_the_line_that_made_it():
    layer = dense("x", 1) + 1
    assert layer.place.rsplit(":", 1)[0].endswith("test_network_description.py")


def test_names_of_the_original_are_there_or_say_that_they_are_not():
    for name in paddle.layer.NOT_YET:
        assert not hasattr(paddle.layer, name)
        with pytest.raises(errors.UnsupportedError, match="is not there yet"):
            getattr(paddle.layer, name)
    assert paddle.layer.mse_cost is paddle.layer.square_error_cost
    assert paddle.layer.regression_cost is paddle.layer.square_error_cost
