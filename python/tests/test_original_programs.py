"""What programs of the original do and this package must take: model files, and calls as they were
written then."""

import gzip
import io

import numpy
import original_tar
import pytest
from archives import place

import paddle.v2 as paddle
from paddle import errors
from paddle.v2 import naming
from paddle.v2.dataset import uci_housing, wmt14

__all__ = ["place"]

LAYER, ACT = paddle.layer, paddle.activation


@pytest.fixture(autouse=True)
def fresh_names():
    """Every test counts automatic names from 0."""
    naming.reset()


def linear(size=1):
    x = LAYER.data(name="x", type=paddle.data_type.dense_vector(13))
    return LAYER.fc(input=x, size=size, act=ACT.Linear())


# Model files


def test_the_golden_tar_is_what_its_description_makes():
    assert original_tar.GOLDEN.read_bytes() == original_tar.golden()


def test_a_tar_that_the_original_wrote_is_a_model():
    with open(original_tar.GOLDEN, "rb") as file:
        parameters = paddle.parameters.Parameters.from_tar(file)
    features = numpy.arange(13.0)
    found = paddle.infer(linear(), parameters, [(features,)])
    # The dot product with the weights, and the bias.
    assert found == pytest.approx(features @ original_tar.WEIGHT + original_tar.BIAS[0])


def test_a_model_takes_the_values_of_a_tar_that_the_original_wrote():
    parameters = paddle.parameters.create(linear())
    with gzip.open(io.BytesIO(gzip.compress(original_tar.golden()))) as file:
        parameters.init_from_tar(file)
    assert parameters["___fc_layer_0__.w0"].ravel().tolist() == original_tar.WEIGHT


def test_data_sets_have_models_of_the_original(place):
    packed = gzip.compress(original_tar.golden())
    place(wmt14, "wmt14/wmt14_model.tar.gz", packed, "MD5_MODEL")
    place(uci_housing, "fit_a_line.tar/fit_a_line.tar", original_tar.golden(), "MD5_MODEL")
    for module in (wmt14, uci_housing):
        assert module.model()["___fc_layer_0__.wbias"].tolist() == [original_tar.BIAS]


@pytest.mark.parametrize("end", [100, 512, 600, 1024, 1200, 2559])
def test_a_tar_of_the_original_that_was_cut_inside_a_member_is_damaged(end):
    with pytest.raises(errors.DamagedError):
        paddle.parameters.Parameters.from_tar(io.BytesIO(original_tar.golden()[:end]))


def test_our_tar_is_read_by_the_description():
    parameters = paddle.parameters.create(linear(size=2))
    written = io.BytesIO()
    parameters.to_tar(written)
    found = original_tar.read(written.getvalue())
    assert list(found) == parameters.names()
    for name, (dims, values) in found.items():
        assert tuple(dims) == parameters.get_shape(name)
        assert values == parameters[name].ravel().tolist()


# Layers


def test_projections_are_concatenated():
    words = [
        LAYER.data(name=f"w{place}", type=paddle.data_type.integer_value(5)) for place in range(3)
    ]
    shared = paddle.attr.Param(name="table")
    tables = [LAYER.table_projection(input=word, size=2, param_attr=shared) for word in words]
    dense = LAYER.data(name="dense", type=paddle.data_type.dense_vector(3))
    matrix = LAYER.full_matrix_projection(input=dense, size=4)
    joined = LAYER.concat(input=[*tables, matrix, dense], name="joined", act=ACT.Tanh())
    assert joined.size == 3 * 2 + 4 + 3
    assert list(joined.parameters) == ["table", "_joined.w3"]
    parameters = paddle.parameters.create(joined)
    table, weight = parameters["table"], parameters["_joined.w3"]
    found = paddle.infer(joined, parameters, [(4, 0, 4, [1.0, 2.0, 3.0])])
    rows = [table[4], table[0], table[4], numpy.array([1.0, 2.0, 3.0]) @ weight, [1, 2, 3]]
    numpy.testing.assert_allclose(found, [numpy.tanh(numpy.concatenate(rows))], rtol=1e-5)


def test_a_named_parameter_is_shared_by_all_inputs():
    a = LAYER.data(name="a", type=paddle.data_type.dense_vector(2))
    b = LAYER.data(name="b", type=paddle.data_type.dense_vector(2))
    both = LAYER.fc(
        input=[a, b],
        size=1,
        act=ACT.Linear(),
        bias_attr=False,
        param_attr=paddle.attr.Param(name="w"),
    )
    assert list(both.parameters) == ["w"]
    parameters = paddle.parameters.create(both)
    parameters["w"] = [[2.0], [3.0]]
    assert paddle.infer(both, parameters, [([1, 0], [0, 1])]) == pytest.approx(5.0)


# Evaluators and extra layers


def tagging():
    words = LAYER.data(name="words", type=paddle.data_type.dense_vector_sequence(2))
    tags = LAYER.data(name="tags", type=paddle.data_type.integer_value_sequence(3))
    scores = LAYER.fc(input=words, size=3, act=ACT.Linear())
    cost = LAYER.crf(input=scores, label=tags, param_attr=paddle.attr.Param(name="crfw"))
    return words, tags, scores, cost


SENTENCES = [([[0.1, 0.2], [0.3, 0.1]], [0, 1]), ([[0.5, 0.4]], [2])]


def train_with(cost, parameters, extra_layers):
    trainer = paddle.trainer.SGD(
        cost, parameters, paddle.optimizer.Momentum(learning_rate=0.1), extra_layers=extra_layers
    )
    ends = []
    trainer.train(lambda: iter([SENTENCES]), event_handler=ends.append)
    return ends[-1].metrics


@pytest.mark.parametrize("is_list", [False, True])
def test_an_evaluator_may_stand_among_extra_layers(is_list):
    _, tags, scores, cost = tagging()
    best = LAYER.crf_decoding(input=scores, label=tags, param_attr=paddle.attr.Param(name="crfw"))
    wrong = paddle.evaluator.sum(input=best, name="wrong")
    parameters = paddle.parameters.create(cost)
    # The original's evaluators return None, which its programs pass on.
    found = train_with(cost, parameters, [wrong, None] if is_list else wrong)
    assert list(found) == ["wrong"]
    assert train_with(cost, parameters, None) == {}


def test_parameters_that_only_extra_layers_have_are_created():
    words, _, _, cost = tagging()
    seen = LAYER.fc(input=words, size=1, name="seen")
    paddle.evaluator.sum(input=seen, name="sum")
    parameters = paddle.parameters.create(cost)
    before = parameters["crfw"]
    assert "_seen.w0" not in parameters
    assert list(train_with(cost, parameters, seen)) == ["sum"]
    assert "_seen.w0" in parameters.names()
    assert parameters.get_shape("_seen.w0") == (2, 1)
    assert (parameters["crfw"] != before).any(), "the values that were there are trained"
    written = io.BytesIO()
    parameters.to_tar(written)
    assert "_seen.w0" in original_tar.read(written.getvalue())


def test_a_parameter_that_the_cost_needs_is_not_made_up():
    *_, cost = tagging()
    other = paddle.parameters.create(linear())
    with pytest.raises(errors.NotFoundError, match="crfw|fc_layer"):
        train_with(cost, other, None)


# Recurrent groups


def rows(size=2):
    return LAYER.data(name="rows", type=paddle.data_type.dense_vector_sequence(size))


def nested(size=2):
    return LAYER.data(name="nested", type=paddle.data_type.dense_vector_sub_sequence(size))


def test_a_step_gets_constants_as_they_are():
    seen = []

    def step(row, factor, text, settings, nothing):
        seen.extend([factor, text, settings, nothing])
        return LAYER.slope_intercept(input=row, slope=factor)

    doubled = LAYER.recurrent_group(step=step, input=[rows(), 2.0, "text", {"a": [1]}, None])
    assert seen == [2.0, "text", {"a": [1]}, None]
    found = paddle.infer(doubled, paddle.parameters.create(doubled), [([[1, 2], [3, 4]],)])
    assert found.tolist() == [[2, 4], [6, 8]]


@pytest.mark.parametrize("reverse", [0, 1])
def test_reverse_may_be_a_number(reverse):
    def step(row):
        before = LAYER.memory(name="sum", size=2)
        return LAYER.addto(input=[row, before], name="sum")

    total = LAYER.recurrent_group(step=step, input=rows(), reverse=reverse)
    found = paddle.infer(total, paddle.parameters.create(total), [([[1, 2], [3, 4]],)])
    assert found.tolist() == ([[4, 6], [3, 4]] if reverse else [[1, 2], [4, 6]])


# Samples of 2, 0, 1 and 3 sequences, one of them empty.
NESTED = [
    [[[1, 2], [3, 4]], [[5, 6]]],
    [],
    [[[7, 8]]],
    [[[1, 1]], [], [[2, 2], [3, 3]]],
]


def test_a_step_may_return_rows_and_sequences():
    def step(sequence):
        total = LAYER.pooling(input=sequence, pooling_type=paddle.pooling.Sum())
        before = LAYER.memory(name="running", size=2)
        running = LAYER.addto(input=[total, before], name="running")
        doubled = LAYER.slope_intercept(input=sequence, slope=2.0)
        return running, doubled

    running, doubled = LAYER.recurrent_group(step=step, input=nested())
    assert (running.shape["level"], doubled.shape["level"]) == ("sequence", "nested")
    last = LAYER.last_seq(input=running)
    outputs = [running, doubled, last]
    parameters = paddle.parameters.create(outputs)
    samples = [(sample,) for sample in NESTED]
    found = paddle.infer(outputs, parameters, samples)
    sums = [[4, 6], [9, 12], [7, 8], [1, 1], [1, 1], [6, 6]]
    numpy.testing.assert_allclose(found[0], sums)
    flat = [row for sample in NESTED for sequence in sample for row in sequence]
    numpy.testing.assert_allclose(found[1], 2.0 * numpy.array(flat))
    numpy.testing.assert_allclose(found[2], [[9, 12], [0, 0], [7, 8], [6, 6]])
    # Each alone, as a thread of its own would have it.
    alone = [paddle.infer(outputs, parameters, [sample]) for sample in samples]
    for number in range(3):
        joined = numpy.concatenate([each[number].reshape(-1, 2) for each in alone])
        numpy.testing.assert_allclose(joined, found[number])


def test_the_activation_of_a_step_is_known_outside_also_of_several_outputs():
    def step(row):
        return row, LAYER.fc(input=row, size=3, act=ACT.Softmax())

    _, probabilities = LAYER.recurrent_group(step=step, input=rows())
    label = LAYER.data(name="label", type=paddle.data_type.integer_value_sequence(3))
    assert LAYER.classification_cost(input=probabilities, label=label).kind == "cross_entropy"


def test_a_memory_that_begins_with_a_sequence_is_one():
    begin = LAYER.data(name="begin", type=paddle.data_type.dense_vector_sequence(2))

    def step(sequence):
        before = LAYER.memory(name="kept", size=2, boot_layer=begin)
        total = LAYER.pooling(input=sequence, pooling_type=paddle.pooling.Sum())
        wide = LAYER.expand(input=total, expand_as=before)
        return LAYER.addto(input=[before, wide], name="kept")

    kept = LAYER.recurrent_group(step=step, input=nested())
    assert kept.shape["level"] == "nested"
    sample = ([[10, 10], [20, 20], [30, 30]], [[[1, 2], [3, 4]], [[5, 6]]])
    found = paddle.infer(kept, paddle.parameters.create(kept), [sample])
    # Every step adds the sum of its sequence to the three rows that the memory began with.
    first = [[14, 16], [24, 26], [34, 36]]
    second = [[19, 22], [29, 32], [39, 42]]
    assert found.tolist() == first + second


# Readers


def test_a_buffer_of_nothing_keeps_the_order():
    count = lambda: iter(range(50))  # noqa: E731
    assert list(paddle.reader.shuffle(count, 0)()) == list(range(50))


def test_a_read_ahead_of_nothing_has_no_bound():
    taken = []

    def count():
        for number in range(1000):
            taken.append(number)
            yield number

    ahead = iter(paddle.reader.buffered(count, 0)())
    assert next(ahead) == 0
    # The thread reads everything without waiting for a consumer; the last sample proves it.
    assert list(ahead) == list(range(1, 1000))
    assert len(taken) == 1000


# Networks as descriptions


def classifier():
    word = LAYER.data(name="word", type=paddle.data_type.integer_value_sequence(50))
    label = LAYER.data(name="label", type=paddle.data_type.integer_value(2))
    vectors = LAYER.embedding(input=word, size=8)
    pooled = LAYER.pooling(input=vectors, pooling_type=paddle.pooling.Avg())
    predicted = LAYER.fc(input=pooled, size=2, act=ACT.Softmax(), name="predicted")
    return LAYER.classification_cost(input=predicted, label=label)


def test_a_network_is_described_as_the_original_does():
    described = LAYER.parse_network(classifier())
    assert described.type == "nn"
    assert [(layer.name, layer.type) for layer in described.layers] == [
        ("word", "data"),
        ("label", "data"),
        ("__embedding_0__", "mixed"),
        ("__seq_pooling_0__", "average"),
        ("predicted", "fc"),
        ("__cost_0__", "multi-class-cross-entropy"),
    ]
    table = described.layers[2].inputs[0]
    assert table.input_parameter_name == "___embedding_0__.w0"
    assert (table.proj_conf.type, table.proj_conf.input_size) == ("table", 50)
    assert described.layers[3].average_strategy == "average"
    assert described.input_layer_names == ["word", "label"]
    assert described.output_layer_names == ["__cost_0__"]
    assert [each.name for each in described.parameters] == [
        "___embedding_0__.w0",
        "_predicted.w0",
        "_predicted.wbias",
    ]
    text = str(described)
    assert (
        'layers {\n  name: "predicted"\n  type: "fc"\n  size: 2\n  active_type: "softmax"\n' in text
    )
    assert "evaluators {\n" in text


def test_descriptions_of_equal_networks_are_equal():
    first = LAYER.parse_network(classifier())
    naming.reset()
    assert LAYER.parse_network(classifier()) == first
    # Another network: names go on being counted.
    assert LAYER.parse_network(classifier()) != first


def test_the_bytes_of_a_description_follow_the_numbers_of_the_original():
    described = paddle.topology.Topology(classifier()).proto()
    # ModelConfig: 1 type, 2 layers, 3 parameters, 4 and 5 names of inputs and outputs;
    # LayerConfig: 1 name, 2 type, 3 size, 4 active_type, 5 inputs, 6 bias_parameter_name;
    # LayerInputConfig: 1 input_layer_name, 2 input_parameter_name.
    fields = original_tar._fields(described.SerializeToString())
    assert fields[1] == [b"nn"]
    assert fields[4] == [b"word", b"label"]
    assert fields[5] == [b"__cost_0__"]
    layer = original_tar._fields(fields[2][4])
    assert (layer[1], layer[2], layer[3], layer[4]) == ([b"predicted"], [b"fc"], [2], [b"softmax"])
    assert layer[6] == [b"_predicted.wbias"]
    taken = original_tar._fields(layer[5][0])
    assert (taken[1], taken[2]) == ([b"__seq_pooling_0__"], [b"_predicted.w0"])
    # ParameterConfig: 2 size, 5 initial_mean, 6 initial_std, 9 dims.
    parameter = original_tar._fields(fields[3][1])
    assert (parameter[2], parameter[9]) == ([16], [8, 2])
    assert parameter[6][0] == pytest.approx(8**-0.5)


def test_groups_are_sub_models():
    def step(row, whole):
        before = LAYER.memory(name="state", size=2, boot_bias=True)
        return LAYER.fc(input=[row, before, whole], size=2, name="state")

    every = LAYER.data(name="every", type=paddle.data_type.dense_vector(3))
    state = LAYER.recurrent_group(
        step=step, input=[rows(), LAYER.StaticInput(every)], name="group", reverse=True
    )
    described = LAYER.parse_network(LAYER.last_seq(input=state))
    root, group = described.sub_models
    assert (root.name, group.name, group.reversed) == ("root", "group", True)
    assert "state@group" in group.layer_names
    assert (group.memories[0].layer_name, group.memories[0].link_name) == (
        "state@group",
        "state+delay1@group",
    )
    assert [(each.layer_name, each.link_name) for each in group.in_links] == [
        ("rows", "rows@group")
    ]
    assert [(each.layer_name, each.link_name) for each in group.out_links] == [
        ("state@group", "state")
    ]
    inside = next(layer for layer in described.layers if layer.name == "state@group")
    assert [each.input_parameter_name for each in inside.inputs] == [
        "_state@group.w0",
        "_state@group.w1",
        "_state@group.w2",
    ]
    assert described.type == "recurrent_nn"


def test_pictures_are_described_with_their_sizes():
    image = LAYER.data(
        name="image", type=paddle.data_type.dense_vector(3 * 8 * 6), height=8, width=6
    )
    convolution = LAYER.img_conv(
        input=image, filter_size=3, num_filters=4, num_channels=3, padding=1, stride=2
    )
    normal = LAYER.batch_norm(input=convolution)
    pooled = LAYER.img_pool(input=normal, pool_size=2, stride=2)
    described = LAYER.parse_network(pooled)
    first, second, third = described.layers[1:]
    assert (first.type, first.num_filters, first.height, first.width) == ("exconv", 4, 4, 3)
    settings = first.inputs[0].conv_conf
    assert (settings.img_size, settings.img_size_y, settings.output_x) == (6, 8, 3)
    assert len(second.inputs) == 3
    assert third.inputs[0].pool_conf.pool_type == "max-projection"


def test_every_layer_of_the_ready_made_networks_can_be_described():
    image = LAYER.data(
        name="image", type=paddle.data_type.dense_vector(3 * 32 * 32), height=32, width=32
    )
    vgg = paddle.networks.small_vgg(input_image=image, num_channels=3, num_classes=10)
    both = paddle.networks.bidirectional_lstm(input=rows(8), size=4)
    for network in (vgg, both):
        described = LAYER.parse_network(network)
        assert len(described.layers) > 3
        assert described.SerializeToString()


# Inference


def test_results_need_not_be_flattened():
    x = LAYER.data(name="x", type=paddle.data_type.dense_vector(2))
    wide = LAYER.fc(input=x, size=3, act=ACT.Softmax())
    narrow = LAYER.fc(input=x, size=1)
    parameters = paddle.parameters.create([wide, narrow])
    asked = paddle.Inference(parameters, output_layer=[wide, narrow])
    samples = [([1.0, 2.0],), ([3.0, 4.0],)]
    shapes = lambda results: [result.shape for result in results]  # noqa: E731
    assert shapes(asked.infer(samples, flatten_result=False)) == [(2, 3), (2, 1)]
    by_field = asked.infer(samples, field=["value", "id"], flatten_result=False)
    assert [shapes(each) for each in by_field] == [[(2, 3), (2, 1)], [(2,), (2,)]]
    alone = paddle.Inference(parameters, output_layer=wide)
    assert shapes(alone.infer(samples, flatten_result=False)) == [(2, 3)]
    assert alone.infer(samples).shape == (2, 3)
