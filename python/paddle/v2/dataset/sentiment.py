"""2000 reviews of films, half of them good and half bad: the corpus `movie_reviews` of NLTK.

A sample is the ids of a review's words, and 0 for a bad one, 1 for a good one; they alternate. The
first 1600 train. NLTK is not needed: `DATA_HOME/corpora` has the archive `movie_reviews.zip`, or
the folder `movie_reviews` that NLTK makes of it.
"""

import collections
import functools
import glob
import itertools
import os
import re
from collections.abc import Iterator

from paddle.v2.dataset import common
from paddle.v2.dataset.archive import damaged, decode, zip_files
from paddle.v2.reader.flow import Reader

URL = "https://corpora.bj.bcebos.com/movie_reviews%2Fmovie_reviews.zip"
MD5 = "155de2b77c6834dd8eea7cbe88e93acb"

NUM_TRAINING_INSTANCES = 1600
NUM_TOTAL_INSTANCES = 2000

# A run of letters and digits, or of anything but these and spaces.
_WORD = re.compile(r"\w+|[^\w\s]+")
_REVIEW = re.compile(r"movie_reviews/(neg|pos)/[^/]+\.txt")


def get_word_dict() -> list[tuple[str, int]]:
    """The words and their ids, the most frequent first."""
    counts: collections.Counter[str] = collections.Counter()
    for review in _corpus(_place()).values():
        counts.update(review)
    ranked = sorted((-count, word) for word, count in counts.items())
    return [(word, place) for place, (_, word) in enumerate(ranked)]


def train() -> Reader:
    """A reader of the training data."""
    return lambda: itertools.islice(_samples(), NUM_TRAINING_INSTANCES)


def test() -> Reader:
    """A reader of the test data."""
    return lambda: itertools.islice(_samples(), NUM_TRAINING_INSTANCES, None)


def fetch() -> None:
    """Fetches the file, if it is not there."""
    _place()


def convert(path: str) -> None:
    """Writes RecordIO files."""
    common.convert(path, train(), 1000, "sentiment_train")
    common.convert(path, test(), 1000, "sentiment_test")


def _samples() -> Iterator[tuple[list[int], int]]:
    place = _place()
    ids = dict(get_word_dict())
    corpus = _corpus(place)
    kinds = [[name for name in corpus if name.startswith(f"{kind}/")] for kind in ("neg", "pos")]
    for name in itertools.chain.from_iterable(zip(*kinds, strict=False)):
        yield [ids[word] for word in corpus[name]], int(name.startswith("pos/"))


def _place() -> str:
    """The corpus, as a folder or as an archive."""
    folder = os.path.join(common.DATA_HOME, "corpora", "movie_reviews")
    return folder if os.path.isdir(folder) else common.download(URL, "corpora", MD5)


@functools.lru_cache(maxsize=1)
def _corpus(place: str) -> dict[str, list[str]]:
    """The words of each review, sorted by name: `neg/cv000_29416.txt` and so on."""
    texts = _unpacked(place) if os.path.isdir(place) else zip_files(place, _REVIEW.fullmatch)
    corpus = {
        name.removeprefix("movie_reviews/"): _WORD.findall(decode(text).lower())
        for name, text in sorted(texts)
    }
    if not corpus:
        raise damaged(place, "there are no files neg/*.txt and pos/*.txt")
    return corpus


def _unpacked(folder: str) -> Iterator[tuple[str, bytes]]:
    for kind in ("neg", "pos"):
        for path in glob.glob(os.path.join(glob.escape(folder), kind, "*.txt")):
            with open(path, "rb") as file:
                yield f"{kind}/{os.path.basename(path)}", file.read()
