"""Where the rows of sequences are, which lie one after the other: told by the lengths alone.

Some layers need sequences beside each other. Then rows are padded to `[steps, N, size]`, in which
row t of sequence n is at `[t, n]`; of reversed ones the last row is at step 0. Behind the end of a
sequence stands a number that changes nothing. There is always a step, also if all sequences are
without rows: not every operator bears a side of 0.
"""

import functools

from paddle.v2.layer.base import Layer
from paddle.v2.onnx.graph import LENGTHS, Graph


class Rows:
    """The rows of sequences of the same lengths; what is asked of them is computed once."""

    def __init__(
        self, graph: Graph, lengths: str, sources: frozenset["Rows"] = frozenset()
    ) -> None:
        self.lengths = lengths
        self._graph = graph
        self._indices: dict[bool, str] = {}
        # Of joined ones those whose lengths were compared.
        self._sources = sources or frozenset([self])

    @functools.cached_property
    def count(self) -> str:
        """How many sequences there are: `[1]`."""
        return self._graph.add("Shape", self.lengths)

    @functools.cached_property
    def begins(self) -> str:
        """The first row of each sequence: `[N]`."""
        ends = self._graph.add("CumSum", self.lengths, self._graph.constant(0))
        return self._graph.add("Sub", ends, self.lengths)

    @functools.cached_property
    def sequences(self) -> str:
        """The sequence of each row: `[rows]`."""
        return self._graph.add("Gather", self._places, self._graph.constant(0), axis=0)

    @functools.cached_property
    def steps(self) -> str:
        """The place of each row in its sequence: `[rows]`."""
        return self._graph.add("Gather", self._places, self._graph.constant(1), axis=0)

    def of_each(self, values: str) -> str:
        """What `[N, …]` has for the sequence of each row: `[rows, …]`."""
        return self._graph.add("Gather", values, self.sequences, axis=0)

    def has_step(self, ahead: int = 0) -> str:
        """Whether sequences have a row at each step, or so many after it: `[steps, N, 1]`."""
        steps = self._graph.reshape(self._all_steps, [-1, 1, 1])
        steps = self._graph.add("Add", steps, self._graph.constant(ahead))
        return self._graph.add("Less", steps, self._graph.reshape(self.lengths, [1, -1, 1]))

    def pad(self, value: str, size: int, fill: float = 0.0, is_reversed: bool = False) -> str:
        """Rows of `size` numbers as `[steps, N, size]`."""
        sides = [self._longest, self.count, self._graph.constant([size])]
        shape = self._graph.add("Concat", *sides, axis=0)
        empty = self._graph.add("Expand", self._graph.constant(fill), shape)
        return self._graph.add("ScatterND", empty, self._padded_places(is_reversed), value)

    def unpad(self, padded: str, is_reversed: bool = False) -> str:
        """The rows of what `pad` made."""
        return self._graph.add("GatherND", padded, self._padded_places(is_reversed))

    def joined(self, other: "Rows", layer: Layer) -> "Rows":
        """These rows, for a layer that takes them beside the other's, if all lengths are equal."""
        sources = self._sources | other._sources
        for rows in (self, other):
            if rows._sources == sources:
                return rows
        difference = self._graph.add("Sub", self.lengths, other.lengths)
        why = f"inputs of layer {layer.name} are sequences of different lengths"
        return Rows(self._graph, self.checked(difference, why), sources)

    def checked(self, wrong: str, why: str) -> str:
        """The lengths; an error that shows `why` if any of `wrong` is not 0."""
        size = self._graph.add("Abs", wrong)
        return self._graph.checked(self.lengths, self._graph.add("ReduceSum", size), why)

    @functools.cached_property
    def _longest(self) -> str:
        longest = self._graph.add("ReduceMax", self.lengths, axes=[0])
        return self._graph.add("Max", longest, self._graph.constant([1]))

    @functools.cached_property
    def _all_steps(self) -> str:
        zero, one = self._graph.constant(0), self._graph.constant(1)
        return self._graph.add("Range", zero, self._graph.add("Squeeze", self._longest), one)

    @functools.cached_property
    def _places(self) -> str:
        """Sequences, and steps, of all rows in their order: `[2, rows]`."""
        lengths = self._graph.reshape(self.lengths, [-1, 1])
        return self._graph.add("NonZero", self._graph.add("Less", self._all_steps, lengths))

    def _padded_places(self, is_reversed: bool) -> str:
        if is_reversed not in self._indices:
            steps = self.steps
            if is_reversed:
                ends = self.of_each(self.lengths)
                one = self._graph.constant(1)
                steps = self._graph.add("Sub", self._graph.add("Sub", ends, one), steps)
            columns = [self._graph.reshape(column, [-1, 1]) for column in (steps, self.sequences)]
            self._indices[is_reversed] = self._graph.add("Concat", *columns, axis=1)
        return self._indices[is_reversed]


def fed_rows(graph: Graph, layer: Layer) -> Rows:
    """Those of a data layer, as many as its lengths say."""
    fed = Rows(graph, layer.name + LENGTHS)
    there = graph.add("Shape", layer.name, end=1)
    difference = graph.add("Sub", graph.add("ReduceSum", fed.lengths), there)
    why = f"{layer.name} has not as many rows as {layer.name}{LENGTHS} says"
    return Rows(graph, fed.checked(difference, why))


def joined_rows(graph: Graph, layer: Layer) -> Rows:
    """Those of a layer that makes a row of each row of its inputs."""
    first, *others = (graph.rows[each.name] for each in layer.parents if each.name in graph.rows)
    return functools.reduce(lambda rows, other: rows.joined(other, layer), others, first)
