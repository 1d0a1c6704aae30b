"""What a trainer leaves for the process that goes on for it.

A trainer that is started again skips the batches that the servers have. That is right only if its
reader gives the same ones, so two things are written down:

- how `random` and `numpy.random` stood when each pass began. Readers that draw from them, as
  `paddle.reader.shuffle` does, find them so again;
- a fingerprint of every batch. One that is another all the same fails the job, with that reason.

They are kept beside the checkpoints, or in the trainer's log directory if there are none. A process
that finds nothing there cannot know, and says so.
"""

import json
import os
import pathlib
import random
import struct
from typing import Any

import numpy as np

from paddle import _native
from paddle.v2 import mistake
from paddle.v2.config import Settings
from paddle.v2.log import LOGGER

# Pass, batch, fingerprint.
_ENTRY = struct.Struct("<III")
# When a pass begins with more, fingerprints of earlier passes are dropped.
BATCHES_BYTES_MAX = 64 << 20


class Trail:
    """The trail of one trainer. `finished` passes and `trained` batches are on the servers."""

    def __init__(self, settings: Settings, finished: int, trained: int) -> None:
        self._first = finished
        self._is_resumed = finished > 0 or trained > 0
        self._skipped = trained
        self._known: dict[int, int] = {}
        self._file: int | None = None
        self._drawn: Any = None
        folder = settings.checkpoint_dir or settings.log_dir
        self._folder: pathlib.Path | None = None
        if folder:
            self._folder = pathlib.Path(folder) / f"trail-{settings.trainer_id}"
            self._try(self._open)

    def begin_pass(self, number: int) -> None:
        """Before the reader is called."""
        self._known = {}
        if self._is_resumed and number == self._first:
            self._try(lambda: self._restore(number))
        self._try(lambda: self._note(number))

    def take(self, number: int, batch_id: int, batch: _native.Batch, is_skipped: bool) -> None:
        """A batch of the reader's: one that is trained now, or one that was."""
        fingerprint = batch.fingerprint()
        if fingerprint is None:
            return
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
        if not self._is_resumed:
            for name in ("random.jsonl", "batches"):
                (self._folder / name).unlink(missing_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._file = os.open(self._folder / "batches", flags, 0o644)

    def _restore(self, number: int) -> None:
        assert self._folder is not None and self._file is not None
        found, kept = None, []
        states = self._folder / "random.jsonl"
        # A trainer that the job did not have before shuffles like the others, if they do.
        others = self._folder.with_name("trail-0") / "random.jsonl"
        with open(states if states.exists() else others, encoding="utf-8") as file:
            for line in file:
                state = json.loads(line)
                # Later ones are of a time that the servers have forgotten.
                if state["pass"] <= number:
                    found = state
                    kept.append(line)
        if found is None:
            raise ValueError("the pass is not in random.jsonl")
        version, words, gauss = found["random"]
        random.setstate((version, tuple(words), gauss))
        name, words, *rest = found["numpy"]
        np.random.set_state((name, np.array(words, dtype=np.uint32), *rest))
        with open(states, "w", encoding="utf-8") as file:
            file.writelines(kept)
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
            with open(self._folder / "random.jsonl", "a", encoding="utf-8") as file:
                file.write(line)

    def _append(self, entry: bytes) -> None:
        if self._file is not None:
            os.write(self._file, entry)

    def _try(self, action: Any) -> None:
        """A disk that is full or gone is no reason to lose a training that could go on."""
        if self._folder is None:
            return
        try:
            action()
        except (OSError, ValueError, KeyError, TypeError) as error:
            LOGGER.warning(
                "a reader that draws random numbers may give other batches when this trainer is "
                "started again: %s (%s)",
                self._folder,
                error,
            )
            self.close()
            self._folder = None


def _state() -> tuple[Any, Any]:
    """How the generators stand, as JSON has it."""
    version, words, gauss = random.getstate()
    name, numpy_words, *rest = np.random.get_state(legacy=True)
    return [version, list(words), gauss], [name, numpy_words.tolist(), *rest]  # type: ignore[union-attr]
