"""Networks over pictures: that they learn, what batch normalization measures, ready-made ones."""

import io

import numpy
import pytest

import paddle.v2 as paddle
from paddle.v2 import naming

DRAW = numpy.random.default_rng(3)


@pytest.fixture(autouse=True)
def fresh():
    naming.reset()


def pictures(count, seed=5):
    """Pictures of 2 x 6 x 6 with a bright spot in one of four corners, which is the class."""
    draw = numpy.random.default_rng(seed)
    for _ in range(count):
        label = int(draw.integers(0, 4))
        picture = draw.normal(scale=0.3, size=(2, 6, 6))
        y, x = (label // 2) * 3 + draw.integers(0, 2), (label % 2) * 3 + draw.integers(0, 2)
        picture[:, y, x] += 2
        yield picture.astype("float32").ravel(), label


def picture_data():
    type = paddle.data_type.dense_vector(72)
    return paddle.layer.data(name="picture", type=type, height=6, width=6)


def label_data():
    return paddle.layer.data(name="label", type=paddle.data_type.integer_value(4))


def normalized(act=None):
    """Batch normalization of pictures that are fed, and a cost."""
    layer = paddle.layer.batch_norm(
        input=picture_data(), name="norm", act=act or paddle.activation.Linear()
    )
    return layer, paddle.layer.sum_cost(input=layer)


def trainer_of(cost, rate=0.0):
    parameters = paddle.parameters.create(cost)
    optimizer = paddle.optimizer.Momentum(momentum=0.9, learning_rate=rate)
    return parameters, paddle.trainer.SGD(cost, parameters, optimizer)


def test_corners_are_learnt_by_convolution_pooling_and_normalization():
    network = paddle.networks.img_conv_bn_pool(
        input=picture_data(),
        filter_size=3,
        num_filters=8,
        pool_size=2,
        conv_padding=1,
        pool_stride=2,
        act=paddle.activation.Relu(),
        num_channel=2,
    )
    chances = paddle.layer.fc(input=network, size=4, act=paddle.activation.Softmax())
    cost = paddle.layer.classification_cost(input=chances, label=label_data())
    parameters, trainer = trainer_of(cost, rate=0.02 / 20)
    trainer.train(paddle.batch(lambda: pictures(400), 20), num_passes=4)
    tested = trainer.test(paddle.batch(lambda: pictures(200, seed=6), 20))
    assert tested.metrics["classification_error_evaluator"] < 0.05
    # The moving averages go with the model.
    file = io.BytesIO()
    parameters.to_tar(file)
    loaded = paddle.parameters.Parameters.from_tar(io.BytesIO(file.getvalue()))
    samples = [(picture,) for picture, _ in pictures(50, seed=6)]
    before, after = (paddle.infer(chances, each, samples) for each in (parameters, loaded))
    numpy.testing.assert_array_equal(before, after)


def test_moving_averages_follow_the_batches_and_a_test_takes_them():
    layer, cost = normalized()
    parameters, trainer = trainer_of(cost)
    batch = [picture for picture, _ in pictures(8)]
    trainer.train(lambda: iter([[(picture,) for picture in batch]] * 2))
    rows = numpy.array(batch, "float64").reshape(8, 2, 36)
    mean, variance = rows.mean((0, 2)), rows.var((0, 2))
    # From 0, twice a tenth of the way.
    numpy.testing.assert_allclose(parameters["_norm.w1"][0], 0.19 * mean, rtol=1e-5)
    numpy.testing.assert_allclose(parameters["_norm.w2"][0], 0.19 * variance, rtol=1e-5)
    found = paddle.infer(layer, parameters, [(picture,) for picture in batch])
    spread = numpy.sqrt(0.19 * variance + 1e-5)[:, None]
    expected = (rows - 0.19 * mean[:, None]) / spread
    numpy.testing.assert_allclose(found.reshape(8, 2, 36), expected, rtol=1e-4, atol=1e-5)


def test_forward_without_update_leaves_the_averages():
    _, cost = normalized()
    parameters, trainer = trainer_of(cost)
    trainer.test(lambda: iter([[(picture,) for picture, _ in pictures(8)]]))
    assert not parameters["_norm.w1"].any() and not parameters["_norm.w2"].any()


def test_batch_norm_has_the_parameters_of_the_original():
    _, cost = normalized()
    parameters = paddle.parameters.create(cost)
    assert list(parameters) == ["_norm.w0", "_norm.w1", "_norm.w2", "_norm.wbias"]
    assert {parameters.get_shape(name) for name in parameters} == {(1, 2)}
    assert [float(parameters[name][0, 0]) for name in parameters] == [1, 0, 0, 0]
    is_static = {
        each["name"]: each["is_static"] for each in paddle.topology.Topology(cost).descriptions()
    }
    assert [name for name, static in is_static.items() if static] == ["_norm.w1", "_norm.w2"]


def test_averages_are_shared_by_name():
    picture = picture_data()
    for _ in range(2):
        picture = paddle.layer.batch_norm(input=picture, mean_var_names=["mean", "variance"])
    parameters = paddle.parameters.create(paddle.layer.sum_cost(input=picture))
    assert [name for name in parameters if not name.startswith("_")] == ["mean", "variance"]


@pytest.mark.parametrize(
    ("build", "layers", "size"),
    [
        (lambda x: paddle.networks.small_vgg(x, 3, 10), 30, 10),
        (lambda x: paddle.networks.vgg_16_network(x, 3), 22, 1000),
        (lambda x: paddle.networks.simple_img_conv_pool(x, 5, 20, 2, pool_stride=2), 3, 20 * 14**2),
    ],
)
def test_ready_made_networks_have_their_layers(build, layers, size):
    type = paddle.data_type.dense_vector(3 * 32 * 32)
    picture = paddle.layer.data(name="picture", type=type, height=32, width=32)
    output = build(picture)
    assert output.size == size
    assert len(paddle.topology.Topology(output).layers) == layers


def test_a_group_normalizes_and_drops_out_as_it_is_told():
    picture = paddle.layer.data(name="picture", type=paddle.data_type.dense_vector(64))
    group = paddle.networks.img_conv_group(
        input=picture,
        conv_num_filter=[2, 3],
        pool_size=2,
        num_channels=1,
        conv_with_batchnorm=[True, False],
        conv_batchnorm_drop_rate=[0.3, 0],
        conv_act=paddle.activation.Relu(),
        pool_stride=2,
    )
    layers = [layer.describe() for layer in paddle.topology.Topology(group).layers]
    assert [layer["kind"] for layer in layers] == [
        "data",
        "img_conv",
        "batch_norm",
        "img_conv",
        "img_pool",
    ]
    assert [layer["activation"] for layer in layers] == [
        "linear",
        "linear",
        "relu",
        "relu",
        "linear",
    ]
    assert [layer["drop_rate"] for layer in layers] == [0, 0, 0.3, 0, 0]
    assert group.shape["frame"] == [4, 4]
