"""Data providers: `@provider(input_types=[…])` over a generator of samples.

    from paddle.trainer.PyDataProvider2 import *

    @provider(input_types={"x": dense_vector(13), "y": dense_vector(1)})
    def process(settings, file_name):
        with open(file_name) as file:
            for line in file:
                numbers = [float(each) for each in line.split()]
                yield {"x": numbers[:-1], "y": numbers[-1:]}

The function gets one file of the list after the other. It runs in a process of its own, ahead of
the training; `docs/v1.md` says how samples are shuffled and batched.
"""

import inspect
import logging
from collections.abc import Callable
from typing import Any

from paddle.v2 import data_type as _data_type
from paddle.v2 import mistake
from paddle.v2.data_type import *  # noqa: F403
from paddle.v2.data_type import InputType

__all__ = [
    "CacheType",
    "DataProvider",
    "provider",
    *(name for name in _data_type.__all__),
]

_TRUE = ("t", "true", "on", "1")
_FALSE = ("f", "false", "off", "0")


class CacheType:
    """Whether a provider runs in every pass."""

    NO_CACHE = 0
    # The samples of the first pass are kept; later passes only shuffle them anew.
    CACHE_PASS_IN_MEM = 1


class Settings:
    """What a provider's function and hook get first; any attribute may be set.

    input_types, should_shuffle, pool_size, min_pool_size, can_over_batch_size, calc_batch_size,
    is_train, file_list, logger.
    """

    should_shuffle: Any
    pool_size: Any
    min_pool_size: Any
    can_over_batch_size: Any
    calc_batch_size: Any
    cache: Any
    check: Any
    check_fail_continue: Any

    def __init__(self, options: dict[str, Any]) -> None:
        self.logger = logging.getLogger("paddle")
        self.input_types: Any = None
        self.is_train = True
        self.file_list: list[str] = []
        self.__dict__.update(options)

    @property
    def slots(self) -> Any:
        """The old name of input_types."""
        return self.input_types

    @slots.setter
    def slots(self, value: Any) -> None:
        self.input_types = value


class DataProvider:
    """A generator function with what `provider` was told of it."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        self.function = function
        self.options = options
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", "provider")

    @property
    def place(self) -> str:
        """`file:line` of the function."""
        code = inspect.unwrap(self.function).__code__
        return f"{code.co_filename}:{code.co_firstlineno}"

    def make_settings(self) -> Settings:
        """Settings for one use of the provider."""
        return Settings(self.options)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """The samples of a file, for programs that call their provider themselves."""
        return self.function(*arguments, **named)


@mistake.checked_arguments
def provider(
    input_types: Any = None,
    should_shuffle: Any = None,
    pool_size: int = -1,
    min_pool_size: int = -1,
    can_over_batch_size: bool = True,
    calc_batch_size: Callable[[Any], int] | None = None,
    cache: int = CacheType.NO_CACHE,
    check: bool = False,
    check_fail_continue: bool = False,
    init_hook: Callable[..., Any] | None = None,
    slots: Any = None,
    use_seq: Any = None,
    use_dynamic_order: Any = None,
    args: Any = None,
) -> Callable[[Callable[..., Any]], DataProvider]:
    """Makes a data provider of a generator function `(settings, file_name)`.

    input_types:          a list, in the order of the inputs, or a dict by names of data layers; the
                          hook may set `settings.input_types` instead.
    should_shuffle:       None: in training only.
    pool_size:            samples that are shuffled together; -1 for no limit.
    min_pool_size:        samples to wait for before a batch is made; -1 for a full pool, or the
                          whole pass if pool_size is -1 too.
    calc_batch_size:      how much a sample counts in a batch and in the pool, 1 without.
    can_over_batch_size:  whether a batch may count more than its size.
    cache:                see `CacheType`.
    check:                check every sample; the wrong ones end the training, or with
                          check_fail_continue are left out.
    init_hook:            called first, with the settings, `file_list`, `is_train`, `input_order`
                          and the args of `define_py_data_sources2`.
    slots is the old name of input_types; use_seq, use_dynamic_order and args have no effect.
    """
    for name, value in (("use_seq", use_seq), ("use_dynamic_order", use_dynamic_order)):
        if value is not None:
            mistake.warn(f"{name} of @provider has no effect: input_types say what a sample is")
    if args is not None:
        mistake.warn("args of @provider have no effect: give them to define_py_data_sources2")
    types = slots if input_types is None else input_types
    if types is not None:
        check_types(types)
    options = {
        "input_types": types,
        "should_shuffle": should_shuffle,
        "pool_size": pool_size,
        "min_pool_size": min_pool_size,
        "can_over_batch_size": can_over_batch_size,
        "calc_batch_size": calc_batch_size,
        "cache": cache,
        "check": check,
        "check_fail_continue": check_fail_continue,
        "init_hook": init_hook,
    }
    if init_hook is not None and not callable(init_hook):
        raise mistake.wrong_type(
            f"init_hook must be a function but is {mistake.kind_of(init_hook)}"
        )
    check_settings(Settings(options))

    def decorate(function: Callable[..., Any]) -> DataProvider:
        return DataProvider(function, options)

    return decorate


def check_settings(settings: Settings) -> None:
    """Raises if `provider`, or a hook after it, set something that cannot be."""
    settings.should_shuffle = _switch(settings.should_shuffle)
    for name in ("pool_size", "min_pool_size"):
        mistake.whole(name, getattr(settings, name), least=-1)
    if settings.pool_size == 0:
        raise mistake.invalid("pool_size must be 1 or more, or -1 for no limit", pool_size=0)
    for name in ("can_over_batch_size", "check", "check_fail_continue"):
        mistake.truth(name, getattr(settings, name))
    weigh = settings.calc_batch_size
    if weigh is not None and not callable(weigh):
        raise mistake.wrong_type(
            f"calc_batch_size must be a function of a sample but is {mistake.kind_of(weigh)}"
        )
    if settings.cache not in (CacheType.NO_CACHE, CacheType.CACHE_PASS_IN_MEM):
        raise mistake.invalid(
            "cache must be CacheType.NO_CACHE or CACHE_PASS_IN_MEM", cache=settings.cache
        )


def check_types(types: Any) -> None:
    """Raises unless these are input types, in a list or by names."""
    if not isinstance(types, dict | list | tuple) or not types:
        raise mistake.wrong_type(
            "input_types must be a list of types like integer_value(10), or a dict of names and "
            f"types, but is {mistake.kind_of(types)}"
        )
    entries = types.items() if isinstance(types, dict) else enumerate(types)
    for key, each in entries:
        if not isinstance(each, InputType):
            raise mistake.wrong_type(
                f"input_types[{key!r}] must be a type like integer_value(10) but is "
                + mistake.kind_of(each)
            )


def _switch(value: Any) -> bool | None:
    text = str(value).strip().lower()
    if value is None or text in _TRUE or text in _FALSE:
        return None if value is None else text in _TRUE
    raise mistake.invalid(f"should_shuffle must be True, False or None but is {value!r}")
