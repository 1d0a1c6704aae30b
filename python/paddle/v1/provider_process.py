"""A data provider in a process of its own, so that its Python code does not slow the training down.

The process is forked before the network computes anything: it has the provider, its settings and
what its hook loaded, without copying them. It is asked for a pass and sends its batches, ahead of
the training as far as the pipe and a short queue allow. It ends with the trainer, whose end of the
pipe closes.

The modules `random` and `numpy.random` are seeded for each pass, from the seed of the training, the
rank and the pass, so that a provider that uses them repeats itself when a training is resumed.
"""

import contextlib
import multiprocessing
import os
import pickle
import queue
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any

import numpy

from paddle import errors
from paddle.trainer.PyDataProvider2 import CacheType
from paddle.v1.configuration import place_of
from paddle.v1.log import log
from paddle.v1.pool import Pool
from paddle.v1.provider import Opened
from paddle.v1.sample import Shaper

# Batches that are converted ahead of the training.
AHEAD = 4
# A wait for the provider is told after so many seconds, and again.
TOLD_SECONDS = 60
# Wrong samples that are reported one by one.
REPORTED_MAX = 10

_parents_ends: list[Connection] = []


class ProviderProcess:
    """A provider that is asked for passes."""

    def __init__(self, opened: Opened, batch_size: int, seed: int, rank: int) -> None:
        self._name = f"{opened.provider.function.__module__}.{opened.provider.__name__}"
        ours, theirs = multiprocessing.Pipe()
        worker = _Worker(opened, batch_size, f"{seed} {rank}")
        context = multiprocessing.get_context("fork")
        ends = [*_parents_ends, ours]
        self._process = context.Process(target=_serve, args=(worker, theirs, ends), daemon=True)
        sys.stdout.flush()
        self._process.start()
        theirs.close()
        self._pipe = ours
        self._is_closed = False
        _parents_ends.append(ours)

    def batches(self, pass_id: int, convert: Callable[[list[Any]], Any]) -> Iterator[Any]:
        """The batches of a pass, each converted by `convert`, on a thread ahead of the caller.

        A pass that is not read to its end ends the process: what is still to come is of no use.
        """
        if self._is_closed:
            raise errors.Error(f"the data provider {self._name} was closed in the middle of a pass")
        waiting: queue.Queue[Any] = queue.Queue(AHEAD)
        arguments = (pass_id, convert, waiting)
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
        """What comes next; a wait that is long is told, as a slow provider may be right."""
        waited = 0
        while True:
            try:
                return waiting.get(timeout=TOLD_SECONDS)
            except queue.Empty:
                waited += TOLD_SECONDS
                log.warning(f"waiting for the data provider {self._name} for {waited} seconds")

    def close(self) -> None:
        """Ends the process."""
        self._is_closed = True
        self._process.terminate()

    def _receive(
        self, pass_id: int, convert: Callable[[list[Any]], Any], waiting: "queue.Queue[Any]"
    ) -> None:
        try:
            self._pipe.send(pass_id)
            while True:
                kind, content, place = pickle.loads(self._pipe.recv_bytes())
                if kind != "batch":
                    waiting.put((kind, errors.Error(content) if kind == "error" else None))
                    return
                waiting.put((kind, self._converted(convert, content, place)))
        except (EOFError, OSError):
            self._process.join(5)
            waiting.put(("error", errors.Error(self._death())))
        except Exception as error:
            waiting.put(("error", error))

    def _converted(self, convert: Callable[[list[Any]], Any], batch: list[Any], place: str) -> Any:
        try:
            return convert(batch)
        except errors.Error as error:
            text = str(error)
            text = f"{text[:-1]}, " if text.endswith(")") else f"{text} ("
            raise type(error)(f"{text}at: {place})") from None

    def _death(self) -> str:
        code = self._process.exitcode
        how = f"exit code {code}"
        if code is not None and code < 0:
            how = f"signal {signal.Signals(-code).name}"
        return f"the process of the data provider {self._name} ended ({how})"


class _Worker:
    """What runs in the process."""

    def __init__(self, opened: Opened, batch_size: int, seed: str) -> None:
        self._opened = opened
        self._seed = seed
        self._pool = Pool(opened.settings, batch_size, opened.is_train)
        self._shaper = Shaper(opened.names, opened.types, opened.is_dict)
        self._caches = opened.settings.cache == CacheType.CACHE_PASS_IN_MEM
        self._cached: list[Any] | None = None
        self._dropped = 0
        self.place = opened.provider.place

    def batches(self, pass_id: int) -> Iterator[list[Any]]:
        """The batches of a pass."""
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
        settings = self._opened.settings
        samples = self._opened.provider.function(settings, file)
        if not hasattr(samples, "__iter__"):
            raise errors.WrongTypeError(
                f"the data provider must yield samples but returned {type(samples).__name__}"
            )
        frame = getattr(samples, "gi_frame", None)
        for sample in samples:
            if frame is not None:
                self.place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
            shaped = self._shaper.shape(sample)
            if settings.check and not self._is_right(shaped):
                continue
            yield shaped

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


def _serve(worker: _Worker, pipe: Connection, others: list[Connection]) -> None:
    # Ctrl-C is for the trainer, which ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for end in others:
        end.close()
    with contextlib.suppress(EOFError, OSError):
        while True:
            pass_id = pipe.recv()
            try:
                for batch in worker.batches(pass_id):
                    _send(pipe, "batch", batch, _shown(worker.place))
                _send(pipe, "end")
            except OSError as error:
                if isinstance(error, BrokenPipeError | ConnectionError):
                    raise
                _send(pipe, "error", _explained(error, worker.place))
            except Exception as error:
                _send(pipe, "error", _explained(error, worker.place))
    # Nothing of the trainer is to be ended from here.
    sys.stdout.flush()
    os._exit(0)


def _send(pipe: Connection, kind: str, content: Any = None, place: str = "") -> None:
    pipe.send_bytes(pickle.dumps((kind, content, place), protocol=5))


def _explained(error: Exception, place: str) -> str:
    if isinstance(error, errors.Error):
        text = str(error)
        return text if "at: " in text else f"{text} (at: {_shown(place)})"
    return f"the data provider failed: {type(error).__name__}: {error} (at: {place_of(error)})"


def _shown(place: str) -> str:
    return place.removeprefix(os.getcwd() + os.sep)
