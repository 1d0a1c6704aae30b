"""Numbers of the original that a program can depend on.

Every expected number is derived in a comment from the formula of the original, not from this
package's own code.
"""

import math

import numpy
import pytest

import paddle.v2 as paddle
from paddle.v2 import naming

LAYER, ACT = paddle.layer, paddle.activation


@pytest.fixture(autouse=True)
def fresh_names():
    """Every test counts automatic names from 0."""
    naming.reset()


def ones(parameters):
    for name in parameters:
        parameters[name] = numpy.ones(parameters.get_shape(name))
    return parameters


def test_attention_without_an_activation_has_tanh():
    encoded = LAYER.data(name="encoded", type=paddle.data_type.dense_vector_sequence(1))
    projected = LAYER.data(name="projected", type=paddle.data_type.dense_vector_sequence(1))
    state = LAYER.data(name="state", type=paddle.data_type.dense_vector(1))
    context = paddle.networks.simple_attention(
        encoded_sequence=encoded, encoded_proj=projected, decoder_state=state
    )
    parameters = ones(paddle.parameters.create(context))
    found = paddle.infer(context, parameters, [([[0.0], [1.0]], [[0.0], [3.0]], [0.0])])
    # With all weights 1 and a state of 0 the rows match by tanh 0 = 0 and tanh 3. The softmax of
    # the two gives the second row, whose value is 1, e^tanh(3) / (1 + e^tanh(3)) = 0.7301; without
    # tanh it would be e^3 / (1 + e^3) = 0.9526.
    expected = math.exp(math.tanh(3)) / (1 + math.exp(math.tanh(3)))
    assert found == pytest.approx(expected, abs=1e-6)
    assert expected == pytest.approx(0.7301, abs=5e-5)


# Python 2 computes -(length - 1) / 2 rounded down: -0/2, -1/2, -2/2, -3/2, -4/2, -5/2.
@pytest.mark.parametrize(("length", "start"), [(1, 0), (2, -1), (3, -1), (4, -2), (5, -2), (6, -3)])
def test_a_context_begins_where_the_division_of_python_2_says(length, start):
    rows = LAYER.data(name="rows", type=paddle.data_type.dense_vector_sequence(1))
    beside = LAYER.mixed(
        input=LAYER.context_projection(rows, context_len=length, padding_attr=False)
    )
    sequence = [1.0, 2.0, 3.0]
    found = paddle.infer(beside, paddle.parameters.create(beside), [([[x] for x in sequence],)])
    padded = dict(enumerate(sequence))
    expected = [
        [padded.get(row + start + place, 0.0) for place in range(length)] for row in range(3)
    ]
    numpy.testing.assert_array_equal(found, expected)


def test_the_padding_of_a_context_is_learnt_unless_it_is_refused():
    rows = LAYER.data(name="rows", type=paddle.data_type.dense_vector_sequence(2))
    learnt = LAYER.mixed(input=LAYER.context_projection(rows, context_len=4))
    # From -2 on, 4 rows: two may be missing before a sequence, and one behind it.
    (padding,) = learnt.parameters.values()
    assert (padding.dims, padding.initializer) == ((3, 2), {"name": "zero"})
    zeros = LAYER.mixed(input=LAYER.context_projection(rows, context_len=4, padding_attr=False))
    assert not zeros.parameters
    pooled = paddle.networks.sequence_conv_pool(input=rows, context_len=4, hidden_size=1)
    assert not pooled.parents[0].parents[0].parameters, "there the original refuses it"


def rates(schedule, batch_size, batches):
    """The learning rate of every update, seen in how far it moves a weight."""
    paddle.init()
    x = LAYER.data(name="x", type=paddle.data_type.dense_vector(1))
    weight = paddle.attr.Param(name="w", initial_mean=0, initial_std=0)
    cost = LAYER.sum_cost(LAYER.fc(x, size=1, act=ACT.Linear(), param_attr=weight, bias_attr=False))
    parameters = paddle.parameters.create(cost)
    optimizer = paddle.optimizer.Momentum(learning_rate=1.0, **schedule)
    trainer = paddle.trainer.SGD(cost, parameters, optimizer)
    seen = [0.0]

    def follow(event):
        if isinstance(event, paddle.event.EndIteration):
            seen.append(float(parameters["w"][0, 0]))

    samples = [([1.0 / batch_size],)] * (batch_size * batches)
    trainer.train(paddle.batch(lambda: iter(samples), batch_size), event_handler=follow)
    # The cost is w·x, so its gradient over a batch is the sum of x, which is 1.
    return -numpy.diff(seen)


def test_a_schedule_counts_the_samples_of_the_update_itself():
    # manual: the factor of the first segment whose end is not below n. n is 8, 16, … 40 in the
    # first five updates, 48 … 80 in the next five, and 88 in the last.
    found = rates(
        {"learning_rate_schedule": "manual", "learning_rate_args": "40:1,80:0.5,120:0.25"}, 8, 11
    )
    numpy.testing.assert_allclose(found, [1] * 5 + [0.5] * 5 + [0.25], rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("poly", lambda a, b, n: (1 + a * n) ** -b),
        ("exp", lambda a, b, n: a ** (n / b)),
        ("discexp", lambda a, b, n: a ** (n // b)),
        ("linear", lambda a, b, n: max(1 - a * n, b)),
        ("caffe_poly", lambda a, b, n: max(1 - n / a, 0) ** b),
    ],
)
def test_the_first_update_has_the_rate_behind_its_own_batch(name, formula):
    a, b = {"linear": (0.03, 0.2), "caffe_poly": (20, 2)}.get(name, (0.5, 6))
    found = rates(
        {
            "learning_rate_schedule": name,
            "learning_rate_decay_a": a,
            "learning_rate_decay_b": b,
        },
        4,
        6,
    )
    # n is the number of samples up to and including the update: 4, 8, … 24.
    expected = [formula(a, b, n) for n in range(4, 25, 4)]
    numpy.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def figures_of(evaluator, rows, classes):
    scores = LAYER.data(name="scores", type=paddle.data_type.dense_vector(classes))
    label = LAYER.data(name="label", type=paddle.data_type.integer_value(max(classes, 2)))
    kept = LAYER.fc(
        scores,
        size=classes,
        act=ACT.Linear(),
        bias_attr=False,
        param_attr=paddle.attr.Param(name="unit", is_static=True),
    )
    evaluator(input=kept, label=label, name="figure")
    cost = LAYER.sum_cost(kept)
    parameters = paddle.parameters.create(cost)
    parameters["unit"] = numpy.eye(classes)
    trainer = paddle.trainer.SGD(
        cost, parameters, paddle.optimizer.Momentum(), extra_layers=[kept, label]
    )
    return trainer.test(paddle.batch(lambda: iter(rows), 1000)).metrics


def test_a_class_that_never_occurs_has_precision_and_recall_one():
    rows = [([1, 0, 0], 0), ([1, 0, 0], 1), ([0, 1, 0], 1)]
    found = figures_of(paddle.evaluator.precision_recall, rows, 3)
    # TP/(TP+FP) is 1/2 of class 0 and 1/1 of class 1; of class 2 nothing is predicted: 1.
    # TP/(TP+FN) is 1/1 of class 0 and 1/2 of class 1; class 2 never occurs: 1.
    assert found["figure.macro-average-precision"] == pytest.approx((1 / 2 + 1 + 1) / 3)
    assert found["figure.macro-average-recall"] == pytest.approx((1 + 1 / 2 + 1) / 3)


def test_auc_tells_small_click_rates_apart():
    draw = numpy.random.default_rng(7)
    scores = draw.uniform(0, 1e-4, size=3000).astype(numpy.float32)
    # Clicks are as probable as the score says, 10 000 times.
    labels = (draw.uniform(0, 1, size=3000) < scores * 1e4).astype(int)
    found = figures_of(
        paddle.evaluator.auc,
        [([float(score)], int(label)) for score, label in zip(scores, labels, strict=True)],
        1,
    )
    # The definition: the share of the pairs of a click and a non-click in which the click has the
    # higher score; a tie counts a half. Bins of 1/65536, of which there are 7 here, would make
    # most pairs ties.
    clicked, other = scores[labels == 1][:, None], scores[labels == 0][None, :]
    exact = ((clicked > other) + 0.5 * (clicked == other)).mean()
    assert found["figure"] == pytest.approx(exact, abs=1e-9)


def costs_of(cost, samples):
    parameters = paddle.parameters.create(cost)
    return paddle.infer(cost, parameters, samples)


@pytest.mark.parametrize("values", [1, 2])
def test_pairs_have_integer_labels(values):
    left, right = (
        LAYER.data(name=side, type=paddle.data_type.dense_vector(1)) for side in ("left", "right")
    )
    # Programs of the original say `integer_value(1)` and feed 0 and 1.
    label = LAYER.data(name="label", type=paddle.data_type.integer_value(values))
    cost = LAYER.rank_cost(left=left, right=right, label=label)
    found = costs_of(cost, [([2.0], [0.5], 1), ([2.0], [0.5], 0)])
    # ln(1 + e^d) - t·d of the difference d = 1.5: with t = 1 it is ln(1 + e^-1.5).
    expected = [[math.log1p(math.exp(-1.5))], [math.log1p(math.exp(1.5))]]
    numpy.testing.assert_allclose(found, expected, rtol=1e-6)


def test_an_integer_label_is_the_column_that_is_one():
    scores = LAYER.data(name="scores", type=paddle.data_type.dense_vector(3))
    label = LAYER.data(name="label", type=paddle.data_type.integer_value(3))
    cost = LAYER.multi_binary_label_cross_entropy_cost(input=scores, label=label)
    found = costs_of(cost, [([0.2, 0.7, 0.4], 1), ([0.2, 0.7, 0.4], 0)])
    # -ln p of the label's column, -ln(1 - p) of the others.
    first = -(math.log(1 - 0.2) + math.log(0.7) + math.log(1 - 0.4))
    second = -(math.log(0.2) + math.log(1 - 0.7) + math.log(1 - 0.4))
    numpy.testing.assert_allclose(found, [[first], [second]], rtol=1e-6)
