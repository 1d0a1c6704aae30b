"""Wrong recurrent groups, nested sequences and beam searches."""

import paddle.v2 as paddle
from wrong_programs.case import case, dense, sequence


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
def two_memories_of_one_layer():
    def step(row):
        before = paddle.layer.memory(name="sum", size=3)
        again = paddle.layer.memory(name="sum", size=3)  # wrong
        return paddle.layer.addto(input=[row, before, again], name="sum")

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
def memory_of_rows_that_begins_with_a_sequence():
    begin = sequence("begin", 2)

    def step(row):
        before = paddle.layer.memory(name="state", size=2, boot_layer=begin)
        last = paddle.layer.last_seq(input=before)
        return paddle.layer.addto(input=[row, last], name="state")

    paddle.layer.recurrent_group(step=step, input=sequence("s", 2))  # wrong


@case
def group_that_goes_along_nothing_but_constants():
    paddle.layer.recurrent_group(step=lambda number: number, input=[3, "text"])  # wrong


@case
def group_along_a_projection():
    projection = paddle.layer.full_matrix_projection(input=sequence("s", 2), size=2)
    paddle.layer.recurrent_group(step=running_sum, input=projection)  # wrong
