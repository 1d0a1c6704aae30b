"""Click rates: a linear part, pairs of features by a factorization machine, and a deep part."""

import random

import paddle.v2 as paddle

FIELDS, IDS = 4, 8
FEATURES = FIELDS * IDS


def network():
    features = paddle.layer.data(
        name="features", type=paddle.data_type.sparse_binary_vector(FEATURES)
    )
    click = paddle.layer.data(name="click", type=paddle.data_type.dense_vector(1))
    linear = paddle.layer.fc(
        input=features,
        size=1,
        act=paddle.activation.Linear(),
        param_attr=paddle.attr.Param(sparse_update=True, initial_std=0.01),
    )
    pairs = paddle.layer.factorization_machine(
        input=features,
        factor_size=4,
        param_attr=paddle.attr.Param(name="factors", sparse_update=True, initial_std=0.3),
    )
    wide = paddle.layer.fc(
        input=features, size=8, param_attr=paddle.attr.Param(sparse_update=True, initial_std=0.1)
    )
    deep = paddle.layer.fc(input=wide, size=8, act=paddle.activation.Relu())
    predicted = paddle.layer.fc(
        input=[linear, pairs, deep], size=1, act=paddle.activation.Sigmoid()
    )
    cost = paddle.layer.multi_binary_label_cross_entropy_cost(input=predicted, label=click)
    paddle.evaluator.auc(input=predicted, label=click, name="auc")
    return cost


def impressions(count, seed):
    """A click is probable if the first two fields have ids of the same half: only the pair tells,
    neither of them alone."""
    draw = random.Random(seed)
    for _ in range(count):
        ids = [draw.randrange(IDS) for _ in range(FIELDS)]
        is_pair = (ids[0] < IDS // 2) == (ids[1] < IDS // 2)
        chance = 0.95 if is_pair else 0.05
        features = [field * IDS + each for field, each in enumerate(ids)]
        yield features, [float(draw.random() < chance)]


def train():
    """The area under the curve of impressions that were not learnt from."""
    cost = network()
    trainer = paddle.trainer.SGD(
        cost=cost,
        parameters=paddle.parameters.create(cost),
        update_equation=paddle.optimizer.AdaGrad(learning_rate=0.1),
    )
    samples = list(impressions(2000, seed=1))
    trainer.train(paddle.batch(lambda: iter(samples), 50), num_passes=4)
    tests = list(impressions(1000, seed=2))
    return {"auc": trainer.test(paddle.batch(lambda: iter(tests), 500)).metrics["auc"]}
