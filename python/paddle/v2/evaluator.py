"""Evaluators: figures that are counted over batches and shown beside the cost.

An evaluator belongs to the layers it looks at; it is counted in every network that has them all.
"""

import dataclasses
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from paddle import _native
from paddle.v2 import mistake, naming

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

    mistaken_as: ClassVar[str] = "an evaluator"

    def describe(self, name: str) -> dict[str, Any]:
        """Its description under `name`, as the engine reads it."""
        inputs = [layer.name for layer in self.inputs]
        return {"name": name, "kind": self.kind, "inputs": inputs, "attributes": self.attributes}


def attach(kind: str, name: str, inputs: "list[Layer]", attributes: dict[str, Any]) -> Evaluator:
    """Checks an evaluator and hands it to the layers it looks at."""
    evaluator = Evaluator(name, kind, tuple(inputs), attributes)
    shapes = json.dumps([layer.shape for layer in inputs])
    with mistake.reported_here():
        _native.check_evaluator(json.dumps(evaluator.describe(name)), shapes)
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


classification_error_evaluator = classification_error
auc_evaluator = auc
chunk_evaluator = chunk
ctc_error_evaluator = ctc_error
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
    "ctc_error",
    "ctc_error_evaluator",
    "precision_recall",
    "precision_recall_evaluator",
    "sum",
    "sum_evaluator",
]

NOT_YET = """
    classification_error_printer column_sum detection_map gradient_printer maxframe_printer
    maxid_printer pnpair seqtext_printer value_printer
""".split()


def __getattr__(name: str) -> Any:
    functions = [each for each in __all__ if each.islower() and not each.endswith("_evaluator")]
    if name.removesuffix("_evaluator") in NOT_YET:
        name = name.removesuffix("_evaluator")
    raise mistake.missing_name("paddle.evaluator", name, functions, NOT_YET)
