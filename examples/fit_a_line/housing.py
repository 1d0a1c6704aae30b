"""The housing data of UCI: 506 lines of 13 features of a district and the price of its houses."""

import itertools

import numpy as np

FEATURES = 13
TRAIN_SHARE = 0.8


def load(path):
    """Readers of the training and the test data; features are centred, and span a range of 1."""
    data = np.loadtxt(path, ndmin=2)
    features = data[:, :FEATURES]
    features -= features.mean(axis=0)
    features /= features.max(axis=0) - features.min(axis=0)
    cut = int(len(data) * TRAIN_SHARE)
    return _reader(data[:cut]), _reader(data[cut:])


def shard(reader, trainers, trainer_id):
    """Every n-th sample, for one of n trainers."""
    return lambda: itertools.islice(reader(), trainer_id, None, trainers)


def _reader(rows):
    return lambda: ((row[:FEATURES], row[FEATURES:]) for row in rows)
