"""Writes the training data as RecordIO files, which a master deals out to trainers."""

import argparse

from paddle.v2.dataset import common, uci_housing


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="data/housing.data")
    parser.add_argument("--output", default="data/recordio")
    parser.add_argument("--line_count", type=int, default=32, help="samples of a file")
    arguments = parser.parse_args()

    train_data, _ = uci_housing.load_data(arguments.data)
    common.convert(arguments.output, train_data, arguments.line_count, "uci_housing_train")


if __name__ == "__main__":
    main()
