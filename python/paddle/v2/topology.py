"""A network as a whole: every layer that some outputs need, with its parameters and evaluators.

Layers come in the order in which the program made them, and so do the data layers: a sample's
values are fed in that order unless `feeding` says otherwise.
"""

import dataclasses
import json
from collections.abc import Iterable
from typing import Any, BinaryIO

from paddle import errors
from paddle.v2 import mistake
from paddle.v2.attr import ParamAttr
from paddle.v2.data_type import InputType
from paddle.v2.evaluator import Evaluator, attach
from paddle.v2.files import binary_file
from paddle.v2.layer.base import Layer, Parameter, check_shared, several
from paddle.v2.model_config import Message, model_config

FORMAT = "paddle.v2 network"
VERSION = 1


class Topology:
    """What `layers` need; `extra_layers` are computed too, for evaluators, but not trained on."""

    @mistake.checked_arguments
    def __init__(self, layers: Any, extra_layers: Any = None) -> None:
        self.outputs = several("layers", layers)
        self.extra_layers = extra = _extra(extra_layers)
        self.layers = sorted(_needed([*self.outputs, *extra]), key=lambda layer: layer.serial)
        self._by_name = _by_name(self.layers)
        self.parameters = _parameters(self.layers)
        self.evaluators = _evaluators(self.layers)

    def to_json(self) -> str:
        """As the engine reads it."""
        return json.dumps(self._describe())

    def descriptions(self) -> list[dict[str, Any]]:
        """The parameters: name, dims, is_sparse, is_static, initializer, and what the user said.

        `attr` is that; with an optimizer `paddle.optimizer.merge_settings` makes settings of it.
        """
        return [
            {
                "name": parameter.name,
                "dims": list(parameter.dims),
                "is_sparse": parameter.attr.sparse_update,
                "is_static": parameter.attr.is_static,
                "initializer": parameter.initializer,
                "attr": parameter.attr,
            }
            for parameter in self.parameters.values()
        ]

    def extra_descriptions(self) -> list[dict[str, Any]]:
        """As `descriptions`, of the parameters that nothing but `extra_layers` needs."""
        needed = _parameters(_needed(self.outputs))
        return [each for each in self.descriptions() if each["name"] not in needed]

    def data_layers(self) -> dict[str, Layer]:
        """The data layers by name, in the order of feeding."""
        return {layer.name: layer for layer in self.layers if layer.type is not None}

    def data_type(self) -> list[tuple[str, InputType]]:
        """Name and type of the data layers, in the order of feeding."""
        return [(layer.name, layer.type) for layer in self.layers if layer.type is not None]

    def get_layer(self, name: str) -> Layer:
        """The layer of that name."""
        layer = self._by_name.get(name)
        if layer is None:
            hint = mistake.suggestion(name, self._by_name)
            raise mistake.invalid(f"the network has no layer {name!r}{hint}")
        return layer

    def proto(self) -> Message:
        """The network as the original's `ModelConfig`: a text by `str`, bytes by
        `SerializeToString`, and its fields as attributes."""
        return model_config(self)

    def serialize_for_inference(self, file: BinaryIO) -> None:
        """Writes the network, without values, to a file that `load` reads."""
        types = {name: dataclasses.astuple(type) for name, type in self.data_type()}
        # First values do not matter to a network that is to be run with values.
        said = {
            name: {**dataclasses.asdict(use.attr), "initializer": None}
            for name, use in self.parameters.items()
        }
        content = {
            "format": FORMAT,
            "version": VERSION,
            "topology": self._describe(),
            "extra_layers": [layer.name for layer in self.extra_layers],
            "data_types": types,
            "slots": {layer.name: layer.slots for layer in self.layers if layer.slots},
            "attributes": said,
        }
        binary_file("write", file).write(json.dumps(content, indent=1).encode() + b"\n")

    @staticmethod
    def load(file: BinaryIO) -> "Topology":
        """Reads what `serialize_for_inference` wrote."""
        try:
            content = json.loads(binary_file("read", file).read())
            if (content["format"], content["version"]) == (FORMAT, VERSION):
                return _load(content)
        except (ValueError, TypeError, KeyError) as error:
            if isinstance(error, errors.Error):
                raise
        raise mistake.invalid(
            f"not a {FORMAT} of version {VERSION}; give what serialize_for_inference wrote"
        )

    def _describe(self) -> dict[str, Any]:
        return {
            "layers": [layer.describe() for layer in self.layers],
            "parameters": [
                {
                    "name": parameter.name,
                    "dims": list(parameter.dims),
                    "is_sparse": parameter.attr.sparse_update,
                    "is_static": parameter.attr.is_static,
                }
                for parameter in self.parameters.values()
            ],
            "outputs": [layer.name for layer in self.outputs],
            "evaluators": [each.describe(name) for name, each in self.evaluators.items()],
        }


def _extra(given: Any) -> list[Layer]:
    """The layers of `extra_layers`. An evaluator among them stands for the layers it looks at, and
    None, which the original's evaluators return, for nothing."""
    found: list[Layer] = []
    for each in given if isinstance(given, (list, tuple)) else [given]:
        if isinstance(each, Evaluator):
            found.extend(each.inputs)
        elif each is not None:
            found.extend(several("extra_layers", each))
    return list(dict.fromkeys(found))


def _needed(outputs: Iterable[Layer]) -> set[Layer]:
    needed: set[Layer] = set()
    # A list of its own: networks may be deeper than Python's stack allows.
    waiting = list(outputs)
    while waiting:
        layer = waiting.pop()
        if layer not in needed:
            needed.add(layer)
            waiting.extend(layer.parents)
    return needed


def _by_name(layers: Iterable[Layer]) -> dict[str, Layer]:
    by_name: dict[str, Layer] = {}
    for layer in layers:
        first = by_name.setdefault(layer.name, layer)
        if first is not layer:
            raise mistake.invalid(
                f"two layers of the network have the name {layer.name!r}: one of "
                f"{first.place}, one of {layer.place}; rename one"
            )
    return by_name


def _parameters(layers: Iterable[Layer]) -> dict[str, Parameter]:
    parameters: dict[str, Parameter] = {}
    for layer in layers:
        for name, parameter in layer.parameters.items():
            first = parameters.setdefault(name, parameter)
            check_shared(first, parameter)
            # What the first layer says counts; a later one may leave it out but not contradict.
            for field in ("sparse_update", "is_static"):
                if getattr(parameter.attr, field) and not getattr(first.attr, field):
                    raise mistake.invalid(
                        f"parameter {name!r} has {field} in layer {parameter.layer!r} "
                        f"({parameter.place}) but not where it is first used, in layer "
                        f"{first.layer!r} ({first.place}); say it there"
                    )
    return parameters


def _evaluators(layers: list[Layer]) -> dict[str, Evaluator]:
    there = set(layers)
    evaluators: dict[str, Evaluator] = {}
    for evaluator in dict.fromkeys(each for layer in layers for each in layer.evaluators):
        if there.issuperset(evaluator.inputs):
            # Two costs may each bring one of the same name; both figures are wanted.
            name, number = evaluator.name, 0
            while name in evaluators:
                number += 1
                name = f"{evaluator.name}_{number}"
            evaluators[name] = evaluator
    return evaluators


def _load(content: dict[str, Any]) -> Topology:
    topology = content["topology"]
    said = {name: ParamAttr(**each) for name, each in content["attributes"].items()}
    layers: dict[str, Layer] = {}
    for description in topology["layers"]:
        parents = [layers[name] for name in description["inputs"]]
        slots = content["slots"].get(description["name"], {})
        # Every name is explicit here, so that a parameter keeps the one it has in the file.
        attributes = {
            slot: dataclasses.replace(said[name], name=name) for slot, name in slots.items()
        }
        layer = Layer(description, parents, attributes)
        if layer.name in content["data_types"]:
            layer.type = InputType(*content["data_types"][layer.name])
        layers[layer.name] = layer
    for each in topology["evaluators"]:
        inputs = [layers[name] for name in each["inputs"]]
        attach(each["kind"], each["name"], inputs, each["attributes"])
    outputs = [layers[name] for name in topology["outputs"]]
    extra = [layers[name] for name in content["extra_layers"]]
    return Topology(outputs, extra or None)
