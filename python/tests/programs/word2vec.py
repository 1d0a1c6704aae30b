"""Word vectors by n-grams: four words, joined as projections of one table, tell the fifth."""

import paddle.v2 as paddle

WORDS = 20
SIZE = 12


def network():
    words = [
        paddle.layer.data(name=name, type=paddle.data_type.integer_value(WORDS))
        for name in ("first", "second", "third", "fourth", "next")
    ]
    table = paddle.attr.Param(name="_proj", initial_std=0.3, learning_rate=1, l2_rate=0)
    context = paddle.layer.concat(
        input=[
            paddle.layer.table_projection(input=word, size=SIZE, param_attr=table)
            for word in words[:4]
        ]
    )
    hidden = paddle.layer.fc(
        input=context,
        size=48,
        act=paddle.activation.Sigmoid(),
        layer_attr=paddle.attr.Extra(drop_rate=0.1),
        bias_attr=paddle.attr.Param(learning_rate=2),
    )
    predicted = paddle.layer.fc(
        input=hidden,
        size=WORDS,
        act=paddle.activation.Softmax(),
        bias_attr=paddle.attr.Param(learning_rate=2),
    )
    return paddle.layer.classification_cost(input=predicted, label=words[4])


def sentences():
    """Sentences that count in steps of 1, 2 or 3: each word follows from those before."""
    for step in (1, 2, 3):
        for begin in range(WORDS):
            yield [(begin + step * place) % WORDS for place in range(5)]


def train():
    """The share of n-grams whose last word is not foretold."""
    cost = network()
    trainer = paddle.trainer.SGD(
        cost=cost,
        parameters=paddle.parameters.create(cost),
        update_equation=paddle.optimizer.AdaGrad(
            learning_rate=0.1, regularization=paddle.optimizer.L2Regularization(1e-5)
        ),
    )
    reader = paddle.batch(paddle.reader.shuffle(lambda: map(tuple, sentences()), 60), 10)
    trainer.train(reader, num_passes=80)
    return {"error": trainer.test(reader).metrics["classification_error_evaluator"]}
