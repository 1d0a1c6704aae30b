"""That docs/api.md and the tests of values know every layer, projection, network and evaluator."""

import pathlib
import re

import pytest

import paddle.v2 as paddle

HERE = pathlib.Path(__file__).parent
PAGE = (HERE.parents[1] / "docs" / "api.md").read_text()
# Tests that compare what a layer gives with numbers that were computed otherwise.
VALUES = (
    "test_layer_values.py",
    "test_vector_layers.py",
    "test_sequence_layers.py",
    "test_images.py",
    "test_detection.py",
    "test_groups.py",
    "test_cost_values.py",
    "test_original_numbers.py",
    "test_original_programs.py",
)


def functions(module):
    """The public functions of a module: what a program can call."""
    return [name for name in module.__all__ if name[0].islower()]


def section(title):
    """The text below a heading, up to the next of its level."""
    return PAGE.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def rows(title):
    """The names in the first column of the tables of a section."""
    first = [line.split("|")[1] for line in section(title).splitlines() if line.startswith("| ")]
    return {name for cell in first for name in re.findall(r"`(\w+)`", cell)}


@pytest.mark.parametrize(
    ("title", "module"),
    [
        ("layer", paddle.layer),
        ("networks", paddle.networks),
        ("evaluator", paddle.evaluator),
    ],
)
def test_every_function_has_a_row(title, module):
    # Names with `_evaluator` behind them are said to be the same above the table.
    expected = {name for name in functions(module) if not name.endswith("_evaluator")}
    missing = expected - rows(title) - {"parse_network"}
    assert missing == set()


def test_rows_name_what_there_is():
    for title, module in (("layer", paddle.layer), ("networks", paddle.networks)):
        arguments = {"input", "name", "act", "param_attr", "bias_attr", "layer_attr"}
        wrong = {name for name in rows(title) - arguments if not hasattr(module, name)}
        assert wrong == set()


def test_what_is_not_there_is_listed():
    listed = section("layer").split("### Not there yet\n", 1)[1]
    assert set(re.findall(r"`(\w+)`", listed)) == set(paddle.layer.NOT_YET)


def test_the_values_of_every_layer_are_compared():
    text = "".join((HERE / name).read_text() for name in VALUES)
    called = set(re.findall(r"\b\w+\b", text))
    # A second name is as good as the first.
    tried = {getattr(paddle.layer, name) for name in called if name in paddle.layer.__all__}
    missing = [name for name in functions(paddle.layer) if getattr(paddle.layer, name) not in tried]
    assert missing == []
