"""Messages in the words of V1: those of `paddle.v2` name what no configuration has."""

import re

from paddle.trainer_config_helpers.layers import names_of
from paddle.v2 import layer, pooling

_ATTRIBUTES = {"Param": "ParamAttr", "Extra": "ExtraAttr", "Hook": "HookAttr"}
_NAME = re.compile(
    r"\bpaddle\.(activation|attr|data_type|evaluator|layer|networks|optimizer|pooling)\.(\w+)"
)
# What is nearest to a name that is not there, in names without their module.
_NEAREST = re.compile(r"\bpaddle\.(layer|pooling)\.(\w+ is not there yet); (.*)")
# Names that are no word of the language: they are what they look like, without their module too.
_PLAIN = re.compile(r"\b(cross_entropy_cost|multi_binary_label_cross_entropy_cost|max_id)\b")


def in_v1(message: str) -> str:
    """A message with V1's names: `SoftmaxActivation()` for `paddle.activation.Softmax()`."""
    message = _NEAREST.sub(_nearest, message)
    message = _NAME.sub(lambda found: _renamed(found[1], found[2]), message)
    return _PLAIN.sub(lambda found: _renamed("layer", found[1]), message)


def _renamed(module: str, name: str) -> str:
    if module in ("activation", "pooling"):
        return f"{name}{module.capitalize()}"
    if module == "evaluator":
        return f"{name}_evaluator"
    if module == "attr":
        return _ATTRIBUTES.get(name, name)
    return names_of(name)[0] if module == "layer" else name


def _nearest(found: re.Match[str]) -> str:
    module, missing, nearest = found.groups()
    known = layer.__all__ if module == "layer" else pooling.__all__

    def renamed(word: re.Match[str]) -> str:
        return _renamed(module, word[0]) if word[0] in known else word[0]

    # An argument, as in `trans=True`, is not the layer of its name.
    return f"paddle.{module}.{missing}; " + re.sub(r"\w+\b(?!=)", renamed, nearest)
