"""Finding objects: a small SSD learns to find squares and bars in made pictures."""

import numpy
import pytest

import paddle.v2 as paddle
from paddle.v2 import naming

SIDE = 24
CLASSES = 3


@pytest.fixture(autouse=True)
def fresh_names():
    """Every test counts automatic names from 0."""
    naming.reset()


def draw_picture(draw):
    """A picture with a square (class 1) or a lying bar (class 2), and its label."""
    picture = draw.uniform(0, 0.2, size=(SIDE, SIDE))
    kind = draw.integers(1, CLASSES)
    height, width = (8, 8) if kind == 1 else (4, 12)
    top, left = draw.integers(0, SIDE - height), draw.integers(0, SIDE - width)
    picture[top : top + height, left : left + width] += 1
    sides = numpy.array([left, top, left + width, top + height]) / SIDE
    return picture.ravel(), [[kind, *sides, 0]]


def describe_ssd():
    """The network: image and label, and loss and answers of two feature maps."""
    image = paddle.layer.data(
        name="image", type=paddle.data_type.dense_vector(SIDE * SIDE), height=SIDE, width=SIDE
    )
    label = paddle.layer.data(name="label", type=paddle.data_type.dense_vector_sequence(6))
    features = image
    for filters in (8, 16):
        features = paddle.layer.img_conv(
            input=features, filter_size=3, padding=1, num_filters=filters
        )
        features = paddle.layer.img_pool(input=features, pool_size=2, stride=2)
    coarse = paddle.layer.img_conv(
        input=features, filter_size=3, stride=2, padding=1, num_filters=16
    )
    scaled = paddle.layer.cross_channel_norm(
        input=features, param_attr=paddle.attr.Param(initial_mean=5, initial_std=0)
    )
    priors, locations, scores = [], [], []
    for features, least in ((scaled, 6), (coarse, 9)):
        prior = paddle.layer.priorbox(
            input=features,
            image=image,
            min_size=[least],
            aspect_ratio=[3.0],
            variance=[0.1, 0.1, 0.2, 0.2],
        )
        boxes = prior.size // 8 * features.num_filters // features.size
        linear = {"act": paddle.activation.Linear(), "filter_size": 3, "padding": 1}
        priors.append(prior)
        locations.append(paddle.layer.img_conv(input=features, num_filters=boxes * 4, **linear))
        scores.append(paddle.layer.img_conv(input=features, num_filters=boxes * CLASSES, **linear))
    answers = {
        "input_loc": locations,
        "input_conf": scores,
        "priorbox": paddle.layer.concat(input=priors),
        "num_classes": CLASSES,
    }
    loss = paddle.layer.multibox_loss(label=label, **answers)
    found = paddle.layer.detection_output(confidence_threshold=0.3, **answers)
    return loss, found, label


def test_a_small_ssd_learns_to_find_objects():
    paddle.init(trainer_count=1, seed=2)
    draw = numpy.random.default_rng(4)
    training, testing = ([draw_picture(draw) for _ in range(count)] for count in (240, 40))
    loss, found, label = describe_ssd()
    paddle.evaluator.detection_map(input=found, label=label, name="map")
    parameters = paddle.parameters.create([loss, found])
    trainer = paddle.trainer.SGD(
        loss, parameters, paddle.optimizer.Adam(learning_rate=3e-3), extra_layers=[found]
    )
    before = trainer.test(paddle.batch(lambda: iter(testing), 20))
    trainer.train(paddle.batch(lambda: iter(training), 16), num_passes=20)
    after = trainer.test(paddle.batch(lambda: iter(testing), 20))
    assert after.cost < before.cost / 4
    assert after.metrics["map"] > 70, (before, after)

    rows = paddle.infer(found, parameters, [(picture,) for picture, _ in testing])
    assert rows.shape[1] == 7
    # Every row says in which picture it is, what it is, and how sure that is.
    assert set(rows[:, 0]) <= set(range(len(testing)))
    assert set(rows[:, 1]) <= {1, 2}
    assert (rows[:, 2] > 0.3).all()


def test_prior_boxes_are_shares_of_the_picture():
    image = paddle.layer.data(
        name="image", type=paddle.data_type.dense_vector(100), height=10, width=10
    )
    features = paddle.layer.img_pool(input=image, pool_size=5, stride=5)
    prior = paddle.layer.priorbox(
        input=features, image=image, min_size=4, aspect_ratio=[], variance=[0.1] * 4
    )
    parameters = paddle.parameters.create(prior)
    rows = paddle.infer(prior, parameters, [(numpy.zeros(100),)] * 3)
    assert rows.shape == (1, 4 * 8)
    first, last = rows[0, :4], rows[0, -8:-4]
    numpy.testing.assert_allclose(first, [0.05, 0.05, 0.45, 0.45], rtol=1e-5)
    numpy.testing.assert_allclose(last, [0.55, 0.55, 0.95, 0.95], rtol=1e-5)


def test_regions_are_pooled():
    image = paddle.layer.data(
        name="image", type=paddle.data_type.dense_vector(16), height=4, width=4
    )
    rois = paddle.layer.data(name="rois", type=paddle.data_type.dense_vector_sequence(5))
    pooled = paddle.layer.roi_pool(
        input=image, rois=rois, pooled_width=2, pooled_height=2, spatial_scale=1.0
    )
    parameters = paddle.parameters.create(pooled)
    samples = [
        (numpy.arange(16), [[0, 0, 0, 3, 3]]),
        (-numpy.arange(16), [[1, 2, 2, 3, 3], [0, 0, 0, 1, 1]]),
    ]
    found = paddle.infer(pooled, parameters, samples)
    expected = [[5, 7, 13, 15], [-10, -11, -14, -15], [0, 1, 4, 5]]
    numpy.testing.assert_array_equal(found, expected)


def test_volumes_are_convolved_and_pooled():
    shape = (2, 3, 4, 5)
    data = paddle.layer.data(
        name="x", type=paddle.data_type.dense_vector(120), depth=3, height=4, width=5
    )
    assert data.num_filters == 2
    convolved = paddle.layer.img_conv3d(
        input=data, filter_size=[3, 2, 1], num_filters=2, act=paddle.activation.Linear()
    )
    pooled = paddle.layer.img_pool3d(
        input=convolved, pool_size=3, stride=3, pool_type=paddle.pooling.Avg()
    )
    assert (convolved.size, pooled.size, pooled.num_filters) == (2 * 3 * 3 * 3, 2, 2)
    parameters = paddle.parameters.create(pooled)
    weight, bias = (
        numpy.random.default_rng(1).normal(size=parameters.get_shape(name)) for name in parameters
    )
    for name, values in zip(parameters, (weight, bias), strict=True):
        parameters[name] = values
    x = numpy.random.default_rng(2).normal(size=(4, *shape))
    # 3 across, 2 down, 1 plane deep.
    seen = numpy.lib.stride_tricks.sliding_window_view(x, (1, 2, 3), axis=(2, 3, 4))
    expected = numpy.einsum("nczyxijk,fcijk->nfzyx", seen, weight.reshape(2, 2, 1, 2, 3))
    expected = (expected + bias.reshape(1, 2, 1, 1, 1)).mean((2, 3, 4))
    found = paddle.infer(pooled, parameters, [(row.ravel(),) for row in x])
    numpy.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_a_search_over_sentences_learns():
    """Which sentence of a document, then which word of it, has the mark."""
    paddle.init(trainer_count=1, seed=1)
    type = paddle.data_type.dense_vector_sub_sequence(2)
    document = paddle.layer.data(name="document", type=type)
    gold = [
        paddle.layer.data(name=name, type=paddle.data_type.integer_value(5))
        for name in ("sentence", "word")
    ]
    linear = {"act": paddle.activation.Linear(), "size": 1, "bias_attr": False}
    sentences = paddle.layer.fc(
        input=paddle.layer.pooling(
            input=document,
            pooling_type=paddle.pooling.Max(),
            agg_level=paddle.layer.AggregateLevel.TO_SEQUENCE,
        ),
        **linear,
    )
    best = paddle.layer.kmax_seq_score(input=sentences, beam_size=2)
    kept = paddle.layer.sub_nested_seq(input=document, selected_indices=best)
    words = paddle.layer.fc(input=kept, **linear)
    best_words = paddle.layer.kmax_seq_score(input=words, beam_size=2)
    beam = paddle.layer.BeamInput
    cost = paddle.layer.cross_entropy_over_beam(
        input=[
            beam(candidate_scores=sentences, selected_candidates=best, gold=gold[0]),
            beam(candidate_scores=words, selected_candidates=best_words, gold=gold[1]),
        ]
    )
    draw = numpy.random.default_rng(6)

    def sample():
        document = [draw.uniform(0, 0.5, size=(draw.integers(2, 5), 2)) for _ in range(4)]
        sentence = draw.integers(4)
        word = draw.integers(len(document[sentence]))
        document[sentence][word, 0] += 1
        return document, int(sentence), int(word)

    samples = [sample() for _ in range(80)]
    parameters = paddle.parameters.create(cost)
    trainer = paddle.trainer.SGD(cost, parameters, paddle.optimizer.Adam(learning_rate=0.1))
    before = trainer.test(paddle.batch(lambda: iter(samples), 20)).cost
    trainer.train(paddle.batch(lambda: iter(samples), 20), num_passes=15)
    after = trainer.test(paddle.batch(lambda: iter(samples), 20)).cost
    assert before > 0.8
    assert after < 0.2
