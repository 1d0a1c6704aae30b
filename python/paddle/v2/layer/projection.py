"""What a mixed layer adds up: projections of one layer, operators of two."""

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

from paddle.v2 import attr, mistake
from paddle.v2.layer.base import Layer, one
from paddle.v2.layer.image import channels_of, sides


@dataclasses.dataclass(frozen=True)
class Projection:
    """One term of a mixed layer."""

    description: dict[str, Any]
    inputs: tuple[Layer, ...]
    attr: attr.ParamAttr

    mistaken_as: ClassVar[str] = "a projection"


def _projection(
    description: dict[str, Any], inputs: tuple[Layer, ...], param_attr: object = None
) -> Projection:
    return Projection(description, inputs, attr.param("param_attr", param_attr))


def _size(size: object) -> int | None:
    # 0 is the original's word for "that of the mixed layer".
    return mistake.whole("size", size, least=0) or None if size is not None else None


@mistake.checked_arguments
def full_matrix_projection(
    input: Layer, size: int | None = 0, param_attr: object = None
) -> Projection:
    """`x·w`; the size is that of the mixed layer unless given."""
    description = {"name": "full_matrix", "size": _size(size)}
    return _projection(description, (one("input", input),), param_attr)


@mistake.checked_arguments
def trans_full_matrix_projection(
    input: Layer, size: int | None = 0, param_attr: object = None
) -> Projection:
    """`x·wᵀ`, to share a matrix with a full matrix projection the other way."""
    description = {"name": "trans_full_matrix", "size": _size(size)}
    return _projection(description, (one("input", input),), param_attr)


@mistake.checked_arguments
def table_projection(input: Layer, size: int | None = 0, param_attr: object = None) -> Projection:
    """The rows of a table that the input's ids ask for."""
    description = {"name": "table", "size": _size(size)}
    return _projection(description, (one("input", input),), param_attr)


@mistake.checked_arguments
def identity_projection(
    input: Layer, offset: int | None = None, size: int | None = None
) -> Projection:
    """The input itself, or `size` of its columns from `offset` on."""
    if offset is None and size is not None:
        offset = 0
    description = {
        "name": "identity",
        "offset": None if offset is None else mistake.whole("offset", offset, least=0),
        "size": None if size is None else mistake.whole("size", size),
    }
    return _projection(description, (one("input", input),))


@mistake.checked_arguments
def slice_projection(input: Layer, slices: Sequence[Sequence[int]]) -> Projection:
    """Some columns of the input side by side: `slices` are pairs of the first and the one behind
    the last."""
    pairs = [list(pair) if isinstance(pair, (list, tuple)) else [pair] for pair in slices]
    if not pairs or any(len(pair) != 2 for pair in pairs):
        raise mistake.invalid(
            "slices are pairs of a first column and the one behind the last, like [(0, 10)]",
            slices=slices,
        )
    ranges = [[mistake.whole("slices", end, least=0) for end in pair] for pair in pairs]
    return _projection({"name": "slice", "slices": ranges}, (one("input", input),))


@mistake.checked_arguments
def conv_projection(
    input: Layer,
    filter_size: int | Sequence[int],
    num_filters: int,
    num_channels: int | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    filter_size_y: int | None = None,
    stride_y: int | None = None,
    padding_y: int | None = None,
    groups: int = 1,
    param_attr: object = None,
    trans: bool = False,
) -> Projection:
    """A convolution, with arguments as of `img_conv`; a bias of the layer has a number a filter."""
    description = {
        "name": "convolution",
        "filters": mistake.whole("num_filters", num_filters),
        "filter_size": sides("filter_size", filter_size, filter_size_y),
        "stride": sides("stride", stride, stride_y),
        "padding": sides("padding", padding, padding_y, least=0),
        "dilation": [1, 1],
        "groups": mistake.whole("groups", groups),
        "channels": channels_of(num_channels),
        "is_bias_shared": True,
        "is_transposed": mistake.truth("trans", trans),
    }
    return _projection(description, (one("input", input),), param_attr)


@mistake.checked_arguments
def scaling_projection(input: Layer, param_attr: object = None) -> Projection:
    """`w·x` with one number w."""
    return _projection({"name": "scaling"}, (one("input", input),), param_attr)


@mistake.checked_arguments
def dotmul_projection(input: Layer, param_attr: object = None) -> Projection:
    """`w·x`, element by element."""
    return _projection({"name": "dotmul"}, (one("input", input),), param_attr)


@mistake.checked_arguments
def context_projection(
    input: Layer,
    context_len: int,
    context_start: int | None = None,
    padding_attr: object = None,
) -> Projection:
    """Each row beside its neighbours: `context_len` rows from `context_start` on, 0 being itself.

    The row is in the middle, of an even number right of it, unless `context_start` is given. Beyond
    the ends of a sequence are learnt rows, which begin as zeros; with `padding_attr=False`, zeros.
    """
    length = mistake.whole("context_len", context_len)
    start = -(length // 2)
    if context_start is not None:
        start = mistake.whole("context_start", context_start, least=-(2**31))
    padding = attr.bias(padding_attr, True)
    description = {
        "name": "context",
        "start": start,
        "length": length,
        "is_padding_learnt": padding is not None,
    }
    return _projection(description, (one("input", input),), padding)


@mistake.checked_arguments
def dotmul_operator(a: Layer, b: Layer, scale: float = 1) -> Projection:
    """`scale·a·b`, element by element."""
    description = {"name": "dotmul_operator", "scale": mistake.real("scale", scale)}
    return _projection(description, (one("a", a), one("b", b)))
