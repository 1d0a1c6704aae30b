"""Makes data in the format of CIFAR-10 that is easy to learn: stripes of a colour and a direction.

The class is the colour, of five, and the direction, of two; where stripes begin, how bright they
are and the noise over them are left to chance.
"""

import argparse
import io
import os
import pickle
import tarfile

import numpy as np

SIDE = 32
COLOURS = np.array([(1, 0.1, 0.1), (0.1, 1, 0.1), (0.1, 0.1, 1), (1, 1, 0.1), (0.9, 0.1, 0.9)])
PERIOD = 8
NOISE = 0.15


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", default="data/cifar-10-python.tar.gz")
    parser.add_argument("--train", type=int, default=1000, help="pictures to train, in 5 batches")
    parser.add_argument("--test", type=int, default=200, help="pictures to test")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()

    draw = np.random.default_rng(arguments.seed)
    os.makedirs(os.path.dirname(arguments.output) or ".", exist_ok=True)
    with tarfile.open(arguments.output, "w:gz") as archive:
        for number in range(1, 6):
            add_batch(archive, f"data_batch_{number}", arguments.train // 5, draw)
        add_batch(archive, "test_batch", arguments.test, draw)


def add_batch(archive, name, count, draw):
    labels = draw.integers(0, 2 * len(COLOURS), count)
    pictures = np.stack([picture(label, draw) for label in labels])
    batch = {b"data": pictures.reshape(count, -1), b"labels": labels.tolist()}
    content = pickle.dumps(batch, protocol=3)
    member = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def picture(label, draw):
    """Red, green and blue plane, each line after line."""
    across = np.arange(SIDE) * 2 * np.pi / PERIOD + draw.uniform(0, 2 * np.pi)
    stripes = np.broadcast_to(0.5 + 0.5 * np.sin(across), (SIDE, SIDE))
    if label % 2:
        stripes = stripes.T
    colour = COLOURS[label // 2] * draw.uniform(0.6, 1)
    planes = colour[:, None, None] * stripes + draw.normal(0, NOISE, (3, SIDE, SIDE))
    return (planes.clip(0, 1) * 255).astype(np.uint8)


if __name__ == "__main__":
    main()
