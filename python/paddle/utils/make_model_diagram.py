"""`paddle make_diagram CONFIG OUTPUT [CONFIG_ARGS]`: the network of a configuration, drawn."""

import os
import shutil
import subprocess
from collections.abc import Iterator

from paddle import errors
from paddle.utils import program
from paddle.v2.topology import Topology

USAGE = """\
Draw the network of a V1 configuration
usage: paddle make_diagram CONFIG OUTPUT [CONFIG_ARGS]
  CONFIG       the configuration
  OUTPUT       a file for Graphviz (.dot), or with Graphviz installed a drawing (.svg, .png, .pdf)
  CONFIG_ARGS  name=value,…: what get_config_arg finds"""

_DRAWN = (".svg", ".png", ".pdf")
# How long Graphviz may take.
DOT_SECONDS = 600


def main(arguments: list[str]) -> None:
    """Writes the drawing."""
    words = program.take(arguments, 2, 3)
    _, topology = program.describe(words[0], *words[2:])
    graph = "\n".join(draw(topology)) + "\n"
    output, ending = words[1], os.path.splitext(words[1])[1]
    if ending not in _DRAWN:
        with open(output, "w", encoding="utf-8") as file:
            file.write(graph)
        return
    if shutil.which("dot") is None:
        raise errors.UnsupportedError(
            f"a {ending} file needs Graphviz, whose command `dot` is not installed; write a .dot "
            "file instead"
        )
    command = ["dot", f"-T{ending[1:]}", "-o", output]
    try:
        done = subprocess.run(
            command, input=graph, text=True, capture_output=True, check=False, timeout=DOT_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise errors.DeadlineError(
            f"dot did not draw the network within {DOT_SECONDS} seconds; write a .dot file instead"
        ) from None
    if done.returncode:
        raise errors.Error(f"dot failed: {done.stderr.strip()}")


def draw(topology: Topology) -> Iterator[str]:
    """The network in Graphviz's language, line by line."""
    yield "digraph network {"
    yield "  node [shape=box, fontname=sans];"
    outputs = {layer.name for layer in topology.outputs}
    for layer in topology.layers:
        lines = [layer.name, f"{layer.kind}, {layer.size}"]
        if layer.activation != "linear":
            lines.append(layer.activation)
        style = ", style=rounded" if layer.type is not None else ""
        style = ", peripheries=2" if layer.name in outputs else style
        yield f"  {_quoted(layer.name)} [label={_quoted(chr(10).join(lines))}{style}];"
    for layer in topology.layers:
        for parent in layer.parents:
            yield f"  {_quoted(parent.name)} -> {_quoted(layer.name)};"
    yield "}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


if __name__ == "__main__":
    program.run("make_diagram", USAGE, main)
