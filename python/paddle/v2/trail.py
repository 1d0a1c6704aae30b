"""What a trainer leaves for the process that goes on for it.

A trainer that is started again skips the batches that the servers have. That is right only if its
reader gives the same ones, so two things are written down:

- how `random` and `numpy.random` stood when each pass began. Readers that draw from them, as
  `paddle.reader.shuffle` does, find them so again;
- a fingerprint of every batch. One that is another all the same fails the job, with that reason.

They are kept beside the checkpoints, or in the trainer's log directory if there are none. A process
that finds nothing there cannot know, and says so; one that finds a trail it cannot read fails. A
trail that could not be written any more is removed: its last pass would be taken for later ones.
"""

import contextlib
import json
import os
import pathlib
import random
import struct
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from paddle.v2 import mistake
from paddle.v2.config import Settings
from paddle.v2.log import LOGGER

# Pass, batch, fingerprint.
_ENTRY = struct.Struct("<III")
# When a pass begins with more, fingerprints of earlier passes are dropped.
BATCHES_BYTES_MAX = 64 << 20
# When a pass begins with more, half of the states of earlier passes are dropped; one has 14 KB.
STATES_BYTES_MAX = 64 << 20
_STATES, _BATCHES, _START, _END = "random.jsonl", "batches", "start_pass", "end_of_pass"
_DAMAGE = (OSError, ValueError, KeyError, TypeError, AttributeError)


class Trail:
    """The trail of one trainer, through all its calls of `train`. `finished` passes and `trained`
    batches were on the servers when the process began."""

    def __init__(self, settings: Settings, finished: int, trained: int) -> None:
        self._first = finished
        self._is_resumed = finished > 0 or trained > 0
        self._skipped = trained
        self._known: dict[int, int] = {}
        self._file: int | None = None
        self._drawn: Any = None
        self._folder = folder_of(settings)
        self._is_begun = False
        self.open()

    def open(self) -> None:
        """Another call of `train` begins: what those before have left stays."""
        self._try(self._open)

    def begin_pass(self, number: int) -> None:
        """Before the reader is called."""
        self._known = {}
        if self._is_resumed and number == self._first:
            self._resume(number)
        self._try(lambda: self._note(number))

    def take(self, number: int, batch_id: int, fingerprint: int, is_skipped: bool) -> None:
        """A batch of the reader's: one that is trained now, or one that was."""
        if not is_skipped:
            self._try(lambda: self._append(_ENTRY.pack(number, batch_id, fingerprint)))
        elif self._known.get(batch_id, fingerprint) != fingerprint:
            raise mistake.invalid(
                f"this process goes on behind batch {self._skipped} of pass {number}, but "
                f"its batch {batch_id} is not the one that was trained: give a reader that gives "
                "the same batches every time the program runs, or let a master deal the data out "
                "(cloud_reader)"
            )

    def end_pass(self, number: int) -> None:
        """Before the servers hear that the pass is over."""
        self._try(lambda: self._note(number + 1))

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _open(self) -> None:
        assert self._folder is not None
        self._folder.mkdir(parents=True, exist_ok=True)
        if not self._is_resumed and not self._is_begun:
            # Of an earlier job in this folder.
            self._remove()
        self._is_begun = True
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._file = os.open(self._folder / _BATCHES, flags, 0o644)

    def _resume(self, number: int) -> None:
        """Puts everything back to where it stood when the pass began."""
        if self._folder is None or self._file is None:
            return
        try:
            self._restore(number)
        except FileNotFoundError as error:
            self._lose(error)
        except _DAMAGE as error:
            raise mistake.invalid(
                f"this process goes on in pass {number}, but what an earlier one has left to check "
                f"its batches by cannot be read ({error}): start the job from the beginning, or "
                "remove the folder to go on unchecked",
                folder=self._folder,
            ) from None

    def _restore(self, number: int) -> None:
        assert self._folder is not None and self._file is not None
        found, kept = None, []
        states = self._folder / _STATES
        # A trainer that the job did not have before shuffles like the others, if they do.
        others = self._folder.with_name("trail-0") / _STATES
        with open(states if states.exists() else others, encoding="utf-8") as file:
            for line in file:
                if not line.endswith("\n"):
                    # Its pass never began: it was written in vain.
                    break
                state = json.loads(line)
                # Later ones are of a time that the servers have forgotten.
                if state["pass"] <= number:
                    found = state
                    kept.append(line)
        if found is None:
            raise ValueError(f"the pass is not in {_STATES}")
        version, words, gauss = found["random"]
        random.setstate((version, tuple(words), gauss))
        name, words, *rest = found["numpy"]
        np.random.set_state((name, np.array(words, dtype=np.uint32), *rest))
        _rewrite(states, kept)
        self._drawn = _state()
        size = os.fstat(self._file).st_size // _ENTRY.size * _ENTRY.size
        os.ftruncate(self._file, size)
        entries = np.frombuffer(os.pread(self._file, size, 0), dtype="<u4").reshape(-1, 3)
        entries = entries[(entries[:, 0] == number) & (entries[:, 1] < self._skipped)]
        self._known = {int(batch): int(fingerprint) for _, batch, fingerprint in entries}

    def _note(self, number: int) -> None:
        """Writes the state down, if it is another than that of the pass before."""
        if self._folder is None:
            return
        if self._file is not None and os.fstat(self._file).st_size > BATCHES_BYTES_MAX:
            os.ftruncate(self._file, 0)
        if (state := _state()) != self._drawn:
            self._drawn = state
            line = json.dumps({"pass": number, "random": state[0], "numpy": state[1]}) + "\n"
            states = self._folder / _STATES
            with open(states, "a+", encoding="utf-8") as file:
                if file.tell() > STATES_BYTES_MAX:
                    file.seek(0)
                    lines = file.readlines()
                    _rewrite(states, [*lines[len(lines) // 2 :], line])
                else:
                    file.write(line)

    def _append(self, entry: bytes) -> None:
        if self._file is not None:
            os.write(self._file, entry)

    def _try(self, action: Callable[[], None]) -> None:
        """A disk that is full or gone is no reason to lose a training that could go on."""
        if self._folder is None:
            return
        try:
            action()
        except _DAMAGE as error:
            self._lose(error)

    def _lose(self, error: Exception) -> None:
        LOGGER.warning(
            "a reader that draws random numbers may give other batches when this trainer is "
            "started again: %s (%s)",
            self._folder,
            error,
        )
        self.close()
        with contextlib.suppress(OSError):
            self._remove()
        self._folder = None

    def _remove(self) -> None:
        assert self._folder is not None
        for name in (_STATES, _BATCHES):
            (self._folder / name).unlink(missing_ok=True)


class PassEnds:
    """Whether the program was told that a pass is over, which is when it saves the model.

    The servers hear of it first, so a process that dies, or raises, in its event handler comes back
    when the pass is over for them. It is told again then, with the figures that were noted: in sync
    mode nobody has trained since.
    """

    def __init__(self, settings: Settings, is_resumed: bool) -> None:
        self._folder = folder_of(settings)
        self._is_first = settings.trainer_id == 0
        if not is_resumed and self._folder is not None:
            with contextlib.suppress(OSError):
                (self._folder / _END).unlink(missing_ok=True)

    def note(self, number: int, metrics: dict[str, float], is_told: bool) -> None:
        """The servers are about to hear that a pass is over, or the program has been told."""
        if self._folder is None:
            return
        line = json.dumps({"pass": number, "is_told": is_told, "metrics": metrics})
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            _rewrite(self._folder / _END, [line + "\n"])
        except OSError as error:
            LOGGER.warning(
                "the end of pass %d may be told twice if this trainer is started again: %s (%s)",
                number,
                self._folder,
                error,
            )
            with contextlib.suppress(OSError):
                (self._folder / _END).unlink(missing_ok=True)

    def find_untold(self, number: int) -> dict[str, float] | None:
        """The figures of a pass that is over on the servers, if the program was not told of it.
        Where nobody knows, trainer 0 tells it again: a model that is saved twice is better than
        none."""
        found = None
        if self._folder is not None:
            with contextlib.suppress(FileNotFoundError, ValueError):
                found = json.loads((self._folder / _END).read_text(encoding="utf-8"))
        if found is None:
            return {} if self._is_first else None
        is_untold = found["pass"] == number and not found["is_told"]
        return dict(found["metrics"]) if is_untold else None


def first_pass(settings: Settings, start_pass: int, is_resumed: bool) -> int | None:
    """The `start_pass` with which the job began, from which the servers count. None if this process
    goes on and nobody knows."""
    folder = folder_of(settings)
    if not is_resumed:
        if folder is not None:
            with contextlib.suppress(OSError):
                folder.mkdir(parents=True, exist_ok=True)
                # One of an earlier job must not stay if this one cannot be written.
                (folder / _START).unlink(missing_ok=True)
                _rewrite(folder / _START, [f"{start_pass}\n"])
        return start_pass
    if folder is not None:
        # Trainer 0 is in every job; what another has may be of an earlier job in this folder.
        for place in (folder.with_name("trail-0"), folder):
            with contextlib.suppress(OSError, ValueError):
                return int((place / _START).read_text(encoding="utf-8"))
    return None


def folder_of(settings: Settings) -> pathlib.Path | None:
    folder = settings.checkpoint_dir or settings.log_dir
    return pathlib.Path(folder) / f"trail-{settings.trainer_id}" if folder else None


def _rewrite(path: pathlib.Path, lines: Iterable[str]) -> None:
    """Replaces a file as a whole: a process that is killed meanwhile leaves the old one."""
    partial = path.with_name(path.name + ".partial")
    with open(partial, "w", encoding="utf-8") as file:
        file.writelines(lines)
    os.replace(partial, path)


def _state() -> tuple[Any, Any]:
    """How the generators stand, as JSON has it."""
    version, words, gauss = random.getstate()
    of_numpy = np.random.get_state(legacy=True)
    if not isinstance(of_numpy, tuple):
        raise ValueError("numpy.random has a bit generator other than MT19937")
    name, numpy_words, *rest = of_numpy
    return [version, list(words), gauss], [name, numpy_words.tolist(), *rest]
