"""Translation: a GRU reads in both directions, one with attention writes, a beam search decides."""

import random

import paddle.v2 as paddle

WORDS = 12
START, END = 0, 1
SIZE = 16


def network(is_generating):
    source = paddle.layer.data(name="source", type=paddle.data_type.integer_value_sequence(WORDS))
    vectors = paddle.layer.embedding(
        input=source, size=SIZE, param_attr=paddle.attr.Param(name="source_table")
    )
    forward = paddle.networks.simple_gru(name="forward", input=vectors, size=SIZE)
    backward = paddle.networks.simple_gru(name="backward", input=vectors, size=SIZE, reverse=True)
    encoded = paddle.layer.concat(input=[forward, backward])
    with paddle.layer.mixed(size=SIZE, name="projected") as projected:
        projected += paddle.layer.full_matrix_projection(input=encoded)
    first = paddle.layer.first_seq(input=backward)
    begin = paddle.layer.fc(
        input=first, size=SIZE, act=paddle.activation.Tanh(), bias_attr=False, name="begin"
    )

    def step(encoded, projected, word):
        state = paddle.layer.memory(name="decoder", size=SIZE, boot_layer=begin)
        context = paddle.networks.simple_attention(
            encoded_sequence=encoded, encoded_proj=projected, decoder_state=state, name="attention"
        )
        with paddle.layer.mixed(size=3 * SIZE, name="decoder_inputs") as inputs:
            inputs += paddle.layer.full_matrix_projection(input=context)
            inputs += paddle.layer.full_matrix_projection(input=word)
        state = paddle.layer.gru_step(name="decoder", input=inputs, output_mem=state, size=SIZE)
        return paddle.layer.fc(
            input=state, size=WORDS, act=paddle.activation.Softmax(), name="probability"
        )

    seen = [
        paddle.layer.StaticInput(input=encoded, is_seq=True),
        paddle.layer.StaticInput(input=projected, is_seq=True),
    ]
    if is_generating:
        word = paddle.layer.GeneratedInput(
            size=WORDS, embedding_name="target_table", embedding_size=SIZE
        )
        return paddle.layer.beam_search(
            name="group",
            step=step,
            input=[*seen, word],
            bos_id=START,
            eos_id=END,
            beam_size=3,
            max_length=8,
        )
    target = paddle.layer.data(name="target", type=paddle.data_type.integer_value_sequence(WORDS))
    word = paddle.layer.embedding(
        input=target, size=SIZE, param_attr=paddle.attr.Param(name="target_table")
    )
    decoded = paddle.layer.recurrent_group(name="group", step=step, input=[*seen, word])
    following = paddle.layer.data(
        name="following", type=paddle.data_type.integer_value_sequence(WORDS)
    )
    return paddle.layer.classification_cost(input=decoded, label=following)


def pairs(count, seed):
    """Sentences whose translation has the word behind each, in the same order."""
    draw = random.Random(seed)
    for _ in range(count):
        source = [draw.randrange(2, WORDS) for _ in range(draw.randint(2, 4))]
        target = [2 + (word - 1) % (WORDS - 2) for word in source]
        yield source, [START, *target], [*target, END]


def translations(found, count):
    """The best sentence of each sample: of all sentences a length, the words, and -1."""
    sentences, rest = [], list(found)
    while rest:
        length = int(rest[0])
        sentences.append([int(word) for word in rest[1 : 1 + length] if word != END])
        rest = rest[length + 2 :]
    return sentences[:: len(sentences) // count]


def train():
    """The share of new sentences that are translated without a mistake."""
    cost = network(is_generating=False)
    parameters = paddle.parameters.create(cost)
    trainer = paddle.trainer.SGD(
        cost=cost,
        parameters=parameters,
        update_equation=paddle.optimizer.Adam(learning_rate=1e-2),
    )
    samples = list(pairs(600, seed=1))
    trainer.train(paddle.batch(lambda: iter(samples), 20), num_passes=12)
    tests = list(pairs(40, seed=2))
    search = network(is_generating=True)
    _, found = paddle.infer(
        search, parameters, [(source,) for source, *_ in tests], field=["prob", "id"]
    )
    best = translations(found, len(tests))
    right = [each == target[1:] for each, (_, target, _) in zip(best, tests, strict=True)]
    return {"right": sum(right) / len(right)}
