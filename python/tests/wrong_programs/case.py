"""How a wrong program is marked, and what most of them need."""

import paddle.v2 as paddle

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
