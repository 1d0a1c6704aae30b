"""Layers and networks over sequences, through the whole interface, against numpy in double
precision; and what they are described as.

`crates/engine/tests` has every layer with its gradient; here it is what a program sees.
"""

import itertools

import numpy
import pytest

import paddle.v2 as paddle
from paddle import errors
from paddle.v2 import naming
from paddle.v2.topology import Topology

DRAW = numpy.random.default_rng(7)
LENGTHS = (3, 1, 0, 4)
ROWS = [DRAW.normal(size=(length, 6)) for length in LENGTHS]
LABELS = [[int(tag) for tag in DRAW.integers(0, 3, size=length)] for length in LENGTHS]
LAYER, NETWORKS = paddle.layer, paddle.networks


@pytest.fixture(autouse=True)
def fresh_names():
    """Every test counts automatic names from 0."""
    naming.reset()


def rows(size=6):
    return LAYER.data(name="rows", type=paddle.data_type.dense_vector_sequence(size))


def labels(size=3):
    return LAYER.data(name="labels", type=paddle.data_type.integer_value_sequence(size))


def compute(layer, *columns):
    """The output of a layer, and its parameters by name, in double precision."""
    parameters = paddle.parameters.create(layer)
    for name in parameters:
        parameters[name] = DRAW.normal(size=parameters.get_shape(name)) * 0.5
    values = {name: parameters[name].astype("float64") for name in parameters}
    return paddle.infer(layer, parameters, list(zip(*columns, strict=True))), values


def sigmoid(x):
    return 1 / (1 + numpy.exp(-x))


def over_rows(sequence, size, step, reverse=False):
    """The outputs of `step(row, output, state)` over a sequence."""
    output, state = numpy.zeros(size), numpy.zeros(size)
    outputs = numpy.zeros((len(sequence), size))
    places = range(len(sequence))
    for place in reversed(places) if reverse else places:
        output, state = step(sequence[place], output, state)
        outputs[place] = output
    return outputs


def lstm_step(weight, bias):
    size = weight.shape[0]
    parts, peepholes = bias.ravel()[: 4 * size], bias.ravel()[4 * size :].reshape(3, size)

    def step(row, output, state):
        candidate, entry, forget, out = (row + parts + output @ weight).reshape(4, size)
        kept = state * sigmoid(forget + peepholes[1] * state)
        new = numpy.tanh(candidate) * sigmoid(entry + peepholes[0] * state) + kept
        return numpy.tanh(new) * sigmoid(out + peepholes[2] * new), new

    return step


def gru_step(weight, bias):
    size = weight.shape[0]
    gates = weight.ravel()[: 2 * size * size].reshape(size, 2 * size)
    own = weight.ravel()[2 * size * size :].reshape(size, size)

    def step(row, output, state):
        row = row + bias.ravel()
        update, reset = sigmoid(row[: 2 * size] + output @ gates).reshape(2, size)
        candidate = numpy.tanh(row[2 * size :] + (reset * output) @ own)
        return (1 - update) * output + update * candidate, state

    return step


@pytest.mark.parametrize("reverse", [False, True])
def test_simple_lstm_is_a_projection_and_a_memory_with_peepholes(reverse):
    layer = NETWORKS.simple_lstm(input=rows(), size=3, name="memory", reverse=reverse)
    found, values = compute(layer, ROWS)
    assert list(values) == ["_lstm_transform_memory.w0", "_memory.w0", "_memory.wbias"]
    project, weight, bias = values.values()
    assert (weight.shape, bias.size) == ((3, 12), 21)
    step = lstm_step(weight, bias)
    expected = [over_rows(sequence @ project, 3, step, reverse) for sequence in ROWS]
    numpy.testing.assert_allclose(found, numpy.concatenate(expected), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("network", ["simple_gru", "simple_gru2"])
def test_simple_gru_is_a_projection_and_a_gated_unit(network):
    layer = getattr(NETWORKS, network)(input=rows(), size=2, reverse=True)
    found, values = compute(layer, ROWS)
    project, weight, bias = values.values()
    step = gru_step(weight, bias)
    expected = [over_rows(sequence @ project, 2, step, reverse=True) for sequence in ROWS]
    numpy.testing.assert_allclose(found, numpy.concatenate(expected), rtol=1e-4, atol=1e-5)


def test_recurrent_adds_the_output_before():
    layer = LAYER.recurrent(input=rows(), act=paddle.activation.Relu(), bias_attr=False)
    found, values = compute(layer, ROWS)
    (weight,) = values.values()

    def step(row, output, state):
        return numpy.maximum(row + output @ weight, 0), state

    expected = numpy.concatenate([over_rows(sequence, 6, step) for sequence in ROWS])
    numpy.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("network", ["bidirectional_lstm", "bidirectional_gru"])
def test_both_directions_are_joined_for_every_row_or_where_they_end(network):
    size = 2
    step_of = lstm_step if network == "bidirectional_lstm" else gru_step
    for return_seq in (True, False):
        naming.reset()
        layer = getattr(NETWORKS, network)(input=rows(), size=size, return_seq=return_seq)
        found, values = compute(layer, ROWS)
        ways = [list(values.values())[:3], list(values.values())[3:]]
        expected = []
        for sequence in ROWS:
            outputs = [
                over_rows(sequence @ project, size, step_of(weight, bias), reverse)
                for (project, weight, bias), reverse in zip(ways, (False, True), strict=True)
            ]
            if return_seq:
                expected.append(numpy.hstack(outputs))
            elif len(sequence):
                expected.append(numpy.hstack([outputs[0][-1], outputs[1][0]])[None])
            else:
                expected.append(numpy.zeros((1, 2 * size)))
        expected = numpy.concatenate(expected)
        numpy.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def beside(sequence, start, length):
    """Rows beside their neighbours, zeros beyond the ends."""
    around = numpy.vstack([numpy.zeros((9, 6)), sequence, numpy.zeros((9, 6))])
    windows = [around[9 + row + start :][:length].ravel() for row in range(len(sequence))]
    return numpy.array(windows).reshape(len(sequence), length * 6)


def test_text_convolution_is_context_fc_and_the_largest():
    layer = NETWORKS.sequence_conv_pool(input=rows(), context_len=3, hidden_size=4)
    found, values = compute(layer, ROWS)
    weight, bias = values.values()
    expected = [
        numpy.tanh(beside(sequence, -1, 3) @ weight + bias).max(0)
        if len(sequence)
        else numpy.zeros(4)
        for sequence in ROWS
    ]
    numpy.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert NETWORKS.text_conv_pool is NETWORKS.sequence_conv_pool


@pytest.mark.parametrize(("length", "start"), [(1, 0), (2, -1), (3, -1), (4, -2), (5, -2)])
def test_the_row_is_in_the_middle_of_its_context(length, start):
    layer = LAYER.mixed(
        input=LAYER.context_projection(rows(), context_len=length, padding_attr=False)
    )
    found, _ = compute(layer, ROWS)
    expected = numpy.concatenate([beside(sequence, start, length) for sequence in ROWS])
    numpy.testing.assert_allclose(found, expected, rtol=1e-5)


def test_learnt_padding_is_a_parameter():
    padding = paddle.attr.Param(name="padding")
    projection = LAYER.context_projection(rows(), 4, context_start=-1, padding_attr=padding)
    layer = LAYER.mixed(input=projection)
    assert layer.parameters["padding"].dims == (3, 6)
    assert layer.parameters["padding"].initializer == {"name": "zero"}


def test_a_row_is_expanded_to_a_sequence():
    like, ones = rows(), DRAW.normal(size=(4, 2))
    one = LAYER.data(name="one", type=paddle.data_type.dense_vector(2))
    found, _ = compute(LAYER.expand(input=one, expand_as=like), ROWS, ones)
    numpy.testing.assert_allclose(found, numpy.repeat(ones, LENGTHS, axis=0), rtol=1e-5)


def test_sequences_are_joined_and_reshaped():
    data = rows()
    found, _ = compute(LAYER.seq_concat(data, data), ROWS)
    twice = numpy.concatenate([part for part in ROWS for _ in range(2)])
    numpy.testing.assert_allclose(found, twice, rtol=1e-5)
    found, _ = compute(LAYER.seq_reshape(data, reshape_size=2), ROWS)
    numpy.testing.assert_allclose(found, numpy.concatenate(ROWS).reshape(-1, 2), rtol=1e-5)


def test_parts_of_sequences_are_counted_by_layers():
    data = rows()
    first, second = (
        LAYER.data(name=name, type=paddle.data_type.integer_value(9))
        for name in ("first", "second")
    )
    cut = [(1, 2), (0, 0), (0, 0), (1, 3)]
    columns = [ROWS, *zip(*cut, strict=True)]
    found, _ = compute(LAYER.sub_seq(data, first, second), *columns)
    expected = [part[a : a + b] for part, (a, b) in zip(ROWS, cut, strict=True)]
    numpy.testing.assert_allclose(found, numpy.concatenate(expected), rtol=1e-5)
    # The third sequence has no row 0.
    kept = [0, 1, 3]
    columns = [[column[sample] for sample in kept] for column in columns]
    found, _ = compute(LAYER.seq_slice(data, first, second), *columns)
    expected = [ROWS[sample][cut[sample][0] : cut[sample][1] + 1] for sample in kept]
    numpy.testing.assert_allclose(found, numpy.concatenate(expected), rtol=1e-5)


def test_repeating_goes_by_rows_or_by_columns():
    x = DRAW.normal(size=(3, 2))
    for as_row_vector, expected in ((True, numpy.tile(x, 3)), (False, x.repeat(3, axis=1))):
        naming.reset()
        data = LAYER.data(name="x", type=paddle.data_type.dense_vector(2))
        layer = LAYER.repeat(data, num_repeats=3, as_row_vector=as_row_vector)
        found, _ = compute(layer, x)
        numpy.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_layer_of_size_one_is_added_to_every_column():
    data = LAYER.data(name="x", type=paddle.data_type.dense_vector(3))
    one = LAYER.data(name="one", type=paddle.data_type.dense_vector(1))
    x, ones = DRAW.normal(size=(4, 3)), DRAW.normal(size=(4, 1))
    for layer, expected in ((data + one, x + ones), (one - data, ones - x)):
        found, _ = compute(layer, x, ones)
        numpy.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_chain_costs_and_decodes_by_one_parameter():
    chain = paddle.attr.Param(name="chain")
    scores, truth = rows(3), labels()
    cost = LAYER.crf(input=scores, label=truth, size=3, param_attr=chain)
    best = LAYER.crf_decoding(input=scores, size=3, param_attr=chain)
    wrong = LAYER.crf_decoding(input=scores, size=3, label=truth, param_attr=chain)
    assert list(Topology([cost, best, wrong]).parameters) == ["chain"]
    parameters = paddle.parameters.create([cost, best, wrong])
    parameters["chain"] = DRAW.normal(size=(5, 3))
    first, last, *follow = parameters["chain"].astype("float64")
    sequences = [sequence[:, :3] for sequence in ROWS]

    def score(sequence, tags):
        between = sum(follow[a][b] for a, b in itertools.pairwise(tags))
        own = sum(row[tag] for row, tag in zip(sequence, tags, strict=True))
        return first[tags[0]] + last[tags[-1]] + own + between

    costs, tags = [], []
    for sequence, label in zip(sequences, LABELS, strict=True):
        ways = list(itertools.product(range(3), repeat=len(label))) if label else []
        scores_of = [score(sequence, way) for way in ways]
        costs.append(numpy.logaddexp.reduce(scores_of) - score(sequence, label) if ways else 0)
        tags.extend(ways[int(numpy.argmax(scores_of))] if ways else [])
    samples = list(zip(sequences, LABELS, strict=True))
    found = paddle.infer(cost, parameters, samples)
    numpy.testing.assert_allclose(found.ravel(), costs, rtol=1e-5, atol=1e-5)
    found = paddle.infer(best, parameters, [(sequence,) for sequence in sequences])
    numpy.testing.assert_array_equal(found.ravel(), tags)
    found = paddle.infer(wrong, parameters, samples)
    is_wrong = numpy.array(tags) != numpy.concatenate(LABELS)
    numpy.testing.assert_array_equal(found.ravel(), is_wrong.astype("float32"))


def test_ctc_sums_over_every_way_to_show_the_label():
    shown = [[1, 2], [2], [], [1, 1]]
    naming.reset()
    data = LAYER.data(name="rows", type=paddle.data_type.dense_vector_sequence(3))
    layer = LAYER.warp_ctc(input=data, label=labels(), blank=0)
    sequences = [sequence[:, :3] for sequence in ROWS]
    found, _ = compute(layer, sequences, shown)
    expected = []
    for sequence, label in zip(sequences, shown, strict=True):
        shares = numpy.exp(sequence) / numpy.exp(sequence).sum(1, keepdims=True)
        total = 0.0
        for way in itertools.product(range(3), repeat=len(sequence)):
            read = [key for key, _ in itertools.groupby(way) if key]
            total += numpy.prod(shares[range(len(way)), way]) if read == label else 0
        expected.append(-numpy.log(total))
    numpy.testing.assert_allclose(found.ravel(), expected, rtol=1e-4, atol=1e-5)


def test_a_sequence_that_is_too_short_for_its_label_is_named():
    layer = LAYER.warp_ctc(input=rows(3), label=labels())
    samples = [([[0.0] * 3] * 4, [1, 1]), ([[0.0] * 3] * 2, [1, 1])]
    with pytest.raises(errors.InvalidError, match=r"2 rows cannot show 2 labels.*sample: 1"):
        paddle.infer(layer, paddle.parameters.create(layer), samples)


def train(cost, optimizer, samples, passes, extra_layers=None):
    """The metrics and the cost of the last pass, after training on one batch."""
    parameters = paddle.parameters.create(cost)
    trainer = paddle.trainer.SGD(cost, parameters, optimizer, extra_layers=extra_layers)
    last = {}

    def on_event(event):
        if isinstance(event, paddle.event.EndIteration):
            last.update(event.metrics, cost=event.cost)

    trainer.train(lambda: iter([samples]), num_passes=passes, event_handler=on_event)
    return last


def words_and_classes(count, classes):
    return [(int(word), int(word) % classes) for word in DRAW.integers(0, 40, size=count)]


@pytest.mark.parametrize("kind", ["nce", "hsigmoid"])
def test_costs_that_look_at_a_few_classes_learn_all_of_them(kind):
    classes = 12
    word = LAYER.data(name="word", type=paddle.data_type.integer_value(40))
    label = LAYER.data(name="label", type=paddle.data_type.integer_value(classes))
    hidden = LAYER.embedding(input=word, size=16)
    cost = getattr(LAYER, kind)(
        input=hidden, label=label, num_classes=classes, param_attr=paddle.attr.Param(name="out")
    )
    optimizer = paddle.optimizer.Adam(learning_rate=0.05)
    samples = words_and_classes(200, classes)
    first = train(cost, optimizer, samples, 1)["cost"]
    last = train(cost, optimizer, samples, 60)["cost"]
    assert last < 0.3 * first, (first, last)


def test_the_chunk_evaluator_sees_what_a_chain_decodes():
    chain = paddle.attr.Param(name="chain")
    word, truth = (
        LAYER.data(name=name, type=paddle.data_type.integer_value_sequence(size))
        for name, size in (("word", 10), ("tag", 5))
    )
    scores = LAYER.embedding(input=word, size=5)
    cost = LAYER.crf(input=scores, label=truth, param_attr=chain)
    decoded = LAYER.crf_decoding(input=scores, label=truth, param_attr=chain)
    paddle.evaluator.sum(input=decoded, name="error")
    paddle.evaluator.chunk(
        input=decoded, label=truth, chunk_scheme="IOB", num_chunk_types=2, name="chunk_f1"
    )
    words = [[int(word) for word in DRAW.integers(0, 10, size=length)] for length in (4, 7, 1, 9)]
    samples = [(sequence, [word % 5 for word in sequence]) for sequence in words]
    optimizer = paddle.optimizer.Adam(learning_rate=0.2)
    last = train(cost, optimizer, samples, 60, extra_layers=decoded)
    assert last["error"] == 0
    assert last["chunk_f1.F1-score"] == last["chunk_f1.precision"] == 1
