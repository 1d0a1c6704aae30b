"""Files that appear under their name complete, or not at all."""

import contextlib
import os
import uuid
from collections.abc import Iterator
from typing import BinaryIO


@contextlib.contextmanager
def published(path: str) -> Iterator[BinaryIO]:
    """A file to write to, which becomes `path` when the block ends well; folders are made."""
    folder, name = os.path.split(path)
    os.makedirs(folder or ".", exist_ok=True)
    # Hidden, so that no glob finds it; of its own name, so that processes do not meet in it.
    hidden = os.path.join(folder, f".{name}.{uuid.uuid4().hex}")
    try:
        with open(hidden, "xb") as file:
            yield file
        os.replace(hidden, path)
    except BaseException:
        os.unlink(hidden)
        raise
