"""Costs of rankings: of pairs, and of all documents of a query."""

from paddle.v2 import mistake, naming
from paddle.v2.layer.base import Layer, one, optional, plain, widen_label


@mistake.checked_arguments
def rank_cost(
    left: Layer,
    right: Layer,
    label: Layer,
    weight: Layer | None = None,
    name: str | None = None,
    coeff: float = 1.0,
    layer_attr: object = None,
) -> Layer:
    """RankNet: the label is 1 where `left` should score above `right`, 0 where below.

    label: one number a row, or an id; `integer_value(1)`, as some programs have it, takes 1 too.
    """
    truth = one("label", label)
    widen_label(truth, 2)
    pair = [one("left", left), one("right", right)]
    parents = [*pair, truth, *optional("weight", weight)]
    attributes = {"coeff": mistake.real("coeff", coeff)}
    return plain("rank", naming.choose(name, "rank_cost"), parents, attributes, layer_attr)


@mistake.checked_arguments
def lambda_cost(
    input: Layer,
    score: Layer,
    name: str | None = None,
    NDCG_num: int = 5,  # noqa: N803 - the original's name
    max_sort_size: int = -1,
    layer_attr: object = None,
) -> Layer:
    """LambdaRank over queries, each a sequence of documents. Its output is the NDCG, to be large.

    input:         the score that the network gives to each document.
    score:         how relevant each document is.
    NDCG_num:      how many documents of the ranking count; no query may have fewer.
    max_sort_size: compare only so many of the most relevant documents with others; -1 for all.
    """
    sorted_size = None
    if max_sort_size != -1:
        sorted_size = mistake.whole("max_sort_size", max_sort_size)
    attributes = {"truncation": mistake.whole("NDCG_num", NDCG_num), "sorted": sorted_size}
    parents = [one("input", input), one("score", score)]
    return plain("lambda", naming.choose(name, "lambda_cost"), parents, attributes, layer_attr)
