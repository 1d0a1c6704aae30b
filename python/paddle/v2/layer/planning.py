"""Asking the engine what layers give and need.

Within `sketched()` nothing is asked: layers get a plausible size and no parameters. A V1
configuration is read once like that, because which data layer is fed with what is known only when
all layers are there.
"""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from paddle import _native

_is_sketching = False


class _AnyLevel(str):
    """A level of sequences that passes every check."""

    def __eq__(self, _other: object) -> bool:
        return True

    def __ne__(self, _other: object) -> bool:
        return False

    __hash__ = str.__hash__


def is_any_level(level: str) -> bool:
    """Whether a level is one of a sketch, which may turn out to be any."""
    return isinstance(level, _AnyLevel)


@contextlib.contextmanager
def sketched() -> Iterator[None]:
    """Layers that are made in this block have names and inputs; their sizes are guesses."""
    global _is_sketching
    before, _is_sketching = _is_sketching, True
    try:
        yield
    finally:
        _is_sketching = before


def differ(said: object, found: object) -> bool:
    """Whether what a program says of a layer is not what is found; unknown in a sketch, so no."""
    return not _is_sketching and said != found


def plan_layer(description: Mapping[str, Any], shapes: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The shape of a layer's output, and its parameters."""
    if _is_sketching:
        return {"shape": _guess(description["attributes"], shapes), "parameters": []}
    planned: dict[str, Any] = json.loads(
        _native.plan_layer(json.dumps(description), json.dumps(shapes))
    )
    return planned


def check_evaluator(description: Mapping[str, Any], shapes: Sequence[dict[str, Any]]) -> None:
    """Raises if an evaluator cannot look at such layers."""
    if not _is_sketching:
        _native.check_evaluator(json.dumps(description), json.dumps(shapes))


def _guess(attributes: Mapping[str, Any], shapes: Sequence[dict[str, Any]]) -> dict[str, Any]:
    size = attributes.get("size")
    if not isinstance(size, int) or size <= 0:
        size = shapes[0]["size"] if shapes else 1
    return {"size": size, "value": "dense", "level": _AnyLevel("sequence"), "is_data": not shapes}
