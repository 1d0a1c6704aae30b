"""The mood of a review: LSTMs on one another, of which every second reads backwards."""

import random

import paddle.v2 as paddle

WORDS, CLASSES = 30, 2


def stacked_lstm_net(input_dim, class_dim=2, emb_dim=8, hid_dim=16, stacked_num=3):
    assert stacked_num % 2 == 1
    fc_para_attr = paddle.attr.Param(learning_rate=1e-0)
    lstm_para_attr = paddle.attr.Param(initial_std=0.0, learning_rate=1.0)
    para_attr = [fc_para_attr, lstm_para_attr]
    bias_attr = paddle.attr.Param(initial_std=0.0, l2_rate=0.0)
    relu = paddle.activation.Relu()
    linear = paddle.activation.Linear()

    data = paddle.layer.data("word", paddle.data_type.integer_value_sequence(input_dim))
    emb = paddle.layer.embedding(input=data, size=emb_dim)

    fc1 = paddle.layer.fc(input=emb, size=hid_dim, act=linear, bias_attr=bias_attr)
    lstm1 = paddle.layer.lstmemory(input=fc1, act=relu, bias_attr=bias_attr)

    inputs = [fc1, lstm1]
    for i in range(2, stacked_num + 1):
        fc = paddle.layer.fc(
            input=inputs, size=hid_dim, act=linear, param_attr=para_attr, bias_attr=bias_attr
        )
        lstm = paddle.layer.lstmemory(input=fc, reverse=(i % 2) == 0, act=relu, bias_attr=bias_attr)
        inputs = [fc, lstm]

    fc_last = paddle.layer.pooling(input=inputs[0], pooling_type=paddle.pooling.Max())
    lstm_last = paddle.layer.pooling(input=inputs[1], pooling_type=paddle.pooling.Max())
    output = paddle.layer.fc(
        input=[fc_last, lstm_last],
        size=class_dim,
        act=paddle.activation.Softmax(),
        bias_attr=bias_attr,
        param_attr=para_attr,
    )
    lbl = paddle.layer.data("label", paddle.data_type.integer_value(class_dim))
    cost = paddle.layer.classification_cost(input=output, label=lbl)
    return cost, output


def reviews(count, seed):
    """Good words and bad ones among others; "not", which is word 0, turns the next around."""
    draw = random.Random(seed)
    for _ in range(count):
        label = draw.randrange(CLASSES)
        words = [draw.randrange(11, WORDS) for _ in range(draw.randrange(4, 10))]
        is_turned = draw.random() < 0.3
        # Words 1 to 5 are bad, 6 to 10 good.
        mood = draw.randrange(1, 6) + 5 * (label != is_turned)
        place = draw.randrange(len(words))
        words[place:place] = [0, mood] if is_turned else [mood]
        yield words, label


def train():
    """The share of new reviews that are taken for the other mood."""
    paddle.init(use_gpu=False, seed=1)
    cost, output = stacked_lstm_net(WORDS, CLASSES)
    parameters = paddle.parameters.create(cost)
    adam_optimizer = paddle.optimizer.Adam(
        learning_rate=1e-2,
        regularization=paddle.optimizer.L2Regularization(rate=8e-4),
        model_average=paddle.optimizer.ModelAverage(average_window=0.5),
    )
    trainer = paddle.trainer.SGD(cost=cost, parameters=parameters, update_equation=adam_optimizer)
    train_reader = paddle.batch(
        paddle.reader.shuffle(lambda: reviews(1500, 1), buf_size=1000), batch_size=20
    )
    test_reader = paddle.batch(lambda: reviews(200, 2), batch_size=50)
    results = []

    def event_handler(event):
        if isinstance(event, paddle.event.EndPass):
            result = trainer.test(reader=test_reader, feeding={"word": 0, "label": 1})
            results.append(result.metrics["classification_error_evaluator"])

    trainer.train(
        reader=train_reader,
        event_handler=event_handler,
        feeding={"word": 0, "label": 1},
        num_passes=12,
    )
    return {"error": results[-1]}
