"""A language model of five words and the next, whose cost looks at few words of the vocabulary:
noise-contrastive estimation, or a binary tree of the words. It is asked by the same parameters."""

import math

import numpy

import paddle.v2 as paddle

WORDS, DIM, GRAM = 24, 16, 5


def embeddings():
    words = ["firstw", "secondw", "thirdw", "fourthw"]
    layers = [
        paddle.layer.data(name=each, type=paddle.data_type.integer_value(WORDS)) for each in words
    ]
    table = paddle.attr.Param(
        name="_proj", initial_std=0.01, learning_rate=1, l2_rate=0, sparse_update=True
    )
    return [
        paddle.layer.table_projection(input=each, size=DIM, param_attr=table) for each in layers
    ]


def ngram_lm(kind, is_train=True):
    context = paddle.layer.concat(input=embeddings())
    hidden = paddle.layer.fc(
        input=context,
        size=32,
        act=paddle.activation.Tanh(),
        layer_attr=paddle.attr.Extra(drop_rate=0.0),
        bias_attr=paddle.attr.Param(learning_rate=2, name="hidden_b"),
        param_attr=paddle.attr.Param(
            initial_std=1.0 / math.sqrt(DIM * 8), learning_rate=1, name="hidden_w"
        ),
    )
    if kind == "nce" and not is_train:
        with paddle.layer.mixed(
            size=WORDS,
            act=paddle.activation.Softmax(),
            bias_attr=paddle.attr.Param(name="nce_b"),
        ) as predicted:
            predicted += paddle.layer.trans_full_matrix_projection(
                input=hidden, param_attr=paddle.attr.Param(name="nce_w")
            )
        return predicted
    target = paddle.layer.data(name="fifthw", type=paddle.data_type.integer_value(WORDS))
    if kind == "nce":
        return paddle.layer.nce(
            input=hidden,
            label=target,
            num_classes=WORDS,
            param_attr=paddle.attr.Param(name="nce_w"),
            bias_attr=paddle.attr.Param(name="nce_b"),
            act=paddle.activation.Sigmoid(),
            num_neg_samples=8,
            neg_distribution=[1.0 / WORDS] * WORDS,
        )
    return paddle.layer.hsigmoid(
        input=hidden,
        label=target,
        num_classes=WORDS,
        param_attr=paddle.attr.Param(name="sigmoid_w"),
        bias_attr=paddle.attr.Param(name="sigmoid_b"),
    )


def grams(count, seed):
    """The next word is as far from the last as that is from the one before."""
    draw = numpy.random.RandomState(seed)
    for _ in range(count):
        begin, step = draw.randint(WORDS), draw.randint(1, 4)
        yield tuple(int(begin + step * place) % WORDS for place in range(GRAM))


def fit(kind):
    cost = ngram_lm(kind)
    parameters = paddle.parameters.create(cost)
    trainer = paddle.trainer.SGD(cost, parameters, paddle.optimizer.Adam(learning_rate=5e-3))
    costs = []

    def event_handler(event):
        if isinstance(event, paddle.event.EndIteration):
            costs.append(event.cost)

    trainer.train(
        paddle.batch(lambda: grams(1500, 1), 30), num_passes=8, event_handler=event_handler
    )
    return costs, parameters, trainer


def train_nce():
    """The share of next words that are not guessed."""
    _, parameters, _ = fit("nce")
    asked = list(grams(100, 2))
    predicted = paddle.infer(
        output_layer=ngram_lm("nce", is_train=False),
        parameters=parameters,
        input=[each[:4] for each in asked],
        field=["id"],
    )
    wrong = numpy.asarray(predicted).flatten() != [each[4] for each in asked]
    return {"error": float(wrong.mean())}


def train_hsigmoid():
    """The cost of new grams, as a share of that of guessing: ln 2 at each turn."""
    costs, _, trainer = fit("hsigmoid")
    tested = trainer.test(paddle.batch(lambda: grams(100, 2), 50)).cost
    return {"cost": tested / costs[0]}
