"""Predicts the prices of the test data with a saved model."""

import argparse
import gzip

import train

import paddle.v2 as paddle
from paddle.v2.dataset import uci_housing


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="output/fit-a-line_pass_00029.tar.gz")
    parser.add_argument("--data", default="data/housing.data")
    arguments = parser.parse_args()

    paddle.init()
    _, price = train.describe()
    with gzip.open(arguments.model) as file:
        parameters = paddle.parameters.Parameters.from_tar(file)
    _, test_data = uci_housing.load_data(arguments.data)
    samples = list(test_data())
    predicted = paddle.infer(
        output_layer=price, parameters=parameters, input=[(features,) for features, _ in samples]
    )
    for (_, real), guess in zip(samples, predicted, strict=True):
        print(f"predicted {guess[0]:.4f}, real {real[0]:.4f}")


if __name__ == "__main__":
    main()
