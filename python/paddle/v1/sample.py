"""Samples of a data provider: brought into the order of the inputs, and checked where asked.

Dense values of samples that a pool or a cache holds become arrays here, which are smaller.
"""

from collections.abc import Sequence
from typing import Any

import numpy

from paddle import errors
from paddle.v2.data_type import DataType, InputType, SequenceType


class Shaper:
    """Brings samples into the order of the inputs; types are in that order.

    is_held: whether samples stay in memory, so that arrays should take the place of lists.
    """

    def __init__(
        self,
        names: Sequence[str],
        types: Sequence[InputType],
        is_dict: bool,
        is_held: bool = True,
    ) -> None:
        self._is_held = is_held
        self._names = list(names)
        self._types = list(types)
        self._is_dict = is_dict
        # Of so many values a tuple is a sample as it is; 0 if none is.
        self._count_as_is = 0 if is_dict or is_held or len(types) < 2 else len(types)

    def shape(self, sample: Any) -> tuple[Any, ...]:
        """A sample as a tuple of values."""
        if type(sample) is tuple and len(sample) == self._count_as_is:
            return sample
        if self._is_dict:
            if not isinstance(sample, dict):
                raise errors.WrongTypeError(
                    "the data provider must yield dicts, as its input_types are, but yields "
                    f"{_kind(sample)}"
                )
            missing = [name for name in self._names if name not in sample]
            if missing:
                raise errors.InvalidError(
                    f"the data provider yields no value for {missing[0]!r} (keys: "
                    f"{', '.join(map(str, sample))})"
                )
            values: Sequence[Any] = [sample[name] for name in self._names]
        elif len(self._types) == 1 and not self._is_wrapped(sample):
            values = [sample]
        else:
            values = sample
        if not isinstance(values, list | tuple) or len(values) != len(self._types):
            found = len(values) if isinstance(values, list | tuple) else _kind(values)
            raise errors.InvalidError(
                f"the data provider must yield {len(self._types)} values ("
                f"{', '.join(self._names)}) but yields {found}"
            )
        return tuple(map(_compact, self._types, values)) if self._is_held else tuple(values)

    def _is_wrapped(self, sample: Any) -> bool:
        """Whether the value of a single input comes in a tuple, as in `yield value,`."""
        is_one = isinstance(sample, list | tuple) and len(sample) == 1
        return is_one and depth(sample) > expected_depth(self._types[0])

    def check(self, sample: tuple[Any, ...]) -> None:
        """Raises if a value is not of its type."""
        for name, type, value in zip(self._names, self._types, sample, strict=True):
            try:
                _check_levels(type, type.seq_type, value)
            except (ValueError, TypeError, IndexError) as error:
                raise errors.InvalidError(
                    f"the value for {name!r} is not as its type says: {error} (value: "
                    f"{value!r:.60})"
                ) from None


def expected_depth(type: InputType) -> int:
    """How many lists are in one another in a value of a type."""
    own = {DataType.Index: 0, DataType.SparseValue: 2}.get(type.type, 1)
    return type.seq_type + own


def depth(value: Any) -> int:
    """How many lists are in one another, along the first entries."""
    if isinstance(value, numpy.ndarray):
        return value.ndim
    if isinstance(value, list | tuple):
        return 1 + (depth(value[0]) if value else 0)
    return 0


def _compact(type: InputType, value: Any) -> Any:
    """Dense rows as arrays, where they are numbers; all else as it is, to be checked later."""
    if type.type != DataType.Dense or type.seq_type == SequenceType.SUB_SEQUENCE:
        return value
    try:
        return numpy.asarray(value, dtype=numpy.float32)
    except (ValueError, TypeError):
        return value


def _check_levels(type: InputType, levels: int, value: Any) -> None:
    if levels > 0:
        for each in value:
            _check_levels(type, levels - 1, each)
    elif type.type == DataType.Index:
        _check_id(type, value)
    elif type.type == DataType.Dense:
        if numpy.asarray(value, dtype=numpy.float32).size != type.dim:
            raise ValueError(f"{numpy.size(value)} numbers instead of {type.dim}")
    else:
        for each in value:
            if type.type == DataType.SparseValue:
                identifier, number = each
                float(number)
            else:
                identifier = each
            _check_id(type, identifier)


def _check_id(type: InputType, value: Any) -> None:
    number = int(value)
    if number != value:
        raise ValueError(f"{value!r} is not whole")
    if number == -1 and type.type == DataType.Index:
        # No id: a row of zeros in a table.
        return
    if number < 0 or (type.dim is not None and number >= type.dim):
        raise ValueError(f"{number} is not an id below {type.dim}")


def _kind(value: Any) -> str:
    return f"{type(value).__name__} {value!r:.60}"
