"""The cost of learning to search."""

import dataclasses
from typing import Any, ClassVar

from paddle.v2 import mistake, naming
from paddle.v2.layer.base import Layer, one, plain


@dataclasses.dataclass(frozen=True)
class BeamInput:
    """A step of a beam search.

    candidate_scores:    a score for each candidate: a sequence in the first step, later nested
                         ones, with a sequence for each candidate that the step before kept.
    selected_candidates: the places that were kept, as `kmax_seq_score` gives them.
    gold:                the right place, an integer a sample.
    """

    candidate_scores: Layer
    selected_candidates: Layer
    gold: Layer

    mistaken_as: ClassVar[str] = "a BeamInput"

    def layers(self) -> list[Layer]:
        """Its layers, in the order in which the engine takes them."""
        return [one(field.name, getattr(self, field.name)) for field in dataclasses.fields(self)]


BeamInput.__init__ = mistake.checked_arguments(BeamInput.__init__)  # type: ignore[method-assign]


@mistake.checked_arguments
def cross_entropy_over_beam(input: Any, name: str | None = None) -> Layer:
    """Cross entropy over the paths that a search has kept, of one `BeamInput` or more.

    If the right path leaves the beam in a step, it is compared with the others there.
    """
    beams = list(input) if isinstance(input, (list, tuple)) else [input]
    for beam in beams:
        if not isinstance(beam, BeamInput):
            raise mistake.wrong_type(
                f"input must be BeamInput(...) or a list of them but has {mistake.kind_of(beam)}"
            )
    if not beams:
        raise mistake.invalid("input is empty; give at least one BeamInput")
    parents = [layer for beam in beams for layer in beam.layers()]
    name = naming.choose(name, "cross_entropy_over_beam")
    return plain("cross_entropy_over_beam", name, parents)
