"""Translation: recurrent layers read the source in both directions, others write the target while
they look back at it."""

import paddle.v2 as paddle

SIZES = {"embedding": 512, "encoder": 512, "decoder": 512}
# Training and generation describe the decoder each in a group of this name, so that its parameters
# have the same names.
DECODER = "decoder"
TARGET_TABLE = "target_embedding"


def training(words, sizes):
    """The cost of the next word of each target, given the words before."""
    decoder = _Decoder(words, sizes)
    integers = paddle.data_type.integer_value_sequence(words)
    target = paddle.layer.data(name="target", type=integers)
    following = paddle.layer.data(name="target_next", type=integers)
    table = paddle.attr.Param(name=TARGET_TABLE, sparse_update=True)
    embedded = paddle.layer.embedding(input=target, size=sizes["embedding"], param_attr=table)
    probability = paddle.layer.recurrent_group(
        name=DECODER, step=decoder.step, input=[*decoder.inputs, embedded]
    )
    return paddle.layer.classification_cost(input=probability, label=following)


def generation(words, sizes, beam_size, max_length):
    """The best targets of each source."""
    decoder = _Decoder(words, sizes)
    word = paddle.layer.GeneratedInput(
        size=words, embedding_name=TARGET_TABLE, embedding_size=sizes["embedding"]
    )
    return paddle.layer.beam_search(
        name=DECODER,
        step=decoder.step,
        input=[*decoder.inputs, word],
        bos_id=0,
        eos_id=1,
        beam_size=beam_size,
        max_length=max_length,
    )


class _Decoder:
    """The encoder, and the step of the decoder that looks at what it gives."""

    def __init__(self, words, sizes):
        self.words, self.size = words, sizes["decoder"]
        source = paddle.layer.data(
            name="source", type=paddle.data_type.integer_value_sequence(words)
        )
        table = paddle.attr.Param(name="source_embedding", sparse_update=True)
        embedded = paddle.layer.embedding(input=source, size=sizes["embedding"], param_attr=table)
        size = sizes["encoder"]
        forwards = paddle.networks.simple_gru(input=embedded, size=size, name="forwards")
        backwards = paddle.networks.simple_gru(
            input=embedded, size=size, name="backwards", reverse=True
        )
        encoded = paddle.layer.concat(input=[forwards, backwards])
        projected = paddle.layer.fc(
            input=encoded, size=self.size, act=paddle.activation.Linear(), bias_attr=False
        )
        self.boot = paddle.layer.fc(
            input=paddle.layer.first_seq(input=backwards),
            size=self.size,
            act=paddle.activation.Tanh(),
            bias_attr=False,
        )
        self.inputs = [paddle.layer.StaticInput(encoded), paddle.layer.StaticInput(projected)]

    def step(self, encoded, projected, word):
        """The probability of the next word, from the one before and what was read."""
        before = paddle.layer.memory(name="state", size=self.size, boot_layer=self.boot)
        context = paddle.networks.simple_attention(
            encoded_sequence=encoded,
            encoded_proj=projected,
            decoder_state=before,
            weight_act=paddle.activation.Tanh(),
            name="attention",
        )
        inputs = paddle.layer.fc(
            input=[context, word],
            size=3 * self.size,
            act=paddle.activation.Linear(),
            bias_attr=False,
            name="inputs",
        )
        state = paddle.layer.gru_step(input=inputs, output_mem=before, name="state")
        return paddle.layer.fc(
            input=state, size=self.words, act=paddle.activation.Softmax(), name="probability"
        )
