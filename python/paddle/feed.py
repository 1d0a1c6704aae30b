"""Training data in files, parsed into batches on background threads, without Python per record.

    reader = paddle.feed.files("data/part-*", slots=["dense", "C0", "label"], batch_size=512)
    trainer.train(reader, num_passes=2)

What `files` returns is given to `trainer.train` and `trainer.test` in the place of a reader. The
same files and settings give the same batches in the same order, whatever the number of threads.
"""

import dataclasses
import glob
import json
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from paddle import _native, errors
from paddle.v2 import config, mistake
from paddle.v2.log import LOGGER
from paddle.v2.reader import cloud
from paddle.v2.reader.flow import Reader, Tracked

__all__ = ["files"]

FORMATS = ("multislot", "criteo")
DEALS = ("shard", "lines", "master", "all")
SHUFFLES = ("local", "global")
HASH_SIZE = 1_000_001
MEMORY_BYTES_MAX = 16 << 30


@dataclasses.dataclass(frozen=True)
class _Opened:
    """Files as one network reads them."""

    network: _native.Network
    feed: _native.FileFeed
    readers: Callable[[int], Reader]


class Files:
    """Files of training data, for `trainer.train` and `trainer.test`; `files` makes it."""

    mistaken_as = "what paddle.feed.files gives"

    def __init__(
        self,
        patterns: list[str],
        slots: list[str] | None,
        deal: str | None,
        settings: dict[str, Any],
        shuffle: str | None,
        master_endpoint: str | None,
    ) -> None:
        self._patterns = patterns
        self.slots = slots
        # None: it was not said.
        self._deal = deal
        self._settings = settings
        self._shuffle = shuffle
        self._master_endpoint = master_endpoint
        self._opened: dict[tuple[int, tuple[int, ...], str], _Opened] = {}

    def __call__(self) -> Any:
        raise mistake.unsupported(
            "the samples of paddle.feed.files do not pass through Python: give it to "
            "trainer.train or trainer.test as it is, without paddle.batch or decorators, or use a "
            "Python reader"
        )

    @property
    def skipped(self) -> int:
        """Malformed lines that were left out so far."""
        return sum(opened.feed.skipped for opened in self._opened.values())

    def feeding(self, feeding: Any) -> tuple[Any, str]:
        """Which value of a sample is for which data layer, in the form that `train` takes, and the
        argument that said it."""
        if self.slots is None:
            return feeding, "feeding"
        if feeding is not None:
            raise mistake.invalid(
                "slots of paddle.feed.files and feeding say the same thing; give one of them"
            )
        return self.slots, "slots"

    def passes(
        self, network: _native.Network, places: list[int], is_testing: bool
    ) -> Callable[[int], Reader]:
        """The reader of each pass, by its number."""
        deal = self._deal_of(is_testing)
        # The network is kept too, so that no other gets its id.
        key = (id(network), tuple(places), deal)
        if key not in self._opened:
            with mistake.reported_here():
                files, described = self._own_files(deal), self._describe(deal)
                feed = _native.FileFeed(network, places, files, described)
                self._opened[key] = _Opened(network, feed, self._readers(feed, deal))
        return self._opened[key].readers

    def _deal_of(self, is_testing: bool) -> str:
        """Who gets what. A test that does not say it is of everything, in every trainer."""
        if not is_testing:
            return self._deal or _default_deal(self._settings["is_in_memory"])
        if self._deal == "master":
            raise mistake.unsupported(
                "a master deals out what is trained on, each task once a pass; give "
                "trainer.test files of deal='all', or of 'shard' or 'lines' for a part in each "
                "trainer",
                deal="master",
            )
        return self._deal or "all"

    def _readers(self, feed: _native.FileFeed, deal: str) -> Callable[[int], Reader]:
        if deal != "master":
            return lambda number: lambda: self._counted(feed, lambda: feed.batches(number))
        client = cloud.connect(cloud.find_master(self._master_endpoint))
        client.set_dataset([os.path.abspath(pattern) for pattern in self._patterns])
        tasks = cloud.tasks_of(client, feed.task_batches)
        reader = Tracked(lambda downstream: self._counted(feed, lambda: tasks.begin(downstream)))
        return lambda number: reader

    def _counted(self, feed: _native.FileFeed, begin: Callable[[], Iterable[Any]]) -> Iterator[Any]:
        before, has_given = feed.skipped, False
        for batch in begin():
            has_given = True
            yield batch
        skipped = feed.skipped - before
        if skipped > 0 and not has_given:
            raise errors.DamagedError(
                f"all {skipped} lines of the pass are malformed, so malformed='skip' leaves none; "
                f"are format and slots those of the files? (one of them: {feed.skipped_example})"
            )
        if skipped > 0:
            LOGGER.warning("%d malformed lines were left out (malformed='skip')", skipped)

    def _own_files(self, deal: str) -> list[str]:
        if deal == "master":
            return []
        found = _expand(self._patterns)
        settings = config.current()
        count, rank = settings.num_gradient_servers, settings.trainer_id
        if deal != "shard" or self._shuffle == "global":
            return found
        if len(found) < count:
            mistake.warn(
                f"{len(found)} files for {count} trainers, so trainers from {len(found)} on get "
                f"nothing; give deal='lines', write {count} files or more, or start fewer trainers",
                pattern=",".join(self._patterns),
            )
        own = found[rank::count]
        for path in own:
            LOGGER.debug("append file: %s", path)
        return own

    def _describe(self, deal: str) -> str:
        settings = config.current()
        share = None
        if deal == "lines" or (self._shuffle == "global" and deal == "shard"):
            share = (settings.trainer_id, settings.num_gradient_servers)
        described = dict(self._settings)
        if self._shuffle is not None and described["shuffle"] is None:
            described["shuffle"] = settings.seed
        slots = None if self.slots is None else len(self.slots)
        return json.dumps(described | {"slots": slots, "share": share})


@mistake.checked_arguments
def files(
    pattern: Any,
    slots: Any,
    batch_size: int,
    format: str = "multislot",
    hash_size: int = HASH_SIZE,
    deal: str | None = None,
    in_memory: bool = False,
    shuffle: str | None = None,
    seed: int | None = None,
    threads: int = 1,
    malformed: str = "error",
    memory_bytes_max: int = MEMORY_BYTES_MAX,
    master_endpoint: str | None = None,
) -> Files:
    """Batches of the lines of files, for `trainer.train` and `trainer.test`.

    pattern:     a path or glob, several with commas between, or a list: texts, gzip files of texts,
                 or RecordIO files whose records are lines. What a file is, its first bytes say.
    slots:       the names of the values of a sample, in the order of the line. A data layer gets
                 the slot of its name, other slots are passed over. None: the data layers in the
                 order of the network, or as `feeding` says.
    batch_size:  samples of a batch; the last of a pass may have fewer.
    format:      `multislot`: `count value…` for every slot, with spaces between; `criteo`: a click,
                 13 numbers and 26 categories with tabs between, whose sample has the numbers, 26
                 ids below `hash_size`, and the click.
    deal:        who gets what: `shard`: of all files, sorted, each trainer those whose place is its
                 rank modulo the number of trainers; `lines`: every trainer reads all files, and
                 takes one line of as many as there are trainers; `master`: what the job's master
                 leases to it; `all`: every trainer everything. By default the master, if the job
                 has one and `in_memory` is not asked for, else `shard`; in `trainer.test` always
                 `all`.
    in_memory:   read everything once and keep it, instead of reading the files in every pass.
    shuffle:     with `in_memory`, shuffle anew for every pass: `local`: the samples of this
                 trainer; `global`: the same with `deal="lines"`, in the place of `shard`. The order
                 follows from `seed`, by default that of `paddle.init`.
    threads:     that read and parse, beside those that compute.
    malformed:   `error`: a line that cannot be read ends the training, with file and line; `skip`:
                 it is left out, and counted in the log and in `skipped`; a pass in which every
                 line is left out is an error.
    memory_bytes_max: with `in_memory`, more is an error.
    master_endpoint:  with `deal="master"`, as in `cloud_reader`.
    """
    _choice("format", format, FORMATS)
    _choice("malformed", malformed, ("error", "skip"))
    is_in_memory = mistake.truth("in_memory", in_memory)
    if shuffle is not None:
        _choice("shuffle", shuffle, SHUFFLES)
        if not is_in_memory:
            raise mistake.unsupported(
                "shuffle needs in_memory=True: a stream of files keeps their order",
                shuffle=shuffle,
            )
    if seed is not None and shuffle is None:
        raise mistake.invalid("seed is for shuffle, which is not asked for", seed=seed)
    chosen = "master" if deal is None and master_endpoint is not None else deal
    if chosen is not None:
        _choice("deal", chosen, DEALS)
    if chosen == "master" and is_in_memory:
        raise mistake.unsupported(
            "data that the master deals out cannot be kept in memory; give deal='shard' or 'lines'",
            in_memory=True,
        )
    if master_endpoint is not None and chosen != "master":
        raise mistake.invalid("master_endpoint is for deal='master'", deal=chosen)
    settings = {
        "format": format,
        "hash_size": mistake.whole("hash_size", hash_size),
        "batch_size": mistake.whole("batch_size", batch_size),
        "threads": mistake.whole("threads", threads),
        "is_skipping": malformed == "skip",
        "is_in_memory": is_in_memory,
        "shuffle": None if seed is None else mistake.whole("seed", seed, least=0),
        "memory_bytes_max": mistake.whole("memory_bytes_max", memory_bytes_max),
    }
    return Files(_patterns(pattern), _names(slots), chosen, settings, shuffle, master_endpoint)


def opened(
    reader: Any, network: _native.Network, places: list[int], is_testing: bool = False
) -> Callable[[int], Callable[[], Any]]:
    """The reader of each pass, by its number, be it one of Python or `files`."""
    if isinstance(reader, Files):
        return reader.passes(network, places, is_testing)
    return lambda number: reader


def feeding_of(reader: Any, feeding: Any) -> tuple[Any, str]:
    """What `feeding` is, where the reader may say it itself, and the argument that said it."""
    return reader.feeding(feeding) if isinstance(reader, Files) else (feeding, "feeding")


def _default_deal(is_in_memory: bool) -> str:
    if config.current().master_endpoint is None:
        return "shard"
    if is_in_memory:
        LOGGER.warning(
            "in_memory=True: each trainer reads its own files (deal='shard'), and the job's master "
            "deals out nothing of them"
        )
        return "shard"
    return "master"


def _choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if not isinstance(value, str):
        raise mistake.wrong_type(f"{name} must be text but is {mistake.kind_of(value)}")
    if value not in choices:
        hint = mistake.suggestion(value, choices)
        raise mistake.invalid(f"{name} must be one of {', '.join(choices)}{hint}", **{name: value})


def _patterns(pattern: Any) -> list[str]:
    if isinstance(pattern, str | os.PathLike):
        text = os.fspath(pattern)
        listed = [text] if os.path.exists(text) else text.split(",")
    elif isinstance(pattern, list | tuple):
        listed = [os.fspath(each) for each in pattern]
    else:
        raise mistake.wrong_type(
            f"pattern must be a path, a glob, or a list of them, but is {mistake.kind_of(pattern)}"
        )
    listed = [each.strip() for each in listed if each.strip()]
    if not listed:
        raise mistake.invalid("pattern names no file; give a path or a glob such as data/part-*")
    return listed


def _names(slots: Any) -> list[str] | None:
    if slots is None:
        return None
    if not isinstance(slots, list | tuple) or not all(isinstance(name, str) for name in slots):
        raise mistake.wrong_type(
            f"slots must be a list of names, or None, but is {mistake.kind_of(slots)}"
        )
    repeated = {name for name in slots if slots.count(name) > 1}
    if repeated or not slots:
        what = f"{min(repeated)!r} is there twice" if repeated else "there is none"
        raise mistake.invalid(f"slots must have a different name for every value, but {what}")
    return list(slots)


def _expand(patterns: list[str]) -> list[str]:
    found: set[str] = set()
    for pattern in patterns:
        if os.path.isfile(pattern):
            matching = [pattern]
        else:
            matching = [path for path in glob.glob(pattern) if os.path.isfile(path)]
        if not matching:
            raise errors.NotFoundError(
                f"no file matches the pattern (pattern: {pattern}, folder: {os.getcwd()})"
            )
        found.update(matching)
    # Bytes, so that every trainer sorts alike, whatever its language.
    return sorted(found, key=os.fsencode)
