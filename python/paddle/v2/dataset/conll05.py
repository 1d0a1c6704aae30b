"""Semantic roles in sentences, of the shared task of CoNLL 2005.

A sample is nine sequences as long as the sentence: ids of its words; of the two words before the
predicate, of the predicate and of the two after it, each repeated; of the predicate as a verb;
1 for these five words and 0 for others; ids of the labels, B-X, I-X or O.

The training data is not free; the test data is. Set `DATA_URL` and `DATA_MD5` to a file of your own
of the same form.
"""

import gzip
import io
import itertools
from collections.abc import Iterable, Iterator

from paddle import errors
from paddle.v2.dataset import common
from paddle.v2.dataset.archive import damaged, missing, reading, tar_files, whole, words
from paddle.v2.reader.flow import Reader

DATA_URL = "http://paddlemodels.bj.bcebos.com/conll05st/conll05st-tests.tar.gz"
DATA_MD5 = "387719152ae52d60422c016e92a742fc"
WORDDICT_URL = "http://paddlemodels.bj.bcebos.com/conll05st%2FwordDict.txt"
WORDDICT_MD5 = "ea7fb7d4c75cc6254716f0177a506baa"
VERBDICT_URL = "http://paddlemodels.bj.bcebos.com/conll05st%2FverbDict.txt"
VERBDICT_MD5 = "0d2977293bbb6cbefab5b0f97db1e77c"
TRGDICT_URL = "http://paddlemodels.bj.bcebos.com/conll05st%2FtargetDict.txt"
TRGDICT_MD5 = "d8c7f03ceb5fc2e5a0fa7503a4353751"
EMB_URL = "http://paddlemodels.bj.bcebos.com/conll05st%2Femb"
EMB_MD5 = "bf436eb0faa1f6f9103017f8be57cdb7"

WORDS_FILE = "conll05st-release/test.wsj/words/test.wsj.words.gz"
PROPS_FILE = "conll05st-release/test.wsj/props/test.wsj.props.gz"

UNK_IDX = 0

Dictionary = dict[str, int]


def get_dict() -> tuple[Dictionary, Dictionary, Dictionary]:
    """Ids of words, of verbs and of labels: B-X, I-X, B-Y, I-Y and so on, O being the last."""
    return (
        _numbered(_lines(WORDDICT_URL, WORDDICT_MD5)),
        _numbered(_lines(VERBDICT_URL, VERBDICT_MD5)),
        _label_ids(_lines(TRGDICT_URL, TRGDICT_MD5)),
    )


def get_embedding() -> str:
    """The path of vectors for the words, 32 numbers each, made of a larger text."""
    return common.download(EMB_URL, "conll05st", EMB_MD5)


def test() -> Reader:
    """A reader of the test data."""
    word_ids, verb_ids, label_ids = get_dict()
    path = _file()

    def samples() -> Iterator[tuple[list[int], ...]]:
        for sentence, predicate, labels in _propositions(path):
            size = len(sentence)
            verb = labels.index("B-V") if "B-V" in labels else None
            if verb is None:
                raise damaged(path, f"no word is the predicate {predicate!r} of its sentence")
            near = range(verb - 2, verb + 3)
            context = [_word_at(sentence, place) for place in near]
            yield (
                [word_ids.get(word, UNK_IDX) for word in sentence],
                *([word_ids.get(word, UNK_IDX)] * size for word in context),
                [_known(verb_ids, predicate, "verb")] * size,
                [int(place in near) for place in range(size)],
                [_known(label_ids, label, "label") for label in labels],
            )

    return samples


def fetch() -> None:
    """Fetches the files, if they are not there."""
    get_dict()
    get_embedding()
    _file()


def convert(path: str) -> None:
    """Writes RecordIO files, of the test data in both; the names are the original's."""
    common.convert(path, test(), 1000, "conl105_train")
    common.convert(path, test(), 1000, "conl105_test")


def _file() -> str:
    return common.download(DATA_URL, "conll05st", DATA_MD5)


def _lines(url: str, md5: str) -> list[str]:
    with open(common.download(url, "conll05st", md5), encoding="utf-8") as file:
        return [line.strip() for line in file]


def _numbered(names: Iterable[str]) -> Dictionary:
    return {name: number for number, name in enumerate(names)}


def _label_ids(labels: Iterable[str]) -> Dictionary:
    # In pairs, as the counting of chunks wants them; in the order of the file, so that all
    # trainers number them alike.
    kinds = dict.fromkeys(label[2:] for label in labels if label.startswith(("B-", "I-")))
    return _numbered([*(f"{begin}-{kind}" for kind in kinds for begin in "BI"), "O"])


def _word_at(sentence: list[str], place: int) -> str:
    if place < 0:
        return "bos"
    return sentence[place] if place < len(sentence) else "eos"


def _known(ids: Dictionary, name: str, kind: str) -> int:
    if name not in ids:
        raise errors.InvalidError(
            f"the {kind} {name!r} of the data is not in the {kind} dictionary; set its URL and "
            "MD5 in paddle.v2.dataset.conll05 to one that goes with the data"
        )
    return ids[name]


def _propositions(path: str) -> Iterator[tuple[list[str], str, list[str]]]:
    """Words, predicate and labels, for each predicate of each sentence."""
    tokens, properties = _member_lines(path, WORDS_FILE), _member_lines(path, PROPS_FILE)
    if [bool(line) for line in tokens] != [bool(line) for line in properties]:
        raise damaged(path, f"sentences of {WORDS_FILE} and {PROPS_FILE} differ in length")
    rows = zip(tokens, properties, strict=True)
    # Empty lines are between sentences.
    for is_sentence, group in itertools.groupby(rows, key=lambda row: bool(row[0])):
        if not is_sentence:
            continue
        lines = list(group)
        sentence = [token for [token, *_], _ in lines]
        # The first column has the predicates; then there is one for the arguments of each.
        named = [fields[0] for _, fields in lines if fields[0] != "-"]
        if {len(fields) for _, fields in lines} != {1 + len(named)}:
            raise damaged(
                path, f"a sentence with {len(named)} predicates must have as many columns"
            )
        for number, predicate in enumerate(named, start=1):
            labels = _labels([fields[number] for _, fields in lines], path)
            yield sentence, predicate, labels


def _member_lines(path: str, name: str) -> list[list[str]]:
    """The fields of every line of a compressed file of the archive."""
    for _, data in tar_files(path, lambda each: each == name):
        with reading(path), gzip.open(io.BytesIO(data)) as file:
            return [words(line) for line in whole(file, path, name).split(b"\n")]
    raise missing(path, name)


def _labels(column: Iterable[str], path: str) -> list[str]:
    """`(A0*`, `*`, `*)`, `(V*)`, `*` become B-A0, I-A0, I-A0, B-V, O."""
    labels, inside = [], None
    for field in column:
        begin, star, end = field.partition("*")
        if not star or (begin and begin[0] != "(") or end not in ("", ")"):
            raise damaged(path, f"the label {field!r} is none of (X*, *, *) and (X*)")
        if begin:
            inside = begin[1:]
            labels.append(f"B-{inside}")
        else:
            labels.append("O" if inside is None else f"I-{inside}")
        if end:
            inside = None
    return labels
