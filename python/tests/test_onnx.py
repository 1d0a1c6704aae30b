"""Networks as ONNX files: ONNX Runtime computes what `paddle.infer` does."""

import numpy
import pytest
import test_cost_values
import test_layer_values
import test_vector_layers
from onnx_sessions import exported, parameters_by_chance

import paddle.v2 as paddle
from paddle import errors
from paddle.v2 import naming

DRAW = numpy.random.default_rng(9)
ROWS = 5
L, ACT = paddle.layer, paddle.activation


@pytest.fixture(autouse=True)
def fresh():
    naming.reset()


def dense(name, size=6, **sides):
    return L.data(name=name, type=paddle.data_type.dense_vector(size), **sides)


def ids(name, size=7):
    return L.data(name=name, type=paddle.data_type.integer_value(size))


def picture():
    return dense("picture", 2 * 6 * 5, height=6, width=5)


def mixed(*projections, **arguments):
    return L.mixed(input=list(projections), **arguments)


def convolutional():
    """One of everything that a picture may go through."""
    layer = L.img_conv(input=picture(), filter_size=3, num_filters=4, padding=1)
    layer = L.batch_norm(input=layer)
    layer = L.img_pool(input=layer, pool_size=2, stride=2)
    layer = L.maxout(input=layer, groups=2)
    layer = L.img_cmrnorm(input=layer, size=3, scale=0.5)
    layer = L.fc(input=layer, size=5, layer_attr=paddle.attr.Extra(drop_rate=0.5))
    return L.fc(input=L.batch_norm(input=layer), size=3, act=ACT.Softmax())


def words():
    """The network of word2vec: a shared table."""
    table = paddle.attr.Param(name="table")
    words = [L.embedding(input=ids(f"word {n}"), size=3, param_attr=table) for n in range(4)]
    hidden = L.fc(input=L.concat(input=words), size=5, act=ACT.Sigmoid())
    return L.fc(input=hidden, size=7, act=ACT.Softmax())


def pooled(**arguments):
    return L.img_pool(input=picture(), **arguments)


def convolved(**arguments):
    return L.img_conv(input=picture(), **({"filter_size": 3, "num_filters": 4} | arguments))


CASES = {
    "fc": lambda: L.fc(input=[dense("a"), dense("b", 4)], size=3),
    "words": words,
    "convolutional": convolutional,
    "cosine": lambda: L.cos_sim(dense("a"), dense("b"), scale=5),
    "cosine of parts": lambda: L.cos_sim(dense("a"), dense("b", 12), size=2),
    "dot product": lambda: L.dot_prod(dense("a"), dense("b")),
    "sum": lambda: L.addto(input=[dense("a"), dense("b")], act=ACT.Tanh(), bias_attr=True),
    "scaling": lambda: L.scaling(input=dense("a"), weight=dense("b", 1)),
    "interpolation": lambda: L.interpolation(input=[dense("a"), dense("b")], weight=dense("c", 1)),
    "line": lambda: 2 * dense("a") - 1,
    "repeated rows": lambda: L.repeat(dense("a"), 3),
    "repeated columns": lambda: L.repeat(dense("a"), 2, as_row_vector=False),
    "best id": lambda: L.max_id(input=dense("a")),
    "projections": lambda: mixed(
        L.full_matrix_projection(dense("a")),
        L.trans_full_matrix_projection(dense("b"), 3),
        L.table_projection(ids("word")),
        L.identity_projection(dense("c", 3)),
        L.identity_projection(dense("d"), 1, 3),
        size=3,
        bias_attr=True,
    ),
    "products": lambda: mixed(
        L.scaling_projection(dense("a")),
        L.dotmul_projection(dense("b")),
        L.dotmul_operator(dense("c"), dense("d"), scale=0.5),
        L.identity_projection(dense("e", 9), 3),
    ),
    "convolution in groups": lambda: convolved(groups=2, stride=(2, 1), dilation=(1, 2)),
    "convolution with a bias for each pixel": lambda: convolved(shared_biases=False),
    "transposed convolution": lambda: convolved(trans=True, stride=2, padding=1, groups=2),
    "largest, rounded up": lambda: pooled(pool_size=3, stride=2, padding=1),
    "mean, rounded up": lambda: pooled(
        pool_size=3, stride=2, padding=1, pool_type=paddle.pooling.Avg()
    ),
    "mean, rounded down": lambda: pooled(
        pool_size=2, stride=2, ceil_mode=False, pool_type=paddle.pooling.Avg()
    ),
    "vgg": lambda: paddle.networks.small_vgg(dense("x", 3 * 1024, height=32, width=32), 3, 10),
}
for name in ("Tanh", "BRelu", "SoftRelu", "STanh", "Abs", "Square", "Exp", "SoftSign"):
    act = getattr(ACT, name)
    CASES[name] = lambda act=act: L.fc(input=dense("a"), size=3, act=act())


def model_of(layer):
    """Its parameters, with values by chance; samples; and what ONNX is fed with."""
    parameters = parameters_by_chance(layer, DRAW)
    fed = {}
    for name, type in paddle.topology.Topology(layer).data_type():
        is_id = type.value == "integer"
        draw = DRAW.integers(0, type.dim, ROWS) if is_id else DRAW.normal(size=(ROWS, type.dim))
        fed[name] = draw.astype("int64" if is_id else "float32")
    return parameters, list(zip(*fed.values(), strict=True)), fed


@pytest.mark.parametrize("name", CASES)
def test_onnx_runtime_computes_what_infer_does(name, tmp_path):
    layer = CASES[name]()
    parameters, samples, fed = model_of(layer)
    session = exported(layer, parameters, tmp_path / "model.onnx")
    assert {each.name for each in session.get_inputs()} == set(fed)
    assert [each.name for each in session.get_outputs()] == [layer.name]
    (found,) = session.run(None, fed)
    expected = paddle.infer(layer, parameters, samples)
    assert found.shape == expected.shape
    scale = max(1.0, abs(expected).max())
    numpy.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * scale)
    # Any number of rows.
    (first,) = session.run(None, {key: rows[:1] for key, rows in fed.items()})
    numpy.testing.assert_allclose(first, found[:1], rtol=1e-4, atol=1e-5 * scale)


def test_several_outputs_are_exported_together(tmp_path):
    hidden = L.fc(input=dense("a"), size=3, name="hidden")
    best = L.max_id(input=hidden, name="best")
    parameters, samples, fed = model_of([hidden, best])
    session = exported([hidden, best], parameters, tmp_path / "model.onnx")
    numbers, found = session.run(["hidden", "best"], fed)
    expected = paddle.infer([hidden, best], parameters, samples)
    numpy.testing.assert_allclose(numbers, expected[0], rtol=1e-4, atol=1e-5)
    assert found.tolist() == expected[1].tolist()


@pytest.mark.parametrize(
    "build",
    [
        lambda: L.sum_cost(input=dense("a")),
        lambda: L.batch_norm(input=dense("a"), use_global_stats=False),
        lambda: L.fc(input=L.data(name="s", type=paddle.data_type.sparse_binary_vector(4)), size=2),
        lambda: L.fc(
            input=L.data(name="s", type=paddle.data_type.sparse_float_vector_sequence(4)), size=2
        ),
        lambda: L.trans(input=dense("a")),
        lambda: pooled(pool_size=1, stride=4),
    ],
)
def test_what_has_no_form_is_refused_and_leaves_no_file(build, tmp_path):
    layer = build()
    parameters = paddle.parameters.create(layer)
    with pytest.raises(errors.UnsupportedError):
        paddle.onnx_export(layer, parameters, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("module", [test_cost_values, test_layer_values, test_vector_layers])
def test_every_layer_is_exported_or_refused_by_name(module, tmp_path):
    path = tmp_path / "model.onnx"
    for name, (build, _) in module.CASES.items():
        naming.reset()
        layer = build()
        try:
            exported(layer, parameters_by_chance(layer, DRAW), path)
            path.unlink()
        except errors.UnsupportedError as refused:
            names = [each.name for each in paddle.topology.Topology(layer).layers]
            assert any(each in str(refused) for each in names), name
            assert not path.exists(), name
