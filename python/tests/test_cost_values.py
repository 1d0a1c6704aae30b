"""What costs, and the few layers that only give ids, compute: against numpy in double precision."""

import itertools

import numpy
import pytest

import paddle.v2 as paddle
from paddle.v2 import naming

LAYER = paddle.layer
DRAW = numpy.random.default_rng(11)
A, B = DRAW.normal(size=(2, 5, 3)) * 2
ONE = DRAW.normal(size=(5, 1)) * 2
IDS = numpy.array([2, 0, 1, 1, 2])
BINARY = numpy.array([1, 0, 1, 1, 0])
TYPES = {
    "a": (paddle.data_type.dense_vector(3), A),
    "b": (paddle.data_type.dense_vector(3), B),
    "one": (paddle.data_type.dense_vector(1), ONE),
    "ids": (paddle.data_type.integer_value(3), IDS),
    "binary": (paddle.data_type.integer_value(2), BINARY),
}


def data(name):
    return LAYER.data(name=name, type=TYPES[name][0])


def compute(build):
    naming.reset()
    layer = build()
    topology = paddle.topology.Topology(layer)
    columns = [TYPES[name][1] for name, _ in topology.data_type()]
    samples = [tuple(row) for row in zip(*columns, strict=True)]
    return paddle.infer(layer, paddle.parameters.create(topology), samples).reshape(5, -1)


def column(numbers):
    return numpy.asarray(numbers, dtype="float64").reshape(5, 1)


def huber(delta):
    distance = numpy.abs(A - B)
    near, far = distance**2 / 2, delta * (distance - delta / 2)
    return column(numpy.where(distance <= delta, near, far).sum(1))


def margins():
    """Modified Huber of y·x, y being −1 or 1."""
    margin = ONE[:, 0] * (2 * BINARY - 1)
    near = numpy.where(margin > 1, 0.0, (1 - margin) ** 2)
    return column(numpy.where(margin > -1, near, -4 * margin))


def selfnorm():
    """Of numbers that are not normalized: their sum is z."""
    numbers = numpy.exp(A)
    z = numbers.sum(1)
    return column(-numpy.log(numbers[range(5), IDS] / z) + 0.1 * numpy.log(z) ** 2)


def exponentials():
    return LAYER.mixed(
        input=LAYER.identity_projection(data("a")), act=paddle.activation.Exp(), size=3
    )


CASES = {
    "square_error_cost": (
        lambda: LAYER.square_error_cost(data("a"), data("b")),
        lambda: column(((A - B) ** 2).sum(1)),
    ),
    "smooth_l1_cost": (lambda: LAYER.smooth_l1_cost(data("a"), data("b")), lambda: huber(1.0)),
    "huber_regression_cost": (
        lambda: LAYER.huber_regression_cost(data("a"), data("b"), delta=0.7),
        lambda: huber(0.7),
    ),
    "huber_classification_cost": (
        lambda: LAYER.huber_classification_cost(data("one"), data("binary")),
        margins,
    ),
    "cross_entropy_with_selfnorm_cost": (
        lambda: LAYER.cross_entropy_with_selfnorm_cost(exponentials(), data("ids")),
        selfnorm,
    ),
    "sum_cost": (lambda: LAYER.sum_cost(data("a")), lambda: column(A.sum(1))),
    "eos": (lambda: LAYER.eos(data("ids"), eos_id=1), lambda: column(IDS == 1)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_cost_is_what_numpy_computes(name):
    build, expected = CASES[name]
    numpy.testing.assert_allclose(compute(build), expected(), rtol=2e-5, atol=2e-5)


def test_ctc_sums_over_all_ways_to_show_the_label():
    naming.reset()
    rows, classes, label = 4, 3, [1, 0]
    seen = LAYER.data(name="seen", type=paddle.data_type.dense_vector_sequence(classes))
    truth = LAYER.data(name="truth", type=paddle.data_type.integer_value_sequence(classes - 1))
    cost = LAYER.ctc(input=seen, label=truth, size=classes)
    scores = numpy.exp(DRAW.normal(size=(rows, classes)))
    probabilities = scores / scores.sum(1, keepdims=True)
    total, blank = 0.0, classes - 1
    for way in itertools.product(range(classes), repeat=rows):
        shown = [key for key, _ in itertools.groupby(way)]
        if [each for each in shown if each != blank] == label:
            total += numpy.prod(probabilities[range(rows), way])
    found = paddle.infer(cost, paddle.parameters.create(cost), [(probabilities, label)])
    assert found == pytest.approx(-numpy.log(total), rel=1e-5)


def test_an_id_is_drawn_by_its_probability():
    naming.reset()
    chances = LAYER.data(name="chances", type=paddle.data_type.dense_vector(3))
    drawn = LAYER.sampling_id(chances)
    parameters = paddle.parameters.create(drawn)
    sure = paddle.infer(drawn, parameters, [([0, 1, 0],), ([1, 0, 0],)], field="id")
    assert numpy.asarray(sure).ravel().tolist() == [1, 0]
    found = paddle.infer(drawn, parameters, [([0.2, 0.8, 0],)] * 2000, field="id")
    counts = numpy.bincount(numpy.asarray(found).ravel().astype(int), minlength=3)
    # The deviation of the number of 1s is √(2000·0.2·0.8) = 18; five of it are no accident.
    assert counts[2] == 0
    assert abs(counts[1] - 1600) < 90


def test_a_step_gives_the_state_of_its_cells():
    naming.reset()
    sums = LAYER.data(name="sums", type=paddle.data_type.dense_vector_sequence(4))

    def step(row):
        state = LAYER.memory(name="state", size=1)
        output = LAYER.lstm_step(input=row, state=state, size=1, name="cells", bias_attr=False)
        LAYER.get_output(input=output, arg_name="state", name="state")
        return LAYER.get_output(input=output, arg_name="state")

    states = LAYER.recurrent_group(step=step, input=sums)
    rows = DRAW.normal(size=(3, 4))
    found = paddle.infer(states, paddle.parameters.create(states), [(rows,)])
    state, expected = 0.0, []
    for candidate, into, keep, _ in rows:
        # Without peepholes: c = σ(f)·c + σ(i)·tanh(a).
        state = state / (1 + numpy.exp(-keep)) + numpy.tanh(candidate) / (1 + numpy.exp(-into))
        expected.append([state])
    numpy.testing.assert_allclose(found, expected, rtol=1e-5)
