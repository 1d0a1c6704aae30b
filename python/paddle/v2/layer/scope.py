"""Where layers are made: in the network itself, or in the step of a recurrent group.

Layers of a step carry the name of their group, `state@decoder`, and so do their parameters. They
see layers of the network around them only through the group's inputs.
"""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from paddle.v2 import mistake

if TYPE_CHECKING:
    from paddle.v2.layer.base import Layer
    from paddle.v2.layer.step import Memory


class Scope:
    """The step of a group, while it is described: what was made in it so far."""

    def __init__(self, name: str, around: "Scope | None") -> None:
        self.name = name
        self.around = around
        self.layers: dict[str, Layer] = {}
        self.memories: list[Memory] = []

    def qualify(self, name: str) -> str:
        """The name of a layer of this step, in full."""
        suffix = f"@{self.name}"
        return name if name.endswith(suffix) else name + suffix

    def add(self, layer: "Layer") -> None:
        """Takes a layer that was made."""
        first = self.layers.setdefault(layer.name, layer)
        if first is not layer:
            raise mistake.invalid(
                f"two layers of the step have the name {layer.name!r}; rename one",
                first=first.place,
            )


_current: Scope | None = None


def current() -> Scope | None:
    """The step that is being described; None in the network itself."""
    return _current


def qualify(name: str) -> str:
    """The full name of a layer that is made here."""
    return name if _current is None else _current.qualify(name)


@contextlib.contextmanager
def opened(name: str) -> Iterator[Scope]:
    """Layers made inside belong to the step of the group `name`."""
    global _current
    before = _current
    _current = Scope(qualify(name), before)
    try:
        yield _current
    finally:
        _current = before


def check_visible(layer: "Layer", here: Scope | None) -> None:
    """Checks that a layer may be used where layers are made now."""
    if layer.within is here:
        return
    inside = here
    while inside is not None and inside is not layer.within:
        inside = inside.around
    if inside is layer.within:
        raise mistake.invalid(
            f"layer {layer.name!r} was made outside this step; give it to the group as "
            "paddle.layer.StaticInput, or as a sequence to go along, and use what the step gets "
            "for it",
            made=layer.place,
        )
    raise mistake.invalid(
        f"layer {layer.name!r} belongs to the step of a group and is not seen outside of it; "
        "return it from the step and use what the group returns",
        made=layer.place,
    )
