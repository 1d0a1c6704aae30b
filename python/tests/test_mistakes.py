"""What the authors of small wrong programs are told.

What each raises is compared with `snapshots/mistakes.txt`; run with `UPDATE_SNAPSHOTS=1` to rewrite
that.
"""

import inspect
import linecache
import os
import pathlib
import re

import pytest
from wrong_programs import CASES

from paddle import errors
from paddle.v2 import config, mistake, naming

SNAPSHOT = pathlib.Path(__file__).parent / "snapshots" / "mistakes.txt"
PLACE = re.compile(r"[^\s()]*wrong_programs/\w+\.py:(\d+)")


def outcome(program):
    """What the author of a wrong program is told, and whether that names the wrong line."""
    naming.reset()
    config._current = config.Settings()
    with pytest.raises(errors.Error) as caught:
        program()
    message = str(caught.value)
    lines = PLACE.findall(message)
    named = linecache.getline(inspect.getfile(program), int(lines[-1])) if lines else ""
    told = "names the wrong line" if named.rstrip().endswith("# wrong") else "names no line"
    text = PLACE.sub("train.py:<line>", message)
    return f"{program.__name__}\n  {type(caught.value).__name__}: {text}\n  {told}\n"


def snapshot():
    entries = SNAPSHOT.read_text().split("\n\n") if SNAPSHOT.exists() else []
    return {entry.split("\n", 1)[0]: entry.rstrip("\n") + "\n" for entry in entries}


@pytest.mark.skipif("UPDATE_SNAPSHOTS" in os.environ, reason="the snapshot is being written")
@pytest.mark.parametrize("program", CASES, ids=lambda program: program.__name__)
def test_a_mistake_is_explained(program):
    assert outcome(program) == snapshot().get(program.__name__)


def test_the_snapshot_has_every_mistake_and_no_other():
    if "UPDATE_SNAPSHOTS" in os.environ:
        SNAPSHOT.parent.mkdir(exist_ok=True)
        SNAPSHOT.write_text("\n".join(outcome(program) for program in CASES))
    assert list(snapshot()) == [program.__name__ for program in CASES]


def test_a_message_names_the_wrong_line_where_one_is_marked():
    told = snapshot()
    for program in CASES:
        if "# wrong" in inspect.getsource(program):
            assert told[program.__name__].endswith("names the wrong line\n"), program.__name__


def test_a_message_that_only_looks_located_still_gets_the_line():
    with pytest.raises(errors.DamagedError, match=r"\(format: 7, at: .*test_mistakes\.py:\d+\)$"):
        with mistake.reported_here():
            raise errors.DamagedError("unknown version (format: 7)")


def test_a_line_that_is_known_is_not_replaced():
    known = mistake.invalid("no")
    with pytest.raises(errors.InvalidError) as caught:
        with mistake.reported_here():
            raise known
    assert caught.value is known


def test_a_message_that_ends_in_other_parentheses_keeps_them():
    with pytest.raises(errors.UnavailableError, match=r"\(os error 111\) \(at: .*:\d+\)$"):
        with mistake.reported_here():
            raise errors.UnavailableError("refused (os error 111)")
