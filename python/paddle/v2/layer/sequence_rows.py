"""Layers that move the rows of sequences: expand, join, reshape, cut."""

from typing import Any

from paddle.v2 import mistake, naming
from paddle.v2.layer import planning
from paddle.v2.layer.base import Finish, Layer, describe, make, one, optional


class ExpandLevel:
    """What is expanded; the names are the original's."""

    FROM_NO_SEQUENCE = "non-seq"
    FROM_SEQUENCE = "seq"
    # A name from before the two above.
    FROM_TIMESTEP = FROM_NO_SEQUENCE


_EXPANDED = {ExpandLevel.FROM_NO_SEQUENCE: "single", ExpandLevel.FROM_SEQUENCE: "sequence"}


@mistake.checked_arguments
def expand(
    input: Layer,
    expand_as: Layer,
    name: str | None = None,
    bias_attr: object = False,
    expand_level: str = ExpandLevel.FROM_NO_SEQUENCE,
    layer_attr: object = None,
) -> Layer:
    """The row of each sample once for every row of its sequence in `expand_as`.

    With `ExpandLevel.FROM_SEQUENCE`, the rows of a sequence once for every row of the sequence in
    nested ones whose place they have.
    """
    wanted = _EXPANDED.get(expand_level)
    if wanted is None:
        raise mistake.invalid(
            "expand_level must be ExpandLevel.FROM_NO_SEQUENCE or ExpandLevel.FROM_SEQUENCE",
            expand_level=expand_level,
        )
    if planning.differ(one("input", input).shape["level"], wanted):
        raise mistake.invalid(
            f"expand_level {expand_level!r} expands a layer of level {wanted!r} but the input has "
            f"level {input.shape['level']!r}; give the other expand_level"
        )
    finish = Finish(None, bias_attr, layer_attr)
    description = describe(naming.choose(name, "expand_layer"), "expand", finish)
    return make(description, [one("input", input), one("expand_as", expand_as)], finish)


@mistake.checked_arguments
def repeat(
    input: Layer,
    num_repeats: int,
    as_row_vector: bool = True,
    act: object = None,
    name: str | None = None,
    layer_attr: object = None,
) -> Layer:
    """Each row so many times side by side; `as_row_vector=False`: each column, 1 1 2 2."""
    finish = Finish(act, layer_attr=layer_attr)
    attributes = {
        "times": mistake.whole("num_repeats", num_repeats),
        "is_by_column": not mistake.truth("as_row_vector", as_row_vector),
    }
    description = describe(naming.choose(name, "repeat_layer"), "repeat", finish, attributes)
    return make(description, [one("input", input)])


@mistake.checked_arguments
def seq_concat(
    a: Layer,
    b: Layer,
    act: object = None,
    name: str | None = None,
    layer_attr: object = None,
    bias_attr: object = None,
) -> Layer:
    """For each sample, the rows of `a` and then those of `b`."""
    finish = Finish(act, bias_attr, layer_attr)
    description = describe(naming.choose(name, "seqconcat"), "sequence_concat", finish)
    return make(description, [one("a", a), one("b", b)], finish)


@mistake.checked_arguments
def seq_reshape(
    input: Layer,
    reshape_size: int,
    act: object = None,
    name: str | None = None,
    layer_attr: object = None,
    bias_attr: object = None,
) -> Layer:
    """The numbers of each sequence in rows of `reshape_size`."""
    finish = Finish(act, bias_attr, layer_attr)
    attributes = {"size": mistake.whole("reshape_size", reshape_size)}
    name = naming.choose(name, "seqreshape")
    description = describe(name, "sequence_reshape", finish, attributes)
    return make(description, [one("input", input)], finish)


def _slice(
    description: dict[str, Any], input: object, bounds: dict[str, list[Layer]], finish: Finish
) -> Layer:
    """`bounds` has, by what they are, no layer or one."""
    given = [bound for bound, layers in bounds.items() if layers]
    description = {**description, "attributes": {"bounds": given}}
    layers = [layer for each in bounds.values() for layer in each]
    return make(description, [one("input", input), *layers], finish)


@mistake.checked_arguments
def seq_slice(
    input: Layer, starts: Layer | None, ends: Layer | None, name: str | None = None
) -> Layer:
    """The rows of each sequence from `starts` to `ends`, both counted from 0 and included.

    Each is a layer of one number a sample; None is the sequence's own end.
    """
    description = describe(naming.choose(name, "seq_slice_layer"), "sequence_slice", Finish())
    bounds = {"first": optional("starts", starts), "last": optional("ends", ends)}
    return _slice(description, input, bounds, Finish())


@mistake.checked_arguments
def sub_seq(
    input: Layer,
    offsets: Layer,
    sizes: Layer,
    act: object = None,
    bias_attr: object = None,
    name: str | None = None,
) -> Layer:
    """`sizes` rows of each sequence from `offsets` on, counted from 0."""
    finish = Finish(act, bias_attr)
    description = describe(naming.choose(name, "sub_seq_layer"), "sequence_slice", finish)
    bounds = {"first": [one("offsets", offsets)], "count": [one("sizes", sizes)]}
    return _slice(description, input, bounds, finish)
