"""Pages in the order of their relevance to a query: RankNet learns from pairs of pages, LambdaRank
from all pages of a query."""

import numpy

import paddle.v2 as paddle

FEATURES = 10
PAGES = 8


def score(name, features):
    """One half of RankNet; both have the same parameters."""
    hidden = paddle.layer.fc(
        input=features,
        size=10,
        act=paddle.activation.Tanh(),
        param_attr=paddle.attr.Param(name="hidden_w", initial_std=0.3),
        bias_attr=paddle.attr.Param(name="hidden_b"),
        name=f"{name}_hidden",
    )
    return paddle.layer.fc(
        input=hidden,
        size=1,
        act=paddle.activation.Linear(),
        param_attr=paddle.attr.Param(name="output_w", initial_std=0.3),
        bias_attr=paddle.attr.Param(name="output_b"),
        name=f"{name}_score",
    )


def queries(count, seed):
    """The features of the pages of a query, and their relevance of 0, 1 or 2."""
    draw = numpy.random.default_rng(seed)
    for _ in range(count):
        pages = draw.uniform(-1, 1, size=(PAGES, FEATURES))
        merit = pages[:, 0] + numpy.tanh(3 * pages[:, 1]) * 0.5 - pages[:, 2] ** 2
        yield pages, numpy.digitize(merit, [-0.5, 0.5])


def pairs(count, seed):
    for pages, relevance in queries(count, seed):
        for left in range(PAGES):
            for right in range(left):
                if relevance[left] != relevance[right]:
                    better = int(relevance[left] > relevance[right])
                    yield better, pages[left], pages[right]


def ndcg(relevance, scores, first=5):
    """How much of the best possible order there is: pages count less the later they come."""
    discount = 1 / numpy.log2(numpy.arange(first) + 2)

    def gain(order):
        return ((2.0 ** relevance[order[:first]] - 1) * discount).sum()

    best = gain(numpy.argsort(-relevance, kind="stable"))
    return gain(numpy.argsort(-scores, kind="stable")) / best if best else 1.0


def mean_ndcg(model, parameters):
    asked = paddle.Inference(parameters, output_layer=model)
    found = [
        ndcg(relevance, asked.infer([(page,) for page in pages]).ravel())
        for pages, relevance in queries(40, seed=2)
    ]
    return float(numpy.mean(found))


def train_lists():
    """The mean NDCG@5 of queries that were not learnt from, by LambdaRank."""
    pages = paddle.layer.data(name="pages", type=paddle.data_type.dense_vector_sequence(FEATURES))
    relevance = paddle.layer.data(name="relevance", type=paddle.data_type.dense_vector_sequence(1))
    scores = score("list", pages)
    cost = paddle.layer.lambda_cost(input=scores, score=relevance, NDCG_num=5)
    parameters = paddle.parameters.create(cost)
    trainer = paddle.trainer.SGD(
        cost=cost,
        parameters=parameters,
        update_equation=paddle.optimizer.Adam(learning_rate=1e-2),
    )
    samples = [(pages, relevance[:, None]) for pages, relevance in queries(100, seed=1)]
    trainer.train(paddle.batch(lambda: iter(samples), 10), num_passes=8)
    asked = paddle.Inference(parameters, output_layer=scores)
    found = [
        ndcg(relevance, asked.infer([(pages,)]).ravel()) for pages, relevance in queries(40, seed=2)
    ]
    return {"ndcg": float(numpy.mean(found))}


def train_pairs():
    """The mean NDCG@5 of queries that were not learnt from, by RankNet."""
    label = paddle.layer.data(name="label", type=paddle.data_type.integer_value(2))
    halves = [
        score(side, paddle.layer.data(name=side, type=paddle.data_type.dense_vector(FEATURES)))
        for side in ("left", "right")
    ]
    cost = paddle.layer.rank_cost(left=halves[0], right=halves[1], label=label)
    parameters = paddle.parameters.create(cost)
    trainer = paddle.trainer.SGD(
        cost=cost,
        parameters=parameters,
        update_equation=paddle.optimizer.Adam(learning_rate=1e-2),
    )
    samples = list(pairs(60, seed=1))
    trainer.train(
        paddle.batch(paddle.reader.shuffle(lambda: iter(samples), len(samples)), 50), num_passes=4
    )
    return {"ndcg": mean_ndcg(halves[0], parameters)}
