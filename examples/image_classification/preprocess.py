"""CIFAR-10 as the V1 provider reads it: files of 1000 pictures, their mean, and lists of the files.

Every file is a pickle of `{"images": [JPEG files' bytes], "labels": [numbers]}`; `batches.meta` has
the mean of all training pictures, `data_mean`.
"""

import argparse
import io
import os
import pickle
import tarfile

import numpy as np
from PIL import Image

SIDE = 32
BATCH = 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--input", default="data/cifar-10-python.tar.gz")
    parser.add_argument("--output", default="data/cifar-out/batches")
    parser.add_argument("--batch", type=int, default=BATCH, help="pictures of a file")
    parser.add_argument("--quality", type=int, default=95, help="of the JPEG files")
    arguments = parser.parse_args()
    os.makedirs(arguments.output, exist_ok=True)
    pictures = {"train": ([], []), "test": ([], [])}
    with tarfile.open(arguments.input) as archive:
        for member in sorted(archive.getmembers(), key=lambda member: member.name):
            name = os.path.basename(member.name)
            kind = "train" if name.startswith("data_batch") else "test"
            if name.startswith(("data_batch", "test_batch")):
                content = pickle.load(archive.extractfile(member), encoding="bytes")
                pictures[kind][0].extend(content[b"data"])
                pictures[kind][1].extend(content[b"labels"])
    for kind, (rows, labels) in pictures.items():
        paths = []
        for number, start in enumerate(range(0, len(rows), arguments.batch)):
            chosen = slice(start, start + arguments.batch)
            images = [encode(row, arguments.quality) for row in rows[chosen]]
            path = os.path.join(arguments.output, f"{kind}_batch_{number:03d}")
            with open(path, "wb") as file:
                pickle.dump({"images": images, "labels": labels[chosen]}, file, protocol=4)
            paths.append(path)
        with open(os.path.join(arguments.output, f"{kind}.list"), "w", encoding="utf-8") as file:
            file.writelines(f"{path}\n" for path in paths)
    mean = np.mean(np.stack(pictures["train"][0]), axis=0).astype(np.float32)
    with open(os.path.join(arguments.output, "batches.meta"), "wb") as file:
        np.savez(file, data_mean=mean)


def encode(row, quality):
    """A JPEG file of a picture, whose colours are one plane after the other."""
    pixels = np.asarray(row, np.uint8).reshape(3, SIDE, SIDE).transpose(1, 2, 0)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=quality)
    return file.getvalue()


if __name__ == "__main__":
    main()
