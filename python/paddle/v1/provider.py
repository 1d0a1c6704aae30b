"""Data providers of a configuration: found, told by their hook, and asked for their types."""

import dataclasses
import importlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

from paddle import errors
from paddle.trainer.PyDataProvider2 import DataProvider, check_settings, check_types
from paddle.v1 import workspace
from paddle.v1.configuration import described, place_of
from paddle.v1.log import log
from paddle.v1.recording import Recording, Source
from paddle.v2 import mistake
from paddle.v2.data_type import InputType

# A list of files is read whole.
FILES_MAX = 1_000_000


@dataclasses.dataclass(frozen=True)
class Opened:
    """A provider that is ready to read its files.

    names and types are in the order of the inputs; settings are what its hook made of them.
    """

    provider: DataProvider
    settings: Any
    files: list[str]
    names: list[str]
    types: list[InputType]
    is_dict: bool
    is_train: bool
    source: Source

    def ordered(self, order: list[str]) -> "Opened":
        """This provider for inputs in that order."""
        if not self.is_dict:
            return dataclasses.replace(self, names=order)
        types = self.settings.input_types
        names = [name for name in order if name in types]
        return dataclasses.replace(self, names=names, types=[types[name] for name in names])

    @property
    def place(self) -> str:
        """`file:line` of the provider."""
        return _place(self.provider)


class Providers:
    """The providers of a configuration; each is opened once.

    trains, tests: what is wanted of them. One that is not wanted is not opened, so that its files
    need not be there; unless the configuration has no other.
    """

    def __init__(self, trains: bool = True, tests: bool = True) -> None:
        self._trains = trains
        self._tests = tests
        self.train: Opened | None = None
        self.test: Opened | None = None

    def find_types(
        self, recording: Recording, order: list[str]
    ) -> Sequence[InputType] | Mapping[str, InputType]:
        """What the data layers are fed with, by `order` or by name."""
        if recording.train is not None and (self._trains or recording.test is None):
            self.train = open_provider(recording.train, order, is_train=True)
        if recording.test is not None and (self._tests or recording.train is None):
            self.test = open_provider(recording.test, order, is_train=False)
        opened = self.train or self.test
        if opened is None:
            raise errors.InvalidError(
                "the configuration says nothing of its data; call define_py_data_sources2(...) "
                f"(at: {recording.end})"
            )
        types: Sequence[InputType] | Mapping[str, InputType] = opened.settings.input_types
        return types

    def settle(self, order: list[str]) -> None:
        """Values by name come in the order of the inputs, which was a guess before."""
        self.train, self.test = (
            opened and opened.ordered(order) for opened in (self.train, self.test)
        )


def open_provider(source: Source, order: list[str], is_train: bool) -> Opened:
    """Finds a provider and calls its hook."""
    provider = _find(source)
    files = list_files(source)
    log.info(f"loading dataprovider {source.module}::{source.object}")
    settings = provider.make_settings()
    settings.is_train, settings.file_list = is_train, files
    hook = provider.options["init_hook"]
    if hook is not None:
        arguments = source.args if isinstance(source.args, dict) else {}
        if source.args is not None and not isinstance(source.args, dict):
            arguments = {"args": source.args}
        try:
            hook(settings, file_list=files, is_train=is_train, input_order=order, **arguments)
        except errors.Error:
            raise
        except (Exception, SystemExit) as error:
            raise errors.InvalidError(
                f"the init_hook of {source.module}.{source.object} failed: "
                f"{described(error)} (at: {place_of(error, _place(provider))})"
            ) from error
    elif source.args:
        log.warning(
            f"{source.module}.{source.object} has no init_hook, which the args of "
            f"define_py_data_sources2 are for (at: {source.place})"
        )
    try:
        check_settings(settings)
    except errors.Error as error:
        raise _placed(error, provider) from None
    types = settings.input_types
    if types is None:
        raise errors.InvalidError(
            f"the data provider {source.module}.{source.object} does not say its input_types; give "
            "them to @provider, or set settings.input_types in its init_hook "
            f"(at: {_place(provider)})"
        )
    try:
        check_types(types)
    except errors.Error as error:
        raise _placed(error, provider) from None
    is_dict = isinstance(types, dict)
    opened = Opened(provider, settings, files, order, list(types), is_dict, is_train, source)
    return opened.ordered(order)


def list_files(source: Source) -> list[str]:
    """The files of a source."""
    if not isinstance(source.files, str):
        return [str(file) for file in source.files]
    path = workspace.resolve(source.files)
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line.rstrip("\r\n") for line in file]
    except OSError as error:
        raise errors.InvalidError(
            f"cannot read the list of files {source.files!r}: {error.strerror} (at: {source.place})"
        ) from None
    except UnicodeDecodeError:
        raise errors.InvalidError(
            f"the list of files {source.files!r} is not a text; it must have a path a line "
            f"(at: {source.place})"
        ) from None
    # A provider that reads no files is given a list of a blank.
    files = [line.strip() for line in lines if line.strip()] or [line for line in lines if line]
    if len(files) > FILES_MAX:
        raise errors.InvalidError(
            f"the list {source.files!r} has more than {FILES_MAX} files (at: {source.place})"
        )
    return files


def _find(source: Source) -> DataProvider:
    try:
        module = importlib.import_module(source.module)
    except ModuleNotFoundError as error:
        if error.name != source.module.split(".")[0] and error.name != source.module:
            raise _broken(source, error) from error
        folder = os.path.relpath(os.getcwd()) or "."
        raise errors.InvalidError(
            f"there is no module {source.module!r} with the data provider; it must be "
            f"{source.module.replace('.', '/')}.py in {folder}, beside the configuration, or in "
            f"PYTHONPATH (at: {source.place})"
        ) from None
    except errors.Error:
        raise
    except (Exception, SystemExit) as error:
        raise _broken(source, error) from error
    provider = getattr(module, source.object, None)
    if provider is None:
        known = [name for name, each in vars(module).items() if isinstance(each, DataProvider)]
        hint = mistake.suggestion(source.object, known)
        raise errors.InvalidError(
            f"module {source.module!r} has no {source.object!r}{hint} (at: {source.place})"
        )
    if not isinstance(provider, DataProvider):
        raise errors.InvalidError(
            f"{source.module}.{source.object} is no data provider; decorate it with @provider(…) "
            f"of paddle.trainer.PyDataProvider2 (at: {source.place})"
        )
    return provider


def _broken(source: Source, error: BaseException) -> errors.Error:
    return errors.InvalidError(
        f"module {source.module!r} cannot be imported: {described(error)} (at: {place_of(error)})"
    )


def _placed(error: errors.Error, provider: DataProvider) -> errors.Error:
    """An error about what a provider says of itself, at its own line."""
    text = str(error).replace(f", at: {error.at}", "").replace(f" (at: {error.at})", "")
    text = f"{text[:-1]}, " if mistake.CONTEXT.search(text) else f"{text} ("
    return type(error)(f"{text}at: {_place(provider)})")


def _place(provider: DataProvider) -> str:
    return provider.place.removeprefix(os.getcwd() + os.sep)
