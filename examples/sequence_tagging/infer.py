"""Prints the sentences of a file with the chunks that a model finds in them."""

import argparse
import gzip

import conll
import network

import paddle.v2 as paddle


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=network.MODELS, default="linear_crf")
    parser.add_argument("--parameters", required=True, help="what train.py wrote")
    parser.add_argument("--train_file", default="data/train.txt.gz", help="for the ids of words")
    parser.add_argument("--file", default="data/test.txt.gz")
    arguments = parser.parse_args()
    dictionary = conll.Dictionary(arguments.train_file)
    _, found, _ = network.describe(arguments.model, dictionary)
    with gzip.open(arguments.parameters) as file:
        parameters = paddle.parameters.Parameters.from_tar(file)
    sentences = list(conll.sentences(arguments.file))
    samples = [dictionary.sample(rows) for rows in sentences]
    tags = paddle.infer(found, parameters, samples, feeding=network.feeding(found))
    tags = iter(tags.ravel())
    for rows in sentences:
        for word, part, _ in rows:
            print(word, part, conll.TAGS[int(next(tags))])
        print()


if __name__ == "__main__":
    main()
