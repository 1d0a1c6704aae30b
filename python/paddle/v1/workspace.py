"""Paths that V1 programs expect at the root of a container, and find in the workspace elsewhere.

Programs written for the original cloud read `/trainer_id` and `/trainer_count`, and write
`/train.list` and `/test.list`. Where `/` is private to the replica these are plain files. Elsewhere
a launcher puts the first two into the workspace, and the lists belong there too.
"""

import builtins
import logging
import os
from typing import Any

_NAMES = ("/trainer_id", "/trainer_count", "/train.list", "/test.list")
_told: set[str] = set()


def resolve(path: Any) -> Any:
    """The path to use instead of one of those, if they are in the workspace."""
    if path not in _NAMES or os.path.exists("/trainer_id") or not os.path.exists("trainer_id"):
        return path
    moved = f".{path}"
    if path not in _told:
        _told.add(path)
        logging.getLogger("paddle").info(
            "%s is %s here: / is not private to this trainer", path, moved
        )
    return moved


def open_file(file: Any, *arguments: Any, **named: Any) -> Any:
    """`open`, as configurations have it."""
    return builtins.open(resolve(file), *arguments, **named)
