"""Criteo-like click data with a signal to learn: 13 dense values, 26 categorical ids, one label.

    generate.py click ROWS PARTS FOLDER [SEED]   rows in PARTS files, and as arrays for PyTorch
    generate.py rows IDS PARTS FOLDER            lines in which each of so many ids is once
    generate.py uniform ROWS PARTS FOLDER IDS    ids drawn evenly from so many, labels by chance

A line is MultiSlot text, `count value…` per slot: the dense slot (13 floats), 26 id slots (one id
each, id = slot * 1_000_000 + a Zipf(1.2) draw below one million), the label slot (0 or 1). A folder
that is complete has a file `done`, and is left as it is.
"""

import concurrent.futures
import pathlib
import sys

import numpy as np

SLOTS = 26
DENSE = 13
VOCABULARY = 1_000_000
WEIGHTS = 4096


def main(kind, count, parts, folder, *rest):
    folder = pathlib.Path(folder)
    if (folder / "done").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    write = {"click": click, "rows": rows, "uniform": uniform}[kind]
    parts = int(parts)
    with concurrent.futures.ProcessPoolExecutor() as pool:
        settings = [int(each) for each in rest]
        jobs = [
            pool.submit(write, int(count) // parts, part, folder, *settings)
            for part in range(parts)
        ]
        for job in jobs:
            job.result()
    (folder / "done").touch()


def click(count, part, folder, seed=0):
    truth = np.random.default_rng(7)  # the same hidden model for every seed and part
    weight_ids, weight_dense = truth.normal(0, 1, (SLOTS, WEIGHTS)), truth.normal(0, 0.5, DENSE)
    draw = np.random.default_rng([seed, part])
    ids = draw.zipf(1.2, size=(count, SLOTS)) % VOCABULARY
    # As the text has them.
    dense = draw.random((count, DENSE)).round(4).astype("f4")
    score = dense @ weight_dense - 1.0
    score += 0.5 * sum(weight_ids[slot, ids[:, slot] % WEIGHTS] for slot in range(SLOTS))
    label = (draw.random(count) < 1 / (1 + np.exp(-score))).astype("i8")
    ids += np.arange(SLOTS) * VOCABULARY
    write_lines(folder / f"part-{part:05d}", dense, ids, label)
    np.savez(folder / f"arrays-{part:05d}", dense=dense, ids=ids, label=label.astype("f4"))


def rows(count, part, folder):
    """Whole lines, so a few ids less than asked for."""
    lines = count // SLOTS
    ids = np.arange(part * lines * SLOTS, (part + 1) * lines * SLOTS).reshape(lines, SLOTS)
    values = np.full((lines, DENSE), 0.5, "f4")
    write_lines(folder / f"part-{part:05d}", values, ids, np.arange(lines) % 2)


def uniform(count, part, folder, distinct):
    draw = np.random.default_rng([1, part])
    ids = draw.integers(0, distinct, (count, SLOTS))
    values = draw.random((count, DENSE)).astype("f4")
    write_lines(folder / f"part-{part:05d}", values, ids, draw.integers(0, 2, count))


def write_lines(path, dense, ids, label):
    pattern = f"{DENSE} " + "%.4f " * DENSE + "1 %d " * SLOTS + "1 %d\n"
    with open(path, "w") as file:
        for numbers, categories, clicked in zip(
            dense.tolist(), ids.tolist(), label.tolist(), strict=True
        ):
            file.write(pattern % (*numbers, *categories, clicked))


if __name__ == "__main__":
    main(*sys.argv[1:])
