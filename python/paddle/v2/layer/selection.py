"""Layers that select: ids by their probability, the best places of sequences, sequences by them."""

from paddle.v2 import mistake, naming
from paddle.v2.layer.base import Layer, one, plain


@mistake.checked_arguments
def sampling_id(input: Layer, name: str | None = None, layer_attr: object = None) -> Layer:
    """An id drawn by the probabilities of each row.

    The seed of `paddle.init` and the number of the batch decide; in a test or in `infer` every
    batch draws as the first.
    """
    name = naming.choose(name, "sampling_id_layer")
    return plain("sampling_id", name, [one("input", input)], layer_attr=layer_attr)


@mistake.checked_arguments
def eos(input: Layer, eos_id: int, name: str | None = None, layer_attr: object = None) -> Layer:
    """1 for each id that is `eos_id`, 0 for others."""
    attributes = {"eos_id": mistake.whole("eos_id", eos_id, least=0)}
    name = naming.choose(name, "eos_layer")
    return plain("eos", name, [one("input", input)], attributes, layer_attr)


@mistake.checked_arguments
def kmax_seq_score(input: Layer, name: str | None = None, beam_size: int = 1) -> Layer:
    """The places of the `beam_size` highest scores of each sequence; -1 where there are fewer."""
    attributes = {"beam_size": mistake.whole("beam_size", beam_size)}
    name = naming.choose(name, "kmax_seq_score_layer")
    return plain("kmax_seq_score", name, [one("input", input)], attributes)


@mistake.checked_arguments
def sub_nested_seq(input: Layer, selected_indices: Layer, name: str | None = None) -> Layer:
    """The sequences of each sample whose places are in its row of `selected_indices`."""
    parents = [one("input", input), one("selected_indices", selected_indices)]
    return plain("sub_nested_seq", naming.choose(name, "sub_nested_seq_layer"), parents)
