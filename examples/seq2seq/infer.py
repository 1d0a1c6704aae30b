"""Translates the sentences that the data has for it, and tells how many come out right."""

import argparse
import gzip

import network
import numpy as np
import train

import paddle.v2 as paddle
from paddle.v2.dataset import wmt14

SENTENCES_AT_ONCE = 50


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parameters", required=True, help="what train.py wrote")
    parser.add_argument("--data", help="an archive like wmt14.tgz; else it is fetched")
    parser.add_argument("--preset", choices=train.PRESETS, default="full")
    parser.add_argument("--beam_size", type=int, default=3)
    parser.add_argument("--max_length", type=int, default=250)
    arguments = parser.parse_args()
    if arguments.data:
        wmt14.FILE = arguments.data
    preset = train.PRESETS[arguments.preset]
    words, sizes = preset["words"], preset["sizes"]
    found = network.generation(words, sizes, arguments.beam_size, arguments.max_length)
    with gzip.open(arguments.parameters) as file:
        parameters = paddle.parameters.Parameters.from_tar(file)
    inference = paddle.inference.Inference(parameters, found)
    source_words, target_words = wmt14.get_dict(words)
    right = total = 0
    for batch in paddle.batch(wmt14.gen(words), SENTENCES_AT_ONCE)():
        scores, ids = inference.infer([sample[:1] for sample in batch], field=["prob", "id"])
        sentences = iter(split(ids))
        for (source, _, target), of_sample in zip(batch, scores, strict=True):
            print(" ".join(source_words[word] for word in source[1:-1]))
            translations = [next(sentences) for _ in of_sample]
            for score, translation in zip(of_sample, translations, strict=True):
                print(f"{score:9.4f}  {' '.join(target_words[word] for word in translation)}")
            right += translations[0] == target
            total += 1
    print(f"{right} of {total} are right")


def split(ids):
    """The sentences in a row of ids: of each its length, its words, and -1."""
    ends = np.flatnonzero(ids == -1)
    begins = [0, *(ends[:-1] + 1)]
    return [ids[begin + 1 : end].tolist() for begin, end in zip(begins, ends, strict=True)]


if __name__ == "__main__":
    main()
