"""Lines of the Criteo data set: a click, 13 numbers, 26 categories, with tabs between.

Any of the numbers and categories may be empty. Categories are hashed to `sparse_feature_dim` ids;
two of different columns that share an id are not told apart, which hardly matters when it is large.
"""

import zlib

DENSE_FEATURES = 13
SPARSE_FEATURES = 26

# Most of the values of a column are in this range; it becomes 0 to 1.
DENSE_LOW = (0, -3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
DENSE_HIGH = (20, 600, 100, 50, 64000, 500, 100, 50, 500, 10, 10, 10, 50)


def read(path, sparse_feature_dim, trainers=1, trainer_id=0):
    """A reader of the lines whose number is the trainer's, modulo the number of trainers."""

    def samples():
        with open(path, encoding="ascii") as file:
            for number, line in enumerate(file):
                if number % trainers == trainer_id:
                    yield parse(line, sparse_feature_dim)

    return samples


def parse(line, sparse_feature_dim):
    """13 numbers, 26 ids, the click."""
    click, *features = line.rstrip("\n").split("\t")
    numbers = [
        (float(text) - low) / (high - low) if text else 0.0
        for text, low, high in zip(features, DENSE_LOW, DENSE_HIGH)
    ]
    # Not `hash`: Python's is another one in every process, and trainers must agree.
    ids = [
        zlib.crc32(f"{column}:{text}".encode()) % sparse_feature_dim
        for column, text in enumerate(features[DENSE_FEATURES:])
    ]
    return (numbers, *ids, int(click))
