"""What layers compute, through the whole interface, against numpy in double precision.

`crates/engine/tests` has every layer with its gradient; here it is what a program sees.
"""

import numpy
import pytest

import paddle.v2 as paddle
from paddle.v2 import naming

DRAW = numpy.random.default_rng(5)
A = DRAW.normal(size=(4, 3))
B = DRAW.normal(size=(4, 3))
ONE = DRAW.normal(size=(4, 1))
IDS = [2, 0, 4, 2]
LISTS = [[0, 3], [], [4], [1, 2, 3]]
WEIGHTED = [[(0, 0.5), (3, -2.0)], [], [(4, 1.5)], [(1, 1.0), (2, 2.0), (3, 3.0)]]
SEQUENCES = [DRAW.normal(size=(length, 3)) for length in (3, 1, 0, 2)]
PICTURES = DRAW.normal(size=(4, 2, 3, 5))
ONES = numpy.zeros((4, 5))
NUMBERS = numpy.zeros((4, 5))
for row, (plain, weighted) in enumerate(zip(LISTS, WEIGHTED, strict=True)):
    ONES[row, plain] = 1
    for column, value in weighted:
        NUMBERS[row, column] = value

TYPES = {
    "a": (paddle.data_type.dense_vector(3), A),
    "b": (paddle.data_type.dense_vector(3), B),
    "one": (paddle.data_type.dense_vector(1), ONE),
    "ids": (paddle.data_type.integer_value(5), IDS),
    "lists": (paddle.data_type.sparse_binary_vector(5), LISTS),
    "weighted": (paddle.data_type.sparse_float_vector(5), WEIGHTED),
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
    samples = list(zip(*columns, strict=True))
    values = [parameters[name].astype("float64") for name in parameters]
    return paddle.infer(layer, parameters, samples), values


def fc(*names, **arguments):
    arguments = {"act": paddle.activation.Linear(), "size": 2} | arguments
    return paddle.layer.fc(input=[data(name) for name in names], **arguments)


def mixed(*projections, size=0):
    return paddle.layer.mixed(size=size, input=list(projections))


def pooled(kind):
    return lambda: paddle.layer.pooling(input=data("sequences"), pooling_type=kind)


def per_sequence(function):
    """One row a sequence; a sequence without rows gives zeros."""
    return numpy.array([function(rows) if len(rows) else numpy.zeros(3) for rows in SEQUENCES])


def cosine(a, b):
    return (a * b).sum(1) / numpy.sqrt((a * a).sum(1) * (b * b).sum(1))


def windows(pictures, size, stride, padding=(0, 0), beyond=0.0):
    """What windows see: samples, channels, places down, across, pixels down, across."""
    sides = [(0, 0), (0, 0), *((side, side) for side in padding)]
    padded = numpy.pad(pictures, sides, constant_values=beyond)
    seen = numpy.lib.stride_tricks.sliding_window_view(padded, size, axis=(2, 3))
    return seen[:, :, :: stride[0], :: stride[1]]


def convolve(weight, bias):
    """Two filters of 2 down and 3 across, 1 pixel of padding down, 2 pixels a step across."""
    seen = windows(PICTURES, (2, 3), (1, 2), (1, 0))
    found = numpy.einsum("ncyxij,fcij->nfyx", seen, weight.reshape(2, 2, 2, 3))
    return (found + bias.reshape(1, 2, 1, 1)).reshape(4, -1)


def convolution(**arguments):
    arguments = {"act": paddle.activation.Linear(), "num_filters": 2} | arguments
    return paddle.layer.img_conv(input=data("pictures"), **arguments)


def spread(weight, bias):
    """A transposed convolution of 2 x 2, two pixels a step: every pixel becomes a square."""
    found = numpy.einsum("ncyx,cfij->nfyixj", PICTURES, weight.reshape(2, 3, 2, 2))
    return (found.reshape(4, 3, 6, 10) + bias.reshape(1, 3, 1, 1)).reshape(4, -1)


def normalized_maps():
    """Three channels around each, of which there are two here: all count, each time."""
    return (PICTURES / (1 + 0.3 * (PICTURES**2).sum(1, keepdims=True)) ** 0.5).reshape(4, -1)


L = paddle.layer
CASES = {
    "fc": (lambda: fc("a"), lambda w, b: A @ w + b),
    "fc of two": (lambda: fc("a", "b", bias_attr=False), lambda w, v: A @ w + B @ v),
    "fc sparse binary": (lambda: fc("lists"), lambda w, b: ONES @ w + b),
    "fc sparse float": (lambda: fc("weighted"), lambda w, b: NUMBERS @ w + b),
    "embedding": (lambda: L.embedding(input=data("ids"), size=2), lambda w: w[IDS]),
    "full matrix": (
        lambda: mixed(L.full_matrix_projection(data("a"), 2), size=2),
        lambda w: A @ w,
    ),
    "transposed": (
        lambda: mixed(L.trans_full_matrix_projection(data("a"), 2), size=2),
        lambda w: A @ w.T,
    ),
    "identities": (
        lambda: mixed(L.identity_projection(data("a")), L.identity_projection(data("b"))),
        lambda: A + B,
    ),
    "columns": (lambda: mixed(L.identity_projection(data("a"), 1, 2)), lambda: A[:, 1:]),
    "scaled": (lambda: mixed(L.scaling_projection(data("a"))), lambda w: A * w),
    "dotmul": (lambda: mixed(L.dotmul_projection(data("a"))), lambda w: A * w),
    "dotmul operator": (
        lambda: mixed(L.dotmul_operator(data("a"), data("b"), scale=0.5)),
        lambda: 0.5 * A * B,
    ),
    "addto": (lambda: L.addto(input=[data("a"), data("b")]), lambda: A + B),
    "concat": (lambda: L.concat(input=[data("a"), data("b")]), lambda: numpy.hstack([A, B])),
    "cos_sim": (
        lambda: L.cos_sim(data("a"), data("b"), scale=5),
        lambda: 5 * cosine(A, B)[:, None],
    ),
    "dot_prod": (
        lambda: L.dot_prod(data("a"), data("b")),
        lambda: (A * B).sum(1, keepdims=True),
    ),
    "scaling": (lambda: L.scaling(input=data("a"), weight=data("one")), lambda: A * ONE),
    "interpolation": (
        lambda: L.interpolation(input=[data("a"), data("b")], weight=data("one")),
        lambda: ONE * A + (1 - ONE) * B,
    ),
    "slope and intercept": (
        lambda: L.slope_intercept(input=data("a"), slope=2, intercept=-1),
        lambda: 2 * A - 1,
    ),
    "max_id": (lambda: L.max_id(input=data("a")), lambda: A.argmax(1)),
    "factorization machine": (
        lambda: L.factorization_machine(input=data("weighted"), factor_size=3),
        lambda w: ((NUMBERS @ w) ** 2 - NUMBERS**2 @ w**2).sum(1, keepdims=True) / 2,
    ),
    "max": (pooled(paddle.pooling.Max()), lambda: per_sequence(lambda rows: rows.max(0))),
    "avg": (pooled(paddle.pooling.Avg()), lambda: per_sequence(lambda rows: rows.mean(0))),
    "sum": (pooled(paddle.pooling.Sum()), lambda: per_sequence(lambda rows: rows.sum(0))),
    "sqrt n": (
        pooled(paddle.pooling.SquareRootN()),
        lambda: per_sequence(lambda rows: rows.sum(0) / len(rows) ** 0.5),
    ),
    "first": (
        lambda: L.first_seq(input=data("sequences")),
        lambda: per_sequence(lambda rows: rows[0]),
    ),
    "last": (
        lambda: L.last_seq(input=data("sequences")),
        lambda: per_sequence(lambda rows: rows[-1]),
    ),
    "convolution": (
        lambda: convolution(filter_size=(3, 2), stride=(2, 1), padding=(0, 1)),
        convolve,
    ),
    "convolution with sizes for both ways": (
        lambda: convolution(
            filter_size=3, filter_size_y=2, stride=2, stride_y=1, padding=0, padding_y=1
        ),
        convolve,
    ),
    "transposed convolution": (
        lambda: convolution(filter_size=2, stride=2, num_filters=3, trans=True),
        spread,
    ),
    "largest of windows": (
        lambda: L.img_pool(input=data("pictures"), pool_size=2, stride=2),
        lambda: (
            windows(
                numpy.pad(PICTURES, [(0, 0), (0, 0), (0, 1), (0, 1)], constant_values=-9),
                (2, 2),
                (2, 2),
            )
            .max((4, 5))
            .reshape(4, -1)
        ),
    ),
    "mean of windows": (
        lambda: L.img_pool(
            input=data("pictures"),
            pool_size=2,
            stride=1,
            pool_type=paddle.pooling.Avg(),
            ceil_mode=False,
        ),
        lambda: windows(PICTURES, (2, 2), (1, 1)).mean((4, 5)).reshape(4, -1),
    ),
    "maxout": (
        lambda: L.maxout(input=data("pictures"), groups=2),
        lambda: PICTURES.max(1).reshape(4, -1),
    ),
    "response normalization": (
        lambda: L.img_cmrnorm(input=data("pictures"), size=3, scale=0.9, power=0.5),
        normalized_maps,
    ),
    "pyramid": (
        lambda: L.spp(input=data("pictures"), pyramid_height=1, pool_type=paddle.pooling.Avg()),
        lambda: PICTURES.mean((2, 3)),
    ),
    "batch normalization of a test": (
        lambda: L.batch_norm(input=data("pictures"), act=paddle.activation.Linear()),
        lambda scale, mean, variance, bias: (
            (PICTURES - mean.reshape(2, 1, 1))
            / numpy.sqrt(numpy.maximum(variance, 0) + 1e-5).reshape(2, 1, 1)
            * scale.reshape(2, 1, 1)
            + bias.reshape(2, 1, 1)
        ).reshape(4, -1),
    ),
    "dropout in a test": (lambda: L.dropout(data("a"), 0.25), lambda: 0.75 * A),
}


@pytest.mark.parametrize("name", CASES)
def test_a_layer_computes_what_numpy_does(name):
    build, expected = CASES[name]
    found, values = compute(build)
    numpy.testing.assert_allclose(found, expected(*values), rtol=1e-5, atol=1e-5)


ACTIVATIONS = {
    "Tanh": numpy.tanh,
    "Sigmoid": lambda x: 1 / (1 + numpy.exp(-x)),
    "Softmax": lambda x: numpy.exp(x) / numpy.exp(x).sum(1, keepdims=True),
    "Relu": lambda x: numpy.maximum(x, 0),
    "BRelu": lambda x: numpy.clip(x, 0, 24),
    "SoftRelu": lambda x: numpy.log1p(numpy.exp(x)),
    "STanh": lambda x: 1.7159 * numpy.tanh(2 / 3 * x),
    "Abs": numpy.abs,
    "Square": numpy.square,
    "Exp": numpy.exp,
    "Reciprocal": numpy.reciprocal,
    "SoftSign": lambda x: x / (1 + numpy.abs(x)),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_is_its_function(name):
    act = getattr(paddle.activation, name)()
    found, (weight, bias) = compute(lambda: fc("a", act=act))
    expected = ACTIVATIONS[name](A @ weight + bias)
    numpy.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["int64", "int32"])
def test_ids_in_arrays_are_those_in_lists(kind):
    layer = fc("lists", bias_attr=False)
    parameters = paddle.parameters.create(layer)
    rows = [numpy.array(ids, dtype=kind) for ids in LISTS]
    # Every other number of a longer array.
    rows[3] = numpy.repeat(rows[3], 2)[::2]
    expected = paddle.infer(layer, parameters, [(ids,) for ids in LISTS])
    assert (paddle.infer(layer, parameters, [(ids,) for ids in rows]) == expected).all()
    for wrong in ([0, 5], [0, -2], [3, -1]):
        with pytest.raises(ValueError, match=f"an id from 0 to 4.*{wrong[1]}|the id {wrong[1]}"):
            paddle.infer(layer, parameters, [(numpy.array(wrong, dtype=kind),)])
