"""Documents of sentences: a group over sentences with a recurrent layer over the words of each."""

import random

import paddle.v2 as paddle

WORDS, SIZE = 16, 12
GOOD, BAD, NOT = range(3)


def network():
    document = paddle.layer.data(
        name="document", type=paddle.data_type.integer_value_sub_sequence(WORDS)
    )
    label = paddle.layer.data(name="label", type=paddle.data_type.integer_value(2))
    vectors = paddle.layer.embedding(input=document, size=SIZE)

    def over_sentences(sentence):
        def over_words(word):
            before = paddle.layer.memory(name="word_state", size=SIZE)
            return paddle.layer.fc(
                input=[word, before], size=SIZE, act=paddle.activation.Tanh(), name="word_state"
            )

        words = paddle.layer.recurrent_group(
            name="words", step=over_words, input=sentence, reverse=0
        )
        meaning = paddle.layer.last_seq(input=words)
        before = paddle.layer.memory(name="document_state", size=SIZE)
        state = paddle.layer.fc(
            input=[meaning, before],
            size=SIZE,
            act=paddle.activation.Tanh(),
            name="document_state",
        )
        # A row for the document so far, and a sequence of what was read.
        return state, words

    states, words = paddle.layer.recurrent_group(
        name="sentences", step=over_sentences, input=paddle.layer.SubsequenceInput(vectors)
    )
    read = paddle.layer.pooling(input=words, pooling_type=paddle.pooling.Avg())
    predicted = paddle.layer.fc(
        input=[paddle.layer.last_seq(input=states), read],
        size=2,
        act=paddle.activation.Softmax(),
    )
    return paddle.layer.classification_cost(input=predicted, label=label)


def documents(count, seed):
    """Good and bad words, whose sense `not` turns around if it stands before them in a sentence."""
    draw = random.Random(seed)
    made = 0
    while made < count:
        score, sentences = 0, []
        for _ in range(draw.randint(1, 3)):
            word, is_turned = draw.choice((GOOD, BAD)), draw.random() < 0.4
            rest = [draw.randrange(3, WORDS) for _ in range(draw.randint(0, 2))]
            sentences.append([*rest, *([NOT] if is_turned else []), word])
            score += 1 if (word == GOOD) != is_turned else -1
        if score != 0:
            made += 1
            yield sentences, int(score > 0)


def train():
    """The share of documents that are judged wrongly, of some that were not learnt from."""
    cost = network()
    trainer = paddle.trainer.SGD(
        cost=cost,
        parameters=paddle.parameters.create(cost),
        update_equation=paddle.optimizer.Adam(learning_rate=1e-2),
    )
    samples = list(documents(600, seed=1))
    trainer.train(paddle.batch(lambda: iter(samples), 20), num_passes=8)
    tests = list(documents(200, seed=2))
    tested = trainer.test(paddle.batch(lambda: iter(tests), 100))
    return {"error": tested.metrics["classification_error_evaluator"]}
