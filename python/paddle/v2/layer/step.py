"""The step of a recurrent group or a beam search: what it sees, what it remembers, what it is.

A step is a function that the user writes. It is called once, with a layer for each input of the
group, and the layers that it makes are a network of their own.
"""

import dataclasses
import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from paddle.v2 import activation, attr, mistake, naming
from paddle.v2.layer import scope
from paddle.v2.layer.base import Layer, one, several


class Seen(Layer):
    """What a step sees of an input of its group."""

    def __init__(self, name: str, shape: Mapping[str, Any]) -> None:
        self._stand_for(scope.qualify(name), {**shape, "is_data": False})


class Memory(Seen):
    """What a layer gave in the step before; what `paddle.layer.memory` returns."""

    def __init__(self, name: str, of: str | None, shape: Mapping[str, Any]) -> None:
        super().__init__(name, shape)
        self.of = of
        self.boot: Layer | None = None
        self.boot_id: int | None = None
        self.bias: attr.ParamAttr | None = None
        self.boot_activation = "linear"

    def set_input(self, input: Layer) -> None:
        """Says which layer is remembered, of a memory that was made without a name."""
        self.of = one("input", input).name

    def describe_memory(self, of: Layer, boot: str | None) -> dict[str, Any]:
        """As the engine reads it; `boot` is what the step calls the layer it begins with."""
        return {
            "name": self.name,
            "of": of.name,
            "size": self.size,
            "is_sequence": self.shape["level"] != "single",
            "boot": boot,
            "boot_id": self.boot_id,
            "has_bias": self.bias is not None,
            "activation": self.boot_activation,
        }


@mistake.checked_arguments
def memory(
    name: str | None,
    size: int,
    memory_name: str | None = None,
    is_seq: bool = False,
    boot_layer: Layer | None = None,
    boot_bias: object = None,
    boot_bias_active_type: object = None,
    boot_with_const_id: int | None = None,
) -> Layer:
    """In a step: what its layer `name` gave in the step before.

    In the first step it is 0, or `boot_layer`, a layer outside the group; with `boot_bias` a
    learnt row is added, and `boot_bias_active_type` applied. `boot_with_const_id` is for a layer
    of ids. If `boot_layer` is a sequence the memory is one, and so must be the layer it remembers;
    `is_seq` need not say so. With `name=None`, `set_input(layer)` says later which layer is meant.
    """
    inside = scope.current()
    if inside is None:
        raise mistake.invalid(
            "a memory belongs to a step: call memory in the function that is given to "
            "recurrent_group or beam_search"
        )
    if name is not None and not isinstance(name, str):
        raise mistake.wrong_type(f"name must be a str but is {mistake.kind_of(name)}")
    own = memory_name or naming.choose(name and f"{name}+delay1", "memory")
    shape = {
        "size": mistake.whole("size", size),
        "value": "dense" if boot_with_const_id is None else "integer",
        "level": "sequence" if mistake.truth("is_seq", is_seq) else "single",
    }
    boot = None if boot_layer is None else one("boot_layer", boot_layer)
    if boot is not None:
        scope.check_visible(boot, inside.around)
        if boot.shape["level"] == "sequence":
            shape["level"] = "sequence"
    made = Memory(own, name and inside.qualify(name), shape)
    made.boot = boot
    if boot_with_const_id is not None:
        made.boot_id = mistake.whole("boot_with_const_id", boot_with_const_id, least=0)
    made.bias = attr.bias(boot_bias, False)
    if made.bias is not None:
        made.boot_activation = activation.name_of(boot_bias_active_type, activation.Linear)
    inside.memories.append(made)
    return made


@dataclasses.dataclass
class Step:
    """A step in the making: what its group gives it, and in which role."""

    inside: scope.Scope
    links: list[dict[str, str]] = dataclasses.field(default_factory=list)
    inputs: list[Layer] = dataclasses.field(default_factory=list)
    # Those that it needs, once it is described.
    layers: list[Layer] = dataclasses.field(default_factory=list)

    def see(self, layer: Layer, role: str, level: str) -> Layer:
        """What the step sees of a layer outside of it."""
        scope.check_visible(layer, self.inside.around)
        taken = {link["name"] for link in self.links}
        names = itertools.chain([layer.name], (f"{layer.name} {n}" for n in itertools.count(2)))
        name = next(name for name in names if self.inside.qualify(name) not in taken)
        seen = Seen(name, {**layer.shape, "level": level})
        self.links.append({"name": seen.name, "role": role})
        self.inputs.append(layer)
        return seen

    def describe(self, outputs: Iterable[Layer]) -> dict[str, Any]:
        """The step as the engine reads it, now that it gave its outputs."""
        outputs = list(outputs)
        for output in outputs:
            scope.check_visible(output, self.inside)
        memories = [(each, self._remembered(each)) for each in self.inside.memories]
        described = []
        for each, of in memories:
            boot = None
            if each.boot is not None:
                boot = f"{each.name}.boot"
                self.links.append({"name": boot, "role": "boot"})
                self.inputs.append(each.boot)
            described.append(each.describe_memory(of, boot))
        self.layers = _needed([*outputs, *(of for _, of in memories)])
        layers = [{**layer.describe(), "parameters": []} for layer in self.layers]
        return {
            "layers": layers,
            "links": self.links,
            "memories": described,
            "outputs": [layer.name for layer in outputs],
        }

    def sources(self, outputs: Iterable[Layer]) -> list[Layer]:
        """The inputs in the order in which the outputs need them, inputs before what they feed."""
        outside = {link["name"]: each for link, each in zip(self.links, self.inputs, strict=True)}
        found: dict[int, Layer] = {}
        entered: set[int] = set()
        waiting = list(reversed([*outputs]))
        while waiting:
            layer = waiting.pop()
            if layer.serial in entered:
                continue
            entered.add(layer.serial)
            if not isinstance(layer, Seen):
                waiting.extend(reversed(layer.sources or layer.parents))
                continue
            source = layer.boot if isinstance(layer, Memory) else outside[layer.name]
            if source is not None:
                found[source.serial] = source
        unused = {each.serial: each for each in self.inputs}
        return list((found | unused).values())

    def said(self) -> dict[str, attr.ParamAttr]:
        """What is known of the parameters of all layers of the step, by slots of the group."""
        said = {}
        for layer in self.layers:
            for slot, name in layer.slots.items():
                own = layer.parameters[name].attr
                said[f"{layer.name}.{slot}"] = dataclasses.replace(own, name=name)
        for each in self.inside.memories:
            if each.bias is not None:
                name = each.bias.name or f"_{each.name}.wbias"
                said[f"{each.name}.wbias"] = dataclasses.replace(each.bias, name=name)
        return said

    def _remembered(self, memory: Memory) -> Layer:
        if memory.of is None:
            raise mistake.invalid(
                "a memory without a name remembers nothing; call set_input(layer) on it in the "
                "step",
                memory=memory.place,
            )
        layer = self.inside.layers.get(memory.of)
        if layer is None:
            name = memory.of.removesuffix(f"@{self.inside.name}")
            plain = [each.removesuffix(f"@{self.inside.name}") for each in self.inside.layers]
            raise mistake.invalid(
                f"the step has no layer {name!r} that its memory could remember; give a layer of "
                f"the step that name{mistake.suggestion(name, plain)}",
                memory=memory.place,
            )
        return layer


def run_step(step: Any, seen: list[Layer]) -> list[Layer]:
    """Calls the user's function; what it returned, which must be layers."""
    if not callable(step):
        raise mistake.wrong_type(f"step must be a function but is {mistake.kind_of(step)}")
    returned = step(*seen)
    if returned is None:
        raise mistake.invalid("the step returned nothing; return the layer that it gives")
    return several("what the step returned", returned)


def _needed(wanted: Iterable[Layer]) -> list[Layer]:
    """The layers of a step that these take, in the order in which they were made."""
    needed: dict[int, Layer] = {}
    waiting = list(wanted)
    while waiting:
        layer = waiting.pop()
        if layer.serial not in needed and not isinstance(layer, Seen):
            needed[layer.serial] = layer
            waiting.extend(layer.parents)
    return [needed[serial] for serial in sorted(needed)]
