"""Makes clicks in the formats of the two programs here, with a hidden rule to be learnt.

`generate.py criteo` makes data for `train.py`, `generate.py avazu` for `wide_deep.py`.
"""

import argparse
import os

import numpy as np

from paddle.v2.dataset.criteo import DENSE_FEATURES, DENSE_HIGH, SPARSE_FEATURES

VALUES_PER_CATEGORY = 20
EMPTY_SHARE = 0.05
DEEP_IDS = 200
WIDE_IDS = 100


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("format", choices=FORMATS)
    parser.add_argument("--output", help="folder; data/raw or data/avazu unless given")
    parser.add_argument("--rows", type=int, default=6000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    FORMATS[arguments.format](arguments)


def criteo(arguments):
    """`train.txt` and `valid.txt`: a click, 13 numbers, 26 categories, with tabs between."""
    draw = np.random.default_rng(arguments.seed)
    names = draw.integers(1 << 32, size=(SPARSE_FEATURES, VALUES_PER_CATEGORY))
    effects = draw.normal(0, 0.5, names.shape)
    slopes = draw.normal(0, 1.5, DENSE_FEATURES)

    def line():
        values = draw.integers(VALUES_PER_CATEGORY, size=SPARSE_FEATURES)
        shares = draw.random(DENSE_FEATURES)
        columns = np.arange(SPARSE_FEATURES)
        score = effects[columns, values].sum() + (shares - 0.5) @ slopes - 0.5
        numbers = [
            "" if empty else str(round(share * high))
            for empty, share, high in zip(
                draw.random(DENSE_FEATURES) < EMPTY_SHARE, shares, DENSE_HIGH, strict=True
            )
        ]
        categories = [f"{name:08x}" for name in names[columns, values]]
        return "\t".join([clicked(score, draw), *numbers, *categories])

    folder = arguments.output or os.path.join("data", "raw")
    write(os.path.join(folder, "train.txt"), (line() for _ in range(arguments.rows)))
    write(os.path.join(folder, "valid.txt"), (line() for _ in range(arguments.rows // 5)))


def avazu(arguments):
    """`train.txt`, `test.txt` and `data.meta.txt`: ids, id:value pairs, a click, tabs between."""
    draw = np.random.default_rng(arguments.seed)
    deep_effects = draw.normal(0, 1, DEEP_IDS)
    wide_effects = draw.normal(0, 1, WIDE_IDS)

    def line():
        ids = draw.choice(DEEP_IDS, size=8, replace=False)
        wide = draw.choice(WIDE_IDS, size=5, replace=False)
        values = draw.random(5).round(3)
        score = deep_effects[ids].sum() + wide_effects[wide] @ values
        pairs = " ".join(f"{id}:{value}" for id, value in zip(wide, values, strict=True))
        return "\t".join([" ".join(map(str, ids)), pairs, clicked(score, draw)])

    folder = arguments.output or os.path.join("data", "avazu")
    write(os.path.join(folder, "train.txt"), (line() for _ in range(arguments.rows)))
    write(os.path.join(folder, "test.txt"), (line() for _ in range(arguments.rows // 5)))
    meta = [f"dnn_input_dim:{DEEP_IDS}", f"lr_input_dim:{WIDE_IDS}"]
    write(os.path.join(folder, "data.meta.txt"), meta)


def clicked(score, draw):
    return str(int(draw.random() < 1 / (1 + np.exp(-score))))


def write(path, lines):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii") as file:
        file.writelines(f"{line}\n" for line in lines)


FORMATS = {"criteo": criteo, "avazu": avazu}


if __name__ == "__main__":
    main()
