"""Reading a configuration whose data is not at hand: the types of its inputs are guessed.

A data layer that a table is looked up by, or that is the label of a classification, is an integer;
others are dense. Whether they are sequences is found by trying. For `dump_config`, `make_diagram`
and `merge_model`, which need the network and not the data.
"""

from collections.abc import Mapping
from typing import Any

from paddle import errors
from paddle.v1 import configuration
from paddle.v1.configuration import Configuration
from paddle.v1.provider import Providers
from paddle.v1.recording import Recording
from paddle.v2.data_type import DataType, InputType
from paddle.v2.layer import Layer

# Costs, and layers, whose last input is the right id.
_LABELLED = (
    "cross_entropy",
    "crf",
    "ctc",
    "nce",
    "hsigmoid",
    "crf_decoding",
    "huber_classification",
)


class Guessed:
    """Types of inputs: the provider's if it can be asked, else guesses."""

    def __init__(self) -> None:
        self._level = 0
        self._is_guess = False

    def read(self, path: str, arguments: Mapping[str, str]) -> Configuration:
        """Reads a configuration."""
        refused: errors.Error | None = None
        for self._level in range(3):
            try:
                return configuration.read(path, arguments, self._find)
            except errors.Error as error:
                refused = refused or error
                if not self._is_guess:
                    raise
        assert refused is not None
        raise refused

    def _find(self, recording: Recording, order: list[str]) -> Any:
        try:
            return Providers().find_types(recording, order)
        except (errors.Error, OSError):
            self._is_guess = True
        integers = _integers(recording)
        return {
            name: InputType(
                layer.size, self._level, DataType.Index if name in integers else DataType.Dense
            )
            for name, layer in recording.data_layers.items()
        }


def _integers(recording: Recording) -> set[str]:
    """The names of data layers that are looked up with, or are labels."""
    found: set[str] = set()
    seen: set[int] = set()
    waiting = [*recording.outputs, *(each for e in recording.evaluators for each in e.inputs)]
    while waiting:
        layer = waiting.pop()
        if layer.serial in seen:
            continue
        seen.add(layer.serial)
        waiting.extend(layer.parents)
        found.update(parent.name for parent in _looked_up(layer) if parent.type is not None)
    return found


def _looked_up(layer: Layer) -> list[Layer]:
    if layer.kind in _LABELLED:
        return [layer.parents[1]] if len(layer.parents) > 1 else []
    if layer.kind != "mixed":
        return []
    projections = layer.describe()["attributes"].get("projections", [])
    pairs = zip(projections, layer.parents, strict=False)
    return [parent for projection, parent in pairs if projection.get("name") == "table"]
