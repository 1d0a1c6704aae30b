"""Evaluators: figures that are counted over batches and shown beside the cost.

An evaluator belongs to the layers it looks at; it is counted in every network that has them all.
"""

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from paddle.v2 import mistake, naming
from paddle.v2 import printer as printing

if TYPE_CHECKING:
    from paddle.v2.layer.base import Layer

CHUNK_SCHEMES = ("plain", "IOB", "IOE", "IOBES")


@dataclasses.dataclass(frozen=True, eq=False)
class Evaluator:
    """What is counted; `name` is the key of its figure in `event.metrics`."""

    name: str
    kind: str
    inputs: tuple["Layer", ...]
    attributes: dict[str, Any]
    # What writes the layers' outputs after every batch, of an evaluator that shows them.
    printer: printing.Printer | None = None

    mistaken_as: ClassVar[str] = "an evaluator"

    def describe(self, name: str) -> dict[str, Any]:
        """Its description under `name`, as the engine reads it."""
        inputs = [layer.name for layer in self.inputs]
        return {"name": name, "kind": self.kind, "inputs": inputs, "attributes": self.attributes}


def attach(
    kind: str,
    name: str,
    inputs: "list[Layer]",
    attributes: dict[str, Any],
    printer: printing.Printer | None = None,
) -> Evaluator:
    """Checks an evaluator and hands it to the layers it looks at."""
    from paddle.v2.layer import planning

    evaluator = Evaluator(name, kind, tuple(inputs), attributes, printer)
    with mistake.reported_here():
        planning.check_evaluator(evaluator.describe(name), [layer.shape for layer in inputs])
    for layer in inputs:
        layer.evaluators.append(evaluator)
    return evaluator


def _layers(**given: object) -> "list[Layer]":
    from paddle.v2.layer.base import optional

    return [layer for name, value in given.items() for layer in optional(name, value)]


@mistake.checked_arguments
def classification_error(
    input: "Layer",
    label: "Layer",
    name: str | None = None,
    weight: "Layer | None" = None,
    top_k: int | None = None,
    threshold: float | None = None,
) -> Evaluator:
    """The share of rows whose label is not among the `top_k` (1) best columns.

    A single column is compared with `threshold` (0.5).
    """
    attributes: dict[str, Any] = {}
    if top_k is not None:
        attributes["top_k"] = mistake.whole("top_k", top_k)
    if threshold is not None:
        attributes["threshold"] = mistake.real("threshold", threshold)
    inputs = _layers(input=input, label=label, weight=weight)
    name = naming.choose(name, "classification_error_evaluator")
    return attach("classification_error", name, inputs, attributes)


@mistake.checked_arguments
def auc(
    input: "Layer", label: "Layer", name: str | None = None, weight: "Layer | None" = None
) -> Evaluator:
    """The area under the ROC curve of the last column's score."""
    inputs = _layers(input=input, label=label, weight=weight)
    return attach("auc", naming.choose(name, "auc_evaluator"), inputs, {})


@mistake.checked_arguments
def pnpair(
    input: "Layer",
    label: "Layer",
    query_id: "Layer | None" = None,
    weight: "Layer | None" = None,
    name: str | None = None,
    info: "Layer | None" = None,
) -> Evaluator:
    """Pairs of rows of a query that the last column puts in the order of their labels, divided
    by the pairs that it puts in the opposite order; a pair weighs the mean of its rows' weights.

    query_id: the query that a row belongs to; the original's older name for it is `info`.
    """
    if (query_id is None) == (info is None):
        problem = "missing" if info is None else "given twice, the second time as info"
        raise mistake.invalid(f"query_id is {problem}")
    inputs = _layers(input=input, label=label, query_id=query_id, info=info, weight=weight)
    return attach("pnpair", naming.choose(name, "pnpair_evaluator"), inputs, {})


@mistake.checked_arguments
def precision_recall(
    input: "Layer",
    label: "Layer",
    positive_label: int | None = None,
    weight: "Layer | None" = None,
    name: str | None = None,
) -> Evaluator:
    """Precision, recall and F1, of one label or over all."""
    attributes: dict[str, Any] = {}
    if positive_label is not None:
        attributes["positive_label"] = mistake.whole("positive_label", positive_label, least=0)
    inputs = _layers(input=input, label=label, weight=weight)
    name = naming.choose(name, "precision_recall_evaluator")
    return attach("precision_recall", name, inputs, attributes)


@mistake.checked_arguments
def sum(input: "Layer", name: str | None = None, weight: "Layer | None" = None) -> Evaluator:
    """The mean over samples of the sum of a layer's output."""
    inputs = _layers(input=input, weight=weight)
    return attach("sum", naming.choose(name, "sum_evaluator"), inputs, {})


@mistake.checked_arguments
def chunk(
    input: "Layer",
    label: "Layer",
    chunk_scheme: str,
    num_chunk_types: int,
    name: str | None = None,
    excluded_chunk_types: Iterable[int] | None = None,
) -> Evaluator:
    """Precision, recall and F1 of chunks that tags mark; input is `crf_decoding` or `max_id`.

    chunk_scheme: "plain", "IOB", "IOE" or "IOBES". A tag is type x marks + mark, marks being
                  numbered in that order without O; tags beyond the types are outside of chunks.
    """
    if chunk_scheme not in CHUNK_SCHEMES:
        raise mistake.invalid(
            f"chunk_scheme must be one of {', '.join(CHUNK_SCHEMES)}", chunk_scheme=chunk_scheme
        )
    excluded = [] if excluded_chunk_types is None else list(excluded_chunk_types)
    attributes = {
        "scheme": chunk_scheme,
        "types": mistake.whole("num_chunk_types", num_chunk_types),
        "excluded": [mistake.whole("excluded_chunk_types", each, least=0) for each in excluded],
    }
    inputs = _layers(input=input, label=label)
    return attach("chunk", naming.choose(name, "chunk_evaluator"), inputs, attributes)


@mistake.checked_arguments
def ctc_error(input: "Layer", label: "Layer", name: str | None = None) -> Evaluator:
    """The edit distance of what rows show to the label, per label; the last class is the blank."""
    inputs = _layers(input=input, label=label)
    return attach("ctc_error", naming.choose(name, "ctc_error_evaluator"), inputs, {})


@mistake.checked_arguments
def column_sum(input: "Layer", name: str | None = None, weight: "Layer | None" = None) -> Evaluator:
    """The mean over samples of a layer's last column."""
    inputs = _layers(input=input, weight=weight)
    return attach("column_sum", naming.choose(name, "column_sum_evaluator"), inputs, {})


AP_TYPES = ("11point", "Integral")


@mistake.checked_arguments
def detection_map(
    input: "Layer",
    label: "Layer",
    overlap_threshold: float = 0.5,
    background_id: int = 0,
    evaluate_difficult: bool = False,
    ap_type: str = "11point",
    name: str | None = None,
) -> Evaluator:
    """The mean average precision of `detection_output`, in percent.

    overlap_threshold:  a box finds an object that it overlaps by more.
    evaluate_difficult: count objects whose label says that they are difficult to see.
    ap_type:            "11point" or "Integral".
    """
    if ap_type not in AP_TYPES:
        raise mistake.invalid(f"ap_type must be one of {', '.join(AP_TYPES)}", ap_type=ap_type)
    attributes = {
        "overlap_threshold": mistake.real("overlap_threshold", overlap_threshold),
        "background": mistake.whole("background_id", background_id, least=0),
        "evaluate_difficult": mistake.truth("evaluate_difficult", evaluate_difficult),
        "ap_type": ap_type,
    }
    inputs = _layers(input=input, label=label)
    return attach(
        "detection_map", naming.choose(name, "detection_map_evaluator"), inputs, attributes
    )


def _watch(
    name: str | None, prefix: str, inputs: "list[Layer]", printer: printing.Printer
) -> Evaluator:
    attributes = {"gradient": printer.wants_gradient}
    return attach("watch", naming.choose(name, prefix), inputs, attributes, printer)


def _several(input: object) -> "list[Layer]":
    from paddle.v2.layer.base import several

    return several("input", input)


@mistake.checked_arguments
def value_printer(input: Any, name: str | None = None) -> Evaluator:
    """Writes the output of a layer, or of several, to stderr after every batch of training."""
    printer = printing.Printer("value_printer", printing.values)
    return _watch(name, "value_printer", _several(input), printer)


@mistake.checked_arguments
def gradient_printer(input: Any, name: str | None = None) -> Evaluator:
    """Writes the gradient of a layer's output, or of several, after every batch of training."""
    printer = printing.Printer(
        "gradient_printer",
        lambda watched: printing.values(watched, "grad"),
        wants_gradient=True,
    )
    inputs = _several(input)
    fed = [layer.name for layer in inputs if layer.type is not None]
    if fed:
        raise mistake.invalid(
            "what is fed has no gradient; give a layer that computes", input=fed[0]
        )
    return _watch(name, "gradient_printer", inputs, printer)


@mistake.checked_arguments
def maxid_printer(
    input: "Layer", num_results: int | None = None, name: str | None = None
) -> Evaluator:
    """Writes the `num_results` (1) largest columns of each row after every batch of training."""
    count = 1 if num_results is None else mistake.whole("num_results", num_results)
    printer = printing.Printer(
        "max_id_printer", lambda watched: printing.best_columns(watched, count)
    )
    return _watch(name, "maxid_printer", _layers(input=input), printer)


@mistake.checked_arguments
def maxframe_printer(
    input: "Layer", num_results: int | None = None, name: str | None = None
) -> Evaluator:
    """Writes the `num_results` (1) largest rows of each sequence of size 1 after every batch."""
    count = 1 if num_results is None else mistake.whole("num_results", num_results)
    inputs = _layers(input=input)
    from paddle.v2.layer import planning

    if planning.differ((inputs[0].size, inputs[0].shape["level"]), (1, "sequence")):
        raise mistake.invalid(
            f"maxframe_printer takes a sequence of size 1 but the input has size {inputs[0].size} "
            f"and level {inputs[0].shape['level']!r}"
        )
    printer = printing.Printer(
        "max_frame_printer", lambda watched: printing.best_rows(watched, count)
    )
    return _watch(name, "maxframe_printer", inputs, printer)


@mistake.checked_arguments
def seqtext_printer(
    input: "Layer",
    result_file: str,
    id_input: "Layer | None" = None,
    dict_file: str | None = None,
    delimited: bool | None = None,
    name: str | None = None,
) -> Evaluator:
    """Writes sequences of ids as lines of `result_file` after every batch of training, or of a test
    by `paddle train --job=test`. Of a `beam_search` it is every sentence, with its number and the
    logarithm of its probability, below the number of the sample.

    id_input:  the number of each sample; without it samples are counted from 0.
    dict_file: a file with a word in each line, by which ids are replaced.
    delimited: whether there is a space between words (True).
    """
    inputs = _layers(id_input=id_input, input=input)
    ids = inputs[-1]
    from paddle.v2.layer import planning

    is_text = ids.kind == "beam_search"
    found = (ids.shape["value"], ids.shape["level"])
    if not is_text and planning.differ(found, ("integer", "sequence")):
        raise mistake.invalid(
            "seqtext_printer takes a sequence of ids, such as that of max_id, but the input has "
            f"{ids.shape['value']} values and level {ids.shape['level']!r}"
        )
    text = printing.Text(dict_file, True if delimited is None else delimited)
    printer = printing.Printer("seq_text_printer", text, path=result_file)
    return _watch(name, "seqtext_printer", inputs, printer)


@mistake.checked_arguments
def classification_error_printer(
    input: "Layer", label: "Layer", threshold: float = 0.5, name: str | None = None
) -> Evaluator:
    """Writes for each row 1 if it is classified wrong, else 0, after every batch of training.

    A single column is compared with `threshold`.
    """
    limit = mistake.real("threshold", threshold)
    printer = printing.Printer(
        "classification_error_printer", lambda watched: printing.errors(watched, limit)
    )
    inputs = _layers(input=input, label=label)
    return _watch(name, "classification_error_printer", inputs, printer)


classification_error_evaluator = classification_error
classification_error_printer_evaluator = classification_error_printer
gradient_printer_evaluator = gradient_printer
maxframe_printer_evaluator = maxframe_printer
maxid_printer_evaluator = maxid_printer
seqtext_printer_evaluator = seqtext_printer
value_printer_evaluator = value_printer
column_sum_evaluator = column_sum
detection_map_evaluator = detection_map
auc_evaluator = auc
chunk_evaluator = chunk
ctc_error_evaluator = ctc_error
pnpair_evaluator = pnpair
precision_recall_evaluator = precision_recall
sum_evaluator = sum

__all__ = [
    "Evaluator",
    "auc",
    "auc_evaluator",
    "chunk",
    "chunk_evaluator",
    "classification_error",
    "classification_error_evaluator",
    "classification_error_printer",
    "classification_error_printer_evaluator",
    "column_sum",
    "column_sum_evaluator",
    "ctc_error",
    "ctc_error_evaluator",
    "detection_map",
    "detection_map_evaluator",
    "gradient_printer",
    "gradient_printer_evaluator",
    "maxframe_printer",
    "maxframe_printer_evaluator",
    "maxid_printer",
    "maxid_printer_evaluator",
    "pnpair",
    "pnpair_evaluator",
    "precision_recall",
    "precision_recall_evaluator",
    "seqtext_printer",
    "seqtext_printer_evaluator",
    "sum",
    "sum_evaluator",
    "value_printer",
    "value_printer_evaluator",
]


def __getattr__(name: str) -> Any:
    functions = [each for each in __all__ if each.islower() and not each.endswith("_evaluator")]
    raise mistake.missing_name("paddle.evaluator", name, functions, {})
