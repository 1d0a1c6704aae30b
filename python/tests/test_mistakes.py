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


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("no such mode", r"no such mode \(at: \S+test_mistakes.py:\d+\)"),
        # "format: " ends with "at: ".
        ("bad (format: tar)", r"bad \(format: tar, at: \S+test_mistakes.py:\d+\)"),
        ("refused (os error 111)", r"refused \(os error 111\) \(at: \S+test_mistakes.py:\d+\)"),
        ("bad (size: 3, at: train.py:12)", r"bad \(size: 3, at: train.py:12\)"),
    ],
)
def test_the_users_line_is_added_to_messages_that_do_not_have_it(message, told):
    with pytest.raises(errors.InvalidError) as caught:
        with mistake.reported_here():
            raise errors.InvalidError(message)
    assert re.fullmatch(told, str(caught.value)), caught.value
