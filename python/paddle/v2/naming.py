"""Names for what the user does not name: `__<prefix>_<n>__`, counted by prefix.

The names are the original's, so that parameter files and logs of both look alike.
"""

import collections

from paddle.v2 import mistake

_counters: collections.Counter[str] = collections.Counter()


def choose(name: object, prefix: str) -> str:
    """The user's name, or the next one for `prefix`."""
    if name is None:
        number = _counters[prefix]
        _counters[prefix] += 1
        return f"__{prefix}_{number}__"
    if not isinstance(name, str):
        raise mistake.wrong_type(f"name must be a str but is {mistake.kind_of(name)}")
    if not name:
        raise mistake.invalid("name must not be empty; leave it out for an automatic one")
    return name


def reset() -> None:
    """Begins counting anew, for a program that describes several networks with the same names."""
    _counters.clear()
