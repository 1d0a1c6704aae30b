"""Programs in the style of the original's book and of its collection of models: each learns.

The data is made, and so simple that a network that learns at all is far beyond the threshold.
"""

import functools
import random

import pytest
from programs import (
    deep_fm,
    dssm,
    image_classification,
    label_semantic_roles,
    language_model,
    learning_to_rank,
    machine_translation,
    nested_text_classification,
    scene_text_recognition,
    scheduled_sampling,
    ssd,
    stacked_lstm,
    word2vec,
)

import paddle.v2 as paddle
from paddle.v2 import naming

googlenet = functools.partial(image_classification.train, image_classification.googlenet)
resnet = functools.partial(image_classification.train, image_classification.resnet)

# Each with its figure, and the bound that a guess would miss by far.
PROGRAMS = {
    "word2vec": (word2vec.train, "error", "<", 0.2),
    "label semantic roles": (label_semantic_roles.train, "wrong", "<", 0.1),
    "machine translation": (machine_translation.train, "right", ">", 0.7),
    "GoogLeNet": (googlenet, "error", "<", 0.2),
    "ResNet": (resnet, "error", "<", 0.2),
    "RankNet": (learning_to_rank.train_pairs, "ndcg", ">", 0.85),
    "LambdaRank": (learning_to_rank.train_lists, "ndcg", ">", 0.85),
    "scheduled sampling": (scheduled_sampling.train, "error", "<", 0.15),
    "DeepFM": (deep_fm.train, "auc", ">", 0.85),
    "nested text classification": (nested_text_classification.train, "error", "<", 0.15),
    "SSD": (ssd.train, "map", ">", 60),
    "scene text recognition": (scene_text_recognition.train, "right", ">", 0.7),
    "DSSM": (dssm.train, "right", ">", 0.85),
    "stacked LSTM": (stacked_lstm.train, "error", "<", 0.2),
    "language model by NCE": (language_model.train_nce, "error", "<", 0.2),
    "language model by a tree": (language_model.train_hsigmoid, "cost", "<", 0.5),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_learns(name):
    naming.reset()
    random.seed(1)
    paddle.init(seed=1)
    train, figure, relation, bound = PROGRAMS[name]
    found = train()[figure]
    assert found < bound if relation == "<" else found > bound, f"{figure} is {found}"
