"""Sentences that a network makes: `beam_search` with a `GeneratedInput`."""

from collections.abc import Callable
from typing import Any

from paddle.v2 import attr, mistake, naming
from paddle.v2.layer import scope
from paddle.v2.layer.base import Finish, Layer, describe
from paddle.v2.layer.group import BaseGeneratedInput, StaticInput
from paddle.v2.layer.step import Seen, Step, run_step


class GeneratedInput(BaseGeneratedInput):
    """In `beam_search`: the word before, as its row of the table `embedding_name`.

    size: how many words there are; embedding_size: numbers in a row. The table is that of the
    embedding layer in training, whose `param_attr` names it.
    """

    @mistake.checked_arguments
    def __init__(self, size: int, embedding_name: str, embedding_size: int) -> None:
        self.size = mistake.whole("size", size)
        self.embedding = attr.ParamAttr(name=embedding_name)
        if self.embedding.name is None:
            raise mistake.invalid(
                "embedding_name names the table of words: that of the embedding in training"
            )
        self.embedding_size = mistake.whole("embedding_size", embedding_size)


@mistake.checked_arguments
def beam_search(
    step: Callable[..., Any],
    input: Any,
    bos_id: int,
    eos_id: int,
    beam_size: int,
    max_length: int = 500,
    name: str | None = None,
    num_results_per_sample: int | None = None,
) -> Layer:
    """The most probable sentences of each sample, by a step that gives the next word's probability.

    `step` is that of a `recurrent_group` in training, under the same `name` so that parameters are
    the same; `input` is a `GeneratedInput`, the word before, and `StaticInput`. Sentences begin
    with `bos_id` and end with `eos_id` or after `max_length` words; the best `beam_size` are
    pursued, and `num_results_per_sample` of them given (all if left out).

    `paddle.infer(…, field=["prob", "id"])` gives an array of samples x sentences, the logarithms of
    how probable they are, and the words of all sentences: for each its length, its words, and -1.
    """
    name = naming.choose(name, "beam_search")
    given = list(input) if isinstance(input, (list, tuple)) else [input]
    generated = [each for each in given if isinstance(each, BaseGeneratedInput)]
    if len(generated) != 1 or not isinstance(generated[0], GeneratedInput):
        raise mistake.invalid(
            f"input must have one GeneratedInput but has {len(generated)}; it is the word before"
        )
    word = generated[0]
    with scope.opened(name) as inside:
        network = Step(inside)
        row = Seen(
            "generated word", {"size": word.embedding_size, "value": "dense", "level": "single"}
        )
        seen = [
            row if each is word else _see(network, place, each) for place, each in enumerate(given)
        ]
        described = network.describe(run_step(step, seen))
    described["links"].append({"name": row.name, "role": "word"})
    beam_size = mistake.whole("beam_size", beam_size)
    attributes = {
        "step": described,
        "words": word.size,
        "embedding_size": word.embedding_size,
        "bos_id": mistake.whole("bos_id", bos_id, least=0),
        "eos_id": mistake.whole("eos_id", eos_id, least=0),
        "beam_size": beam_size,
        "max_length": mistake.whole("max_length", max_length),
        "results": beam_size
        if num_results_per_sample is None
        else mistake.whole("num_results_per_sample", num_results_per_sample),
    }
    description = describe(name, "beam_search", Finish(), attributes)
    return Layer(description, network.inputs, {**network.said(), "embedding": word.embedding})


def _see(network: Step, place: int, given: object) -> Layer:
    if not isinstance(given, StaticInput):
        raise mistake.wrong_type(
            f"input[{place}] of a beam search must be a StaticInput or the GeneratedInput but is "
            + mistake.kind_of(given)
        )
    return network.see(given.input, "whole", given.input.shape["level"])
