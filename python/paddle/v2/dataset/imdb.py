"""Reviews of films, 25 000 to train and 25 000 to test, half of them good and half bad.

A sample is the ids of a review's words, and 0 if it is a good one, 1 if it is bad. Words are in
lower case, without punctuation; rare ones are `<unk>`, the last id. Good reviews come first:
shuffle them.
"""

import array
import collections
import re
import string
from collections.abc import Callable, Iterator

from paddle.v2 import mistake
from paddle.v2.dataset import common
from paddle.v2.dataset.archive import missing, tar_files, words

URL = "https://dataset.bj.bcebos.com/imdb%2FaclImdb_v1.tar.gz"
MD5 = "7c2ac02c03563afcf9b574c7e56c153a"

_PUNCTUATION = string.punctuation.encode()
_ALL = re.compile(r"aclImdb/(train|test)/(pos|neg)/.*\.txt$")


@mistake.checked_arguments
def word_dict(cutoff: int = 150) -> dict[str, int]:
    """Ids of the words of all reviews that are more frequent than that."""
    return build_dict(_ALL, cutoff)


@mistake.checked_arguments
def build_dict(pattern: re.Pattern[str], cutoff: int) -> dict[str, int]:
    """Ids of the words of some files that are more frequent than that, the most frequent first."""
    least = mistake.whole("cutoff", cutoff, least=0)
    counts: collections.Counter[str] = collections.Counter()
    for review in tokenize(pattern):
        counts.update(review)
    known = sorted((-count, word) for word, count in counts.items() if count > least)
    return {word: place for place, word in enumerate([*(word for _, word in known), "<unk>"])}


@mistake.checked_arguments
def tokenize(pattern: re.Pattern[str]) -> Iterator[list[str]]:
    """The words of each file of the archive whose name matches."""
    return (review for _, review in _reviews(pattern))


@mistake.checked_arguments
def train(word_idx: dict[str, int]) -> "Reviews":
    """A reader of the training data, which is kept in memory once it was read."""
    return _reader("train", word_idx)


@mistake.checked_arguments
def test(word_idx: dict[str, int]) -> "Reviews":
    """A reader of the test data, which is kept in memory once it was read."""
    return _reader("test", word_idx)


class Reviews:
    """A reader that can also be gone through as it is.

    Early versions of the original returned the samples and not a reader, so programs write
    `paddle.reader.shuffle(lambda: imdb.train(words), 1000)`.
    """

    def __init__(self, samples: Callable[[], Iterator[tuple[list[int], int]]]) -> None:
        self._samples = samples

    def __call__(self) -> Iterator[tuple[list[int], int]]:
        return self._samples()

    def __iter__(self) -> Iterator[tuple[list[int], int]]:
        return self._samples()


def fetch() -> None:
    """Fetches the file, if it is not there."""
    _file()


def convert(path: str) -> None:
    """Writes RecordIO files."""
    ids = word_dict()
    common.convert(path, train(ids), 1000, "imdb_train")
    common.convert(path, test(ids), 1000, "imdb_test")


def _file() -> str:
    return common.download(URL, "imdb", MD5)


def _reviews(pattern: re.Pattern[str]) -> Iterator[tuple[str, list[str]]]:
    path = _file()
    for name, text in tar_files(path, pattern.match):
        yield name, words(text.translate(None, _PUNCTUATION).lower())


def _reader(part: str, word_idx: dict[str, int]) -> "Reviews":
    unknown = word_idx["<unk>"]
    pattern = re.compile(rf"aclImdb/{part}/(pos|neg)/.*\.txt$")
    # The archive is slow to go through. As arrays its ids take a tenth of what lists take.
    held: list[tuple[array.array[int], int]] = []

    def samples() -> Iterator[tuple[list[int], int]]:
        if not held:
            kinds: tuple[list[array.array[int]], list[array.array[int]]] = [], []
            for name, review in _reviews(pattern):
                ids = array.array("i", [word_idx.get(word, unknown) for word in review])
                kinds["/neg/" in name].append(ids)
            if not any(kinds):
                raise missing(_file(), f"aclImdb/{part}/pos/*.txt")
            held.extend((ids, kind) for kind in (0, 1) for ids in kinds[kind])
        for ids, kind in held:
            yield ids.tolist(), kind

    return Reviews(samples)
