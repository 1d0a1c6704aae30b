"""Layers that move, add, leave out or blend the pixels of pictures.

Height and width must be known: from the data layer, or from a layer over pictures before.
"""

from collections.abc import Sequence
from typing import Any

from paddle.v2 import mistake, naming
from paddle.v2.layer.base import Finish, Layer, describe, make, one, plain, several

_CROPPED = 3


@mistake.checked_arguments
def block_expand(
    input: Layer,
    block_x: int = 0,
    block_y: int = 0,
    stride_x: int = 0,
    stride_y: int = 0,
    padding_x: int = 0,
    padding_y: int = 0,
    num_channels: int | None = None,
    name: str | None = None,
    layer_attr: object = None,
) -> Layer:
    """A picture as a sequence: a row for what a window sees at each place, line after line."""
    sides = {
        "block": {"block_y": block_y, "block_x": block_x},
        "stride": {"stride_y": stride_y, "stride_x": stride_x},
    }
    attributes: dict[str, Any] = {
        kind: [mistake.whole(side, value) for side, value in pair.items()]
        for kind, pair in sides.items()
    }
    padding = {"padding_y": padding_y, "padding_x": padding_x}
    attributes["padding"] = [mistake.whole(side, each, least=0) for side, each in padding.items()]
    channels = None if num_channels is None else mistake.whole("num_channels", num_channels)
    attributes["channels"] = channels
    name = naming.choose(name, "block_expand_layer")
    return plain("block_expand", name, [one("input", input)], attributes, layer_attr)


@mistake.checked_arguments
def scale_sub_region(input: Layer, indices: Layer, value: float, name: str | None = None) -> Layer:
    """Pictures of which a part is multiplied by `value`.

    indices: a row of six numbers a picture: the first and last channel, line and column of the
             part, counted from 1.
    """
    attributes = {"value": mistake.real("value", value)}
    inputs = [one("input", input), one("indices", indices)]
    return plain("scale_sub_region", naming.choose(name, "scale_sub_region"), inputs, attributes)


@mistake.checked_arguments
def pad(
    input: Layer,
    pad_c: Sequence[int] | None = None,
    pad_h: Sequence[int] | None = None,
    pad_w: Sequence[int] | None = None,
    name: str | None = None,
    layer_attr: object = None,
) -> Layer:
    """A picture with zeros around it; pairs are before and after its channels, lines, columns."""
    attributes = {
        "channels": _pair("pad_c", pad_c),
        "height": _pair("pad_h", pad_h),
        "width": _pair("pad_w", pad_w),
    }
    return plain("pad", naming.choose(name, "pad"), [one("input", input)], attributes, layer_attr)


@mistake.checked_arguments
def crop(
    input: Any,
    offset: int | Sequence[int],
    axis: int = 2,
    shape: Sequence[int] | None = None,
    name: str | None = None,
    layer_attr: object = None,
) -> Layer:
    """A part of each picture, from `offset` on.

    input:  a layer, or a list of it and one whose size is taken.
    axis:   the first side that is cropped: 1 channels, 2 height, 3 width.
    offset: one for each side from `axis` on, or one number for all.
    shape:  the sizes of the part: of samples, channels, height and width, of which those before
            `axis` are ignored; or of the sides from `axis` on.
    """
    axis = mistake.whole("axis", axis)
    if axis > _CROPPED:
        raise mistake.invalid("axis must be 1 (channels), 2 (height) or 3 (width)", axis=axis)
    sides = _CROPPED + 1 - axis
    offsets = list(offset) if isinstance(offset, (list, tuple)) else [offset]
    offsets = [mistake.whole("offset", each, least=0) for each in offsets]
    if len(offsets) == 1:
        offsets *= sides
    sizes = None
    if shape is not None:
        sizes = list(shape)[axis:] if len(shape) == _CROPPED + 1 else list(shape)
        sizes = [mistake.whole("shape", each) for each in sizes]
    attributes = {"axis": axis - 1, "offsets": offsets, "shape": sizes}
    name = naming.choose(name, "crop_layer")
    return plain("crop", name, several("input", input), attributes, layer_attr)


@mistake.checked_arguments
def rotate(
    input: Layer, height: int, width: int, name: str | None = None, layer_attr: object = None
) -> Layer:
    """Each channel, of `height` lines of `width` pixels, turned by 90 degrees clockwise."""
    attributes = {"height": mistake.whole("height", height), "width": mistake.whole("width", width)}
    name = naming.choose(name, "rotate_layer")
    return plain("rotate", name, [one("input", input)], attributes, layer_attr)


@mistake.checked_arguments
def bilinear_interp(
    input: Layer,
    out_size_x: int | None = None,
    out_size_y: int | None = None,
    name: str | None = None,
    layer_attr: object = None,
) -> Layer:
    """A picture `out_size_x` wide and `out_size_y` high, blended from the nearest pixels."""
    attributes = {
        "height": mistake.whole("out_size_y", out_size_y),
        "width": mistake.whole("out_size_x", out_size_x),
    }
    name = naming.choose(name, "bilinear_interp_layer")
    return plain("bilinear_interp", name, [one("input", input)], attributes, layer_attr)


@mistake.checked_arguments
def switch_order(
    input: Layer,
    name: str | None = None,
    reshape_axis: int | None = None,
    act: object = None,
    layer_attr: object = None,
) -> Layer:
    """A picture with its channels last.

    reshape_axis: 1 for a row a picture, 2 for a row a line, 3 for a row a pixel.
    """
    finish = Finish(act, layer_attr=layer_attr)
    attributes = {"reshape_axis": mistake.whole("reshape_axis", reshape_axis)}
    description = describe(naming.choose(name, "switch_order"), "switch_order", finish, attributes)
    return make(description, [one("input", input)], finish)


def _pair(name: str, value: object) -> list[int]:
    """Zeros before and after; None is none."""
    pair = [0, 0] if value is None else value
    if not isinstance(pair, (list, tuple)) or len(pair) != 2:
        raise mistake.invalid(f"{name} must be a pair: before, after", **{name: value})
    return [mistake.whole(name, each, least=0) for each in pair]
