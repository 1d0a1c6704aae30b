"""Keeps what a trainer measures, for the process that goes on for it.

Moving averages of batch normalization are not learnt, so servers do not have them: each trainer has
its own. They are written down with every batch, by the pass and the number of its batches that they
have seen:

- those of the last batches, because a process that dies has one batch that servers have or not;
- those around each checkpoint that servers have announced, because servers may go back to it.
  A checkpoint is at most two updates away from the batch at which a trainer hears of it.

They are kept beside the trail (`trail.py`), and written before the servers get the batch. Without
them the model would have the averages of no data, so trainer 0, whose model is saved, fails then.
In jobs whose trainers come and go, batches have no fixed numbers: there the newest are taken.
"""

import contextlib
import json
import pathlib
import zlib
from collections import deque
from typing import Any, NamedTuple

import numpy as np

from paddle import _native
from paddle.v2 import mistake
from paddle.v2.config import Settings
from paddle.v2.log import LOGGER
from paddle.v2.parameters import Parameters
from paddle.v2.trail import folder_of

# Batches before and after one at which a checkpoint is heard of that may be those it is of.
RECENT, COMING = 4, 3
# When checkpoints have more, the averages of the oldest ones are dropped, all but those of so many.
CUTS_BYTES_MAX, CUTS_LEAST = 64 << 20, 4


class Kept(NamedTuple):
    """A file of averages."""

    path: pathlib.Path
    # Passes and batches that they have seen.
    place: tuple[int, int]
    serial: int
    values: list[tuple[str, Any]]


class Averages:
    """What one trainer measures."""

    def __init__(
        self, settings: Settings, trainer: _native.Trainer, parameters: Parameters
    ) -> None:
        self._trainer, self._parameters, self._settings = trainer, parameters, settings
        self._is_measuring = bool(trainer.measured())
        folder = folder_of(settings)
        self._folder = folder / "averages" if folder is not None else None
        self._serial = 0
        self._recent: deque[tuple[int, bytes]] = deque(maxlen=RECENT)
        # The next checkpoint, and how many more batches may be those that the one before is of.
        self._cut: int | None = None
        self._coming = 0

    def begin(self) -> None:
        """There is no earlier process."""
        self._forget()
        self.note(0, 0)

    def resume(self, finished: int, trained: int, is_elastic: bool) -> None:
        """Goes on where an earlier process was."""
        if self._is_measuring:
            self._restore((finished, trained), is_elastic)

    def note(self, finished: int, trained: int) -> None:
        """What the servers are about to get makes so many passes, and batches of the next one."""
        if not self._is_measuring or self._folder is None:
            return
        values = self._trainer.measured()
        self._serial += 1
        head = {
            "pass": finished,
            "batches": trained,
            "serial": self._serial,
            "parameters": [[name, len(value)] for name, value in values],
        }
        content = json.dumps(head).encode() + b"\n" + b"".join(each.tobytes() for _, each in values)
        content += zlib.crc32(content).to_bytes(4, "little")
        self._recent.append((self._serial, content))
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._write(f"recent-{self._serial % RECENT}", content)
            self._note_cut(content)
        except OSError as error:
            LOGGER.warning(
                "the moving averages of this trainer cannot be kept, so that it cannot be started "
                "again: %s (%s)",
                self._folder,
                error,
            )
            self._forget()
            self._folder = None

    def _note_cut(self, content: bytes) -> None:
        cut = self._trainer.next_cut()
        if cut != self._cut:
            self._cut, self._coming = cut, COMING
            for serial, earlier in self._recent:
                self._write(f"cut-{cut}-{serial}", earlier)
            self._drop_cuts()
        elif self._coming > 0:
            self._coming -= 1
            self._write(f"cut-{cut}-{self._serial}", content)

    def _drop_cuts(self) -> None:
        of_cuts: dict[int, list[pathlib.Path]] = {}
        for each in self._files():
            if each.name.startswith("cut-"):
                of_cuts.setdefault(int(each.name.split("-")[1]), []).append(each)
        size = sum(each.stat().st_size for files in of_cuts.values() for each in files)
        for cut in sorted(of_cuts)[:-CUTS_LEAST]:
            if size <= CUTS_BYTES_MAX:
                return
            for each in of_cuts[cut]:
                size -= each.stat().st_size
                each.unlink()

    def _restore(self, place: tuple[int, int], is_elastic: bool) -> None:
        kept = [each for path in self._files() if (each := _read(path)) is not None]
        if not kept:
            self._require_others(place)
            return
        if is_elastic:
            found = max(kept, key=lambda each: each.serial)
        else:
            found = min(kept, key=lambda each: (_distance(each.place, place), -each.serial))
        names = [name for name, _ in self._trainer.measured()]
        if [name for name, _ in found.values] != names:
            raise mistake.invalid(
                "the moving averages that were kept are of another network: start the job from the "
                "beginning",
                folder=self._folder,
            )
        if found.place != place and not is_elastic:
            LOGGER.warning(
                "the moving averages of %s are those after batch %d of pass %d, where this trainer "
                "goes on after batch %d of pass %d: nearer ones were not kept",
                ", ".join(names),
                *reversed(found.place),
                *reversed(place),
            )
        for name, value in found.values:
            self._parameters.set(name, value.reshape(self._parameters.get_shape(name)))
        self._serial = max(each.serial for each in kept)
        for each in kept:
            if each.place > place and not is_elastic:
                # Of a time that the servers have forgotten: its batches come again.
                each.path.unlink(missing_ok=True)
            elif each.path.name.startswith("recent-"):
                self._recent.append((each.serial, each.path.read_bytes()))

    def _require_others(self, place: tuple[int, int]) -> None:
        names = [name for name, value in self._trainer.measured() if not value.any()]
        if not names:
            # The program has loaded some.
            return
        if self._settings.trainer_id != 0:
            LOGGER.warning("the moving averages of %s begin anew", ", ".join(names))
            return
        raise mistake.invalid(
            f"this process goes on after batch {place[1]} of pass {place[0]}, but the moving "
            "averages that an earlier one has measured are lost, and servers do not keep them: "
            "load them with the values of a saved model (init_from_tar), or start the job from the "
            "beginning",
            parameters=", ".join(names),
            folder=self._folder or "none: give the job a checkpoint_dir or log_dir",
        )

    def _forget(self) -> None:
        for each in self._files():
            with contextlib.suppress(OSError):
                each.unlink()

    def _files(self) -> list[pathlib.Path]:
        if self._folder is None or not self._folder.is_dir():
            return []
        return [each for each in self._folder.iterdir() if each.name.startswith(("recent", "cut"))]

    def _write(self, name: str, content: bytes) -> None:
        assert self._folder is not None
        with open(self._folder / name, "wb") as file:
            file.write(content)


def _distance(one: tuple[int, int], other: tuple[int, int]) -> int:
    return abs((one[0] << 32 | one[1]) - (other[0] << 32 | other[1]))


def _read(path: pathlib.Path) -> Kept | None:
    """A file that was written to its end; None for others."""
    content = path.read_bytes()
    body, checksum = content[:-4], content[-4:]
    if zlib.crc32(body).to_bytes(4, "little") != checksum:
        return None
    line, _, numbers = body.partition(b"\n")
    head = json.loads(line)
    values, flat = [], np.frombuffer(numbers, dtype="<f4")
    for name, count in head["parameters"]:
        values.append((name, flat[:count]))
        flat = flat[count:]
    return Kept(path, (head["pass"], head["batches"]), head["serial"], values)
