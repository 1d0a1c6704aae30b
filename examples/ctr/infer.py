"""Tells the chance of a click for every line of Criteo data, with a saved model."""

import argparse
import gzip

import network

import paddle.v2 as paddle
from paddle.v2.dataset import criteo


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="output/pass-9.tar.gz")
    parser.add_argument("--data_path", default="data/raw/valid.txt")
    parser.add_argument("--batch_size", type=int, default=1000)
    parser.add_argument("--embedding_size", type=int, default=10)
    parser.add_argument("--sparse_feature_dim", type=int, default=1000001)
    arguments = parser.parse_args()

    paddle.init()
    _, predicted = network.describe(arguments.sparse_feature_dim, arguments.embedding_size)
    with gzip.open(arguments.model) as file:
        parameters = paddle.parameters.Parameters.from_tar(file)
    inference = paddle.inference.Inference(parameters, predicted)
    reader = criteo.read(arguments.data_path, arguments.sparse_feature_dim)
    for batch in paddle.batch(reader, arguments.batch_size)():
        # All but the last column: the click is what we want to know.
        for chances in inference.infer(input=[sample[:-1] for sample in batch]):
            print(f"{chances[1]:.6f}")


if __name__ == "__main__":
    main()
