"""Layers that combine rows, move pixels, select and rank: what a program sees, against numpy in
double precision. `crates/engine/tests` has every layer with its gradient.
"""

import numpy
import pytest

import paddle.v2 as paddle
from paddle.v2 import naming

DRAW = numpy.random.default_rng(7)
A = DRAW.normal(size=(4, 6))
B = DRAW.normal(size=(4, 6))
THREE = DRAW.normal(size=(4, 3))
ONE = DRAW.normal(size=(4, 1))
WHICH = [1, 0, 0, 1]
PICTURES = DRAW.normal(size=(4, 2, 3, 5))
SEQUENCES = [DRAW.normal(size=(length, 3)) for length in (3, 1, 4, 2)]

TYPES = {
    "a": (paddle.data_type.dense_vector(6), A),
    "b": (paddle.data_type.dense_vector(6), B),
    "three": (paddle.data_type.dense_vector(3), THREE),
    "one": (paddle.data_type.dense_vector(1), ONE),
    "which": (paddle.data_type.integer_value(2), WHICH),
    "pictures": (paddle.data_type.dense_vector(30), PICTURES.reshape(4, 30)),
    "sequences": (paddle.data_type.dense_vector_sequence(3), SEQUENCES),
}


def data(name):
    sides = {"height": 3, "width": 5} if name == "pictures" else {}
    return paddle.layer.data(name=name, type=TYPES[name][0], **sides)


def compute(build):
    """The output of the layer that `build` makes, and its parameters in double precision."""
    naming.reset()
    layer = build()
    topology = paddle.topology.Topology(layer)
    parameters = paddle.parameters.create(topology)
    for name in parameters:
        parameters[name] = DRAW.normal(size=parameters.get_shape(name))
    columns = [TYPES[name][1] for name, _ in topology.data_type()]
    values = [parameters[name].astype("float64") for name in parameters]
    return paddle.infer(layer, parameters, list(zip(*columns, strict=True))), values


def look_ahead(weight):
    rows = []
    for sequence in SEQUENCES:
        for begin in range(len(sequence)):
            seen = sequence[begin : begin + len(weight)]
            rows.append((seen * weight[: len(seen)]).sum(0))
    return numpy.array(rows)


def shifted(a, b):
    return sum(numpy.roll(a, 1 - tap, axis=1) * b[:, [tap]] for tap in range(3))


def blocks():
    """Windows of 2 by 3, a step of 1 down and 2 across: 2 x 2 places."""
    rows = []
    for picture in PICTURES:
        for y in range(2):
            rows += [picture[:, y : y + 2, x : x + 3].ravel() for x in (0, 2)]
    return numpy.array(rows)


def interpolated():
    """5 lines from 3, so every second is one of them, and 9 columns from 5."""
    wide = numpy.empty((4, 2, 5, 9))
    lines = numpy.empty((4, 2, 5, 5))
    lines[:, :, ::2] = PICTURES
    lines[:, :, 1::2] = (PICTURES[:, :, 1:] + PICTURES[:, :, :-1]) / 2
    wide[..., ::2] = lines
    wide[..., 1::2] = (lines[..., 1:] + lines[..., :-1]) / 2
    return wide


def length(x):
    return numpy.sqrt((x * x).sum(1, keepdims=True))


layer = paddle.layer

CASES = {
    "clip": (lambda: layer.clip(data("a"), -0.5, 0.25), lambda: A.clip(-0.5, 0.25)),
    "l2_distance": (lambda: layer.l2_distance(data("a"), data("b")), lambda: length(A - B)),
    "out_prod": (
        lambda: layer.out_prod(data("a"), data("three")),
        lambda: numpy.einsum("ni,nj->nij", A, THREE).reshape(4, 18),
    ),
    "linear_comb": (
        lambda: layer.linear_comb(weights=data("three"), vectors=data("a")),
        lambda: numpy.einsum("nj,nji->ni", THREE, A.reshape(4, 3, 2)),
    ),
    "power": (
        lambda: layer.power(layer.clip(data("a"), 0.1, 9), data("one")),
        lambda: A.clip(0.1, 9) ** ONE,
    ),
    "conv_shift": (lambda: layer.conv_shift(data("a"), data("three")), lambda: shifted(A, THREE)),
    "row_l2_norm": (lambda: layer.row_l2_norm(data("a")), lambda: A / length(A)),
    "sum_to_one_norm": (
        lambda: layer.sum_to_one_norm(layer.clip(data("a"), 0.1, 9)),
        lambda: A.clip(0.1, 9) / A.clip(0.1, 9).sum(1, keepdims=True),
    ),
    "multiplex": (
        lambda: layer.multiplex([data("which"), data("a"), data("b")]),
        lambda: numpy.where(numpy.array(WHICH)[:, None] == 0, A, B),
    ),
    "resize": (lambda: layer.resize(data("a"), size=8), lambda: A.reshape(3, 8)),
    "prelu": (
        lambda: layer.prelu(data("pictures"), channel_shared=False),
        lambda w: (
            numpy.maximum(PICTURES, 0) + numpy.minimum(PICTURES, 0) * w.reshape(1, 2, 1, 1)
        ).reshape(4, 30),
    ),
    "scale_shift": (lambda: layer.scale_shift(data("a")), lambda w, b: A * w + b),
    "tensor": (
        lambda: layer.tensor(data("a"), data("three"), size=2),
        lambda w, b: numpy.einsum("ni,kij,nj->nk", A, w.reshape(2, 6, 3), THREE) + b,
    ),
    "row_conv": (lambda: layer.row_conv(data("sequences"), context_len=3), look_ahead),
    "gated_unit": (
        lambda: layer.gated_unit(data("a"), size=2),
        lambda w, b, v, c: (A @ w + b) / (1 + numpy.exp(-(A @ v + c))),
    ),
    "block_expand": (
        lambda: layer.block_expand(data("pictures"), block_x=3, block_y=2, stride_x=2, stride_y=1),
        blocks,
    ),
    "pad": (
        lambda: layer.pad(data("pictures"), pad_c=[0, 1], pad_h=[2, 0], pad_w=[1, 1]),
        lambda: numpy.pad(PICTURES, [(0, 0), (0, 1), (2, 0), (1, 1)]).reshape(4, -1),
    ),
    "crop": (
        lambda: layer.crop(data("pictures"), offset=[1, 2], axis=2, shape=[4, 2, 2, 3]),
        lambda: PICTURES[:, :, 1:3, 2:5].reshape(4, -1),
    ),
    "rotate": (
        lambda: layer.rotate(data("pictures"), height=3, width=5),
        lambda: numpy.rot90(PICTURES, -1, axes=(2, 3)).reshape(4, -1),
    ),
    "bilinear_interp": (
        lambda: layer.bilinear_interp(data("pictures"), out_size_x=9, out_size_y=5),
        lambda: interpolated().reshape(4, -1),
    ),
    "switch_order": (
        lambda: layer.switch_order(data("pictures"), reshape_axis=3),
        lambda: PICTURES.transpose(0, 2, 3, 1).reshape(-1, 2),
    ),
    "img_separable_conv": (
        lambda: paddle.networks.img_separable_conv(
            data("pictures"),
            num_channels=2,
            num_out_channels=3,
            filter_size=1,
            act=paddle.activation.Linear(),
        ),
        lambda w, b, v, c: (
            numpy.einsum(
                "ncyx,fc->nfyx",
                PICTURES * w.reshape(1, 2, 1, 1) + b.reshape(1, 2, 1, 1),
                v,
            )
            + c.reshape(1, 3, 1, 1)
        ).reshape(4, -1),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_layer_computes_what_numpy_does(name):
    build, expected = CASES[name]
    found, values = compute(build)
    numpy.testing.assert_allclose(found, expected(*values), rtol=2e-5, atol=2e-5)


def test_pictures_know_their_channels():
    pictures = data("pictures")
    assert pictures.num_filters == 2
    assert data("a").num_filters is None
    assert layer.img_conv(input=pictures, filter_size=1, num_filters=7).num_filters == 7
    assert layer.pad(pictures, pad_c=[1, 2]).num_filters == 5
    assert layer.prelu(pictures).num_filters == 2


def test_an_initializer_sets_first_values():
    naming.reset()
    asked = []

    def first(name):
        asked.append(name)
        return numpy.arange(12).reshape(6, 2)

    x = data("a")
    hidden = layer.fc(input=x, size=2, param_attr=paddle.attr.Param(initializer=first))
    parameters = paddle.parameters.create(hidden)
    assert asked == ["___fc_layer_0__.w0"]
    expected = numpy.arange(12, dtype="float32").reshape(6, 2)
    numpy.testing.assert_array_equal(parameters["___fc_layer_0__.w0"], expected)


def test_other_names_of_the_same():
    assert paddle.data_type.sparse_vector(5) == paddle.data_type.sparse_float_vector(5)
    pictures = data("pictures")
    for old, new in [("CudnnMax", "Max"), ("CudnnAvg", "Avg")]:
        described = [
            layer.img_pool(
                input=pictures, pool_size=2, pool_type=getattr(paddle.pooling, name)()
            ).describe()["attributes"]
            for name in (old, new)
        ]
        assert described[0] == described[1]


def test_pairs_are_ranked_by_integer_labels():
    naming.reset()
    left, right = data("a"), data("b")
    scores = [
        layer.fc(
            input=side,
            size=1,
            act=paddle.activation.Linear(),
            param_attr=paddle.attr.Param(name="w"),
            bias_attr=False,
        )
        for side in (left, right)
    ]
    # As programs of the original write it: ids 0 and 1.
    label = paddle.layer.data(name="label", type=paddle.data_type.integer_value(1))
    cost = layer.rank_cost(left=scores[0], right=scores[1], label=label)
    parameters = paddle.parameters.create(cost)
    found = paddle.infer(cost, parameters, list(zip(A, B, WHICH, strict=True)))
    weight = parameters["w"].astype("float64")
    difference = (A - B) @ weight
    expected = numpy.log1p(numpy.exp(difference)) - difference * numpy.array(WHICH)[:, None]
    numpy.testing.assert_allclose(found, expected, rtol=1e-5)


def test_lambda_rank_learns_to_order_documents():
    """The relevance of a document is its first feature, rounded; the NDCG must become nearly 1."""
    naming.reset()
    paddle.init(trainer_count=1)
    draw = numpy.random.default_rng(3)
    features = paddle.layer.data(name="x", type=paddle.data_type.dense_vector_sequence(5))
    relevance = paddle.layer.data(name="y", type=paddle.data_type.dense_vector_sequence(1))
    score = layer.fc(input=features, size=1, act=paddle.activation.Linear())
    cost = layer.lambda_cost(input=score, score=relevance, NDCG_num=4)

    def query():
        documents = draw.uniform(size=(10, 5))
        return documents, numpy.round(3 * documents[:, :1])

    queries = [query() for _ in range(60)]
    queries = [each for each in queries if each[1].max() > 0]
    parameters = paddle.parameters.create(cost)
    parameters["___fc_layer_0__.w0"] = numpy.full((5, 1), -0.1)

    def ndcg():
        return paddle.infer(cost, parameters, queries).mean()

    before = ndcg()
    trainer = paddle.trainer.SGD(cost, parameters, paddle.optimizer.Adam(learning_rate=0.1))
    trainer.train(paddle.batch(lambda: iter(queries), 10), num_passes=15)
    assert before < 0.6
    assert ndcg() > 0.98


def test_words_are_drawn_and_the_best_selected():
    naming.reset()
    words = paddle.layer.data(name="w", type=paddle.data_type.dense_vector_sub_sequence(1))
    best = layer.kmax_seq_score(input=words, beam_size=2)
    nested = [[[0.1], [0.9], [0.4]], [[0.2]]]
    parameters = paddle.parameters.create(best)
    found = paddle.infer(best, parameters, [(nested,)])
    numpy.testing.assert_array_equal(found, [[1, 2], [0, -1]])


def test_printers_write_what_layers_gave(tmp_path, capsys):
    naming.reset()
    paddle.init(trainer_count=1)
    x = paddle.layer.data(name="x", type=paddle.data_type.dense_vector(2))
    label = paddle.layer.data(name="y", type=paddle.data_type.integer_value(2))
    hidden = layer.fc(
        input=x,
        size=2,
        name="hidden",
        act=paddle.activation.Softmax(),
        bias_attr=False,
        param_attr=paddle.attr.Param(initializer=lambda name: numpy.eye(2)),
    )
    cost = layer.cross_entropy_cost(input=hidden, label=label)
    paddle.evaluator.value_printer(input=x)
    paddle.evaluator.gradient_printer(input=hidden)
    paddle.evaluator.maxid_printer(input=x, num_results=2)
    paddle.evaluator.classification_error_printer(input=hidden, label=label)
    parameters = paddle.parameters.create(cost)
    trainer = paddle.trainer.SGD(cost, parameters, paddle.optimizer.Momentum(learning_rate=0))
    trainer.train(paddle.batch(lambda: iter([([0.0, 2.0], 0), ([1.0, 0.0], 0)]), 2))
    written = capsys.readouterr().err
    assert "layer=x value matrix:\n0 2\n1 0\n" in written
    assert "layer=x row max id vector:\n1 : 2, 0 : 0\n0 : 1, 1 : 0\n" in written
    assert "Classification Error:\n1\n0\n" in written
    # The gradient of -ln p is -1/p at the label.
    gradient = written.split("layer=hidden grad matrix:\n")[1].splitlines()[:2]
    first, second = (-(1 + numpy.exp(exponent)) for exponent in (2, -1))
    found = numpy.array([[float(number) for number in line.split()] for line in gradient])
    numpy.testing.assert_allclose(found, [[first, 0], [second, 0]], rtol=1e-4)


def test_a_program_prints_layers(capsys):
    naming.reset()
    paddle.init(trainer_count=1)
    x = paddle.layer.data(name="x", type=paddle.data_type.dense_vector(2))
    hidden = layer.fc(input=x, size=1, act=paddle.activation.Linear(), name="hidden")
    cost = layer.sum_cost(input=hidden)
    layer.printer(input=x)
    layer.print(input=[x, hidden], format="x is %sand hidden %s.")
    parameters = paddle.parameters.create(cost)
    parameters["_hidden.w0"] = [[1.0], [10.0]]
    trainer = paddle.trainer.SGD(cost, parameters, paddle.optimizer.Momentum(learning_rate=0))
    trainer.train(paddle.batch(lambda: iter([([3.0, 2.0],)]), 1))
    written = capsys.readouterr().err
    assert "layer=x value matrix:\n3 2\n" in written
    assert "x is 3 2\nand hidden 23\n.\n" in written


def test_sentences_are_written_as_text(tmp_path, capsys):
    naming.reset()
    paddle.init(trainer_count=1)
    words = paddle.layer.data(name="w", type=paddle.data_type.dense_vector_sequence(3))
    scores = layer.fc(input=words, size=1, act=paddle.activation.Linear())
    best = layer.max_id(input=words)
    cost = layer.sum_cost(input=scores)
    (tmp_path / "words.txt").write_text("a\nb\nc\n")
    result = tmp_path / "result.txt"
    paddle.evaluator.seqtext_printer(
        input=best, result_file=str(result), dict_file=str(tmp_path / "words.txt")
    )
    paddle.evaluator.maxframe_printer(input=scores)
    parameters = paddle.parameters.create(cost)
    trainer = paddle.trainer.SGD(
        cost, parameters, paddle.optimizer.Momentum(learning_rate=0), extra_layers=[best]
    )
    samples = [([[0, 1, 0], [0, 0, 1]],), ([[1, 0, 0]],)]
    trainer.train(paddle.batch(lambda: iter(samples), 1))
    assert result.read_text() == "0\tb c\n1\ta\n"
    assert capsys.readouterr().err.count("sequence max frames:") == 2
