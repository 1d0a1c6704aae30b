"""The programs in the guide of the original, as users have them, in the spelling of Python 3."""

import glob
import marshal
import os
import pickle

import numpy as np
import pytest
from archives import place

import paddle.v2.dataset as dataset
import paddle.v2.dataset.common as common
import paddle.v2.dataset.uci_housing as uci_housing
import recordio

__all__ = ["place"]


@pytest.fixture(autouse=True)
def housing(place, tmp_path, monkeypatch):
    rows = np.random.default_rng(1).uniform(1, 50, (50, 14))
    text = "\n".join(" ".join(f"{number:.4f}" for number in row) for row in rows)
    place(uci_housing, "uci_housing/housing.data", text.encode())
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


def check_all(samples):
    """All samples are there, in any order."""
    expect = sorted(price[0] for _, price in uci_housing.train()())
    assert sorted(price[0] for _, price in samples) == expect


def test_a_data_set_is_converted_and_read_by_three_trainers():
    dataset.convert(
        output_path="./dataset",
        reader=dataset.uci_housing.train(),
        num_shards=10,
        name_prefix="uci_housing_train",
    )
    names = [f"uci_housing_train-{number:05}-of-00009" for number in range(10)]
    assert sorted(os.listdir("./dataset")) == names

    def recordio_reader(filepath, parallelism, trainer_id):
        def reader():
            files = glob.glob(filepath)
            files.sort()
            my_file_list = []
            for idx, f in enumerate(files):
                if idx % parallelism == trainer_id:
                    my_file_list.append(f)

            for fn in my_file_list:
                r = recordio.reader(fn)
                while True:
                    d = r.read()
                    if not d:
                        break
                    yield pickle.loads(d)

        return reader

    readers = [recordio_reader("./dataset/uci_housing_train*", 3, rank) for rank in range(3)]
    check_all(sample for reader in readers for sample in reader())


def test_a_data_set_is_split_and_read_as_the_environment_says(monkeypatch):
    common.split(
        reader=uci_housing.train(), line_count=15, suffix="./uci_housing/train-%05d.pickle"
    )
    pattern = os.path.join(os.getcwd(), "uci_housing/train-*.pickle")

    def train():
        return common.cluster_files_reader(
            pattern,
            trainer_count=int(os.getenv("PADDLE_INIT_NUM_GRADIENT_SERVERS", "1")),
            trainer_id=int(os.getenv("PADDLE_INIT_TRAINER_ID", "0")),
        )

    check_all(train()())
    monkeypatch.setenv("PADDLE_INIT_NUM_GRADIENT_SERVERS", "2")
    monkeypatch.setenv("PADDLE_INIT_TRAINER_ID", "1")
    # 40 samples are files of 15, 15 and 10; the second is for trainer 1.
    assert len(list(train()())) == 15


def test_another_format_is_written_and_read():
    common.split(
        reader=uci_housing.train(),
        line_count=500,
        suffix="./uci_housing/train-%05d.pickle",
        dumper=marshal.dump,
    )
    read = common.cluster_files_reader(
        "./uci_housing/train-*.pickle", trainer_count=1, train_id=0, loader=marshal.load
    )
    # Marshal writes an array as its bytes.
    check_all((features, np.frombuffer(price)) for features, price in read())
