"""Roles of words in a sentence: a deep LSTM that runs in both directions, and a random field."""

import random

import paddle.v2 as paddle

WORDS, VERBS, LABELS = 24, 4, 5
SIZE, DEPTH = 12, 4
FEATURES = ("word", "before", "itself", "behind", "verb", "mark")


def network():
    def sequence(name, size):
        return paddle.layer.data(name=name, type=paddle.data_type.integer_value_sequence(size))

    sizes = {"verb": VERBS, "mark": 2}
    features = [sequence(name, sizes.get(name, WORDS)) for name in FEATURES]
    target = sequence("target", LABELS)
    shared = paddle.attr.Param(name="words", initial_std=0.3)
    vectors = [
        paddle.layer.embedding(
            input=feature, size=SIZE, param_attr=None if name in sizes else shared
        )
        for name, feature in zip(FEATURES, features, strict=True)
    ]
    inputs = [
        paddle.layer.mixed(
            size=4 * SIZE,
            input=[paddle.layer.full_matrix_projection(input=vector) for vector in vectors],
        )
    ]
    inputs.append(lstm(inputs[0], reverse=False))
    for depth in range(1, DEPTH):
        mixed = paddle.layer.mixed(
            size=4 * SIZE,
            input=[paddle.layer.full_matrix_projection(input=each) for each in inputs[-2:]],
        )
        inputs = [mixed, lstm(mixed, reverse=depth % 2 == 1)]
    scores = paddle.layer.mixed(
        size=LABELS,
        input=[paddle.layer.full_matrix_projection(input=each) for each in inputs],
    )
    transitions = paddle.attr.Param(name="crfw", initial_std=0.1)
    cost = paddle.layer.crf(input=scores, label=target, param_attr=transitions)
    best = paddle.layer.crf_decoding(input=scores, label=target, param_attr=transitions)
    return cost, paddle.evaluator.sum(input=best, name="wrong")


def lstm(input, reverse):
    return paddle.layer.lstmemory(
        input=input,
        act=paddle.activation.Relu(),
        gate_act=paddle.activation.Sigmoid(),
        state_act=paddle.activation.Sigmoid(),
        reverse=reverse,
        bias_attr=paddle.attr.Param(initial_std=0.0),
    )


def sentences(count, seed):
    """Words before the verb are its subject, those behind it its object or, from the middle of the
    vocabulary on, a place; which of both verbs of a kind is asked for changes the roles."""
    draw = random.Random(seed)
    for _ in range(count):
        length = draw.randint(3, 7)
        words = [draw.randrange(WORDS) for _ in range(length)]
        at, verb = draw.randrange(length), draw.randrange(VERBS)
        labels = []
        for place, word in enumerate(words):
            if place == at:
                labels.append(0)
            elif place < at:
                labels.append(1 if verb % 2 else 2)
            else:
                labels.append(3 if word < WORDS // 2 else 4)
        context = [words[max(at - 1, 0)], words[at], words[min(at + 1, length - 1)]]
        yield (
            words,
            *([each] * length for each in context),
            [verb] * length,
            [int(place == at) for place in range(length)],
            labels,
        )


def train():
    """The share of words with a wrong role, in sentences that were not learnt from."""
    cost, wrong = network()
    trainer = paddle.trainer.SGD(
        cost=cost,
        parameters=paddle.parameters.create(cost),
        update_equation=paddle.optimizer.Adam(learning_rate=1e-2, gradient_clipping_threshold=25),
        extra_layers=wrong,
    )
    samples = list(sentences(400, seed=1))
    trainer.train(paddle.batch(lambda: iter(samples), 20), num_passes=8)
    tests = list(sentences(100, seed=2))
    return {"wrong": trainer.test(paddle.batch(lambda: iter(tests), 50)).metrics["wrong"]}
