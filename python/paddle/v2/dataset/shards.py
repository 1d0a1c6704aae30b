"""Data in files, for trainers that take some of them each: writing them, and choosing one's own.

Every file holds exactly as many samples as asked for; only the last may hold fewer. A file appears
under its name when it is complete.
"""

import contextlib
import functools
import glob
import itertools
import os
import pickle
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO

import recordio
from paddle import errors
from paddle.v2 import mistake
from paddle.v2.dataset.pending import published
from paddle.v2.files import reported_pickles
from paddle.v2.log import LOGGER
from paddle.v2.reader.decorator import checked_reader, shuffle
from paddle.v2.reader.flow import Reader

SHUFFLED_LINES = 1000

_dumps = functools.partial(pickle.dumps, protocol=pickle.HIGHEST_PROTOCOL)


def _dump(samples: Any, file: BinaryIO) -> None:
    pickle.dump(samples, file, pickle.HIGHEST_PROTOCOL)


@mistake.checked_arguments
def split(
    reader: Reader,
    line_count: int,
    suffix: str = "%05d.pickle",
    dumper: Callable[[list[Any], BinaryIO], Any] = _dump,
) -> None:
    """Writes the samples of a reader to files of `line_count` each, as a list in each.

    suffix: the path of a file, with `%05d` where its number goes, from 0. Folders are made.
    dumper: `dumper(samples, file)` writes a list to a file; a pickle unless given.
    """
    checked_reader("reader", reader)
    size = mistake.whole("line_count", line_count)
    _check_callable("dumper", dumper)
    path = _numbered(suffix)
    for number, samples in enumerate(_parts(reader, size)):
        with published(path(number)) as file:
            dumper(list(samples), file)


@mistake.checked_arguments
def convert(
    output_path: str | os.PathLike[str],
    reader: Reader,
    line_count: int | None = None,
    name_prefix: str | None = None,
    max_lines_to_shuffle: int | None = None,
    num_shards: int | None = None,
) -> None:
    """Writes the samples of a reader, pickled, to RecordIO files in a folder, which is made.

    line_count:  samples of each file, `<name_prefix>-00000` and so on;
    num_shards:  or how many files, `<name_prefix>-00000-of-00009` and so on for 10. Samples are
                 shuffled in blocks of `max_lines_to_shuffle`, 1000 unless given, and dealt out.

    The older form of this function has `num_shards` in the place of `line_count`: with
    `max_lines_to_shuffle` the third argument is taken for that.
    """
    checked_reader("reader", reader)
    if max_lines_to_shuffle is not None and num_shards is None:
        line_count, num_shards = None, line_count
    if name_prefix is None or (line_count is None) == (num_shards is None):
        raise mistake.wrong_type(
            "convert needs name_prefix, and either line_count, how many samples a file has, or "
            "num_shards, how many files there are"
        )
    stem = os.path.join(os.fspath(output_path), name_prefix)
    if line_count is not None:
        _write_counted(reader, mistake.whole("line_count", line_count), stem)
        return
    block = SHUFFLED_LINES if max_lines_to_shuffle is None else max_lines_to_shuffle
    shuffled = shuffle(reader, mistake.whole("max_lines_to_shuffle", block))
    _write_dealt_out(shuffled, mistake.whole("num_shards", num_shards), stem)


@mistake.checked_arguments
def cluster_files(files_pattern: str, trainer_count: int, trainer_id: int) -> list[str]:
    """The files of one trainer: those whose place among all, sorted, is its own modulo the count.

    Fewer files than trainers leave some with nothing; that is a warning which names them.
    """
    count, rank = checked_place("trainer_count", trainer_count, trainer_id)
    # Bytes, so that every trainer sorts alike, whatever its language.
    files = sorted(glob.glob(os.fspath(files_pattern)), key=os.fsencode)
    if not files:
        raise errors.NotFoundError(
            f"no file matches the pattern; write files with split or convert, or mend it "
            f"(files_pattern: {files_pattern}, folder: {os.getcwd()})"
        )
    if len(files) < count:
        warnings.warn(_too_few(files_pattern, len(files), count), stacklevel=3)
    return files[rank::count]


@mistake.checked_arguments
def cluster_files_reader(
    files_pattern: str,
    trainer_count: int,
    trainer_id: int | None = None,
    loader: Callable[[BinaryIO], Iterable[Any]] = pickle.load,
    train_id: int | None = None,
) -> Reader:
    """A reader of one trainer's files: the samples of each, one after the other.

    loader:   `loader(file)` gives the samples of a file; a pickle unless given. Read pickles only
              of people whose programs you would run.
    train_id: another name of `trainer_id`.

    Files are looked for whenever the reader is called, and named in the log.
    """
    rank = train_id if trainer_id is None else trainer_id
    if rank is None or None not in (trainer_id, train_id):
        raise mistake.wrong_type("cluster_files_reader needs trainer_id, the rank of this trainer")
    count, rank = checked_place("trainer_count", trainer_count, rank)
    _check_callable("loader", loader)
    choose = functools.partial(cluster_files, files_pattern, count, rank)

    def samples() -> Iterator[Any]:
        own = choose()
        for path in own:
            LOGGER.info("append file: %s", path)
        for path in own:
            with open(path, "rb") as file, reported_pickles(loader, file=path):
                yield from loader(file)

    return samples


def checked_place(count_name: str, trainer_count: int, trainer_id: int) -> tuple[int, int]:
    """How many trainers there are, and which of them this is."""
    count = mistake.whole(count_name, trainer_count)
    rank = mistake.whole("trainer_id", trainer_id, least=0)
    if rank >= count:
        raise mistake.invalid(
            f"trainer_id must be less than {count_name}: trainers are numbered from 0",
            **{"trainer_id": rank, count_name: count},
        )
    return count, rank


def _write_counted(reader: Reader, size: int, stem: str) -> None:
    os.makedirs(os.path.dirname(stem) or ".", exist_ok=True)
    for number, samples in enumerate(_parts(reader, size)):
        with recordio.writer(f"{stem}-{number:05}") as file:
            for sample in samples:
                file.write(_dumps(sample))


def _write_dealt_out(reader: Reader, count: int, stem: str) -> None:
    os.makedirs(os.path.dirname(stem) or ".", exist_ok=True)
    paths = [f"{stem}-{number:05}-of-{count - 1:05}" for number in range(count)]
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(recordio.writer(path)) for path in paths]
        for samples in _parts(reader, sys.maxsize):
            for file, sample in zip(itertools.cycle(files), samples):
                file.write(_dumps(sample))


def _parts(reader: Reader, size: int) -> Iterator[Iterator[Any]]:
    """The samples in runs of `size`, each to be taken before the next; at least one."""
    samples = iter(reader())
    is_empty = True
    for first in samples:
        is_empty = False
        yield itertools.chain([first], itertools.islice(samples, size - 1))
    if is_empty:
        raise mistake.invalid(
            "the reader gave no sample to write; is it one that can be read only once?"
        )


def _numbered(suffix: str) -> Callable[[int], str]:
    try:
        is_good = suffix % 0 != suffix % 1
    except (TypeError, ValueError):
        is_good = False
    if not is_good:
        raise mistake.invalid(
            "suffix must have %05d where the number of a file goes", suffix=suffix
        )
    return lambda number: suffix % number


def _check_callable(name: str, value: Any) -> None:
    if not callable(value):
        raise mistake.wrong_type(f"{name} must be a function but is {mistake.kind_of(value)}")


def _too_few(pattern: str, files: int, trainers: int) -> str:
    first, last = files, trainers - 1
    idle = f"trainer {first} gets" if first == last else f"trainers {first} to {last} get"
    return (
        f"{files} files for {trainers} trainers: {idle} nothing; write {trainers} files or more, "
        f"or start {files} trainers (files_pattern: {pattern})"
    )
