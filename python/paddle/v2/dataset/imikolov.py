"""The Penn Treebank as Mikolov's examples have it: a sentence a line, words with spaces between.

A sample is `n` word ids in a row, or with `DataType.SEQ` a sentence that begins with `<s>` and the
same that ends with `<e>`. Rare words are `<unk>`, the last id.
"""

import collections
from collections.abc import Iterable, Iterator
from typing import Any

from paddle.v2 import mistake
from paddle.v2.dataset import common
from paddle.v2.dataset.archive import tar_lines, words
from paddle.v2.reader.flow import Reader

URL = "https://dataset.bj.bcebos.com/imikolov%2Fsimple-examples.tgz"
MD5 = "30177ea32e27c525793142b6bf2c8e2d"

TRAIN_FILE = "simple-examples/data/ptb.train.txt"
TEST_FILE = "simple-examples/data/ptb.valid.txt"


class DataType:
    """What a sample is."""

    NGRAM = 1
    SEQ = 2


@mistake.checked_arguments
def build_dict(min_word_freq: int = 50) -> dict[str, int]:
    """Ids of the words that are more frequent than that, the most frequent first; `<unk>` last."""
    path = _file()
    texts = (sentences(path, TRAIN_FILE), sentences(path, TEST_FILE))
    return rank_words((sentence for text in texts for sentence in text), min_word_freq)


@mistake.checked_arguments
def train(word_idx: dict[str, int], n: int, data_type: int = DataType.NGRAM) -> Reader:
    """A reader of the training data.

    n: words of a sample; with `DataType.SEQ` the longest sentence, with its beginning, or 0 for
       sentences of any length.
    """
    return _reader(TRAIN_FILE, word_idx, n, data_type)


@mistake.checked_arguments
def test(word_idx: dict[str, int], n: int, data_type: int = DataType.NGRAM) -> Reader:
    """A reader of the test data."""
    return _reader(TEST_FILE, word_idx, n, data_type)


def fetch() -> None:
    """Fetches the file, if it is not there."""
    _file()


def convert(path: str) -> None:
    """Writes RecordIO files of five words a sample."""
    ids = build_dict()
    common.convert(path, train(ids, 5), 1000, "imikolov_train")
    common.convert(path, test(ids, 5), 1000, "imikolov_test")


def sentences(path: str, name: str) -> Iterator[list[str]]:
    """The sentences of a text in the archive, as lists of words."""
    return map(words, tar_lines(path, name))


def rank_words(sentences: Iterable[list[str]], min_word_freq: int) -> dict[str, int]:
    """Ids of the words that are more frequent than that, the most frequent first; `<unk>` last."""
    least = mistake.whole("min_word_freq", min_word_freq, least=0)
    counts: collections.Counter[str] = collections.Counter()
    for sentence in sentences:
        counts.update(["<s>", *sentence, "<e>"])
    del counts["<unk>"]
    known = sorted((-count, word) for word, count in counts.items() if count > least)
    return {word: place for place, word in enumerate([*(word for _, word in known), "<unk>"])}


def ngrams(sentence: list[str], word_idx: dict[str, int], n: int) -> Iterator[tuple[int, ...]]:
    """All runs of `n` words of a sentence, with its beginning and end, as ids."""
    unknown = word_idx["<unk>"]
    row = [word_idx.get(word, unknown) for word in ["<s>", *sentence, "<e>"]]
    return (tuple(row[start : start + n]) for start in range(len(row) - n + 1))


def _file() -> str:
    return common.download(URL, "imikolov", MD5)


def _reader(name: str, word_idx: dict[str, int], n: int, data_type: int) -> Reader:
    if data_type not in (DataType.NGRAM, DataType.SEQ):
        raise mistake.invalid(
            "data_type must be DataType.NGRAM or DataType.SEQ", data_type=data_type
        )
    size = mistake.whole("n", n, least=1 if data_type == DataType.NGRAM else -1)

    def samples() -> Iterator[Any]:
        unknown = word_idx["<unk>"]
        for sentence in sentences(_file(), name):
            if data_type == DataType.NGRAM:
                yield from ngrams(sentence, word_idx, size)
                continue
            row = [word_idx.get(word, unknown) for word in sentence]
            if size <= 0 or len(row) < size:
                yield [word_idx["<s>"], *row], [*row, word_idx["<e>"]]

    return samples
