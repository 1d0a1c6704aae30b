"""What a data layer is fed with: `paddle.data_type.integer_value(10)`.

| type                  | one row of a sample      |
|-----------------------|--------------------------|
| dense_vector          | numbers, one per column  |
| sparse_binary_vector  | ids of the columns set   |
| sparse_float_vector   | pairs of id and number   |
| integer_value         | one id                   |

A `_sequence` has a list of such rows in each sample, a `_sub_sequence` a list of lists. For ids
`dim=None` means any 64-bit key: for tables with `sparse_update` whose size nobody knows.
"""

import dataclasses
from typing import Any, ClassVar

from paddle.v2 import mistake


class SequenceType:
    """How many rows a sample has."""

    NO_SEQUENCE = 0
    SEQUENCE = 1
    SUB_SEQUENCE = 2


class DataType:
    """What a row is."""

    Dense = 0
    SparseNonValue = 1
    SparseValue = 2
    Index = 3


_VALUES = ("dense", "sparse_binary", "sparse_float", "integer")
_LEVELS = ("single", "sequence", "nested")


@dataclasses.dataclass(frozen=True)
class InputType:
    """The type of a data layer: `dim` columns or ids, and numbers of the two classes above."""

    dim: int | None
    seq_type: int
    type: int

    mistaken_as: ClassVar[str] = "a data type"

    @property
    def value(self) -> str:
        """What a row is, as the engine names it."""
        return _VALUES[self.type]

    @property
    def level(self) -> str:
        """How many rows a sample has, as the engine names it."""
        return _LEVELS[self.seq_type]


def _input_type(dim: object, seq_type: int, type: int) -> InputType:
    if dim is None:
        if type == DataType.Dense:
            raise mistake.invalid("a dense vector needs a dim: how many numbers a row has")
        return InputType(None, seq_type, type)
    if seq_type not in range(len(_LEVELS)):
        raise mistake.invalid("seq_type must be 0, 1 or 2, see SequenceType", seq_type=seq_type)
    return InputType(mistake.whole("dim", dim), seq_type, type)


@mistake.checked_arguments
def dense_vector(dim: int, seq_type: int = SequenceType.NO_SEQUENCE) -> InputType:
    """Rows of `dim` numbers."""
    return _input_type(dim, seq_type, DataType.Dense)


@mistake.checked_arguments
def sparse_binary_vector(dim: int | None, seq_type: int = SequenceType.NO_SEQUENCE) -> InputType:
    """Rows of 0 and 1, given as the ids below `dim` of the columns that are 1."""
    return _input_type(dim, seq_type, DataType.SparseNonValue)


@mistake.checked_arguments
def sparse_float_vector(dim: int | None, seq_type: int = SequenceType.NO_SEQUENCE) -> InputType:
    """Rows of mostly 0, given as pairs of an id below `dim` and a number."""
    return _input_type(dim, seq_type, DataType.SparseValue)


@mistake.checked_arguments
def integer_value(value_range: int | None, seq_type: int = SequenceType.NO_SEQUENCE) -> InputType:
    """An id below `value_range`."""
    return _input_type(value_range, seq_type, DataType.Index)


@mistake.checked_arguments
def dense_vector_sequence(dim: int) -> InputType:
    """A sequence of rows of `dim` numbers."""
    return dense_vector(dim, SequenceType.SEQUENCE)


@mistake.checked_arguments
def dense_vector_sub_sequence(dim: int) -> InputType:
    """A sequence of sequences of rows of `dim` numbers."""
    return dense_vector(dim, SequenceType.SUB_SEQUENCE)


@mistake.checked_arguments
def sparse_binary_vector_sequence(dim: int | None) -> InputType:
    """A sequence of sparse binary rows."""
    return sparse_binary_vector(dim, SequenceType.SEQUENCE)


@mistake.checked_arguments
def sparse_binary_vector_sub_sequence(dim: int | None) -> InputType:
    """A sequence of sequences of sparse binary rows."""
    return sparse_binary_vector(dim, SequenceType.SUB_SEQUENCE)


@mistake.checked_arguments
def sparse_float_vector_sequence(dim: int | None) -> InputType:
    """A sequence of sparse rows with numbers."""
    return sparse_float_vector(dim, SequenceType.SEQUENCE)


@mistake.checked_arguments
def sparse_float_vector_sub_sequence(dim: int | None) -> InputType:
    """A sequence of sequences of sparse rows with numbers."""
    return sparse_float_vector(dim, SequenceType.SUB_SEQUENCE)


@mistake.checked_arguments
def integer_value_sequence(value_range: int | None) -> InputType:
    """A sequence of ids."""
    return integer_value(value_range, SequenceType.SEQUENCE)


@mistake.checked_arguments
def integer_value_sub_sequence(value_range: int | None) -> InputType:
    """A sequence of sequences of ids."""
    return integer_value(value_range, SequenceType.SUB_SEQUENCE)


dense_array = dense_vector
dense_array_sequence = dense_vector_sequence
dense_array_sub_sequence = dense_vector_sub_sequence
integer_sequence = integer_value_sequence

sparse_vector = sparse_float_vector
sparse_vector_sequence = sparse_float_vector_sequence
sparse_vector_sub_sequence = sparse_float_vector_sub_sequence

# The names of V1.
dense_slot = dense_vector
sparse_non_value_slot = sparse_binary_vector
sparse_value_slot = sparse_float_vector
index_slot = integer_value

__all__ = [
    "DataType",
    "InputType",
    "SequenceType",
    "dense_array",
    "dense_array_sequence",
    "dense_array_sub_sequence",
    "dense_slot",
    "dense_vector",
    "dense_vector_sequence",
    "dense_vector_sub_sequence",
    "index_slot",
    "integer_sequence",
    "integer_value",
    "integer_value_sequence",
    "integer_value_sub_sequence",
    "sparse_binary_vector",
    "sparse_binary_vector_sequence",
    "sparse_binary_vector_sub_sequence",
    "sparse_float_vector",
    "sparse_float_vector_sequence",
    "sparse_float_vector_sub_sequence",
    "sparse_non_value_slot",
    "sparse_value_slot",
    "sparse_vector",
    "sparse_vector_sequence",
    "sparse_vector_sub_sequence",
]


def __getattr__(name: str) -> Any:
    raise mistake.missing_name("paddle.data_type", name, __all__)
