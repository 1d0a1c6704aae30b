"""English descriptions of pictures and their German translations: Multi30K, of WMT 16.

A sample is the ids of the source's words between `<s>` and `<e>`, of the translation's after `<s>`,
and of the same before `<e>`. `src_lang` is "en" or "de". A dictionary has `<s>`, `<e>`, `<unk>` and
then the most frequent words of the training data, of equally frequent ones the first in order.
"""

import collections
from collections.abc import Iterator
from typing import Any

from paddle.v2 import mistake
from paddle.v2.dataset import common
from paddle.v2.dataset.archive import tar_lines, words
from paddle.v2.reader.flow import Reader

DATA_URL = "http://paddlemodels.bj.bcebos.com/wmt/wmt16.tar.gz"
DATA_MD5 = "0c38be43600334966403524a40dcd81e"

TOTAL_EN_WORDS = 11250
TOTAL_DE_WORDS = 19220

START_MARK = "<s>"
END_MARK = "<e>"
UNK_MARK = "<unk>"
_MARKS = (START_MARK, END_MARK, UNK_MARK)
_START, _END, _UNK = range(3)

# The column of each language, and how many words it has.
_LANGUAGES = {"en": (0, TOTAL_EN_WORDS), "de": (1, TOTAL_DE_WORDS)}


@mistake.checked_arguments
def train(src_dict_size: int, trg_dict_size: int, src_lang: str = "en") -> Reader:
    """A reader of the training data, with dictionaries of so many words."""
    return _reader("wmt16/train", (src_dict_size, trg_dict_size), src_lang)


@mistake.checked_arguments
def test(src_dict_size: int, trg_dict_size: int, src_lang: str = "en") -> Reader:
    """A reader of the test data."""
    return _reader("wmt16/test", (src_dict_size, trg_dict_size), src_lang)


@mistake.checked_arguments
def validation(src_dict_size: int, trg_dict_size: int, src_lang: str = "en") -> Reader:
    """A reader of the data to choose a model by."""
    return _reader("wmt16/val", (src_dict_size, trg_dict_size), src_lang)


@mistake.checked_arguments
def get_dict(lang: str, dict_size: int, reverse: bool = False) -> dict[Any, Any]:
    """Ids of the words of a language; with `reverse`, words by their ids."""
    language = _language("lang", lang)
    ids = _dictionaries(_file(), {language: _size("dict_size", dict_size, language)})[language]
    if mistake.truth("reverse", reverse):
        return {number: word for word, number in ids.items()}
    return ids


def fetch() -> None:
    """Fetches the file, if it is not there."""
    _file()


@mistake.checked_arguments
def convert(
    path: str, src_dict_size: int = 30000, trg_dict_size: int = 30000, src_lang: str = "en"
) -> None:
    """Writes RecordIO files."""
    for name, part in (("train", train), ("test", test), ("validation", validation)):
        reader = part(src_dict_size, trg_dict_size, src_lang)
        common.convert(path, reader, 1000, f"wmt16_{name}")


def _file() -> str:
    return common.download(DATA_URL, "wmt16", DATA_MD5)


def _language(argument: str, given: object) -> str:
    if given not in _LANGUAGES:
        raise mistake.invalid(f'{argument} must be "en" or "de"', **{argument: given})
    return str(given)


def _size(argument: str, given: object, language: str) -> int:
    size = mistake.whole(argument, given, least=len(_MARKS))
    return min(size, _LANGUAGES[language][1])


def _pairs(path: str, part: str) -> Iterator[tuple[list[str], list[str]]]:
    for line in tar_lines(path, part):
        texts = line.strip().split(b"\t")
        if len(texts) == 2:
            yield words(texts[0]), words(texts[1])


def _dictionaries(path: str, sizes: dict[str, int]) -> dict[str, dict[str, int]]:
    counts: dict[str, collections.Counter[str]] = {each: collections.Counter() for each in sizes}
    for pair in _pairs(path, "wmt16/train"):
        for language, counted in counts.items():
            counted.update(pair[_LANGUAGES[language][0]])
    found = {}
    for language, counted in counts.items():
        known = sorted(counted, key=lambda word: (-counted[word], word))
        kept = [*_MARKS, *known][: sizes[language]]
        found[language] = {word: place for place, word in enumerate(kept)}
    return found


def _reader(part: str, sizes: tuple[int, int], src_lang: str) -> Reader:
    source = _language("src_lang", src_lang)
    target = "de" if source == "en" else "en"
    wanted = {
        source: _size("src_dict_size", sizes[0], source),
        target: _size("trg_dict_size", sizes[1], target),
    }
    path = _file()

    def samples() -> Iterator[tuple[list[int], list[int], list[int]]]:
        ids = _dictionaries(path, wanted)
        for pair in _pairs(path, part):
            both = {
                language: [known.get(word, _UNK) for word in pair[_LANGUAGES[language][0]]]
                for language, known in ids.items()
            }
            yield (
                [_START, *both[source], _END],
                [_START, *both[target]],
                [*both[target], _END],
            )

    return samples
