"""Recurrent groups, nested sequences, attention and generation, through the whole interface.

`crates/engine/tests` has their values and gradients; here it is what a program sees.
"""

import io

import numpy
import pytest

import paddle.v2 as paddle
from paddle.v2 import naming
from paddle.v2.topology import Topology

DRAW = numpy.random.default_rng(11)
LENGTHS = (3, 1, 0, 4)
ROWS = [DRAW.normal(size=(length, 6)) for length in LENGTHS]
# Samples of 2, 0, 1 and 3 sequences.
NESTED = [
    [DRAW.normal(size=(length, 2)) for length in lengths]
    for lengths in ((2, 1), (), (3,), (1, 0, 2))
]
LAYER, NETWORKS, ACT = paddle.layer, paddle.networks, paddle.activation
TO_SEQUENCE = LAYER.AggregateLevel.TO_SEQUENCE


@pytest.fixture(autouse=True)
def fresh_names():
    """Every test counts automatic names from 0."""
    naming.reset()


def rows(size=6, name="rows"):
    return LAYER.data(name=name, type=paddle.data_type.dense_vector_sequence(size))


def nested(size=2):
    return LAYER.data(name="nested", type=paddle.data_type.dense_vector_sub_sequence(size))


def values_of(layers):
    parameters = paddle.parameters.create(layers)
    for name in parameters:
        parameters[name] = DRAW.normal(size=parameters.get_shape(name)) * 0.5
    return parameters


def compute(layer, *columns):
    """The output of a layer, and its parameters by name."""
    parameters = values_of(layer)
    return paddle.infer(layer, parameters, list(zip(*columns, strict=True))), parameters


def near(found, expected):
    numpy.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def shared(name):
    return paddle.attr.Param(name=name)


# Groups


def test_a_group_is_the_recurrent_layer_that_its_step_describes():
    def step(row):
        before = LAYER.memory(name="state", size=6)
        return LAYER.mixed(
            input=[
                LAYER.identity_projection(input=row),
                LAYER.full_matrix_projection(input=before, param_attr=shared("w")),
            ],
            act=ACT.Tanh(),
            bias_attr=shared("b"),
            name="state",
        )

    both = []
    for reverse in (False, True):
        naming.reset()
        group = LAYER.recurrent_group(step=step, input=rows(), reverse=reverse)
        whole = LAYER.recurrent(
            input=rows(), param_attr=shared("w"), bias_attr=shared("b"), reverse=reverse
        )
        parameters = values_of(whole)
        samples = [(each,) for each in ROWS]
        near(paddle.infer(group, parameters, samples), paddle.infer(whole, parameters, samples))
        both.append(group)
    assert [layer.name for layer in both] == ["state", "state"]


@pytest.mark.parametrize("reverse", [False, True])
def test_cells_of_a_group_are_those_of_the_whole_layers(reverse):
    samples = [(each[:, :3].repeat(4, axis=1),) for each in ROWS]
    lstm = NETWORKS.lstmemory_group(
        input=rows(12), size=3, reverse=reverse, param_attr=shared("w"), lstm_bias_attr=False
    )
    whole = LAYER.lstmemory(
        input=rows(12), reverse=reverse, param_attr=shared("w"), bias_attr=False
    )
    parameters = values_of(whole)
    near(paddle.infer(lstm, parameters, samples), paddle.infer(whole, parameters, samples))

    gru = {"gru_param_attr": shared("v"), "gru_bias_attr": shared("b")}
    group = NETWORKS.gru_group(input=rows(12), size=4, reverse=reverse, **gru)
    whole = LAYER.grumemory(
        input=rows(12), reverse=reverse, param_attr=shared("v"), bias_attr=shared("b")
    )
    parameters = values_of(whole)
    near(paddle.infer(group, parameters, samples), paddle.infer(whole, parameters, samples))


def test_layers_and_parameters_of_a_step_carry_the_name_of_their_group():
    def step(row):
        return NETWORKS.gru_unit(input=row, name="state")

    group = LAYER.recurrent_group(step=step, input=rows(), name="decoder")
    network = Topology(group)
    assert list(network.parameters) == ["_state@decoder.w0", "_state@decoder.wbias"]
    assert [layer.name for layer in network.layers] == ["rows", "state"]

    unnamed = NETWORKS.lstmemory_group(input=rows(8))
    names = list(Topology(unnamed).parameters)
    inside = "__lstm_group_0__@__lstm_group_0___recurrent_group"
    recurrent = "__lstm_group_0___input_recurrent@__lstm_group_0___recurrent_group"
    assert names == [f"_{recurrent}.w1", f"_{inside}.wbias"]


def test_a_step_may_give_several_layers():
    def step(row, shift):
        before = LAYER.memory(name="sum", size=6)
        total = LAYER.addto(input=[row, before], name="sum")
        return total, LAYER.addto(input=[total, shift], name="shifted")

    start = LAYER.data(name="shift", type=paddle.data_type.dense_vector(6))
    total, shifted = LAYER.recurrent_group(step=step, input=[rows(), LAYER.StaticInput(start)])
    shifts = DRAW.normal(size=(4, 6))
    samples = list(zip(shifts, ROWS, strict=True))
    found = paddle.infer([total, shifted], paddle.parameters.create([total, shifted]), samples)
    sums = [numpy.cumsum(each, axis=0) for each in ROWS]
    near(found[0], numpy.concatenate(sums))
    moved = [each + shift for each, shift in zip(sums, shifts, strict=True)]
    near(found[1], numpy.concatenate(moved))
    assert (total.name, shifted.name) == ("sum", "shifted")


def test_a_memory_begins_with_a_layer_and_a_learnt_row():
    def step(row):
        before = LAYER.memory(
            name="sum",
            size=6,
            boot_layer=begin,
            boot_bias=shared("b"),
            boot_bias_active_type=ACT.Tanh(),
        )
        return LAYER.addto(input=[row, before], name="sum")

    begin = LAYER.data(name="begin", type=paddle.data_type.dense_vector(6))
    begins = DRAW.normal(size=(4, 6))
    group = LAYER.recurrent_group(step=step, input=rows())
    # The first data layer in the order of the program is `begin`.
    found, parameters = compute(group, begins, ROWS)
    first = numpy.tanh(begins + parameters["b"])
    sums = [numpy.cumsum(each, axis=0) + row for each, row in zip(ROWS, first, strict=True)]
    near(found, numpy.concatenate(sums))


def test_a_memory_without_a_name_is_told_its_layer_later():
    def step(row):
        before = LAYER.memory(name=None, size=6)
        total = LAYER.addto(input=[row, before])
        before.set_input(total)
        return total

    group = LAYER.recurrent_group(step=step, input=rows())
    found, _ = compute(group, ROWS)
    near(found, numpy.concatenate([numpy.cumsum(each, axis=0) for each in ROWS]))


def test_a_step_looks_words_up_and_remembers_its_choice():
    words = LAYER.data(name="word", type=paddle.data_type.integer_value_sequence(5))

    def step(word):
        before = LAYER.memory(name="choice", size=4, boot_with_const_id=1)
        tables = [(word, "words"), (before, "choices")]
        rows = [LAYER.embedding(input=ids, size=4, param_attr=shared(name)) for ids, name in tables]
        scores = LAYER.addto(input=rows, name="scores")
        LAYER.max_id(input=scores, name="choice")
        return scores

    group = LAYER.recurrent_group(step=step, input=words)
    samples = [[3, 0, 4], [], [2], [1, 1]]
    found, parameters = compute(group, samples)
    expected = []
    for sample in samples:
        choice = 1
        for word in sample:
            row = parameters["words"][word] + parameters["choices"][choice]
            choice = int(row.argmax())
            expected.append(row)
    near(found, expected)


def test_a_group_in_a_group_goes_along_nested_sequences():
    def outer(sequence):
        last = LAYER.memory(name="last", size=2)

        def inner(row):
            before = LAYER.memory(name="sum", size=2, boot_layer=last)
            return LAYER.addto(input=[row, before], name="sum")

        sums = LAYER.recurrent_group(step=inner, input=sequence, name="inner")
        LAYER.last_seq(input=sums, name="last")
        return sums

    group = LAYER.recurrent_group(step=outer, input=LAYER.SubsequenceInput(nested()), name="outer")
    found, _ = compute(group, NESTED)
    expected = []
    for sample in NESTED:
        before = numpy.zeros(2)
        for sequence in sample:
            sums = before + numpy.cumsum(sequence, axis=0)
            # A sequence without rows has a last row of zeros.
            before = sums[-1] if len(sums) else numpy.zeros(2)
            expected.append(sums)
    near(found, numpy.concatenate(expected))
    assert group.shape["level"] == "nested"
    assert group.name == "sum"


def test_a_network_with_groups_is_written_and_read():
    def step(row):
        before = LAYER.memory(name="state", size=3)
        return LAYER.fc(input=[row, before], size=3, name="state")

    group = LAYER.recurrent_group(step=step, input=rows(), name="group")
    parameters = values_of(group)
    file = io.BytesIO()
    Topology(group).serialize_for_inference(file)
    file.seek(0)
    samples = [(each,) for each in ROWS]
    again = paddle.inference.Inference(parameters, fileobj=file).infer(samples)
    numpy.testing.assert_array_equal(again, paddle.infer(group, parameters, samples))


def test_a_group_learns():
    def step(row):
        before = LAYER.memory(name="state", size=8)
        return LAYER.fc(input=[row, before], size=8, act=ACT.Tanh(), name="state")

    paddle.init(seed=3)
    state = LAYER.recurrent_group(step=step, input=rows(1))
    label = LAYER.data(name="label", type=paddle.data_type.integer_value(2))
    odd = LAYER.fc(input=LAYER.last_seq(input=state), size=2, act=ACT.Softmax())
    cost = LAYER.classification_cost(input=odd, label=label)
    trainer = paddle.trainer.SGD(
        cost=cost,
        parameters=paddle.parameters.create(cost),
        update_equation=paddle.optimizer.Adam(learning_rate=0.02),
    )
    draw = numpy.random.default_rng(5)
    bits = [draw.integers(0, 2, size=(length, 1)) for length in draw.integers(1, 5, size=256)]
    samples = [(2.0 * each - 1.0, int(each.sum()) % 2) for each in bits]
    costs = []
    trainer.train(
        paddle.batch(lambda: iter(samples), 32),
        num_passes=60,
        event_handler=lambda event: (
            costs.append(event.cost) if isinstance(event, paddle.event.EndIteration) else None
        ),
    )
    assert costs[0] > 0.6
    assert numpy.mean(costs[-8:]) < 0.1, costs[-8:]


# Nested sequences


def test_nested_sequences_become_rows_or_sequences():
    layer = nested()
    pooled = LAYER.pooling(input=layer, pooling_type=paddle.pooling.Sum())
    each = LAYER.pooling(input=layer, pooling_type=paddle.pooling.Sum(), agg_level=TO_SEQUENCE)
    last = LAYER.last_seq(input=layer, agg_level=TO_SEQUENCE)
    samples = [(sample,) for sample in NESTED]
    whole, sums, lasts = paddle.infer(
        [pooled, each, last], paddle.parameters.create([pooled, each, last]), samples
    )
    totals = [sum((part.sum(axis=0) for part in sample), numpy.zeros(2)) for sample in NESTED]
    near(whole, totals)
    near(sums, [part.sum(axis=0) for sample in NESTED for part in sample])
    near(lasts, [part[-1] if len(part) else [0, 0] for sample in NESTED for part in sample])


def test_rows_of_a_sequence_are_expanded_to_nested_sequences():
    words = LAYER.data(name="row", type=paddle.data_type.dense_vector_sequence(3))
    wide = LAYER.expand(
        input=words, expand_as=nested(), expand_level=LAYER.ExpandLevel.FROM_SEQUENCE
    )
    given = [DRAW.normal(size=(len(sample), 3)) for sample in NESTED]
    found, _ = compute(wide, given, NESTED)
    expected = [
        numpy.repeat(row[None], len(part), axis=0)
        for sample, row_of in zip(NESTED, given, strict=True)
        for part, row in zip(sample, row_of, strict=True)
    ]
    near(found, numpy.concatenate(expected))


def test_ids_and_lists_may_be_nested():
    word = LAYER.data(name="word", type=paddle.data_type.integer_value_sub_sequence(5))
    lists = LAYER.data(name="list", type=paddle.data_type.sparse_binary_vector_sub_sequence(4))
    table = LAYER.embedding(input=word, size=2, param_attr=shared("table"))
    sums = LAYER.fc(input=lists, size=2, act=ACT.Linear(), bias_attr=False, param_attr=shared("w"))
    both = LAYER.pooling(input=LAYER.addto(input=[table, sums]), pooling_type=paddle.pooling.Sum())
    samples = [([[0, 4], [], [2]], [[[1, 2], []], [], [[3]]]), ([], [])]
    parameters = values_of(both)
    found = paddle.infer(both, parameters, samples)
    first = parameters["table"][[0, 4, 2]].sum(axis=0) + parameters["w"][[1, 2, 3]].sum(axis=0)
    near(found, [first, [0, 0]])


# Attention


def softmax(x):
    powers = numpy.exp(x - x.max())
    return powers / powers.sum()


STATES = DRAW.normal(size=(4, 6))


def state(size=6):
    return LAYER.data(name="state", type=paddle.data_type.dense_vector(size))


def test_additive_attention_weighs_rows_by_their_match():
    sequence = rows()
    attended = NETWORKS.simple_attention(
        encoded_sequence=sequence,
        encoded_proj=sequence,
        decoder_state=state(),
        name="a",
    )
    found, values = compute(attended, ROWS, STATES)
    transform, weight = values["_a_transform.w0"], values["_a_softmax.w0"]
    for row, each, at in zip(found, ROWS, STATES, strict=True):
        match = numpy.tanh(each + at @ transform) @ weight
        near(row, (softmax(match) * each).sum(axis=0) if len(each) else numpy.zeros(6))


def test_dot_product_attention_weighs_rows_by_their_product():
    sequence = rows()
    attended = NETWORKS.dot_product_attention(
        encoded_sequence=sequence, attended_sequence=sequence, transformed_state=state(), name="a"
    )
    found, values = compute(attended, ROWS, STATES)
    for row, each, at in zip(found, ROWS, STATES, strict=True):
        match = each @ at[:, None] * values["_a_softmax.w0"]
        near(row, (softmax(match) * each).sum(axis=0) if len(each) else numpy.zeros(6))


@pytest.mark.parametrize("kind", ["dot-product attention", "additive attention"])
def test_several_heads_attend_side_by_side(kind):
    sequence = rows()
    attended = NETWORKS.multi_head_attention(
        query=state(),
        key=sequence,
        value=sequence,
        key_proj_size=3,
        value_proj_size=2,
        head_num=2,
        attention_type=kind,
        name="a",
    )
    assert attended.size == 4
    found, values = compute(attended, ROWS, STATES)
    query, key, value = (values[f"_a_{part}_proj.w0"] for part in ("query", "key", "value"))
    for row, each, at in zip(found, ROWS, STATES, strict=True):
        for head in range(2):
            columns, own = slice(3 * head, 3 * head + 3), slice(2 * head, 2 * head + 2)
            asked, keys = (at @ query)[columns], (each @ key)[:, columns]
            weight = values[f"_a_softmax_{head}.w0"]
            if kind == "additive attention":
                match = numpy.tanh(keys + asked) @ weight
            else:
                match = (keys @ asked)[:, None] * weight / numpy.sqrt(3)
            expected = (softmax(match) * (each @ value)[:, own]).sum(axis=0) if len(each) else 0
            near(row[own], expected)


# Generation


def test_a_beam_search_gives_sentences_with_their_probabilities():
    """Words follow one another as a table says: the search must find its most probable ways."""
    chances = numpy.array([[0, 0.6, 0.3, 0.1], [0, 0, 0, 1], [0, 0, 0.1, 0.9], [0, 0, 0, 1]])
    begin, end = 0, 3

    def step(_, word):
        return LAYER.fc(
            input=word, size=4, act=ACT.Softmax(), bias_attr=False, param_attr=shared("chances")
        )

    context = LAYER.data(name="context", type=paddle.data_type.dense_vector(1))
    word = LAYER.GeneratedInput(size=4, embedding_name="words", embedding_size=4)
    found = LAYER.beam_search(
        step=step,
        input=[LAYER.StaticInput(context), word],
        bos_id=begin,
        eos_id=end,
        beam_size=3,
        num_results_per_sample=2,
        max_length=5,
    )
    parameters = paddle.parameters.create(found)
    parameters["words"] = numpy.eye(4)
    parameters["chances"] = numpy.log(chances + 1e-30)
    scores, ids = paddle.infer(found, parameters, [([1.0],), ([2.0],)], field=["prob", "id"])
    assert scores.shape == (2, 2)
    near(numpy.exp(scores), [[0.6, 0.27]] * 2)
    assert ids.tolist() == [2, 1, 3, -1, 3 - 1, 2, 3, -1] * 2
