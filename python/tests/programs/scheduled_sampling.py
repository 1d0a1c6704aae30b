"""Scheduled sampling: a decoder that learns more and more from the words it has made itself.

In training a step sees the true word before or, with a probability that grows, the one that the
step before thought best. In the end it runs on its own.
"""

import math
import random

import paddle.v2 as paddle

WORDS, LENGTH, SIZE = 10, 6, 20
START = 0


def network():
    source = paddle.layer.data(name="source", type=paddle.data_type.integer_value_sequence(WORDS))
    encoded = paddle.networks.simple_gru(
        input=paddle.layer.embedding(input=source, size=SIZE), size=SIZE
    )
    begin = paddle.layer.last_seq(input=encoded)
    table = paddle.attr.Param(name="target_table")

    def step(true_word, is_true):
        state = paddle.layer.memory(name="decoder", size=SIZE, boot_layer=begin)
        made = paddle.layer.memory(name="made_word", size=WORDS, boot_with_const_id=START)
        made_word = paddle.layer.embedding(input=made, size=SIZE, param_attr=table)
        word = paddle.layer.multiplex(input=[is_true, made_word, true_word])
        inputs = paddle.layer.fc(
            input=word, size=3 * SIZE, act=paddle.activation.Linear(), bias_attr=False
        )
        state = paddle.layer.gru_step(name="decoder", input=inputs, output_mem=state)
        predicted = paddle.layer.fc(input=state, size=WORDS, act=paddle.activation.Softmax())
        paddle.layer.max_id(input=predicted, name="made_word")
        return predicted

    target = paddle.layer.data(name="target", type=paddle.data_type.integer_value_sequence(WORDS))
    is_true = paddle.layer.data(name="is_true", type=paddle.data_type.integer_value_sequence(2))
    following = paddle.layer.data(
        name="following", type=paddle.data_type.integer_value_sequence(WORDS)
    )
    true_word = paddle.layer.embedding(input=target, size=SIZE, param_attr=table)
    decoded = paddle.layer.recurrent_group(step=step, input=[true_word, is_true])
    return paddle.layer.classification_cost(input=decoded, label=following)


def sentences(count, seed, chance_of_truth):
    """The source says where to begin and in which steps to count; `chance_of_truth` is asked for
    every word whether it is shown."""
    draw = random.Random(seed)
    for _ in range(count):
        begin, step = draw.randrange(1, WORDS), draw.choice((1, 2))
        words = [1 + (begin - 1 + step * place) % (WORDS - 1) for place in range(LENGTH)]
        shown = [int(draw.random() < chance_of_truth()) for _ in words]
        yield [begin, step], [START, *words[:-1]], shown, words


def train():
    """The share of wrong words of a decoder that sees nothing but its own."""
    cost = network()
    trainer = paddle.trainer.SGD(
        cost=cost,
        parameters=paddle.parameters.create(cost),
        update_equation=paddle.optimizer.Adam(learning_rate=1e-2),
    )
    batches = 0

    def decaying():
        """Inverse sigmoid: nearly 1 at first, ½ after about 90 batches, then towards 0."""
        return 30 / (30 + math.exp(batches / 30))

    def follow(event):
        nonlocal batches
        batches += isinstance(event, paddle.event.EndIteration)

    trainer.train(
        paddle.batch(lambda: sentences(400, 1, decaying), 20), num_passes=10, event_handler=follow
    )
    tests = paddle.batch(lambda: sentences(100, 2, lambda: 0.0), 50)
    return {"error": trainer.test(tests).metrics["classification_error_evaluator"]}
