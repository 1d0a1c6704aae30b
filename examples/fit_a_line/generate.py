"""Makes data in the format of UCI's housing data whose prices nearly lie on a line."""

import argparse
import os

import numpy as np

# The columns of the original: the range of each feature.
RANGES = [
    (0.006, 89), (0, 100), (0.46, 27.7), (0, 1), (0.385, 0.871), (3.6, 8.8), (2.9, 100),
    (1.1, 12.1), (1, 24), (187, 711), (12.6, 22), (0.3, 397), (1.7, 38),
]  # fmt: skip
NOISE = 2.0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", default="data/housing.data")
    parser.add_argument("--rows", type=int, default=506)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()

    draw = np.random.default_rng(arguments.seed)
    low, high = np.array(RANGES).T
    share = draw.random((arguments.rows, len(RANGES)))
    effects = draw.uniform(-12, 12, len(RANGES))
    price = 25 + (share - 0.5) @ effects + draw.normal(0, NOISE, arguments.rows)
    data = np.column_stack([low + share * (high - low), price.clip(5, 50)])

    os.makedirs(os.path.dirname(arguments.output) or ".", exist_ok=True)
    np.savetxt(arguments.output, data, fmt="%9.4f")


if __name__ == "__main__":
    main()
