"""Makes a dictionary, five-word lines for training and test, and a part of them for each trainer.

    word_dict.pickle
    train_data_dir/train.txt    train.txt-00000    train.txt-00001    …
    test_data_dir/test.txt      test.txt-00000     …
    recordio/train-00000        train-00001        …

A line is five word ids with commas between. Line i goes to part i modulo the number of parts, so
parts are alike. The RecordIO files are for a master to deal out: a record is a pickled tuple of
five.
"""

import argparse
import contextlib
import glob
import itertools
import os
import pickle

import generate

from paddle.v2.dataset import common, imikolov

WORDS_PER_LINE = 5
TEXTS = {"train": "ptb.train.txt", "test": "ptb.valid.txt"}


def main():
    arguments = parse_arguments()
    if arguments.generate:
        texts = generate.texts(arguments.sentences, arguments.seed)
    else:
        texts = {name: load(arguments.source, file) for name, file in TEXTS.items()}

    everything = itertools.chain.from_iterable(texts.values())
    ids = imikolov.rank_words(everything, arguments.min_word_freq)
    os.makedirs(arguments.output, exist_ok=True)
    with open(os.path.join(arguments.output, "word_dict.pickle"), "wb") as file:
        pickle.dump(ids, file)
    for name, sentences in texts.items():
        folder = os.path.join(arguments.output, f"{name}_data_dir")
        os.makedirs(folder, exist_ok=True)
        rows = list(five_words(sentences, ids))
        write(os.path.join(folder, f"{name}.txt"), rows, arguments.split_count)
        if name == "train":
            recordio = os.path.join(arguments.output, "recordio")
            remove(os.path.join(recordio, f"{name}-*"))
            common.convert(recordio, lambda rows=rows: iter(rows), arguments.line_count, name)


def load(source, file):
    """The sentences of a text: lists of words. `source` is the folder or the tar they are in."""
    if os.path.isdir(source):
        with open(os.path.join(source, file), encoding="utf-8") as text:
            return [line.split() for line in text]
    return list(imikolov.sentences(source, f"simple-examples/data/{file}"))


def five_words(sentences, ids):
    """All runs of five words, as ids."""
    for sentence in sentences:
        yield from imikolov.ngrams(sentence, ids, WORDS_PER_LINE)


def write(path, rows, split_count):
    """The whole file, and its parts."""
    remove(f"{path}-*")
    names = [path, *(f"{path}-{number:05}" for number in range(split_count))]
    with contextlib.ExitStack() as stack:
        whole, *parts = [stack.enter_context(open(name, "w", encoding="ascii")) for name in names]
        for number, row in enumerate(rows):
            line = ",".join(map(str, row)) + "\n"
            whole.write(line)
            parts[number % split_count].write(line)


def remove(pattern):
    """Removes what an earlier preparation left: trainers would read those parts too."""
    for path in glob.glob(pattern):
        os.remove(path)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--source", help="simple-examples.tgz, or a folder with ptb.*.txt")
    source.add_argument("--generate", action="store_true", help="make up a text instead")
    parser.add_argument("--sentences", type=int, default=2000, help="how many to make up")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", default=".")
    parser.add_argument("--min_word_freq", type=int, default=50)
    parser.add_argument("--split_count", type=int, default=3, help="parts, one a trainer")
    parser.add_argument("--line_count", type=int, default=1000, help="lines of a RecordIO file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
