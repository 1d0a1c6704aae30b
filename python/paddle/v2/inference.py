"""Answers of a trained network: `paddle.infer(output_layer=prediction, parameters=…, input=…)`."""

from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

import numpy

from paddle import _native
from paddle.v2 import mistake
from paddle.v2 import printer as printing
from paddle.v2.feeding import Feeder, build_network
from paddle.v2.parameters import Parameters
from paddle.v2.topology import Topology

__all__ = ["Inference", "infer"]

FIELDS = ("value", "prob", "id")


class Inference:
    """A network with values, to be asked many times.

    Either `output_layer`, one or several, or `fileobj` says what the network is; the latter is a
    file that `Topology.serialize_for_inference` wrote.
    """

    @mistake.checked_arguments
    def __init__(
        self,
        parameters: Parameters,
        output_layer: Any = None,
        fileobj: BinaryIO | None = None,
    ) -> None:
        if not isinstance(parameters, Parameters):
            raise mistake.wrong_type(
                f"parameters must be Parameters but is {mistake.kind_of(parameters)}"
            )
        if (output_layer is None) == (fileobj is None):
            raise mistake.invalid("give either output_layer or fileobj")
        topology = Topology(output_layer) if fileobj is None else Topology.load(fileobj)
        self._outputs = topology.outputs
        self._network = build_network(topology)
        with mistake.reported_here():
            self._inference = _native.Inference(self._network, parameters.native)

    def infer(
        self,
        input: Any,
        feeding: Any = None,
        field: Any = "value",
        flatten_result: bool = True,
    ) -> Any:
        """The outputs for the samples of `input`, in one array; of several outputs, a list.

        field: `value` or `prob`, the numbers; `id`, the ids that a layer found (`beam_search`,
        `crf_decoding`), else that of the largest number in each row. A list gives each in turn.
        flatten_result: False gives a list of the outputs for each field, also if there is only one
        output; of one field, that list alone.
        """
        is_flat = mistake.truth("flatten_result", flatten_result)
        with mistake.reported_here():
            batch = Feeder(self._network, feeding)(input)
        outputs = [(values, ids) for values, ids, _ in self._inference.run(batch)]
        fields = [field] if isinstance(field, str) else list(field)
        by_field = [[_field(output, each) for output in outputs] for each in fields]
        if not is_flat:
            return by_field[0] if len(by_field) == 1 else by_field
        results = [result for results in by_field for result in results]
        return results[0] if len(results) == 1 else results

    def watch(self, input: Any, feeding: Any = None) -> list[printing.Watched]:
        """The outputs for the samples of `input`, as printers take them."""
        with mistake.reported_here():
            batch = Feeder(self._network, feeding)(input)
        found = zip(self._outputs, self._inference.run(batch), strict=True)
        watched = []
        for layer, (values, ids, offsets) in found:
            scores = values if layer.kind == "beam_search" else None
            watched.append(
                printing.Watched(layer.name, values if ids is None else ids, offsets, scores)
            )
        return watched

    def iter_infer(
        self, reader: Iterable[Any], feeding: Any = None, field: Any = "value"
    ) -> Iterator[Any]:
        """The outputs of each batch of a reader."""
        for batch in reader:
            yield self.infer(batch, feeding, field)


@mistake.checked_arguments
def infer(
    output_layer: Any,
    parameters: Parameters,
    input: Any,
    feeding: Any = None,
    field: Any = "value",
) -> Any:
    """As `Inference.infer`, for a network that is asked once."""
    return Inference(parameters, output_layer).infer(input, feeding, field)


def _field(output: tuple[Any, Any], field: str) -> Any:
    values, ids = output
    if field not in FIELDS:
        raise mistake.invalid(f"field must be one of {', '.join(FIELDS)} but is {field!r}")
    if field == "id" and ids is not None:
        # -1, which ends a sentence, is the largest there is.
        return ids.astype(numpy.int64)
    if field == "id" and values.ndim == 2:
        return numpy.argmax(values, axis=1).astype(numpy.uint64)
    return values
