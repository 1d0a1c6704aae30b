"""Sentences of CoNLL-2000 as ids: words, parts of speech, features of both, and chunk tags.

The ids are those of the training file, so every trainer needs that file whole.
"""

import collections
import gzip

from paddle import job

TYPES = ["ADJP", "ADVP", "CONJP", "INTJ", "LST", "NP", "PP", "PRT", "SBAR", "UCP", "VP"]
# B and I of every type, and O.
TAGS = [f"{mark}-{kind}" for kind in TYPES for mark in "BI"] + ["O"]
TAG_IDS = {tag: place for place, tag in enumerate(TAGS)}

# What a sample is made of.
COLUMNS = ["word", "part", "features", "chunk"]

# How often a word or feature must occur to have an id of its own; 0 is for all others.
WORD_COUNT_MIN = 3
FEATURE_COUNT_MIN = 3

# A feature is what stands at these places, counted from the row: of words, of parts of speech.
WORD_PLACES = [(-2,), (-1,), (0,), (1,), (2,), (-1, 0), (0, 1)]
PART_PLACES = [(-2,), (-1,), (0,), (1,), (2,), (-2, -1), (-1, 0), (0, 1), (1, 2)]
PART_PLACES += [(-2, -1, 0), (-1, 0, 1), (0, 1, 2)]


def sentences(path):
    """The sentences of a file, compressed or not, each a list of (word, part, tag)."""
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8") as file:
        rows = []
        for line in file:
            if line.strip():
                rows.append(tuple(line.split()))
            elif rows:
                yield rows
                rows = []
        if rows:
            yield rows


def own_files(path, is_shared):
    """The files of a list; where trainers share one list, every n-th of them."""
    with open(path, encoding="utf-8") as file:
        files = [line.strip() for line in file if line.strip()]
    return files[job.rank :: job.trainers] if is_shared else files


def features(rows):
    """The features of every row of a sentence, as texts."""
    columns = [[word for word, _, _ in rows], [part for _, part, _ in rows]]

    def at(column, place):
        return column[place] if 0 <= place < len(rows) else "#"

    return [
        [
            f"{number}:{places}=" + "/".join(at(column, row + place) for place in places)
            for number, (column, templates) in enumerate(
                zip(columns, (WORD_PLACES, PART_PLACES), strict=True)
            )
            for places in templates
        ]
        for row in range(len(rows))
    ]


class Dictionary:
    """Ids of words, parts of speech and features."""

    def __init__(self, path):
        words, parts, seen = (collections.Counter() for _ in range(3))
        for rows in sentences(path):
            words.update(word for word, _, _ in rows)
            parts.update(part for _, part, _ in rows)
            for row in features(rows):
                seen.update(row)
        self.words = _ids(words, WORD_COUNT_MIN)
        self.parts = _ids(parts, 1)
        self.features = _ids(seen, FEATURE_COUNT_MIN)

    def sample(self, rows):
        """A sentence as ids, column by column."""
        known = [[self.features.get(each, 0) for each in row] for row in features(rows)]
        return (
            [self.words.get(word, 0) for word, _, _ in rows],
            [self.parts.get(part, 0) for _, part, _ in rows],
            [sorted(set(row)) for row in known],
            [TAG_IDS[tag] for _, _, tag in rows],
        )

    def read(self, path, rank=0, ranks=1):
        """A reader of the sentences that are dealt to this rank, one by one."""
        held = [self.sample(rows) for rows in sentences(path)]
        return lambda: iter(held[rank::ranks])


def _ids(counts, least):
    known = sorted((-count, text) for text, count in counts.items() if count >= least)
    return {text: place for place, (_, text) in enumerate(known, start=1)}
