"""Wrong parameters, evaluators and optimizers."""

import paddle.v2 as paddle
from paddle.v2.topology import Topology
from wrong_programs.case import case, dense, ids

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
def one_name_for_the_weights_of_inputs_of_two_sizes():
    inputs = [dense("x", 3), dense("y", 4)]
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
def initializer_that_is_no_function():
    paddle.attr.Param(initializer=[1, 2, 3])  # wrong


@case
def initializer_beside_other_first_values():
    paddle.attr.Param(initializer=lambda name: 0, initial_std=1)  # wrong


@case
def initializer_of_another_size():
    first = paddle.attr.Param(initializer=lambda name: [1, 2, 3])
    x = paddle.layer.data(name="x", type=paddle.data_type.dense_vector(2))
    hidden = paddle.layer.fc(input=x, size=2, param_attr=first)
    paddle.parameters.create(hidden)  # wrong


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
