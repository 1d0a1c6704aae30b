"""Wrong data, feeding, models and settings of a process."""

import io

import original_tar

import paddle.v2 as paddle
from paddle.v2 import naming
from wrong_programs.case import case, dense, ids, sequence


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


def tar_of(parameters):
    written = io.BytesIO()
    parameters.to_tar(written)
    return written.getvalue()


@case
def tar_without_its_end():
    written = tar_of(paddle.parameters.create(regression()))
    paddle.parameters.Parameters.from_tar(io.BytesIO(written[:-1024]))


@case
def tar_of_the_original_that_was_cut_off():
    written = original_tar.golden()
    paddle.parameters.Parameters.from_tar(io.BytesIO(written[: 2 * 512]))


@case
def tar_of_nothing():
    paddle.parameters.Parameters.from_tar(io.BytesIO(b""))


@case
def extra_layer_that_is_an_optimizer():
    cost = regression()
    parameters, optimizer = paddle.parameters.create(cost), paddle.optimizer.Adam()
    paddle.trainer.SGD(cost, parameters, optimizer, extra_layers=[optimizer])  # wrong
