"""How mistakes in a description are reported: what, which values, and the user's line.

Messages have the form of the native ones: `what is wrong (key: value, at: train.py:12)`. Sizes are
checked by the native part; here are the words for what Python alone can see: names and types.
"""

import contextlib
import difflib
import functools
import inspect
import math
import numbers
import operator
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from paddle import errors
from paddle.v2.log import LOGGER

PAGE = "docs/api.md"
# Characters of a value in a message.
_SHOWN_MAX = 60
# The end of a message that has values: `(size: 3)`.
CONTEXT = re.compile(r" \([^()]+: [^()]+\)$")

Function = TypeVar("Function", bound=Callable[..., Any])
Mistake = TypeVar("Mistake", bound=errors.Error)


def place() -> str:
    """Where the user's program is: `file:line` of the nearest call from outside this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
    file = frame.f_code.co_filename
    here = os.getcwd() + os.sep
    return f"{file.removeprefix(here)}:{frame.f_lineno}"


def invalid(message: str, **context: object) -> errors.InvalidError:
    """The exception for a value that can never work."""
    return _at_line(errors.InvalidError, message, context)


def wrong_type(message: str, **context: object) -> errors.WrongTypeError:
    """The exception for an argument of the wrong type."""
    return _at_line(errors.WrongTypeError, message, context)


def unsupported(message: str, **context: object) -> errors.UnsupportedError:
    """The exception for what the original has and this package has not."""
    return _at_line(errors.UnsupportedError, message, context)


def warn(message: str, **context: object) -> None:
    """Logs what looks like a mistake but can go on."""
    LOGGER.warning(_with_values(message, {**context, "at": place()}), stacklevel=2)


def missing_name(
    module: str, name: str, there: Iterable[str], not_yet: Mapping[str, str] | None = None
) -> Exception:
    """The exception for a name that `module` does not have.

    `not_yet` has names of the original that are missing, each with what is nearest to it.
    """
    there = sorted(there)
    if name.startswith("__"):
        return AttributeError(f"module {module!r} has no attribute {name!r}")
    if not_yet and name in not_yet:
        nearest = not_yet[name] or f"see {PAGE}"
        message = f"{module}.{name} is not there yet; {nearest}"
        return _at_line(errors.MissingNameError, message, {})
    hint = suggestion(name, there) or f"; see {PAGE}"
    return _at_line(errors.MissingNameError, f"{module} has no {name!r}{hint}", {})


def suggestion(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'size'?`, or nothing."""
    by_lower = {each.lower(): each for each in known}
    # V1 wrote `fc_layer`; V2 dropped the ending.
    plain = name.lower().removesuffix("_layer")
    close = [plain] if plain in by_lower else difflib.get_close_matches(plain, by_lower, n=1)
    return f"; did you mean {by_lower[close[0]]!r}?" if close else ""


def kind_of(value: object) -> str:
    """What a value is, for a message."""
    described = getattr(value, "mistaken_as", None)
    if isinstance(described, str) and not isinstance(value, type):
        return described
    if isinstance(value, type):
        return f"the class {value.__name__}"
    shown = repr(value)
    if len(shown) > _SHOWN_MAX:
        # Half a description of something large tells less than its type.
        shown = f"{shown[:_SHOWN_MAX]}…" if isinstance(value, (str, bytes, int, float)) else ""
    return f"{type(value).__name__} {shown}".rstrip()


@contextlib.contextmanager
def reported_here() -> Iterator[None]:
    """Adds the user's line to errors of the native part that do not know it."""
    try:
        yield
    except errors.Error as error:
        if error.at is not None:
            raise
        text = str(error)
        text = f"{text[:-1]}, " if CONTEXT.search(text) else f"{text} ("
        line = place()
        located = type(error)(f"{text}at: {line})")
        located.at = line
        raise located from None


def checked_arguments(function: Function) -> Function:
    """Makes wrong argument names say what is accepted. For functions that users call."""
    signature = inspect.signature(function)
    name = function.__qualname__.removesuffix(".__init__")
    own = 1 if next(iter(signature.parameters), None) == "self" else 0

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            signature.bind(*args, **kwargs)
        except TypeError:
            accepted = list(signature.parameters)[own:]
            raise _argument_mistake(name, signature, accepted, (args, kwargs)) from None
        return function(*args, **kwargs)

    return call  # type: ignore[return-value]


def whole(name: str, value: object, least: int = 1) -> int:
    """A whole number; numpy's are accepted."""
    try:
        index: Any = value
        number = None if isinstance(value, bool) else operator.index(index)
    except TypeError:
        number = None
    if number is None:
        raise wrong_type(f"{name} must be a whole number but is {kind_of(value)}")
    if number < least:
        raise invalid(f"{name} must be {least} or more", **{name: number})
    return number


def real(name: str, value: object) -> float:
    """A finite number; numpy's are accepted."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise wrong_type(f"{name} must be a number but is {kind_of(value)}")
    if not math.isfinite(value):
        raise invalid(f"{name} must be finite", **{name: value})
    return float(value)


def truth(name: str, value: object) -> bool:
    """True or False; 1 and 0 are accepted for them."""
    if not isinstance(value, (bool, numbers.Integral)) or value not in (0, 1):
        raise wrong_type(f"{name} must be True or False but is {kind_of(value)}")
    return bool(value)


def _is_ours(module: str) -> bool:
    return module == "paddle" or module.startswith(("paddle.", "contextlib"))


def _at_line(kind: type[Mistake], message: str, context: dict[str, object]) -> Mistake:
    line = place()
    error = kind(_with_values(message, {**context, "at": line}))
    error.at = line
    return error


def _with_values(message: str, context: dict[str, object]) -> str:
    pairs = [f"{key}: {value}" for key, value in context.items()]
    return f"{message} ({', '.join(pairs)})"


def _argument_mistake(
    function: str,
    signature: inspect.Signature,
    accepted: list[str],
    call: tuple[tuple[Any, ...], dict[str, Any]],
) -> errors.WrongTypeError:
    args, kwargs = call
    takes = f"it takes {', '.join(accepted) or 'none'}"
    for name in kwargs:
        if name not in signature.parameters:
            hint = suggestion(name, accepted) or f"; {takes}"
            return wrong_type(f"{function} has no argument {name!r}{hint}")
    positional = list(signature.parameters)
    if len(args) > len(positional):
        return wrong_type(f"{function} is given too many arguments; {takes}")
    given = {*positional[: len(args)], *kwargs}
    for name, parameter in signature.parameters.items():
        if parameter.default is parameter.empty and name not in given:
            return wrong_type(f"{function} needs the argument {name!r}; {takes}")
    return wrong_type(f"{function} is given an argument twice; {takes}")
