"""What printers show of layers after every batch of training: text, for stderr or a file."""

import dataclasses
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy

from paddle.v2 import mistake

Numbers = numpy.ndarray[Any, numpy.dtype[Any]]


@dataclasses.dataclass(frozen=True)
class Watched:
    """A layer's output for a batch: rows of numbers, or ids; and where its sequences begin.

    Of a beam search values are lengths and words, each sentence with -1 behind it, and scores are
    how probable they are, a row for each sample.
    """

    name: str
    values: Numbers
    offsets: Sequence[int] | None = None
    scores: Numbers | None = None

    @property
    def rows(self) -> Numbers:
        """Its rows; ids in one column."""
        return self.values.reshape(len(self.values), -1)

    @property
    def sequences(self) -> list[Numbers]:
        """The rows of each sequence; of each sample, where it has one row."""
        offsets = range(len(self.rows) + 1) if self.offsets is None else self.offsets
        return [self.rows[begin:end] for begin, end in zip(offsets[:-1], offsets[1:], strict=True)]


@dataclasses.dataclass(eq=False)
class Printer:
    """Makes text of what layers gave, and writes it."""

    # What the original calls it.
    kind: str
    show: Callable[[list[Watched]], str]
    wants_gradient: bool = False
    path: str | None = None
    _has_begun: bool = False

    def write(self, watched: list[Watched]) -> None:
        """Writes what is to be shown: to stderr, or to its file, which begins empty."""
        text = self.show(watched)
        if self.path is None:
            sys.stderr.write(text)
            sys.stderr.flush()
            return
        with open(self.path, "a" if self._has_begun else "w", encoding="utf-8") as file:
            file.write(text)
        self._has_begun = True


def values(watched: list[Watched], what: str = "value") -> str:
    """All numbers of each layer, row by row."""
    return "".join(f"layer={each.name} {what} matrix:\n{matrix(each.rows)}" for each in watched)


def best_columns(watched: list[Watched], count: int) -> str:
    """Of each row the columns of its largest numbers, with these."""
    lines = [f"layer={watched[0].name} row max id vector:\n"]
    lines += [f"{_best(row, count)}\n" for row in watched[0].rows]
    return "".join(lines)


def best_rows(watched: list[Watched], count: int) -> str:
    """Of each sequence of size 1 the rows of its largest numbers, with these."""
    lines = [f"layer={watched[0].name} sequence max frames:\n"]
    lines += [f"{_best(sequence[:, 0], count)}\n" for sequence in watched[0].sequences]
    return "".join(lines)


def errors(watched: list[Watched], threshold: float) -> str:
    """For each row 1 if its best column, or whether it is above the threshold, is wrong."""
    scores, labels = watched[0].rows, watched[1].rows[:, 0]
    found = scores[:, 0] > threshold if scores.shape[1] == 1 else scores.argmax(1)
    wrong = (found != labels).astype(int)
    return f"Printer={watched[0].name} Classification Error:\n{matrix(wrong.reshape(-1, 1))}"


class Text:
    """Sequences of ids as text: the number of the sample or its id, a tab, and its words.

    Sentences of a beam search are lines of their own below that number.
    """

    def __init__(self, dictionary: str | None, delimited: bool) -> None:
        self._between = " " if delimited else ""
        self._words: list[str] | None = None
        if dictionary is not None:
            with open(dictionary, encoding="utf-8") as lines:
                self._words = [line.rstrip("\n") for line in lines]
        self._count = 0

    def __call__(self, watched: list[Watched]) -> str:
        *numbers, last = watched
        texts = self._sentences(last) if last.scores is not None else self._sequences(last)
        lines = []
        for place, text in enumerate(texts):
            number = int(numbers[0].rows[place, 0]) if numbers else self._count
            self._count += 1
            lines.append(f"{number}{text}\n")
        return "".join(lines)

    def _sequences(self, watched: Watched) -> Iterator[str]:
        for sequence in watched.sequences:
            yield f"\t{self._text(sequence[:, 0])}"

    def _sentences(self, watched: Watched) -> Iterator[str]:
        assert watched.scores is not None
        words, at = watched.values.reshape(-1), 0
        for scores in watched.scores:
            lines = []
            for place, score in enumerate(scores):
                end = at + 1 + int(words[at])
                lines.append(f"\n{place}\t{score:g}\t{self._text(words[at + 1 : end])}")
                at = end + 1
            yield "".join(lines) + "\n"

    def _text(self, words: Iterable[Any]) -> str:
        return self._between.join(self._word(int(word)) for word in words)

    def _word(self, word: int) -> str:
        if self._words is None:
            return str(word)
        if not 0 <= word < len(self._words):
            raise mistake.invalid(
                f"the dictionary has {len(self._words)} words, but there is word {word}"
            )
        return self._words[word]


def matrix(rows: Numbers) -> str:
    """A line for each row."""
    return "".join(" ".join(f"{number:.6g}" for number in row) + "\n" for row in rows)


def _best(numbers: Numbers, count: int) -> str:
    places = numpy.argsort(-numbers, kind="stable")[:count]
    return ", ".join(f"{place} : {numbers[place]:.6g}" for place in places)
