"""Tells which words are likely to follow four others: `python infer.py one two three four`."""

import argparse
import gzip
import pickle

import numpy as np
import train

import paddle.v2 as paddle


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs=4)
    parser.add_argument("--model", default="output/word2vec_pass_00029.tar.gz")
    parser.add_argument("--dict", default="word_dict.pickle")
    parser.add_argument("--drop_rate", type=float, default=0.5, help="as in training")
    arguments = parser.parse_args()

    paddle.init()
    with open(arguments.dict, "rb") as file:
        ids = pickle.load(file)
    with gzip.open(arguments.model) as file:
        parameters = paddle.parameters.Parameters.from_tar(file)
    _, predicted = train.describe(len(ids), arguments.drop_rate)
    context = tuple(ids.get(word, ids["<unk>"]) for word in arguments.words)
    chances = paddle.infer(output_layer=predicted, parameters=parameters, input=[context])[0]
    words = list(ids)
    for place in np.argsort(-chances)[:3]:
        print(f"{words[place]} {chances[place]:.4f}")


if __name__ == "__main__":
    main()
