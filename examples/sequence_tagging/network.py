"""Two taggers: a chain over features of words and their neighbours, and one over what recurrent
layers make of the words."""

import conll

import paddle.v2 as paddle

CHAIN = paddle.attr.Param(name="crfw", initial_std=0)
TAGS = len(conll.TAGS)


def linear_crf(data):
    """Scores of tags: the sum of what is learnt of each feature."""
    return paddle.layer.fc(
        input=data["features"],
        size=TAGS,
        act=paddle.activation.Linear(),
        bias_attr=False,
        param_attr=paddle.attr.Param(name="feature", initial_std=0, sparse_update=True),
    )


def rnn_crf(data, size=128):
    """Scores of tags from recurrent layers in both directions."""
    layer, act = paddle.layer, paddle.activation
    table = paddle.attr.Param(name="word", sparse_update=True, initial_std=0.1)
    embedded = layer.embedding(input=data["word"], size=size, param_attr=table)
    with layer.mixed(size=size, act=act.STanh(), bias_attr=True) as first:
        first += layer.full_matrix_projection(input=embedded)
        first += layer.table_projection(input=data["part"])
    forwards = layer.recurrent(input=first, act=act.Relu(), param_attr=_small())
    with layer.mixed(size=size, act=act.STanh(), bias_attr=True) as second:
        second += layer.full_matrix_projection(input=first)
        second += layer.full_matrix_projection(input=forwards)
    backwards = layer.recurrent(input=second, act=act.Relu(), param_attr=_small(), reverse=True)
    with layer.mixed(size=TAGS, bias_attr=True) as scores:
        scores += layer.full_matrix_projection(input=second)
        scores += layer.full_matrix_projection(input=backwards)
    return scores


def _small():
    return paddle.attr.Param(initial_std=0.01)


MODELS = {"linear_crf": linear_crf, "rnn_crf": rnn_crf}


def describe(model, dictionary):
    """The cost of a model, the tags it finds, and where they are wrong."""
    integers = paddle.data_type.integer_value_sequence
    types = {
        "word": integers(len(dictionary.words) + 1),
        "part": integers(len(dictionary.parts) + 1),
        "features": paddle.data_type.sparse_binary_vector_sequence(len(dictionary.features) + 1),
        "chunk": integers(TAGS),
    }
    data = {name: paddle.layer.data(name=name, type=kind) for name, kind in types.items()}
    scores = MODELS[model](data)
    label = data["chunk"]
    cost = paddle.layer.crf(input=scores, label=label, param_attr=CHAIN)
    wrong = paddle.layer.crf_decoding(input=scores, label=label, param_attr=CHAIN)
    found = paddle.layer.crf_decoding(input=scores, param_attr=CHAIN)
    paddle.evaluator.sum(input=wrong, name="error")
    paddle.evaluator.chunk(
        input=wrong,
        label=label,
        chunk_scheme="IOB",
        num_chunk_types=len(conll.TYPES),
        name="chunk_f1",
    )
    return cost, found, wrong


def feeding(layers):
    """Where in a sample the data layers that some layers need find their value."""
    needed = [name for name, _ in paddle.topology.Topology(layers).data_type()]
    return {name: conll.COLUMNS.index(name) for name in needed}
