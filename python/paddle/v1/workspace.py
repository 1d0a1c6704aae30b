"""Paths that V1 programs expect at the root of a container, and find in the workspace elsewhere.

Programs written for the original cloud read `/trainer_id` and `/trainer_count`, and write
`/train.list` and `/test.list`. Where `/` is private to the trainer these are plain files. Elsewhere
they are in the workspace, if a launcher has put the first two there for this trainer, else, as
trainers may share a workspace, in a folder of this trainer's own among the logs.
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


def explained(path: Any) -> str:
    """What an error about one of those paths lacks: where the file is here. Empty for others."""
    if path not in _NAMES:
        return ""
    folder = _folder()
    if folder == "/":
        return ""
    here = "; / is not private to this trainer"
    if folder is None:
        return f"{here}, and PADDLE_INIT_TRAINER_ID does not say which one it is"
    moved = os.path.join(folder, path[1:])
    return f"{here}: import open from paddle.trainer_config_helpers, which finds it as {moved}"


def own_folder(rank: int | str) -> str:
    """The folder of a trainer among the logs, also where all trainers have one PADDLE_LOG_DIR."""
    folder, name = os.path.normpath(os.environ.get("PADDLE_LOG_DIR") or "log"), f"trainer-{rank}"
    return folder if os.path.basename(folder) == name else os.path.join(folder, name)


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
    own = own_folder(rank)
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
