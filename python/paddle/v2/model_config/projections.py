"""The projections and operators of a mixed layer, as its inputs have them."""

from typing import Any

from paddle.v2.model_config import pictures
from paddle.v2.model_config.described import Described
from paddle.v2.model_config.message import Message


def projection_inputs(layer: Described) -> list[Message]:
    """An input for each projection, with its settings; those of operators are named only."""
    inputs, place = [], 0
    for projection in layer.attributes["projections"]:
        taken = layer.inputs[place : place + _takes(projection)]
        for offset, (name, shape) in enumerate(taken):
            slot = f"w{place + offset}"
            settings = None
            if not projection["name"].endswith("_operator"):
                settings = _projection(layer, projection, slot, shape)
            inputs.append(
                Message(
                    "LayerInputConfig",
                    input_layer_name=name,
                    input_parameter_name=layer.slots.get(slot),
                    proj_conf=settings,
                )
            )
        place += len(taken)
    return inputs


def _takes(projection: dict[str, Any]) -> int:
    return 2 if projection["name"].endswith("_operator") else 1


_PROJECTIONS = {
    "dotmul": "dot_mul",
    "full_matrix": "fc",
    "trans_full_matrix": "trans_fc",
}


def _projection(
    layer: Described, projection: dict[str, Any], slot: str, shape: dict[str, Any]
) -> Message:
    name, size = projection["name"], int(shape["size"])
    gives = projection.get("size") or (
        size if name in ("dotmul", "scaling", "identity") else layer.shape["size"]
    )
    config = Message(
        "ProjectionConfig",
        type=_PROJECTIONS.get(name, name),
        name=f"_{layer.name}.{slot}",
        input_size=size,
        output_size=gives,
    )
    if name == "context":
        config.set("output_size", size * projection["length"])
        config.set("context_start", projection["start"])
        config.set("context_length", projection["length"])
        config.set("trainable_padding", projection["is_padding_learnt"])
    if name == "identity" and projection.get("offset") is not None:
        config.set("type", "identity_offset")
        config.set("offset", projection["offset"])
        config.set("output_size", projection.get("size") or size - projection["offset"])
    if name == "slice":
        slices = [
            Message("SliceConfig", start=start, end=end) for start, end in projection["slices"]
        ]
        config.set("slices", slices)
        config.set("output_size", sum(end - start for start, end in projection["slices"]))
    if name == "convolution":
        config.set("type", "convt" if projection["is_transposed"] else "conv")
        settings = pictures.convolution_settings(projection, shape)
        config.set("conv_conf", settings)
        config.set("num_filters", projection["filters"])
        is_wide = projection["is_transposed"]
        across, down = (
            (settings.img_size, settings.img_size_y)
            if is_wide
            else (settings.output_x, settings.output_y)
        )
        config.set("output_size", projection["filters"] * across * down)
    return config


def operators(layer: Described) -> dict[str, Any]:
    operators, place = [], 0
    for projection in layer.attributes["projections"]:
        places = range(place, place + _takes(projection))
        if len(places) == 2:
            sizes = [layer.inputs[each][1]["size"] for each in places]
            operators.append(
                Message(
                    "OperatorConfig",
                    type="dot_mul",
                    input_indices=places,
                    input_sizes=sizes,
                    output_size=sizes[0],
                    dotmul_scale=float(projection["scale"]),
                )
            )
        place = places.stop
    return {"operator_confs": operators}
