"""Layers of projections: `mixed`, their sum, and their columns side by side, a `concat` of them.

The projections of a mixed layer are given at once or term by term in a `with` block.

with paddle.layer.mixed(size=256) as hidden:
    hidden += paddle.layer.full_matrix_projection(input=x)
    hidden += paddle.layer.table_projection(input=word)
"""

from types import TracebackType
from typing import Any

from paddle.v2 import mistake, naming
from paddle.v2.layer.base import Finish, Layer, by_slot, describe
from paddle.v2.layer.projection import Projection, identity_projection


class MixedLayer(Layer):
    """A mixed layer; until its `with` block ends it is open, and takes projections only."""

    def __init__(self, description: dict[str, Any], finish: Finish) -> None:
        self.name = description["name"]
        self.place = description["place"]
        self.evaluators = []
        self.others = {}
        self._open: dict[str, Any] | None = description
        self._finish = finish
        self._terms: list[Projection] = []

    def add_term(self, term: object) -> None:
        """Takes a projection, or a layer as it is."""
        if isinstance(term, Layer):
            term = identity_projection(input=term)
        if not isinstance(term, Projection):
            raise mistake.wrong_type(
                "this layer is made of projections like "
                "paddle.layer.full_matrix_projection(input=x), or layers as they are, but is given "
                + mistake.kind_of(term),
                layer=self.name,
            )
        self._terms.append(term)

    def close(self) -> None:
        """No more projections; sizes are found."""
        if self._open is None:
            return
        if not self._terms:
            raise mistake.invalid(
                "this mixed layer has no projections; add them with `input=` or in a `with` block",
                layer=self.name,
            )
        description = self._open
        projections = [term.description for term in self._terms]
        attributes = {**description["attributes"], "projections": projections}
        inputs = [layer for term in self._terms for layer in term.inputs]
        weights = [term.attr for term in self._terms for _ in term.inputs]
        description = {**description, "attributes": attributes}
        self._plan(description, inputs, by_slot(weights, self._finish))
        self._open = None

    def __enter__(self) -> "MixedLayer":
        if self._open is None:
            raise mistake.invalid(
                "this mixed layer has its projections already; give `input=` or use a `with` "
                "block, not both",
                layer=self.name,
            )
        return self

    def __exit__(
        self,
        exception: type[BaseException] | None,
        _value: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        if exception is None:
            self.close()

    def __iadd__(self, other: object) -> Layer:
        if self._open is None:
            if isinstance(other, Projection):
                raise mistake.invalid(
                    "this mixed layer is complete; add projections inside its `with` block",
                    layer=self.name,
                )
            return self + other
        self.add_term(other)
        return self

    def __getattr__(self, name: str) -> Any:
        # Reached only for what planning sets.
        if name in ("shape", "parents", "parameters", "serial", "slots", "within", "_description"):
            raise mistake.invalid(
                "this mixed layer is not complete; give `input=` or use it after its `with` block",
                layer=self.name,
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


@mistake.checked_arguments
def mixed(
    size: int | None = 0,
    input: object = None,
    name: str | None = None,
    act: object = None,
    bias_attr: object = False,
    layer_attr: object = None,
) -> MixedLayer:
    """The sum of projections; its size is theirs unless given."""
    finish = Finish(act, bias_attr, layer_attr)
    asked = None if size is None else mistake.whole("size", size, least=0) or None
    description = describe(naming.choose(name, "mixed"), "mixed", finish, {"size": asked})
    layer = MixedLayer(description, finish)
    if input is not None:
        terms = input if isinstance(input, (list, tuple)) else [input]
        for term in terms:
            layer.add_term(term)
        layer.close()
    return layer


def concatenated(name: str, terms: list[Any], finish: Finish) -> Layer:
    """The columns of projections side by side, each of its own size."""
    layer = MixedLayer(describe(name, "mixed", finish, {"is_concatenated": True}), finish)
    for term in terms:
        layer.add_term(term)
    layer.close()
    return layer
