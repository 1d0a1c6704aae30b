"""The whole network: layers, parameters, evaluators, and a sub-model for each recurrent group.

As in the original all layers stand in one list, those of a group's step with the group's name
behind `@`; the group's sub-model says which they are. A step sees its group's inputs through
`scatter_agent` layers, memories are `agent` layers, and `gather_agent` layers give its outputs.
"""

import json
from typing import TYPE_CHECKING, Any

from paddle import _native
from paddle.v2.model_config.described import Described
from paddle.v2.model_config.fields import activation_name
from paddle.v2.model_config.layers import layer_config
from paddle.v2.model_config.message import Message

if TYPE_CHECKING:
    from paddle.v2.evaluator import Evaluator
    from paddle.v2.layer.base import Layer, Parameter
    from paddle.v2.topology import Topology

_GROUPS = ("recurrent_group", "beam_search")


def model_config(topology: "Topology") -> Message:
    """The message of a network."""
    model = _Model()
    root = Message("SubModelConfig", name="root", is_recurrent_layer_group=False)
    names = [name for layer in topology.layers for name in model.add(_described(layer))]
    inputs = list(topology.data_layers())
    outputs = [layer.name for layer in topology.outputs]
    for field, value in (
        ("layer_names", names),
        ("input_layer_names", inputs),
        ("output_layer_names", outputs),
        ("evaluator_names", list(topology.evaluators)),
    ):
        root.set(field, value)
    return Message(
        "ModelConfig",
        type="recurrent_nn" if model.groups else "nn",
        layers=model.layers,
        parameters=[_parameter(each) for each in topology.parameters.values()],
        input_layer_names=inputs,
        output_layer_names=outputs,
        evaluators=[_evaluator(name, each) for name, each in topology.evaluators.items()],
        sub_models=[root, *model.groups],
    )


class _Model:
    """The layers of all levels, in one list, and the sub-models."""

    def __init__(self) -> None:
        self.layers: list[Message] = []
        self.groups: list[Message] = []

    def add(self, layer: Described) -> list[str]:
        """Adds a layer, with all of its step if it is a group; the names that it has outside."""
        if layer.kind in _GROUPS:
            return self._add_group(layer)
        self.layers.append(layer_config(layer))
        return [layer.name]

    def _add_group(self, group: Described) -> list[str]:
        step = group.attributes["step"]
        # All layers of a step carry the same suffix; a step without layers has that of its links.
        inside = next(
            (each["name"].partition("@")[2] for each in [*step["layers"], *step["links"]]),
            group.name,
        )
        config = Message(
            "SubModelConfig",
            name=inside,
            is_recurrent_layer_group=True,
            reversed=group.attributes.get("is_reversed", False),
        )
        self._agent(inside, "recurrent_layer_group", 0)
        shapes = _links(group)
        members, in_links = [], []
        for link, (outer, _) in zip(step["links"], group.inputs, strict=False):
            if link["role"] != "boot":
                members.append(link["name"])
                self._agent(link["name"], "scatter_agent", shapes[link["name"]]["size"])
                if link["role"] == "part":
                    in_links.append(_link(outer, link["name"]))
        for memory in step["memories"]:
            members.append(memory["name"])
            self._agent(memory["name"], "agent", memory["size"])
        for description in step["layers"]:
            members += self.add(_planned(description, shapes, group.slots))
        config.set("layer_names", members)
        config.set("memories", [_memory(each, group) for each in step["memories"]])
        config.set("in_links", in_links)
        config.set("out_links", [_link(each, _outside(each, inside)) for each in step["outputs"]])
        if group.kind == "beam_search":
            config.set("generator", _generator(group))
        self.groups.append(config)
        # The output has the name of the group's layer, which may be that of its step's.
        self._agent(group.name, "gather_agent", group.shape["size"])
        return [inside, group.name]

    def _agent(self, name: str, type: str, size: int) -> None:
        self.layers.append(
            Message("LayerConfig", name=name, type=type, size=size or None, active_type="")
        )


def _described(layer: "Layer") -> Described:
    description = layer.describe()
    inputs = [(parent.name, parent.shape) for parent in layer.parents]
    return Described(
        layer.name,
        layer.kind,
        description["attributes"],
        description,
        layer.shape,
        inputs,
        layer.slots,
    )


def _planned(
    description: dict[str, Any], shapes: dict[str, Any], group_slots: dict[str, str]
) -> Described:
    """A layer of a step; what it gives is found out, and remembered in `shapes`."""
    name = description["name"]
    inputs = [(each, shapes[each]) for each in description["inputs"]]
    planned = json.loads(
        _native.plan_layer(json.dumps(description), json.dumps([shape for _, shape in inputs]))
    )
    shapes[name] = planned["shape"]
    slots = {
        slot["name"]: group_slots[f"{name}.{slot['name']}"]
        for slot in planned["parameters"]
        if f"{name}.{slot['name']}" in group_slots
    }
    attributes = description["attributes"]
    return Described(
        name, description["kind"], attributes, description, shapes[name], inputs, slots
    )


_INSIDE = {"sequence": "single", "nested": "sequence"}


def _links(group: Described) -> dict[str, Any]:
    """What a step sees, by name."""
    step = group.attributes["step"]
    shapes: dict[str, Any] = {}
    for link, (_, shape) in zip(step["links"], group.inputs, strict=False):
        level = _INSIDE[shape["level"]] if link["role"] == "part" else shape["level"]
        shapes[link["name"]] = {**shape, "level": level, "is_data": False}
    for link in step["links"]:
        if link["role"] == "word":
            size = group.attributes["embedding_size"]
            shapes[link["name"]] = {"size": size, "value": "dense", "level": "single"}
    for memory in step["memories"]:
        shapes[memory["name"]] = {
            "size": memory["size"],
            "value": "dense" if memory["boot_id"] is None else "integer",
            "level": "sequence" if memory["is_sequence"] else "single",
        }
    return shapes


def _memory(memory: dict[str, Any], group: Described) -> Message:
    outer = {
        link["name"]: name
        for link, (name, _) in zip(group.attributes["step"]["links"], group.inputs, strict=False)
    }
    bias = group.slots.get(f"{memory['name']}.wbias")
    activation = activation_name(memory["activation"])
    return Message(
        "MemoryConfig",
        layer_name=memory["of"],
        link_name=memory["name"],
        boot_layer_name=outer.get(memory["boot"]),
        boot_bias_parameter_name=bias,
        boot_bias_active_type=None if bias is None else activation,
        boot_with_const_id=memory["boot_id"],
        is_sequence=memory["is_sequence"] or None,
    )


def _generator(group: Described) -> Message:
    attributes = group.attributes
    return Message(
        "GeneratorConfig",
        max_num_frames=attributes["max_length"],
        # The original compares with an eos layer; here the search itself knows the id.
        eos_layer_name=group.name,
        num_results_per_sample=attributes["results"],
        beam_size=attributes["beam_size"],
    )


def _link(layer: str, link: str) -> Message:
    return Message("LinkConfig", layer_name=layer, link_name=link)


def _outside(name: str, inside: str) -> str:
    return name.removesuffix(f"@{inside}")


_NORMAL, _UNIFORM = 0, 1


def _parameter(parameter: "Parameter") -> Message:
    first, said = parameter.initializer, parameter.attr
    mean, std, strategy = 0.0, 0.0, _NORMAL
    if first["name"] == "normal":
        mean, std = float(first["mean"]), float(first["std"])
    elif first["name"] == "constant":
        mean = float(first["value"])
    elif first["name"] == "uniform":
        low, high = float(first["low"]), float(first["high"])
        mean, std, strategy = (low + high) / 2, (high - low) / 2, _UNIFORM
    is_smart = said.initial_mean is None and said.initial_std is None and std > 0 and not strategy
    return Message(
        "ParameterConfig",
        name=parameter.name,
        size=parameter.dims[0] * parameter.dims[1],
        dims=parameter.dims,
        initial_mean=mean,
        initial_std=std,
        initial_strategy=strategy,
        initial_smart=is_smart,
        learning_rate=said.learning_rate,
        momentum=said.momentum,
        decay_rate=said.l2_rate,
        decay_rate_l1=said.l1_rate,
        gradient_clipping_threshold=said.gradient_clipping_threshold,
        is_static=said.is_static or None,
        sparse_update=said.sparse_update or None,
        sparse_remote_update=said.sparse_update or None,
    )


_EVALUATORS = {
    "auc": "last-column-auc",
    "column_sum": "last-column-sum",
    "ctc_error": "ctc_edit_distance",
}


def _evaluator(name: str, evaluator: "Evaluator") -> Message:
    attributes, printer = evaluator.attributes, evaluator.printer
    return Message(
        "EvaluatorConfig",
        name=name,
        type=_EVALUATORS.get(evaluator.kind, evaluator.kind) if printer is None else printer.kind,
        input_layers=[layer.name for layer in evaluator.inputs],
        chunk_scheme=attributes.get("scheme"),
        num_chunk_types=attributes.get("types"),
        classification_threshold=attributes.get("threshold"),
        positive_label=attributes.get("positive_label"),
        excluded_chunk_types=attributes.get("excluded"),
        top_k=attributes.get("top_k"),
        overlap_threshold=attributes.get("overlap_threshold"),
        background_id=attributes.get("background"),
        evaluate_difficult=attributes.get("evaluate_difficult"),
        ap_type=attributes.get("ap_type"),
        result_file=None if printer is None else printer.path,
    )
