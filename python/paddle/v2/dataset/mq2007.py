"""Web pages judged for queries, to learn to rank: MQ2007 of LETOR 4.0.

A page has 46 features and a relevance of 0, 1 or 2. `train` and `test` are readers, of the first of
five folds; `format` says what a sample is:

    pairwise   1, and the features of a page and of a less relevant one of the same query
    listwise   the relevances of all pages of a query, and their features, the most relevant first
    pointwise  a page's relevance and features
    plain_txt  the same after the query's id

Queries without a relevant page are left out. The data comes as a RAR archive, which Python cannot
read: a program that can (bsdtar, unrar, unar or 7z) unpacks it once, or you do.
"""

import os
import random
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paddle import errors
from paddle.v2 import mistake
from paddle.v2.dataset import common
from paddle.v2.dataset.archive import damaged

URL = (
    "http://www.bigdatalab.ac.cn/benchmark/upload/download_source/"
    "7b6dbbe2-842c-11e4-a536-bcaec51b9163_MQ2007.rar"
)
MD5 = "7be1640ae95c6408dab0ae7207bdc706"
FEATURES = 46

_FOLDER = "MQ2007"
_TRAIN = "MQ2007/MQ2007/Fold1/train.txt"
_TEST = "MQ2007/MQ2007/Fold1/test.txt"
# What unpacks a RAR archive, with `{}` for the archive; it runs where the files are to be.
_UNPACKERS = (
    ("bsdtar", "-xf", "{}"),
    ("unrar", "x", "-y", "-idq", "{}"),
    ("unar", "-quiet", "-no-directory", "{}"),
    ("7z", "x", "-y", "{}"),
)
UNPACK_SECONDS_MAX = 600

# A page: relevance, features.
Page = tuple[int, NDArray[np.float64]]


@mistake.checked_arguments
def train(
    format: str = "pairwise", shuffle: bool = True, fill_missing: float = -1
) -> Iterator[Any]:
    """The samples of the training data.

    shuffle:      queries come in any order; `random.seed` makes it repeatable.
    fill_missing: stands for a feature that is NULL.
    """
    return _samples(_TRAIN, format, shuffle, fill_missing)


@mistake.checked_arguments
def test(format: str = "pairwise", shuffle: bool = True, fill_missing: float = -1) -> Iterator[Any]:
    """The samples of the test data."""
    return _samples(_TEST, format, shuffle, fill_missing)


def fetch() -> None:
    """Fetches the archive and unpacks it, if its files are not there."""
    _path(_TRAIN)


def convert(path: str) -> None:
    """Writes RecordIO files, of pairs."""
    common.convert(path, train, 1000, "mq2007_train")
    common.convert(path, test, 1000, "mq2007_test")


def _samples(part: str, format: str, shuffle: bool, fill_missing: float) -> Iterator[Any]:
    make = _FORMATS.get(format)
    if make is None:
        raise mistake.invalid(f"format must be one of {', '.join(_FORMATS)}", format=format)
    is_shuffled = mistake.truth("shuffle", shuffle)
    filling = mistake.real("fill_missing", fill_missing)
    path = _path(part)

    def samples() -> Iterator[Any]:
        queries = [each for each in _queries(path, filling) if any(page[0] for page in each[1])]
        if is_shuffled:
            random.shuffle(queries)
        for query, pages in queries:
            yield from make(query, sorted(pages, key=lambda page: -page[0]))

    return samples()


def _pairs(_query: int, pages: list[Page]) -> Iterator[Any]:
    for place, (relevance, features) in enumerate(pages):
        for less, others in pages[place + 1 :]:
            if less < relevance:
                yield np.array([1]), features, others


def _list(_query: int, pages: list[Page]) -> Iterator[Any]:
    yield np.array([[page[0]] for page in pages]), np.stack([page[1] for page in pages])


def _points(_query: int, pages: list[Page]) -> Iterator[Any]:
    yield from pages


def _plain(query: int, pages: list[Page]) -> Iterator[Any]:
    return ((query, relevance, features) for relevance, features in pages)


_FORMATS: dict[str, Callable[[int, list[Page]], Iterator[Any]]] = {
    "pairwise": _pairs,
    "listwise": _list,
    "pointwise": _points,
    "plain_txt": _plain,
}


def _queries(path: str, filling: float) -> list[tuple[int, list[Page]]]:
    """Every query with its pages, in the order of the file."""
    queries: list[tuple[int, list[Page]]] = []
    with open(path, encoding="latin-1") as file:
        for number, line in enumerate(file, start=1):
            query, page = _page(path, number, line.partition("#")[0].split(), filling)
            if not queries or queries[-1][0] != query:
                queries.append((query, []))
            queries[-1][1].append(page)
    return queries


def _page(path: str, number: int, parts: list[str], filling: float) -> tuple[int, Page]:
    """`2 qid:10 1:0.007477 2:0.000000 …`"""
    try:
        relevance, (name, query) = int(parts[0]), parts[1].split(":")
        pairs = [part.split(":") for part in parts[2:]]
        features = [filling if value == "NULL" else float(value) for _, value in pairs]
        is_whole = name == "qid" and len(pairs) == FEATURES
        if is_whole and [int(place) for place, _ in pairs] == list(range(1, FEATURES + 1)):
            return int(query), (relevance, np.array(features))
    except (ValueError, IndexError):
        pass
    raise damaged(
        path,
        f"line {number} must be a relevance, qid:N and {FEATURES} features N:value",
    )


def _path(part: str) -> str:
    folder = os.path.join(common.DATA_HOME, _FOLDER)
    path = os.path.join(folder, part)
    if not os.path.exists(path):
        _unpack(common.download(URL, _FOLDER, MD5), folder, part)
    return path


def _unpack(archive: str, folder: str, part: str) -> None:
    unpacker = next((each for each in _UNPACKERS if shutil.which(each[0])), None)
    if unpacker is None:
        tools = ", ".join(each[0] for each in _UNPACKERS)
        raise errors.UnsupportedError(
            f"a RAR archive is unpacked by one of {tools}, and none is installed; install one, or "
            f"unpack the archive by hand so that there is {os.path.join(folder, part)} "
            f"(file: {archive})"
        )
    # The folder gets its name when it is complete: half of one would pass for a whole.
    with tempfile.TemporaryDirectory(dir=folder) as pending:
        command = [archive if each == "{}" else each for each in unpacker]
        try:
            subprocess.run(
                command,
                cwd=pending,
                check=True,
                capture_output=True,
                stdin=subprocess.DEVNULL,
                timeout=UNPACK_SECONDS_MAX,
            )
        except (subprocess.SubprocessError, OSError) as error:
            raise damaged(archive, f"{unpacker[0]} cannot unpack the archive: {error}") from error
        folds = next(
            (each for each, names, _ in os.walk(pending) if "Fold1" in names),
            None,
        )
        if folds is None:
            raise damaged(archive, "the archive has no folder Fold1")
        target = os.path.dirname(os.path.dirname(os.path.join(folder, part)))
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.rename(folds, target)
