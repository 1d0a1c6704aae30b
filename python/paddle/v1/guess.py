"""Reading a configuration whose data is not at hand: the types of its inputs are guessed.

A data layer that a table is looked up by, or that is the label of a classification, is an integer;
others are dense. What a layer over sequences needs is a sequence, up to where sequences end. For
`dump_config`, `make_diagram` and `merge_model`, which need the network and not the data.
"""

from collections.abc import Mapping
from typing import Any

from paddle import errors
from paddle.v1 import configuration
from paddle.v1.configuration import Configuration
from paddle.v1.log import log
from paddle.v1.provider import Providers
from paddle.v1.recording import Recording
from paddle.v2.data_type import DataType, InputType
from paddle.v2.layer import Layer

# Costs, and layers, whose second input is the right id.
_LABELLED = (
    "cross_entropy", "crf", "ctc", "nce", "hsigmoid", "crf_decoding", "huber_classification",
)  # fmt: skip
# Layers whose inputs are sequences, and layers that make one row of a sequence.
_OVER_SEQUENCES = (
    "pooling", "sequence_end", "recurrent", "lstmemory", "grumemory", "crf", "ctc", "crf_decoding",
    "recurrent_group", "sequence_concat", "sequence_reshape", "sequence_slice",
)  # fmt: skip
_ENDING_SEQUENCES = ("pooling", "sequence_end")


class Guessed:
    """Types of inputs: the provider's if it can be asked, else guesses."""

    def __init__(self) -> None:
        self._level = 0
        self._is_guess = False
        self._is_told = False

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
        except (errors.Error, OSError) as error:
            self._is_guess = True
            has_data = (recording.train or recording.test) is not None
            if has_data and not self._is_told:
                self._is_told = True
                log.warning(
                    "the types of the inputs are guessed, as the data provider cannot be asked: "
                    f"{error}"
                )
        layers = _all(recording)
        integers = {parent.name for layer in layers for parent in _looked_up(layer)}
        sequences = _sequences(layers)

        def guess(name: str, layer: Layer) -> InputType:
            level = self._level or int(name in sequences)
            kind = DataType.Index if name in integers else DataType.Dense
            return InputType(layer.size, level, kind)

        return {name: guess(name, layer) for name, layer in recording.data_layers.items()}


def _all(recording: Recording) -> list[Layer]:
    """Every layer that outputs and evaluators need."""
    found: dict[int, Layer] = {}
    waiting = [*recording.outputs, *(each for e in recording.evaluators for each in e.inputs)]
    while waiting:
        layer = waiting.pop()
        if layer.serial not in found:
            found[layer.serial] = layer
            waiting.extend(layer.parents)
    return list(found.values())


def _sequences(layers: list[Layer]) -> set[str]:
    """The names of layers that must be sequences, data layers among them."""
    found: set[str] = set()
    waiting = [p for layer in layers if layer.kind in _OVER_SEQUENCES for p in layer.parents]
    waiting += [parent for layer in layers if _has_context(layer) for parent in layer.parents]
    waiting += [layer.parents[1] for layer in layers if layer.kind == "expand"]
    while waiting:
        layer = waiting.pop()
        if layer.name in found:
            continue
        found.add(layer.name)
        if layer.kind == "expand":
            waiting.append(layer.parents[1])
        elif layer.kind not in _ENDING_SEQUENCES:
            waiting.extend(layer.parents)
    return found


def _has_context(layer: Layer) -> bool:
    return any(each.get("name") == "context" for each in _projections(layer))


def _projections(layer: Layer) -> list[dict[str, Any]]:
    attributes = layer.describe().get("attributes", {})
    return list(attributes.get("projections", [])) if layer.kind == "mixed" else []


def _looked_up(layer: Layer) -> list[Layer]:
    """The inputs of a layer that are ids."""
    if layer.kind in _LABELLED:
        return list(layer.parents[1:2])
    pairs = zip(_projections(layer), layer.parents, strict=False)
    return [parent for projection, parent in pairs if projection.get("name") == "table"]
