"""`paddle dump_config CONFIG [CONFIG_ARGS]`: what a configuration describes."""

import sys

from paddle.utils import program
from paddle.v1 import description

USAGE = """\
Print what a V1 configuration describes, as the original's ModelConfig in text form
usage: paddle dump_config CONFIG [CONFIG_ARGS] [--whole | --binary]
  CONFIG       the configuration
  CONFIG_ARGS  name=value,…: what get_config_arg finds
  --whole      print the TrainerConfig: the network and how it is trained
  --binary     write the ModelConfig as bytes"""


def main(arguments: list[str]) -> None:
    """Prints a configuration."""
    flags = [each for each in arguments if each.startswith("--")]
    if set(flags) - {"--whole", "--binary"} or len(flags) > 1:
        raise program.UsageError(f"cannot do {' '.join(flags)}")
    words = program.take(arguments, 1, 2)
    described, topology = program.describe(*words)
    if flags == ["--binary"]:
        sys.stdout.buffer.write(topology.proto().SerializeToString())
        return
    is_whole = flags == ["--whole"]
    print(description.whole(described, topology) if is_whole else topology.proto(), end="")


if __name__ == "__main__":
    program.run("dump_config", USAGE, main)
