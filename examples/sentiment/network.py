"""Two models that tell good reviews from bad ones: convolution over words, and stacked LSTM."""

import paddle.v2 as paddle

CLASSES = 2


def convolution(words, sizes):
    """The largest of what windows of three and of four words show."""
    windows = [
        paddle.networks.sequence_conv_pool(
            input=words, context_len=length, hidden_size=sizes["hidden"]
        )
        for length in (3, 4)
    ]
    return paddle.layer.fc(input=windows, size=CLASSES, act=paddle.activation.Softmax())


def stacked_lstm(words, sizes, stacked=3):
    """LSTM over LSTM, every second one reversed, each beside the layer below it."""
    layer, act = paddle.layer, paddle.activation
    below = layer.fc(input=words, size=sizes["hidden"] * 4, act=act.Linear())
    inputs = [below, layer.lstmemory(input=below)]
    for number in range(1, stacked):
        below = layer.fc(input=inputs, size=sizes["hidden"] * 4, act=act.Linear())
        inputs = [below, layer.lstmemory(input=below, reverse=number % 2 == 1)]
    pooled = [layer.pooling(input=each, pooling_type=paddle.pooling.Max()) for each in inputs]
    return layer.fc(input=pooled, size=CLASSES, act=act.Softmax())


MODELS = {"convolution": convolution, "lstm": stacked_lstm}


def describe(model, words, sizes):
    """The cost of a model, and the probabilities it gives to the classes."""
    ids = paddle.layer.data(name="word", type=paddle.data_type.integer_value_sequence(words))
    label = paddle.layer.data(name="label", type=paddle.data_type.integer_value(CLASSES))
    table = paddle.attr.Param(name="embedding", sparse_update=True, initial_std=0.1)
    embedded = paddle.layer.embedding(input=ids, size=sizes["embedding"], param_attr=table)
    predicted = MODELS[model](embedded, sizes)
    return paddle.layer.classification_cost(input=predicted, label=label), predicted
