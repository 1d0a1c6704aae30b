"""A data provider in a process of its own, so that its Python code does not slow the training down.

The process is forked before the network computes anything: it has the provider, its settings and
what its hook loaded, without copying them. It is asked for a pass and sends its batches, ahead of
the training as far as the pipe and a short queue allow. Batches are converted and checked there, so
that the trainer gets arrays, and does not share its own Python with objects. It ends with the
trainer.

How far it is, it writes to memory that both share. So a provider that reads on, if slowly, is told
from one that hangs, and the trainer can say in which file.

The modules `random` and `numpy.random` are seeded for each pass, from the seed of the training, the
rank and the pass, so that a provider that uses them repeats itself when a training is resumed.
"""

import atexit
import contextlib
import ctypes
import multiprocessing
import os
import pickle
import queue
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any

import numpy

from paddle import _native, errors
from paddle.trainer.PyDataProvider2 import CacheType
from paddle.v1.configuration import described, place_of
from paddle.v1.log import log
from paddle.v1.pool import Pool
from paddle.v1.provider import Opened
from paddle.v1.sample import Shaper
from paddle.v2 import mistake

# Batches that are received ahead of the training.
AHEAD = 4
# A wait for the provider is told after so many seconds, and again.
TOLD_SECONDS = 60.0
# How often a waiting trainer looks whether the provider reads on.
LOOK_SECONDS = 0.5
# How long a process may take to end when it was killed.
END_SECONDS = 10
# Wrong samples of a pass that are reported one by one; behind the pass their number is.
REPORTED_MAX = 10

# The prctl by which a process gets a signal when its parent dies.
_DEATH_SIGNAL = 1

# Samples → what `_native.Batch.unpack` reads.
Pack = Callable[[list[Any]], bytes]

_parents_ends: list[Connection] = []
_started: list["ProviderProcess"] = []


class ProviderProcess:
    """A provider that is asked for passes; `pack` converts its batches.

    It may give no sample for `silence_seconds` while somebody waits for it; 0 for no limit.
    """

    def __init__(
        self,
        opened: Opened,
        batch_size: int,
        pack: Pack,
        *,
        seed: int,
        rank: int,
        silence_seconds: float = 0,
    ) -> None:
        self._name = f"{opened.provider.function.__module__}.{opened.provider.__name__}"
        self._files = opened.files
        self._silence_seconds = silence_seconds
        # Samples that were read, and the place of the file that is being read.
        self._progress = multiprocessing.RawArray("q", 2)
        ours, theirs = multiprocessing.Pipe()
        worker = _Worker(opened, batch_size, pack, f"{seed} {rank}", self._progress)
        context = multiprocessing.get_context("fork")
        ends = [*_parents_ends, ours]
        # No daemon: those may not start processes, which a provider may want to.
        self._process = context.Process(
            target=_serve, args=(worker, theirs, ends, os.getpid()), daemon=False
        )
        sys.stdout.flush()
        self._process.start()
        assert self._process.pid is not None
        self._group = self._process.pid
        _lead_group(self._group)
        theirs.close()
        self._pipe = ours
        self._is_closed = False
        _parents_ends.append(ours)
        _started.append(self)

    def batches(self, pass_id: int) -> Iterator[_native.Batch]:
        """The batches of a pass, which are received on a thread ahead of the caller.

        A pass that is not read to its end ends the process: what is still to come is of no use.
        """
        return self._pass(pass_id, _native.Batch.unpack, is_packed=True)

    def samples(self, pass_id: int) -> Iterator[list[Any]]:
        """The same batches as lists of samples, each a tuple in the order of the inputs."""
        return self._pass(pass_id, list, is_packed=False)

    def _pass(self, pass_id: int, convert: Callable[[Any], Any], is_packed: bool) -> Iterator[Any]:
        if self._is_closed:
            raise errors.Error(f"the data provider {self._name} was closed in the middle of a pass")
        waiting: queue.Queue[Any] = queue.Queue(AHEAD)
        arguments = ((pass_id, is_packed), convert, waiting)
        threading.Thread(target=self._receive, args=arguments, daemon=True).start()
        is_complete = False
        try:
            while True:
                kind, content = self._next(waiting)
                if kind == "end":
                    is_complete = True
                    return
                if kind == "error":
                    raise content
                yield content
        finally:
            if not is_complete:
                self.close()

    def _next(self, waiting: "queue.Queue[Any]") -> Any:
        """What comes next. A long wait is told, and ends if the provider reads nothing more."""
        began = told = moved = time.monotonic()
        first = seen = self._progress[0]
        while True:
            try:
                return waiting.get(timeout=LOOK_SECONDS)
            except queue.Empty:
                now = time.monotonic()
            if self._progress[0] != seen:
                seen, moved = self._progress[0], now
            if self._silence_seconds and now - moved >= self._silence_seconds:
                raise errors.DeadlineError(
                    f"the data provider {self._name} gave no sample for {now - moved:.0f} seconds"
                    f"{self._where()}; --provider_timeout sets the limit, 0 for none"
                )
            if now - told >= TOLD_SECONDS:
                told = now
                log.warning(
                    f"waiting for the data provider {self._name} for {now - began:.0f} seconds; "
                    f"it read {seen - first} samples meanwhile{self._where()}"
                )

    def _where(self) -> str:
        place = self._progress[1]
        return f" (file: {self._files[place]})" if place < len(self._files) else ""

    def close(self) -> None:
        """Ends the process, whatever it does, with those that it started."""
        if self._is_closed:
            return
        self._is_closed = True
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._group, signal.SIGKILL)
        self._process.join(END_SECONDS)

    def _receive(
        self,
        asked: tuple[int, bool],
        convert: Callable[[Any], Any],
        waiting: "queue.Queue[Any]",
    ) -> None:
        try:
            self._pipe.send(asked)
            while True:
                kind, content = pickle.loads(self._pipe.recv_bytes())
                if kind != "batch":
                    waiting.put((kind, errors.Error(content) if kind == "error" else None))
                    return
                waiting.put((kind, convert(content)))
        except (EOFError, OSError):
            self._process.join(5)
            waiting.put(("error", errors.Error(self._death())))
        except Exception as error:
            waiting.put(("error", error))

    def _death(self) -> str:
        code = self._process.exitcode
        how = f"exit code {code}"
        if code is not None and code < 0:
            # Real-time signals have no names here.
            names = (each.name for each in signal.Signals if each == -code)
            how = f"signal {next(names, -code)}"
        return f"the process of the data provider {self._name} ended ({how})"


class _Worker:
    """What runs in the process."""

    def __init__(
        self, opened: Opened, batch_size: int, pack: Pack, seed: str, progress: Any
    ) -> None:
        self._opened = opened
        self._pack = pack
        self._places = {file: place for place, file in enumerate(opened.files)}
        self._progress = progress
        self._seed = seed
        self._pool = Pool(opened.settings, batch_size, opened.is_train)
        self._caches = opened.settings.cache == CacheType.CACHE_PASS_IN_MEM
        is_held = self._caches or self._pool.holds_all
        self._shaper = Shaper(opened.names, opened.types, opened.is_dict, is_held)
        self._cached: list[Any] | None = None
        self._dropped = 0
        self._file, _, line = opened.provider.place.rpartition(":")
        self._line = int(line)

    @property
    def place(self) -> str:
        """`file:line` where the provider is."""
        return f"{self._file}:{self._line}"

    def contents(self, pass_id: int, is_packed: bool) -> Iterator[Any]:
        """What is sent of a pass: its batches, packed or as lists of samples."""
        self._dropped, before = 0, self._progress[0]
        for batch in self._batches(pass_id):
            # Samples are checked either way.
            packed = self._pack(batch)
            yield packed if is_packed else batch
        if self._dropped:
            log.warning(
                f"{self._dropped} of {self._progress[0] - before} samples of pass {pass_id} were "
                f"left out: they are not as their types say (at: {_shown(self.place)})"
            )

    def _batches(self, pass_id: int) -> Iterator[list[Any]]:
        draw = random.Random(f"{self._seed} {pass_id}")
        # What is kept must not depend on the pass in which it was read.
        own = random.Random(f"{self._seed} samples {0 if self._caches else pass_id}")
        random.seed(own.randrange(2**32))
        numpy.random.seed(own.randrange(2**32))
        files = self._opened.files
        if not self._caches:
            return self._pool.batches(files, self._read, draw)
        if self._cached is None:
            self._cached = [sample for file in files for sample in self._read(file)]
        return self._pool.shuffled(self._cached, draw)

    def _read(self, file: str) -> Iterator[Any]:
        settings, progress, place = self._opened.settings, self._progress, self._places[file]
        progress[1] = place
        samples = self._opened.provider.function(settings, file)
        if not hasattr(samples, "__iter__"):
            raise errors.WrongTypeError(
                f"the data provider must yield samples but returned {type(samples).__name__}"
            )
        frame = getattr(samples, "gi_frame", None)
        if frame is not None:
            self._file = frame.f_code.co_filename
        for sample in samples:
            progress[0] += 1
            if frame is not None:
                self._line = frame.f_lineno
            shaped = self._shaper.shape(sample)
            if settings.check and not self._is_right(shaped):
                continue
            yield shaped
            progress[1] = place

    def _is_right(self, sample: tuple[Any, ...]) -> bool:
        try:
            self._shaper.check(sample)
        except errors.Error as error:
            if not self._opened.settings.check_fail_continue:
                raise
            self._dropped += 1
            if self._dropped <= REPORTED_MAX:
                log.warning(f"a sample is left out: {error} (at: {_shown(self.place)})")
            return False
        return True


@atexit.register
def _close_all() -> None:
    """Ends the processes of all providers, before `multiprocessing` would wait for them."""
    for process in _started:
        process.close()


def _serve(worker: _Worker, pipe: Connection, others: list[Connection], parent: int) -> None:
    # Ctrl-C is for the trainer, which ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _lead_group(0)
    _end_with(parent)
    for end in others:
        end.close()
    with contextlib.suppress(EOFError, OSError):
        while True:
            pass_id, is_packed = pipe.recv()
            try:
                for content in worker.contents(pass_id, is_packed):
                    _send(pipe, "batch", content)
                _send(pipe, "end")
            except OSError as error:
                if isinstance(error, BrokenPipeError | ConnectionError):
                    raise
                _send(pipe, "error", _explained(error, worker.place))
            except BaseException as error:
                _send(pipe, "error", _explained(error, worker.place))
    # Nothing of the trainer is to be ended from here.
    sys.stdout.flush()
    os._exit(0)


def _lead_group(process: int) -> None:
    """Makes a process lead a group of its own; it and its parent both say so, whoever is first."""
    with contextlib.suppress(OSError):
        os.setpgid(process, process)


def _end_with(parent: int) -> None:
    """Ends this process and those it started when its parent dies, wherever its code is then."""

    def end(*_: object) -> None:
        if os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)
        os._exit(1)

    signal.signal(signal.SIGHUP, end)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGHUP)
        if os.getppid() != parent:
            end()


def _send(pipe: Connection, kind: str, content: Any = None) -> None:
    pipe.send_bytes(pickle.dumps((kind, content), protocol=5))


def _explained(error: BaseException, place: str) -> str:
    if isinstance(error, errors.Error):
        text = str(error)
        if error.at is not None:
            return text
        text = f"{text[:-1]}, " if mistake.CONTEXT.search(text) else f"{text} ("
        return f"{text}at: {_shown(place)})"
    at = place_of(error, place)
    return f"the data provider failed: {described(error)} (at: {at})"


def _shown(place: str) -> str:
    return place.removeprefix(os.getcwd() + os.sep)
