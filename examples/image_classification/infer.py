"""Names what is on pictures of the test data, with a saved model."""

import argparse
import gzip
import itertools

from network import describe

import paddle.v2 as paddle
from paddle.v2.dataset import cifar


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="output/vgg_pass_00199.tar.gz")
    parser.add_argument("--network", choices=["vgg", "resnet"], default="vgg")
    parser.add_argument("--filters", type=int, default=64, help="as in training")
    parser.add_argument("--depth", type=int, default=32, help="as in training")
    parser.add_argument("--dropout", type=float, default=1.0, help="as in training")
    parser.add_argument("--data", help="an archive like cifar-10-python.tar.gz; else it is fetched")
    parser.add_argument("--count", type=int, default=10)
    arguments = parser.parse_args()

    paddle.init()
    if arguments.data:
        cifar.CIFAR10_FILE = arguments.data
    _, chances = describe(arguments.network, arguments.filters, arguments.depth, arguments.dropout)
    with gzip.open(arguments.model) as file:
        parameters = paddle.parameters.Parameters.from_tar(file)
    samples = list(itertools.islice(cifar.test10()(), arguments.count))
    pictures = [(picture,) for picture, _ in samples]
    for row, (_, label) in zip(paddle.infer(chances, parameters, pictures), samples, strict=True):
        print(f"class {row.argmax()} with {row.max():.2f}, real {label}")


if __name__ == "__main__":
    main()
