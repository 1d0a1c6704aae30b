"""Networks over sequences as ONNX files: ONNX Runtime computes what `paddle.infer` does."""

import importlib.util
import pathlib
import types

import numpy
import pytest
from onnx_sessions import exported, parameters_by_chance
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

import paddle.v2 as paddle
from paddle import errors
from paddle.v2 import naming

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
DRAW = numpy.random.default_rng(5)
BATCHES = [(3, 1, 0, 4, 2), (4,), (1,), (0,), (0, 0), (1, 1), (0, 5)]
L, ACT, NETWORKS = paddle.layer, paddle.activation, paddle.networks


@pytest.fixture(autouse=True)
def fresh():
    naming.reset()


def rows(name="rows", size=6):
    return L.data(name=name, type=paddle.data_type.dense_vector_sequence(size))


def words(name="words", size=7):
    return L.data(name=name, type=paddle.data_type.integer_value_sequence(size))


def sample(name="sample", size=6):
    return L.data(name=name, type=paddle.data_type.dense_vector(size))


def embedded(size=6):
    return L.embedding(input=words(), size=size)


def context(**arguments):
    return L.mixed(input=L.context_projection(rows(), **arguments))


def summed(layer):
    """A layer, and what shows where its sequences begin and end."""
    return [layer, L.pooling(input=layer, pooling_type=paddle.pooling.Sum())]


def tagger(**arguments):
    return L.crf_decoding(input=L.fc(input=rows(), size=4, act=ACT.Linear()), **arguments)


def everything_row_by_row():
    a = L.fc(input=[rows(), embedded()], size=4, act=ACT.Softmax())
    b = L.addto(input=[a, rows("others", 4)], act=ACT.Tanh(), bias_attr=True)
    weight = L.cos_sim(a, b)
    mixed = L.interpolation(input=[L.scaling(input=a, weight=weight), b], weight=weight)
    product = L.mixed(input=[L.dotmul_operator(mixed, 2 * a - 1), L.table_projection(words("w"))])
    return L.dropout(input=L.concat(input=[product, L.dot_prod(a, b)]), dropout_rate=0.25)


CASES = {
    "embedding": embedded,
    "row by row": everything_row_by_row,
    "best ids": lambda: L.max_id(input=rows()),
    "first": lambda: L.first_seq(input=rows()),
    "last": lambda: L.last_seq(input=rows()),
    "expanded": lambda: L.expand(input=sample(), expand_as=words(), bias_attr=True),
    "softmax over sequences": lambda: L.fc(input=rows(), size=2, act=ACT.SequenceSoftmax()),
    "attention": lambda: L.pooling(
        input=L.scaling(
            input=rows(), weight=L.fc(input=rows("keys"), size=1, act=ACT.SequenceSoftmax())
        ),
        pooling_type=paddle.pooling.Sum(),
    ),
    "joined": lambda: summed(L.seq_concat(rows(), embedded())),
    "joined with itself, shifted": lambda: summed(
        L.seq_concat(L.seq_concat(rows(), rows("b")), rows("c"), act=ACT.Tanh(), bias_attr=True)
    ),
    "reshaped": lambda: summed(L.seq_reshape(rows(), reshape_size=2)),
    "context": lambda: context(context_len=3),
    "context far before": lambda: context(context_len=2, context_start=-4),
    "context behind": lambda: context(context_len=3, context_start=1),
    "context of one": lambda: context(context_len=1, padding_attr=True),
    "learnt context": lambda: context(context_len=5, padding_attr=True),
    "learnt context behind": lambda: context(context_len=2, context_start=1, padding_attr=True),
    "two learnt contexts": lambda: L.mixed(
        input=[
            L.context_projection(rows(), 4, padding_attr=True),
            L.context_projection(rows("b"), 4, context_start=-3, padding_attr=True),
            L.full_matrix_projection(rows("c")),
        ],
        size=24,
    ),
    "tags": tagger,
    "wrong tags": lambda: tagger(label=words("label", 4)),
    "convolution": lambda: NETWORKS.sequence_conv_pool(embedded(), context_len=3, hidden_size=4),
    "lstm without bias": lambda: L.lstmemory(input=rows(size=8), bias_attr=False),
    "gru without bias": lambda: L.grumemory(input=rows(), bias_attr=False),
    "recurrent without bias": lambda: L.recurrent(input=rows(), bias_attr=False),
    "pictures": lambda: L.last_seq(
        input=L.img_conv(input=rows(size=16), num_channels=1, filter_size=3, num_filters=2)
    ),
}
for pooling in ("Max", "Avg", "Sum", "SquareRootN"):
    CASES[f"pooling {pooling}"] = lambda pooling=pooling: L.pooling(
        input=rows(), pooling_type=getattr(paddle.pooling, pooling)(), bias_attr=True
    )
for reverse in (False, True):
    way = "backwards" if reverse else "forwards"
    CASES |= {
        f"lstm {way}": lambda reverse=reverse: NETWORKS.simple_lstm(embedded(), 3, reverse=reverse),
        f"gru {way}": lambda reverse=reverse: NETWORKS.simple_gru(rows(), 3, reverse=reverse),
        f"recurrent {way}": lambda reverse=reverse: L.recurrent(input=rows(), reverse=reverse),
    }
for act in (ACT.Linear, ACT.Sigmoid, ACT.Tanh, ACT.Relu, ACT.BRelu, ACT.STanh):
    CASES |= {
        f"lstm of {act.__name__}": lambda act=act: L.lstmemory(
            input=rows(size=8), act=act(), gate_act=ACT.STanh(), state_act=act()
        ),
        f"gru of {act.__name__}": lambda act=act: L.grumemory(input=rows(), gate_act=act()),
        f"recurrent of {act.__name__}": lambda act=act: L.recurrent(input=rows(), act=act()),
    }
for network in (NETWORKS.bidirectional_lstm, NETWORKS.bidirectional_gru):
    for return_seq in (False, True):
        CASES[f"{network.__name__} {return_seq}"] = lambda network=network, each=return_seq: (
            network(input=embedded(), size=3, return_seq=each)
        )


def drawn(type, lengths):
    """For each sample a value of the type, and what ONNX is fed with."""
    counts = lengths if type.level == "sequence" else [1] * len(lengths)
    if type.value == "integer":
        values = [DRAW.integers(0, type.dim, count).astype("int64") for count in counts]
    else:
        values = [DRAW.normal(size=(count, type.dim)).astype("float32") for count in counts]
    samples = values if type.level == "sequence" else [value[0] for value in values]
    return samples, numpy.concatenate(values)


def compare(layers, parameters, session, columns):
    """Asks both; `columns` has samples, and what ONNX is fed with, by the names of data layers."""
    fed = {}
    for name, type in paddle.topology.Topology(layers).data_type():
        samples, fed[name] = columns[name]
        if type.level == "sequence":
            fed[f"{name}.lengths"] = numpy.array([len(each) for each in samples])
    assert {each.name for each in session.get_inputs()} == set(fed)
    samples = zip(*(samples for samples, _ in columns.values()), strict=True)
    expected = paddle.infer(layers, parameters, list(samples))
    expected = expected if isinstance(expected, list) else [expected]
    for layer, values in zip(layers, expected, strict=True):
        (found,) = session.run([layer.name], fed)
        assert found.shape == values.shape
        numpy.testing.assert_allclose(found, values, rtol=1e-4, atol=2e-5)
    return fed


def check(layers, path, batches=BATCHES):
    """Compares the answers of ONNX Runtime and of `paddle.infer` for batches of these lengths."""
    layers = layers if isinstance(layers, list) else [layers]
    parameters = parameters_by_chance(layers, DRAW)
    session = exported(layers, parameters, path)
    types = dict(paddle.topology.Topology(layers).data_type())
    for lengths in batches:
        columns = {name: drawn(type, lengths) for name, type in types.items()}
        compare(layers, parameters, session, columns)


@pytest.mark.parametrize("name", CASES)
def test_onnx_runtime_computes_what_infer_does(name, tmp_path):
    check(CASES[name](), tmp_path / "model.onnx")


def network_of(example, monkeypatch):
    """The module `network` of an example."""
    monkeypatch.syspath_prepend(EXAMPLES / example)
    source = importlib.util.spec_from_file_location(
        f"network_{example}", EXAMPLES / example / "network.py"
    )
    module = importlib.util.module_from_spec(source)
    source.loader.exec_module(module)
    return module


@pytest.mark.parametrize("model", ["convolution", "lstm"])
def test_the_classifiers_of_reviews_are_exported(model, tmp_path, monkeypatch):
    network = network_of("sentiment", monkeypatch)
    _, predicted = network.describe(model, 30, {"embedding": 8, "hidden": 8})
    check(predicted, tmp_path / "model.onnx")


def test_the_tagger_of_words_is_exported_with_its_scores(tmp_path, monkeypatch):
    network = network_of("sequence_tagging", monkeypatch)
    dictionary = types.SimpleNamespace(words=range(30), parts=range(8), features=range(5))
    _, tags, _ = network.describe("rnn_crf", dictionary)
    check([tags.parents[0], tags], tmp_path / "model.onnx")


def test_sequences_go_in_and_come_out_as_rows_and_lengths(tmp_path):
    hidden = L.fc(input=embedded(), size=3, name="hidden")
    layers = [hidden, L.last_seq(input=hidden, name="last"), L.max_id(input=hidden, name="best")]
    session = exported(layers, parameters_by_chance(layers, DRAW), tmp_path / "model.onnx")
    described = [
        {each.name: (each.type, each.shape) for each in side}
        for side in (session.get_inputs(), session.get_outputs())
    ]
    assert described[0] == {
        "words": ("tensor(int64)", ["words.rows"]),
        "words.lengths": ("tensor(int64)", ["N"]),
    }
    assert described[1] == {
        "hidden": ("tensor(float)", ["hidden.rows", 3]),
        "hidden.lengths": ("tensor(int64)", ["N"]),
        "last": ("tensor(float)", ["N", 3]),
        "best": ("tensor(int64)", ["best.rows"]),
        "best.lengths": ("tensor(int64)", ["N"]),
    }
    fed = {"words": numpy.array([3, 1, 4]), "words.lengths": numpy.array([2, 0, 1])}
    found = session.run(["hidden.lengths", "last", "best"], fed)
    assert found[0].tolist() == [2, 0, 1]
    assert found[1][1].tolist() == [0, 0, 0]
    assert found[2].shape == (3,)


@pytest.mark.parametrize("lengths", [((2, 0, 3), (1, 4, 0)), ((0,), (2,)), ((3,), (0,))])
def test_sequences_of_different_lengths_are_joined(lengths, tmp_path):
    layers = summed(L.seq_concat(rows(), rows("others"), name="joined"))
    parameters = parameters_by_chance(layers, DRAW)
    session = exported(layers, parameters, tmp_path / "model.onnx")
    type = paddle.data_type.dense_vector_sequence(6)
    columns = {"rows": drawn(type, lengths[0]), "others": drawn(type, lengths[1])}
    fed = compare(layers, parameters, session, columns)
    (found,) = session.run(["joined.lengths"], fed)
    assert found.tolist() == [sum(pair) for pair in zip(*lengths, strict=True)]


def test_reshaped_sequences_have_other_lengths(tmp_path):
    layer = L.seq_reshape(rows(), reshape_size=12, name="reshaped")
    session = exported(layer, parameters_by_chance(layer, DRAW), tmp_path / "model.onnx")
    numbers = DRAW.normal(size=(6, 6)).astype("float32")
    found = session.run(None, {"rows": numbers, "rows.lengths": numpy.array([4, 0, 2])})
    assert found[0].tolist() == numbers.reshape(3, 12).tolist()
    assert found[1].tolist() == [2, 0, 1]
    with pytest.raises(InvalidArgument, match="rows of 12 by layer reshaped"):
        session.run(None, {"rows": numbers, "rows.lengths": numpy.array([3, 3, 0])})


def bound(name, is_id=True):
    type = paddle.data_type.integer_value(9) if is_id else paddle.data_type.dense_vector(1)
    return L.data(name=name, type=type)


@pytest.mark.parametrize(
    "build",
    [
        lambda: L.seq_slice(rows(), bound("first"), bound("second"), name="part"),
        lambda: L.seq_slice(rows(), bound("first"), None, name="part"),
        lambda: L.seq_slice(rows(), None, bound("second", is_id=False), name="part"),
        lambda: L.sub_seq(rows(), bound("first", is_id=False), bound("second"), name="part"),
    ],
)
def test_parts_of_sequences_are_taken_and_never_rows_of_others(build, tmp_path):
    layers = summed(build())
    parameters = parameters_by_chance(layers, DRAW)
    session = exported(layers, parameters, tmp_path / "model.onnx")
    types = dict(paddle.topology.Topology(layers).data_type())
    columns = {"rows": drawn(types["rows"], (3, 2, 5))}
    for name, places in (("first", [1, 0, 2]), ("second", [1, 1, 2])):
        if types.get(name) and types[name].value == "integer":
            columns[name] = places, numpy.array(places)
        elif name in types:
            columns[name] = [[place] for place in places], numpy.float32(places).reshape(3, 1)
    fed = compare(layers, parameters, session, columns)
    name = "first" if "first" in types else "second"
    for wrong in (-1, 5):
        with pytest.raises(InvalidArgument, match="layer part takes are not all in a sequence"):
            session.run(None, {**fed, name: numpy.full_like(fed[name], wrong)})


def test_a_layer_with_the_name_of_lengths_is_refused(tmp_path):
    layer = L.last_seq(input=L.fc(input=rows("a"), size=2, name="b"), name="b.lengths")
    with pytest.raises(errors.InvalidError, match="rename one of them .layer: b.lengths"):
        paddle.onnx_export(layer, paddle.parameters.create(layer), tmp_path / "model.onnx")


def test_a_parameter_may_have_the_name_of_a_layer(tmp_path):
    table = paddle.attr.Param(name="words")
    check(L.embedding(input=words(), size=2, param_attr=table), tmp_path / "model.onnx")


def test_rows_that_do_not_fit_their_lengths_are_an_error(tmp_path):
    layer = L.mixed(
        size=3, input=[L.table_projection(words()), L.table_projection(words("marks"))], name="sum"
    )
    session = exported(layer, parameters_by_chance(layer, DRAW), tmp_path / "model.onnx")
    fed = {"words": numpy.array([1, 2, 3]), "marks": numpy.array([4, 5, 6])}
    lengths = {f"{name}.lengths": numpy.array([1, 2]) for name in fed}
    session.run(None, {**fed, **lengths})
    with pytest.raises(InvalidArgument, match="layer sum are sequences of different lengths"):
        session.run(None, {**fed, **lengths, "marks.lengths": numpy.array([2, 1])})
    with pytest.raises(InvalidArgument, match="words has not as many rows as words.lengths says"):
        session.run(None, {**fed, **lengths, "words.lengths": numpy.array([1, 1])})
