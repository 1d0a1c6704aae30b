"""Two towers: queries and titles as vectors that are near each other where they belong together.

Both towers have the same parameters, by name; pairs of a better and a worse title are ranked.
"""

import numpy

import paddle.v2 as paddle

TOPICS, WORDS_OF_TOPIC, DIM = 4, 6, 12
VOCABULARY = TOPICS * WORDS_OF_TOPIC


def create_embedding(input, prefix=""):
    return paddle.layer.embedding(
        input=input, size=DIM, param_attr=paddle.attr.ParamAttr(name=f"{prefix}_emb.w")
    )


def create_cnn(emb, prefix=""):
    """Convolutions of 3 and 4 words, each with the largest of every column."""

    def create_conv(context_len, hidden_size, prefix):
        key = f"{prefix}_{context_len}_{hidden_size}"
        return paddle.networks.sequence_conv_pool(
            input=emb,
            context_len=context_len,
            hidden_size=hidden_size,
            context_proj_param_attr=paddle.attr.ParamAttr(name=key + "contex_proj.w"),
            fc_param_attr=paddle.attr.ParamAttr(name=key + "_fc.w"),
            fc_bias_attr=paddle.attr.ParamAttr(name=key + "_fc.b"),
            pool_bias_attr=paddle.attr.ParamAttr(name=key + "_pool.b"),
        )

    conv_3 = create_conv(3, 8, "cnn")
    conv_4 = create_conv(4, 8, "cnn")
    return paddle.layer.concat(input=[conv_3, conv_4])


def create_dnn(sent_vec, prefix):
    dims = [16, 8]
    for id, dim in enumerate(dims):
        name = f"{prefix}_fc_{id}_{dim}"
        sent_vec = paddle.layer.fc(
            input=sent_vec,
            size=dim,
            act=paddle.activation.Tanh(),
            param_attr=paddle.attr.ParamAttr(name=f"{name}.w", initial_std=0.3),
            bias_attr=paddle.attr.ParamAttr(name=f"{name}.b", initial_std=0.0),
        )
    return sent_vec


def build_model():
    inputs = [
        paddle.layer.data(name=name, type=paddle.data_type.integer_value_sequence(VOCABULARY))
        for name in ("source_input", "left_target_input", "right_target_input")
    ]
    label = paddle.layer.data(name="label_input", type=paddle.data_type.integer_value(1))
    semantics = [
        create_dnn(create_cnn(create_embedding(each, prefix="shared")), "shared") for each in inputs
    ]
    source, left, right = semantics
    left_score = paddle.layer.cos_sim(a=source, b=left)
    right_score = paddle.layer.cos_sim(a=source, b=right)
    cost = paddle.layer.rank_cost(left=left_score, right=right_score, label=label)
    return cost, (left_score, right_score)


def sentence(draw, topic):
    return [int(each) for each in topic * WORDS_OF_TOPIC + draw.randint(WORDS_OF_TOPIC, size=5)]


def triples(count, seed):
    draw = numpy.random.RandomState(seed)
    for _ in range(count):
        topic, other = draw.choice(TOPICS, size=2, replace=False)
        label = draw.randint(2)
        targets = [sentence(draw, topic), sentence(draw, other)]
        yield (sentence(draw, topic), targets[1 - label], targets[label], label)


def train():
    """The share of pairs of which the better one is scored higher."""
    cost, scores = build_model()
    parameters = paddle.parameters.create(cost)
    trainer = paddle.trainer.SGD(
        cost=cost,
        parameters=parameters,
        update_equation=paddle.optimizer.Adam(
            learning_rate=2e-3,
            regularization=paddle.optimizer.L2Regularization(rate=1e-4),
            model_average=paddle.optimizer.ModelAverage(average_window=0.5),
        ),
    )
    feeding = {
        "source_input": 0,
        "left_target_input": 1,
        "right_target_input": 2,
        "label_input": 3,
    }
    trainer.train(
        reader=paddle.batch(
            paddle.reader.shuffle(lambda: triples(500, 1), buf_size=1000), batch_size=20
        ),
        feeding=feeding,
        num_passes=6,
    )
    asked = list(triples(100, 2))
    left, right = paddle.infer(
        output_layer=list(scores),
        parameters=parameters,
        input=[each[:3] for each in asked],
        feeding={name: place for name, place in feeding.items() if place < 3},
    )
    is_right = (left > right).flatten() == numpy.array([each[3] == 1 for each in asked])
    return {"right": float(is_right.mean())}
