"""The inputs of layers over pictures: what the original says of windows, sizes and channels.

Sides are named as there: x is the way across, y down, and z through the planes.
"""

from typing import Any

from paddle.v2.model_config.described import Described, inputs_with, plain_inputs
from paddle.v2.model_config.message import Message

_Shape = dict[str, Any]


def convolution(layer: Described) -> list[Message]:
    """The input of a convolution, or of a transposed one."""
    settings = convolution_settings(layer.attributes, layer.inputs[0][1])
    return inputs_with(layer, conv_conf=settings)


def convolution_settings(attributes: dict[str, Any], taken: _Shape) -> Message:
    """How a convolution moves over its input."""
    channels, inside = _picture(attributes, taken)
    groups, is_transposed = attributes["groups"], attributes["is_transposed"]
    windows: dict[str, dict[str, int]] = {
        field: _suffixed(attributes[field])
        for field in ("filter_size", "stride", "padding", "dilation")
        if field in attributes
    }
    outside = {side: _places(windows, side, inside[side], is_transposed) for side in inside}
    # A transposed convolution is described from its output's side.
    wide, narrow = (outside, inside) if is_transposed else (inside, outside)
    settings = Message(
        "ConvConfig",
        channels=channels,
        groups=groups,
        filter_channels=(attributes["filters"] if is_transposed else channels) // groups,
        caffe_mode=True,
    )
    for side in inside:
        settings.set(f"img_size{side}", wide[side])
        settings.set(f"output{side or '_x'}", narrow[side])
    for field, sides in windows.items():
        for side, value in sides.items():
            settings.set(f"{field}{side}", value)
    return settings


def _places(windows: dict[str, dict[str, int]], side: str, length: int, is_transposed: bool) -> int:
    """The length of a side of the output."""
    window, stride, padding = (windows[each][side] for each in ("filter_size", "stride", "padding"))
    reach = (window - 1) * windows.get("dilation", {}).get(side, 1) + 1
    if is_transposed:
        return (length - 1) * stride + reach - 2 * padding
    return (length + 2 * padding - reach) // stride + 1


def pooling(layer: Described) -> list[Message]:
    """The input of a pooling layer."""
    attributes = layer.attributes
    channels, inside = _picture(attributes, layer.inputs[0][1])
    outside = _sides_of(layer.shape)
    settings = Message(
        "PoolConfig", pool_type=f"{_pool_name(attributes)}-projection", channels=channels
    )
    for side in inside:
        settings.set(f"img_size{side}", inside[side])
        settings.set(f"output{side or '_x'}", outside.get(side, 1))
        settings.set(f"size{side or '_x'}", _suffixed(attributes["pool_size"])[side])
    for field in ("stride", "padding"):
        for side, value in _suffixed(attributes[field]).items():
            settings.set(f"{field}{side}", value)
    return inputs_with(layer, pool_conf=settings)


def normalization(layer: Described) -> list[Message]:
    """The input of a normalization over channels."""
    attributes = layer.attributes
    settings = _norm(
        layer,
        norm_type="cmrnorm-projection",
        size=attributes["size"],
        # The original divides by the size here.
        scale=float(attributes["scale"]) / attributes["size"],
        pow=float(attributes["power"]),
    )
    return inputs_with(layer, norm_conf=settings)


def channel_norm(layer: Described) -> list[Message]:
    """The input of a normalization by the length of the channels."""
    size = layer.inputs[0][1]["size"]
    settings = _norm(layer, norm_type="cross-channel-norm", size=size, scale=0.0, pow=0.0)
    return inputs_with(layer, norm_conf=settings)


def _norm(layer: Described, **settings: Any) -> Message:
    channels, sides = _picture(layer.attributes, layer.inputs[0][1])
    return Message(
        "NormConfig",
        channels=channels,
        output_x=sides[""],
        img_size=sides[""],
        blocked=False,
        output_y=sides["_y"],
        img_size_y=sides["_y"],
        **settings,
    )


def maxout(layer: Described) -> list[Message]:
    """The input of a maxout layer."""
    settings = Message("MaxOutConfig", image_conf=_image(layer), groups=layer.attributes["groups"])
    return inputs_with(layer, maxout_conf=settings)


def pyramid(layer: Described) -> list[Message]:
    """The input of a spatial pyramid."""
    settings = Message(
        "SppConfig",
        image_conf=_image(layer),
        pool_type=f"{_pool_name(layer.attributes)}-projection",
        pyramid_height=layer.attributes["levels"],
    )
    return inputs_with(layer, spp_conf=settings)


def interpolation(layer: Described) -> list[Message]:
    """The input of an interpolation."""
    settings = Message(
        "BilinearInterpConfig",
        image_conf=_image(layer),
        out_size_x=layer.attributes["width"],
        out_size_y=layer.attributes["height"],
    )
    return inputs_with(layer, bilinear_interp_conf=settings)


def padding(layer: Described) -> list[Message]:
    """The input of a layer that adds zeros."""
    sides = {f"pad_{side[0]}": layer.attributes[side] for side in ("channels", "height", "width")}
    # The engine calls the zeros beside channels `channels`.
    image = _image_of({}, layer.inputs[0][1])
    return inputs_with(layer, pad_conf=Message("PadConfig", image_conf=image, **sides))


def scaled_part(layer: Described) -> list[Message]:
    """The picture of which a part is multiplied, and the part."""
    value = float(layer.attributes["value"])
    settings = Message("ScaleSubRegionConfig", image_conf=_image(layer), value=value)
    return inputs_with(layer, scale_sub_region_conf=settings)


def blocks(layer: Described) -> list[Message]:
    """The input of a layer that reads a picture as a sequence."""
    attributes = layer.attributes
    channels, inside = _picture(attributes, layer.inputs[0][1])
    settings = Message("BlockExpandConfig", channels=channels)
    for place, (name, side) in enumerate((("y", "_y"), ("x", ""))):
        block, stride, zeros = (attributes[each][place] for each in ("block", "stride", "padding"))
        settings.set(f"block_{name}", block)
        settings.set(f"stride_{name}", stride)
        settings.set(f"padding_{name}", zeros)
        settings.set(f"img_size_{name}", inside[side])
        settings.set(f"output_{name}", 1 + -(-(2 * zeros + inside[side] - block) // stride))
    return inputs_with(layer, block_expand_conf=settings)


def batch_norm_inputs(layer: Described) -> list[Message]:
    """The input three times: with the scale, the moving mean and the moving variance."""
    (first,) = plain_inputs(layer)
    first.set("image_conf", _image(layer))
    others = [
        Message(
            "LayerInputConfig",
            input_layer_name=layer.inputs[0][0],
            input_parameter_name=layer.slots.get(slot),
        )
        for slot in ("w1", "w2")
    ]
    return [first, *others]


def _image(layer: Described) -> Message:
    return _image_of(layer.attributes, layer.inputs[0][1])


def _image_of(attributes: dict[str, Any], shape: _Shape) -> Message:
    channels, sides = _picture(attributes, shape)
    named = {f"img_size{side}": length for side, length in sides.items()}
    return Message("ImageConfig", channels=channels, **named)


def _picture(attributes: dict[str, Any], shape: _Shape) -> tuple[int, dict[str, int]]:
    """Channels and sides of a layer's input, as the engine finds them."""
    size, channels = int(shape["size"]), attributes.get("channels")
    if shape.get("frame") is not None:
        sides = _sides_of(shape)
        pixels = 1
        for length in sides.values():
            pixels *= length
        return size // pixels, sides
    if channels is None:
        return size, {"": 1, "_y": 1}
    side = round((size / channels) ** 0.5)
    return channels, {"": side, "_y": side}


def _sides_of(shape: _Shape) -> dict[str, int]:
    """Sides by what the original puts behind the name of a field."""
    height, width = shape.get("frame") or (1, 1)
    planes = {} if shape.get("depth") is None else {"_z": shape["depth"]}
    return {"": width, "_y": height, **planes}


def _suffixed(value: Any) -> dict[str, int]:
    """What is said of each side; the engine has them from the last to the first."""
    ways = list(value) if isinstance(value, (list, tuple)) else [value, value]
    return dict(zip(("", "_y", "_z"), reversed(ways), strict=False))


def _pool_name(attributes: dict[str, Any]) -> str:
    return "max" if attributes["pooling"] == "max" else "avg"
