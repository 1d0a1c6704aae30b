"""The network: 26 categories as vectors of one table, 13 numbers, three hidden layers."""

import math

import paddle.v2 as paddle
from paddle.v2.dataset import criteo

HIDDEN_SIZES = (400, 400, 400)


def describe(sparse_feature_dim, embedding_size):
    """The cost of predicting clicks, and the prediction: the chances of no click and a click."""
    dense = paddle.layer.data(
        name="dense_input", type=paddle.data_type.dense_vector(criteo.DENSE_FEATURES)
    )
    # Only the rows that a batch needs travel between trainers and servers.
    table = paddle.attr.Param(
        name="SparseFeatFactors",
        initial_max=1 / math.sqrt(embedding_size),
        initial_min=-1 / math.sqrt(embedding_size),
        sparse_update=True,
    )
    embedded = [
        paddle.layer.embedding(
            input=paddle.layer.data(
                name=f"C{number}", type=paddle.data_type.integer_value(sparse_feature_dim)
            ),
            size=embedding_size,
            param_attr=table,
        )
        for number in range(1, criteo.SPARSE_FEATURES + 1)
    ]
    click = paddle.layer.data(name="label", type=paddle.data_type.integer_value(2))

    hidden = paddle.layer.concat(input=[*embedded, dense])
    for size in HIDDEN_SIZES:
        hidden = paddle.layer.fc(input=hidden, size=size, act=paddle.activation.Relu())
    predicted = paddle.layer.fc(input=hidden, size=2, act=paddle.activation.Softmax())
    cost = paddle.layer.classification_cost(input=predicted, label=click)
    paddle.evaluator.auc(input=predicted, label=click, name="auc")
    return cost, predicted
