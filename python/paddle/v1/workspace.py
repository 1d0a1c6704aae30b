"""Paths that V1 programs expect at the root of a container, and find in the workspace elsewhere.

Programs written for the original cloud read `/trainer_id` and `/trainer_count`, and write
`/train.list` and `/test.list`. Where `/` is private to the trainer these are plain files. Elsewhere
they are in the workspace, if a launcher has put the first two there for this trainer, else, as
trainers may share a workspace, in the trainer's own folder of it, `PADDLE_LOG_DIR`.
"""

import builtins
import logging
import os
from typing import Any

_ID, _COUNT = "trainer_id", "trainer_count"
_NAMES = (f"/{_ID}", f"/{_COUNT}", "/train.list", "/test.list")
_told: set[str] = set()


def resolve(path: Any) -> Any:
    """The path to use instead of one of those, if `/` is not private to this trainer."""
    if path not in _NAMES:
        return path
    folder = _folder()
    if folder in (None, "/"):
        return path
    moved = os.path.join(folder, path[1:])
    if path not in _told:
        _told.add(path)
        logging.getLogger("paddle").info(
            "%s is %s here: / is not private to this trainer", path, moved
        )
    return moved


def open_file(file: Any, *arguments: Any, **named: Any) -> Any:
    """`open`, as configurations have it."""
    return builtins.open(resolve(file), *arguments, **named)


def _folder() -> str | None:
    """Where those files are; None if nobody has said which trainer this is."""
    rank = os.environ.get("PADDLE_INIT_TRAINER_ID")
    told = {_ID: rank, _COUNT: os.environ.get("PADDLE_INIT_NUM_GRADIENT_SERVERS") or "1"}
    for folder in ("/", "."):
        found = {name: _read(os.path.join(folder, name)) for name in told}
        # Those of another trainer, or of an earlier job, are none of ours.
        if found == told or (not rank and found[_ID] is not None):
            return folder
    if not rank:
        return None
    own = os.environ.get("PADDLE_LOG_DIR") or "."
    os.makedirs(own, exist_ok=True)
    for name, text in told.items():
        with builtins.open(os.path.join(own, name), "w", encoding="utf-8") as file:
            file.write(f"{text}\n")
    return own


def _read(path: str) -> str | None:
    try:
        with builtins.open(path, encoding="utf-8") as file:
            return file.read(64).strip()
    except (OSError, UnicodeDecodeError):
        return None
