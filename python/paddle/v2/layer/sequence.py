"""Layers that make one row of a sequence."""

from paddle.v2 import mistake, naming
from paddle.v2 import pooling as pooling_types
from paddle.v2.layer.base import Finish, Layer, describe, make, one


class AggregateLevel:
    """What sequences of sequences are made into; the names are the original's."""

    TO_NO_SEQUENCE = "non-seq"
    TO_SEQUENCE = "seq"
    # Names from before the two above.
    EACH_TIMESTEP = TO_NO_SEQUENCE
    EACH_SEQUENCE = TO_SEQUENCE


@mistake.checked_arguments
def pooling(
    input: Layer,
    pooling_type: object = None,
    name: str | None = None,
    bias_attr: object = None,
    agg_level: str = AggregateLevel.TO_NO_SEQUENCE,
    stride: int = -1,
    layer_attr: object = None,
) -> Layer:
    """The largest, mean or sum of each column over a sequence; see `paddle.pooling`.

    Of nested sequences, over all rows of a sample, or with `AggregateLevel.TO_SEQUENCE` over each
    sequence, which gives a sequence.
    """
    finish = Finish(None, bias_attr, layer_attr)
    attributes = {"pooling": pooling_types.name_of(pooling_type), "of": _of(agg_level, stride)}
    description = describe(naming.choose(name, "seq_pooling"), "pooling", finish, attributes)
    return make(description, [one("input", input)], finish)


@mistake.checked_arguments
def last_seq(
    input: Layer,
    name: str | None = None,
    agg_level: str = AggregateLevel.TO_NO_SEQUENCE,
    stride: int = -1,
    layer_attr: object = None,
) -> Layer:
    """The last row of each sequence; `agg_level` as of `pooling`."""
    description = describe(
        naming.choose(name, "last_seq"),
        "sequence_end",
        Finish(layer_attr=layer_attr),
        {"end": "last", "of": _of(agg_level, stride)},
    )
    return make(description, [one("input", input)])


@mistake.checked_arguments
def first_seq(
    input: Layer,
    name: str | None = None,
    agg_level: str = AggregateLevel.TO_NO_SEQUENCE,
    stride: int = -1,
    layer_attr: object = None,
) -> Layer:
    """The first row of each sequence; `agg_level` as of `pooling`."""
    description = describe(
        naming.choose(name, "first_seq"),
        "sequence_end",
        Finish(layer_attr=layer_attr),
        {"end": "first", "of": _of(agg_level, stride)},
    )
    return make(description, [one("input", input)])


_OF = {AggregateLevel.TO_NO_SEQUENCE: "sample", AggregateLevel.TO_SEQUENCE: "sequence"}


def _of(agg_level: object, stride: object) -> str:
    """What becomes one row, as the engine names it."""
    if agg_level not in _OF:
        raise mistake.invalid(
            "agg_level must be AggregateLevel.TO_NO_SEQUENCE or AggregateLevel.TO_SEQUENCE",
            agg_level=agg_level,
        )
    if stride != -1:
        raise mistake.unsupported(
            "stride is not there yet; leave it out for whole sequences", stride=stride
        )
    return _OF[str(agg_level)]
