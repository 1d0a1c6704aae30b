"""French sentences and their English translations, a small part of WMT 14.

A sample is the ids of the French words between `<s>` and `<e>`, of the English words after `<s>`,
and of the same before `<e>`. Words that are not among the first `dict_size` of the dictionary are
id 2, `<unk>`. Pairs with more than 80 words in one of the languages are left out.
"""

import gzip
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

from paddle.v2 import mistake
from paddle.v2.dataset import common
from paddle.v2.dataset.archive import decode, missing, tar_files, tar_lines, words
from paddle.v2.parameters import Parameters
from paddle.v2.reader.flow import Reader

URL_TRAIN = "http://paddlemodels.bj.bcebos.com/wmt/wmt14.tgz"
MD5_TRAIN = "0791583d57d5beb693b9414c5b36798c"
URL_MODEL = "http://paddlepaddle.bj.bcebos.com/demo/wmt_14/wmt14_model.tar.gz"
MD5_MODEL = "0cb4a5366189b6acba876491c8724fa3"
# An archive to be read instead of the one that is fetched.
FILE: str | None = None

START = "<s>"
END = "<e>"
UNK = "<unk>"
UNK_IDX = 2
WORDS_MAX = 80

_DICTIONARIES = ("src.dict", "trg.dict")


@mistake.checked_arguments
def train(dict_size: int) -> Reader:
    """A reader of the training data."""
    return _reader("train/train", dict_size)


@mistake.checked_arguments
def test(dict_size: int) -> Reader:
    """A reader of the test data."""
    return _reader("test/test", dict_size)


@mistake.checked_arguments
def gen(dict_size: int) -> Reader:
    """A reader of a few sentences to be translated."""
    return _reader("gen/gen", dict_size)


@mistake.checked_arguments
def get_dict(dict_size: int, reverse: bool = True) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """Words of the two languages by their ids; without `reverse` ids by words."""
    both = _dictionaries(_file(), _size(dict_size))
    if not mistake.truth("reverse", reverse):
        return both
    source, target = ({number: word for word, number in ids.items()} for ids in both)
    return source, target


def model() -> Parameters:
    """The parameters of a network that was trained with the whole of WMT 14."""
    with gzip.open(_model_file()) as file:
        return Parameters.from_tar(cast(BinaryIO, file))


def fetch() -> None:
    """Fetches the files, if they are not there."""
    _file()
    _model_file()


def convert(path: str) -> None:
    """Writes RecordIO files, with dictionaries of 30 000 words."""
    common.convert(path, train(30000), 1000, "wmt14_train")
    common.convert(path, test(30000), 1000, "wmt14_test")


def _file() -> str:
    return FILE or common.download(URL_TRAIN, "wmt14", MD5_TRAIN)


def _model_file() -> str:
    return common.download(URL_MODEL, "wmt14", MD5_MODEL)


def _size(dict_size: int) -> int:
    # The first three words are <s>, <e> and <unk>.
    return mistake.whole("dict_size", dict_size, least=UNK_IDX + 1)


def _dictionaries(path: str, size: int) -> tuple[dict[str, int], dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for name, text in tar_files(path, lambda name: name.endswith(_DICTIONARIES)):
        lines = text.split(b"\n", size)[:size]
        ids = {decode(line.strip()): place for place, line in enumerate(lines)}
        found[name[-len("src.dict") :]] = ids
    for name in _DICTIONARIES:
        if not found.get(name, {}).keys() >= {START, END, UNK}:
            raise missing(path, f"{name} that begins with {START}, {END} and {UNK}")
    return found["src.dict"], found["trg.dict"]


def _reader(part: str, dict_size: int) -> Reader:
    size = _size(dict_size)
    path = _file()

    def samples() -> Iterator[tuple[list[int], list[int], list[int]]]:
        source_ids, target_ids = _dictionaries(path, size)
        for line in tar_lines(path, part):
            texts = line.strip().split(b"\t")
            if len(texts) != 2:
                continue
            source_words, target_words = map(words, texts)
            source = [source_ids.get(word, UNK_IDX) for word in [START, *source_words, END]]
            target = [target_ids.get(word, UNK_IDX) for word in target_words]
            if len(source) <= WORDS_MAX and len(target) <= WORDS_MAX:
                yield source, [target_ids[START], *target], [*target, target_ids[END]]

    return samples
