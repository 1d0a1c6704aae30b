"""What users hand over to be read or written, checked with words that say what to do."""

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from paddle import errors
from paddle.v2 import mistake

__all__ = ["binary_file", "reported_file", "reported_pickles"]


def binary_file(method: str, file: Any) -> Any:
    """A file whose `method`, read or write, takes bytes."""
    mode = "wb" if method == "write" else "rb"
    name = file if isinstance(file, str) else getattr(file, "name", None)
    opened = f"open({name!r}, {mode!r})" if isinstance(name, str) else f"open(…, {mode!r})"
    if isinstance(file, str):
        raise mistake.wrong_type(f"needs an open file, not a path; use {opened}")
    if not hasattr(file, method):
        raise mistake.wrong_type(
            f"needs a file opened to {method} bytes but got {mistake.kind_of(file)}"
        )
    if hasattr(file, "encoding"):
        raise mistake.wrong_type(f"the file is opened as text, but models are bytes; use {opened}")
    is_able = getattr(file, "writable" if method == "write" else "readable", None)
    if callable(is_able) and not is_able():
        raise mistake.wrong_type(f"the file is not opened to {method}; use {opened}")
    return file


@contextmanager
def reported_file(file: Any) -> Iterator[None]:
    """Adds the name of an open file to what is said of its content."""
    try:
        yield
    except errors.DamagedError as error:
        name = getattr(file, "name", None)
        if not isinstance(name, str):
            raise
        # A file that is not what it should be may show any bytes of it.
        text = "".join(letter if letter.isprintable() else "?" for letter in str(error))
        raise errors.DamagedError(f"{name}: {text}") from None


@contextmanager
def reported_pickles(loader: Any, **context: object) -> Iterator[None]:
    """Says what to do where Python's own unpickling, as the default `loader`, fails."""
    try:
        yield
    except Exception as error:
        if isinstance(error, errors.Error) or loader not in (pickle.load, pickle.loads):
            raise
        fix = "give loader=function, which makes samples of "
        fix += "the file" if loader is pickle.load else "a record, or loader=None for its bytes"
        raise mistake.invalid(
            f"cannot unpickle what was read ({type(error).__name__}: {error}); {fix}", **context
        ) from error
