"""Small wrong programs, and what their authors are told.

A case is a function here: the program, with `# wrong` on the line that the message must name, if
it can name one. What it raises is compared with `snapshots/mistakes.txt`; run with
`UPDATE_SNAPSHOTS=1` to rewrite that.
"""

import inspect
import linecache
import os
import pathlib
import re

import pytest

import paddle.v2 as paddle
from paddle import errors
from paddle.v2 import config, naming
from paddle.v2.topology import Topology

SNAPSHOT = pathlib.Path(__file__).parent / "snapshots" / "mistakes.txt"
PLACE = re.compile(r"[^\s()]*test_mistakes\.py:(\d+)")
CASES = []


def case(program):
    """Marks a wrong program."""
    CASES.append(program)
    return program


def dense(name, size):
    return paddle.layer.data(name=name, type=paddle.data_type.dense_vector(size))


def ids(name, size):
    return paddle.layer.data(name=name, type=paddle.data_type.integer_value(size))


def sequence(name, size):
    return paddle.layer.data(name=name, type=paddle.data_type.dense_vector_sequence(size))


# Layers and their sizes


@case
def integer_ids_go_into_fc():
    paddle.layer.fc(input=ids("word", 10), size=3)  # wrong


@case
def label_of_another_size():
    paddle.layer.square_error_cost(input=dense("x", 3), label=dense("y", 2))  # wrong


@case
def label_is_dense_where_classes_are_needed():
    predicted = paddle.layer.fc(input=dense("x", 3), size=4, act=paddle.activation.Softmax())
    paddle.layer.classification_cost(input=predicted, label=dense("y", 4))  # wrong


@case
def label_has_other_classes():
    predicted = paddle.layer.fc(input=dense("x", 3), size=4, act=paddle.activation.Softmax())
    paddle.layer.classification_cost(input=predicted, label=ids("y", 5))  # wrong


@case
def classification_without_softmax():
    predicted = paddle.layer.fc(input=dense("x", 3), size=4)
    paddle.layer.classification_cost(input=predicted, label=ids("y", 4))  # wrong


@case
def sum_of_different_sizes():
    paddle.layer.addto(input=[dense("x", 3), dense("y", 4)])  # wrong


@case
def sequence_meets_a_single_row():
    paddle.layer.concat(input=[sequence("x", 3), dense("y", 4)])  # wrong


@case
def pooling_of_a_single_row():
    paddle.layer.pooling(input=dense("x", 3), pooling_type=paddle.pooling.Max())  # wrong


@case
def embedding_of_numbers():
    paddle.layer.embedding(input=dense("x", 3), size=8)  # wrong


@case
def cosine_of_different_sizes():
    paddle.layer.cos_sim(a=dense("x", 3), b=dense("y", 4))  # wrong


@case
def size_of_zero():
    paddle.layer.fc(input=dense("x", 3), size=0)  # wrong


@case
def size_is_a_string():
    paddle.layer.fc(input=dense("x", 3), size="10")  # wrong


@case
def convolution_of_a_row_that_is_no_picture():
    paddle.layer.img_conv(input=dense("x", 12), filter_size=3, num_filters=2)  # wrong


@case
def convolution_with_other_channels():
    type = paddle.data_type.dense_vector(3072)
    picture = paddle.layer.data(name="x", type=type, height=32, width=32)
    paddle.layer.img_conv(input=picture, filter_size=3, num_filters=2, num_channels=1)  # wrong


@case
def convolution_with_a_filter_larger_than_the_picture():
    x = dense("x", 2 * 3 * 3)
    paddle.layer.img_conv(input=x, filter_size=5, num_filters=2, num_channels=2)  # wrong


@case
def convolution_in_groups_that_do_not_divide_the_channels():
    x = dense("x", 3 * 4 * 4)
    paddle.layer.img_conv(  # wrong
        input=x, filter_size=3, num_filters=4, num_channels=3, groups=2
    )


@case
def channels_that_are_not_square():
    paddle.layer.img_pool(input=dense("x", 3 * 7), pool_size=2, num_channels=3)  # wrong


@case
def sum_of_a_window():
    x = dense("x", 3 * 4)
    paddle.layer.img_pool(  # wrong
        input=x, pool_size=2, num_channels=3, pool_type=paddle.pooling.Sum()
    )


@case
def maxout_of_channels_that_do_not_go_together():
    paddle.layer.maxout(input=dense("x", 3 * 4), groups=2, num_channels=3)  # wrong


@case
def batch_norm_over_ids():
    paddle.layer.batch_norm(input=ids("word", 10))  # wrong


@case
def convolutions_with_too_few_drop_rates():
    paddle.networks.img_conv_group(  # wrong
        input=dense("x", 16),
        conv_num_filter=[2, 2],
        pool_size=2,
        num_channels=1,
        conv_with_batchnorm=True,
        conv_batchnorm_drop_rate=[0.3],
    )


@case
def picture_of_another_size():
    type = paddle.data_type.dense_vector(784)
    paddle.layer.data(name="x", type=type, height=28, width=27)  # wrong


@case
def layers_of_different_sizes_are_added():
    dense("x", 3) + dense("y", 4)  # wrong


@case
def layers_of_different_sizes_are_multiplied():
    dense("x", 3) * dense("y", 3)  # wrong


@case
def layer_plus_text():
    dense("x", 3) + "1"  # wrong


# Mixed layers


@case
def mixed_without_projections():
    with paddle.layer.mixed(size=3):  # wrong
        pass


@case
def mixed_used_before_it_is_complete():
    mixed = paddle.layer.mixed(size=3)
    paddle.layer.fc(input=mixed, size=1)  # wrong


@case
def projections_of_different_sizes():
    x = dense("x", 3)
    terms = [paddle.layer.identity_projection(input=x), paddle.layer.dotmul_projection(input=x)]
    paddle.layer.mixed(size=4, input=terms)  # wrong


@case
def projection_is_taken_for_a_layer():
    paddle.layer.fc(input=paddle.layer.identity_projection(input=dense("x", 3)), size=1)  # wrong


@case
def columns_beyond_the_input():
    slice = paddle.layer.identity_projection(input=dense("x", 3), offset=2, size=2)
    paddle.layer.mixed(input=slice)  # wrong


# Arguments


@case
def misspelt_argument():
    paddle.layer.fc(input=dense("x", 3), sizes=10)  # wrong


@case
def unknown_argument():
    paddle.layer.fc(input=dense("x", 3), size=10, trainable=False)  # wrong


@case
def cost_without_label():
    paddle.layer.square_error_cost(input=dense("x", 3))  # wrong


@case
def layer_by_its_name():
    paddle.layer.fc(input="x", size=10)  # wrong


@case
def no_inputs():
    paddle.layer.concat(input=[])  # wrong


@case
def data_type_is_a_number():
    paddle.layer.data(name="x", type=13)  # wrong


@case
def activation_is_a_string():
    paddle.layer.fc(input=dense("x", 3), size=10, act="softmax")  # wrong


@case
def activation_is_an_attribute():
    paddle.layer.fc(input=dense("x", 3), size=10, act=paddle.attr.Param())  # wrong


@case
def layer_instead_of_attribute():
    x = dense("x", 3)
    paddle.layer.fc(input=x, size=10, param_attr=x)  # wrong


@case
def attributes_are_mixed_up():
    paddle.layer.fc(input=dense("x", 3), size=10, layer_attr=paddle.attr.Param())  # wrong


@case
def bias_is_a_number():
    paddle.layer.fc(input=dense("x", 3), size=10, bias_attr=0)  # wrong


@case
def too_few_attributes_for_the_inputs():
    inputs = [dense("x", 3), dense("y", 3)]
    paddle.layer.fc(input=inputs, size=10, param_attr=[paddle.attr.Param()])  # wrong


@case
def dropout_of_more_than_all():
    paddle.layer.dropout(input=dense("x", 3), dropout_rate=1.5)  # wrong


@case
def dropout_after_softmax():
    x, extra = dense("x", 3), paddle.attr.Extra(drop_rate=0.5)
    paddle.layer.fc(input=x, size=4, act=paddle.activation.Softmax(), layer_attr=extra)  # wrong


# Names


@case
def recurrent_layer_over_rows():
    paddle.layer.lstmemory(input=dense("x", 4))  # wrong


@case
def recurrent_layer_over_an_input_that_does_not_divide():
    x = sequence("x", 6)
    paddle.layer.lstmemory(input=x)  # wrong


@case
def recurrent_layer_of_another_size_than_its_input_says():
    x = sequence("x", 6)
    paddle.layer.grumemory(input=x, size=3)  # wrong


@case
def recurrent_layer_with_an_activation_it_cannot_have():
    x = sequence("x", 6)
    paddle.layer.recurrent(input=x, act=paddle.activation.Softmax())  # wrong


@case
def chain_whose_label_has_other_tags():
    x = sequence("x", 6)
    label = paddle.layer.data(name="y", type=paddle.data_type.integer_value_sequence(5))
    paddle.layer.crf(input=x, label=label)  # wrong


@case
def alignment_whose_blank_is_no_class():
    x = sequence("x", 6)
    label = paddle.layer.data(name="y", type=paddle.data_type.integer_value_sequence(5))
    paddle.layer.warp_ctc(input=x, label=label, blank=6)  # wrong


@case
def noise_of_another_number_of_classes():
    label = ids("y", 5)
    paddle.layer.nce(input=dense("x", 2), label=label, neg_distribution=[0.5, 0.5])  # wrong


@case
def context_of_a_row():
    x = dense("x", 6)
    paddle.layer.mixed(input=paddle.layer.context_projection(x, context_len=3))  # wrong


@case
def chunks_by_an_unknown_scheme():
    tags = paddle.layer.data(name="y", type=paddle.data_type.integer_value_sequence(5))
    paddle.evaluator.chunk(tags, tags, chunk_scheme="BIO", num_chunk_types=2)  # wrong


@case
def chunks_of_more_types_than_there_are_tags():
    tags = paddle.layer.data(name="y", type=paddle.data_type.integer_value_sequence(5))
    paddle.evaluator.chunk(tags, tags, chunk_scheme="IOB", num_chunk_types=3)  # wrong


# Recurrent groups


def nested(name, size):
    return paddle.layer.data(name=name, type=paddle.data_type.dense_vector_sub_sequence(size))


def running_sum(row):
    before = paddle.layer.memory(name="sum", size=row.size)
    return paddle.layer.addto(input=[row, before], name="sum")


@case
def group_along_rows():
    paddle.layer.recurrent_group(step=running_sum, input=dense("x", 3))  # wrong


@case
def group_that_goes_nowhere():
    whole = paddle.layer.StaticInput(dense("x", 3))
    paddle.layer.recurrent_group(step=running_sum, input=whole)  # wrong


@case
def step_that_takes_a_layer_from_outside():
    outside = dense("x", 3)

    def step(row):
        return paddle.layer.addto(input=[row, outside])  # wrong

    paddle.layer.recurrent_group(step=step, input=sequence("s", 3))


@case
def layer_of_a_step_used_outside():
    kept = []

    def step(row):
        kept.append(row)
        return running_sum(row)

    paddle.layer.recurrent_group(step=step, input=sequence("s", 3))
    paddle.layer.fc(input=kept[0], size=2)  # wrong


@case
def step_that_returns_nothing():
    paddle.layer.recurrent_group(step=lambda row: None, input=sequence("s", 3))  # wrong


@case
def step_that_returns_a_layer_from_outside():
    outside = sequence("s", 3)
    paddle.layer.recurrent_group(step=lambda row: outside, input=outside)  # wrong


@case
def step_that_is_no_function():
    paddle.layer.recurrent_group(step=sequence("s", 3), input=sequence("t", 3))  # wrong


@case
def memory_outside_a_step():
    paddle.layer.memory(name="state", size=3)  # wrong


@case
def memory_of_a_layer_that_is_not_there():
    def step(row):
        before = paddle.layer.memory(name="sums", size=3)
        return paddle.layer.addto(input=[row, before], name="sum")

    paddle.layer.recurrent_group(step=step, input=sequence("s", 3))  # wrong


@case
def memory_of_another_size():
    def step(row):
        before = paddle.layer.memory(name="state", size=4)
        return paddle.layer.fc(input=[row, before], size=3, name="state")

    paddle.layer.recurrent_group(step=step, input=sequence("s", 3))  # wrong


@case
def memory_that_begins_with_another_size():
    begin = dense("begin", 2)

    def step(row):
        before = paddle.layer.memory(name="sum", size=3, boot_layer=begin)
        return paddle.layer.addto(input=[row, before], name="sum")

    paddle.layer.recurrent_group(step=step, input=sequence("s", 3))  # wrong


@case
def batch_norm_in_a_step():
    def step(row):
        return paddle.layer.batch_norm(input=row)

    paddle.layer.recurrent_group(step=step, input=sequence("s", 3))  # wrong


@case
def two_layers_of_a_step_with_one_name():
    def step(row):
        paddle.layer.fc(input=row, size=2, name="a")
        return paddle.layer.fc(input=row, size=2, name="a")  # wrong

    paddle.layer.recurrent_group(step=step, input=sequence("s", 3))


@case
def flat_sequence_as_subsequences():
    paddle.layer.SubsequenceInput(sequence("s", 3))  # wrong


@case
def static_input_of_another_size():
    paddle.layer.StaticInput(dense("x", 3), size=4)  # wrong


@case
def state_of_a_layer_that_has_none():
    paddle.layer.get_output(input=dense("x", 3), arg_name="state")  # wrong


@case
def cells_whose_memory_has_another_size():
    paddle.layer.gru_step(input=dense("x", 9), output_mem=dense("h", 2))  # wrong


@case
def flat_sequence_made_a_sequence():
    paddle.layer.last_seq(  # wrong
        input=sequence("s", 3), agg_level=paddle.layer.AggregateLevel.TO_SEQUENCE
    )


@case
def expanded_from_another_level():
    rows = paddle.layer.ExpandLevel.FROM_SEQUENCE
    paddle.layer.expand(  # wrong
        input=dense("x", 3), expand_as=nested("n", 2), expand_level=rows
    )


@case
def attention_to_another_size():
    rows = sequence("s", 3)
    paddle.networks.simple_attention(  # wrong
        encoded_sequence=rows, encoded_proj=rows, decoder_state=dense("x", 2)
    )


def search(step, inputs, **settings):
    return {"step": step, "input": inputs, "bos_id": 0, "eos_id": 1, "beam_size": 2, **settings}


def next_word(_, word):
    return paddle.layer.fc(input=word, size=5, act=paddle.activation.Softmax())


def generated():
    return paddle.layer.GeneratedInput(size=5, embedding_name="table", embedding_size=2)


@case
def search_without_a_word():
    inputs = [paddle.layer.StaticInput(dense("x", 3))]
    paddle.layer.beam_search(**search(next_word, inputs))  # wrong


@case
def search_along_a_sequence():
    paddle.layer.beam_search(**search(next_word, [sequence("s", 3), generated()]))  # wrong


@case
def search_of_nothing():
    paddle.layer.beam_search(**search(lambda word: next_word(None, word), [generated()]))  # wrong


@case
def search_whose_step_knows_other_words():
    def step(_, word):
        return paddle.layer.fc(input=word, size=4, act=paddle.activation.Softmax())

    inputs = [paddle.layer.StaticInput(dense("x", 3)), generated()]
    paddle.layer.beam_search(**search(step, inputs))  # wrong


@case
def search_that_ends_with_an_unknown_word():
    inputs = [paddle.layer.StaticInput(dense("x", 3)), generated()]
    paddle.layer.beam_search(**search(next_word, inputs, eos_id=5))  # wrong


@case
def search_for_more_than_it_pursues():
    inputs = [paddle.layer.StaticInput(dense("x", 3)), generated()]
    paddle.layer.beam_search(**search(next_word, inputs, num_results_per_sample=3))  # wrong


@case
def layer_that_is_not_there_yet():
    paddle.layer.roi_pool(input=sequence("x", 4))  # wrong


@case
def misspelt_layer():
    paddle.layer.embeding(input=ids("word", 10), size=8)  # wrong


@case
def layer_by_its_old_name():
    paddle.layer.fc_layer(input=dense("x", 3), size=8)  # wrong


@case
def misspelt_activation():
    paddle.activation.ReLU()  # wrong


@case
def network_that_is_not_there_yet():
    paddle.networks.img_separable_conv(input=dense("x", 4))  # wrong


@case
def evaluator_that_is_not_there_yet():
    paddle.evaluator.pnpair(input=ids("x", 4), label=ids("y", 4))  # wrong


@case
def two_layers_of_one_name():
    x = dense("x", 3)
    first = paddle.layer.fc(input=x, size=3, name="hidden")
    second = paddle.layer.fc(input=first, size=3, name="hidden")
    Topology(second)  # wrong


@case
def unknown_layer_of_a_network():
    topology = Topology(paddle.layer.fc(input=dense("x", 3), size=3, name="hidden"))
    topology.get_layer("hiden")  # wrong


@case
def topology_of_a_number():
    Topology(3)  # wrong


# Parameters


@case
def shared_parameter_of_another_size():
    shared = paddle.attr.Param(name="table")
    first = paddle.layer.embedding(input=ids("a", 10), size=8, param_attr=shared)
    second = paddle.layer.embedding(input=ids("b", 20), size=8, param_attr=shared)
    Topology([first, second])  # wrong


@case
def sparse_update_of_dense_input():
    sparse = paddle.attr.Param(sparse_update=True)
    paddle.layer.fc(input=dense("x", 3), size=8, param_attr=sparse)  # wrong


@case
def sparse_update_in_one_of_two_layers():
    word = ids("word", 10)
    plain, sparse = (paddle.attr.Param(name="table", sparse_update=each) for each in (False, True))
    layers = [
        paddle.layer.embedding(input=word, size=8, param_attr=attr) for attr in (plain, sparse)
    ]
    Topology(layers)  # wrong


@case
def keys_without_a_bound_in_a_dense_table():
    paddle.layer.embedding(input=ids("word", None), size=8)  # wrong


@case
def one_name_for_the_weights_of_two_inputs():
    inputs = [dense("x", 3), dense("y", 3)]
    paddle.layer.fc(input=inputs, size=8, param_attr=paddle.attr.Param(name="w"))  # wrong


@case
def negative_rate_of_a_parameter():
    paddle.attr.Param(l2_rate=-1)  # wrong


@case
def half_a_range_of_first_values():
    paddle.attr.Param(initial_max=1)  # wrong


@case
def misspelt_attribute():
    paddle.attr.Param(learningrate=2)  # wrong


@case
def initializer_function():
    paddle.attr.Param(initializer=lambda name: None)  # wrong


@case
def pruning_hook():
    paddle.attr.Hook("pruning", sparsity_ratio=0.5)  # wrong


# Evaluators


@case
def evaluator_with_a_sparse_label():
    label = paddle.layer.data(name="y", type=paddle.data_type.sparse_binary_vector(3))
    paddle.evaluator.auc(input=dense("x", 3), label=label)  # wrong


@case
def evaluator_of_a_label_that_cannot_be():
    paddle.evaluator.precision_recall(dense("x", 3), ids("y", 3), positive_label=3)  # wrong


# Optimizers


@case
def negative_learning_rate():
    paddle.optimizer.Adam(learning_rate=-0.1)  # wrong


@case
def momentum_of_one():
    paddle.optimizer.Momentum(momentum=1.0)  # wrong


@case
def misspelt_schedule():
    paddle.optimizer.Adam(learning_rate_schedule="disc_exp")  # wrong


@case
def schedule_without_segments():
    paddle.optimizer.Adam(learning_rate_schedule="manual")  # wrong


@case
def misspelt_optimizer_argument():
    paddle.optimizer.Adam(learning_rates=0.1)  # wrong


@case
def regularization_is_a_number():
    paddle.optimizer.Adam(regularization=8e-4)  # wrong


@case
def misspelt_optimizer():
    paddle.optimizer.Adagrad()  # wrong


def outcome(program):
    """What the author of a wrong program is told, and whether that names the wrong line."""
    naming.reset()
    config._current = config.Settings()
    with pytest.raises(errors.Error) as caught:
        program()
    message = str(caught.value)
    lines = PLACE.findall(message)
    named = linecache.getline(__file__, int(lines[-1])) if lines else ""
    told = "names the wrong line" if named.rstrip().endswith("# wrong") else "names no line"
    text = PLACE.sub("train.py:<line>", message)
    return f"{program.__name__}\n  {type(caught.value).__name__}: {text}\n  {told}\n"


def snapshot():
    entries = SNAPSHOT.read_text().split("\n\n") if SNAPSHOT.exists() else []
    return {entry.split("\n", 1)[0]: entry.rstrip("\n") + "\n" for entry in entries}


# Training and feeding


def regression():
    x, y = dense("x", 2), dense("y", 1)
    return paddle.layer.square_error_cost(input=paddle.layer.fc(input=x, size=1), label=y)


def trainer_of(cost):
    parameters = paddle.parameters.create(cost)
    optimizer = paddle.optimizer.Momentum(learning_rate=0.1)
    return paddle.trainer.SGD(cost=cost, parameters=parameters, update_equation=optimizer)


def train_on(cost, *samples, **arguments):
    trainer_of(cost).train(lambda: iter([list(samples)]), **arguments)


@case
def sample_with_too_few_numbers():
    train_on(regression(), ([1.0, 2.0], [1.0]), ([1.0], [1.0]))


@case
def sample_with_text_instead_of_numbers():
    train_on(regression(), ("1.0 2.0", [1.0]))


@case
def sample_with_text_among_numbers():
    train_on(regression(), ([1.0, "2.0"], [1.0]))


@case
def sample_without_a_label():
    train_on(regression(), ([1.0, 2.0],))


@case
def sample_that_is_no_tuple():
    train_on(regression(), 3.0)


@case
def label_that_is_no_class():
    predicted = paddle.layer.fc(input=dense("x", 2), size=3, act=paddle.activation.Softmax())
    cost = paddle.layer.classification_cost(input=predicted, label=ids("label", 3))
    train_on(cost, ([1.0, 2.0], 2), ([1.0, 2.0], 3))


@case
def label_that_is_a_fraction():
    predicted = paddle.layer.fc(input=dense("x", 2), size=3, act=paddle.activation.Softmax())
    cost = paddle.layer.classification_cost(input=predicted, label=ids("label", 3))
    train_on(cost, ([1.0, 2.0], 1.5))


@case
def single_value_for_a_sequence():
    pooled = paddle.layer.pooling(input=sequence("x", 2), pooling_type=paddle.pooling.Max())
    cost = paddle.layer.square_error_cost(input=pooled, label=dense("y", 2))
    train_on(cost, (3.0, [1.0, 2.0]))


@case
def pairs_are_missing_in_a_sparse_float_vector():
    wide = paddle.layer.data(name="wide", type=paddle.data_type.sparse_float_vector(10))
    cost = paddle.layer.square_error_cost(
        input=paddle.layer.fc(input=wide, size=1), label=dense("y", 1)
    )
    train_on(cost, ([1, 2], [1.0]))


@case
def reader_is_not_batched():
    cost = regression()
    trainer_of(cost).train(lambda: iter([3.5]))


@case
def reader_is_called_too_early():
    cost = regression()
    trainer_of(cost).train(iter([]))  # wrong


@case
def feeding_forgets_a_layer():
    train_on(regression(), ([1.0, 2.0], [1.0]), feeding={"x": 0})


@case
def feeding_is_a_number():
    train_on(regression(), ([1.0, 2.0], [1.0]), feeding=1)


@case
def parameters_are_a_layer():
    cost = regression()
    optimizer = paddle.optimizer.Momentum(learning_rate=0.1)
    paddle.trainer.SGD(cost=cost, parameters=cost, update_equation=optimizer)  # wrong


@case
def update_equation_is_a_number():
    cost = regression()
    parameters = paddle.parameters.create(cost)
    paddle.trainer.SGD(cost=cost, parameters=parameters, update_equation=0.1)  # wrong


@case
def parameters_of_another_network():
    parameters = paddle.parameters.create(regression())
    naming.reset()
    other = paddle.layer.fc(input=dense("x", 3), size=1)
    paddle.infer(output_layer=other, parameters=parameters, input=[([1.0, 2.0, 3.0],)])


@case
def value_of_another_size():
    parameters = paddle.parameters.create(regression())
    parameters.set("___fc_layer_0__.w0", [[1.0, 2.0, 3.0]])  # wrong


@case
def parameter_that_is_not_there():
    parameters = paddle.parameters.create(regression())
    parameters.get("_fc_layer_0__.w0")  # wrong


@case
def init_with_a_misspelt_argument():
    paddle.init(trainer_cuont=2)  # wrong


@case
def init_with_a_rank_that_cannot_be():
    paddle.init(trainer_id=2, num_gradient_servers=2)  # wrong


@case
def init_with_a_word_for_a_number():
    paddle.init(port="many")  # wrong


@case
def gpu_in_a_build_without_one():
    paddle.init(use_gpu=True)
    trainer_of(regression())


@case
def tar_is_a_path():
    paddle.parameters.create(regression()).to_tar("model.tar")  # wrong


@pytest.mark.skipif("UPDATE_SNAPSHOTS" in os.environ, reason="the snapshot is being written")
@pytest.mark.parametrize("program", CASES, ids=lambda program: program.__name__)
def test_a_mistake_is_explained(program):
    assert outcome(program) == snapshot().get(program.__name__)


def test_the_snapshot_has_every_mistake_and_no_other():
    if "UPDATE_SNAPSHOTS" in os.environ:
        SNAPSHOT.parent.mkdir(exist_ok=True)
        SNAPSHOT.write_text("\n".join(outcome(program) for program in CASES))
    assert list(snapshot()) == [program.__name__ for program in CASES]


def test_a_message_names_the_wrong_line_where_one_is_marked():
    told = snapshot()
    for program in CASES:
        if "# wrong" in inspect.getsource(program):
            assert told[program.__name__].endswith("names the wrong line\n"), program.__name__
