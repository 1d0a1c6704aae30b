"""`--job=test`: saved models, tested one after the other."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

from paddle import _native, errors
from paddle.v1 import figures, models
from paddle.v1.log import log
from paddle.v1.session import Data, Session
from paddle.v1.training import measure
from paddle.v2.inference import Inference

# How long `--test_wait` waits for the next pass.
WAIT_SECONDS = 24 * 3600
POLL_SECONDS = 1.0


def run(session: Session) -> None:
    """Tests each model that the flags name."""
    data = session.test
    assert data is not None
    if session.command.predict_output_dir:
        _predict(session, data)
        return
    for number, directory in enumerate(_directories(session)):
        _load(session, directory)
        _test(session, data, number, directory)


def _test(session: Session, data: Data, number: int, directory: str) -> None:
    read = _printing(session, data, number) or data.reader(number)
    cost, samples = measure(session, read, session.command.log_period)
    if samples == 0:
        raise errors.InvalidError(
            f"the data provider gave no sample to test with (at: {data.place})"
        )
    log.info(
        f" Pass={models.shown_pass(directory)} samples={samples} AvgCost={figures.number(cost)} "
        f"Eval: {session.figures(session.native.test_metrics())}"
    )


def _printing(
    session: Session, data: Data, number: int
) -> Callable[[], Iterator[_native.Batch]] | None:
    """A reader that lets printers write what they watch; None if there are none."""
    known = session.trainer.get_topology().evaluators.values()
    printers = [each for each in known if each.printer and not each.printer.wants_gradient]
    if not printers:
        return None
    places = {name: place for place, name in enumerate(session.configuration.order)}
    watches = [(Inference(session.parameters, [*each.inputs]), each.printer) for each in printers]

    def read() -> Iterator[_native.Batch]:
        for samples in data.process.samples(number):
            for inference, printer in watches:
                assert printer is not None
                log.end_line()
                printer.write(inference.watch(samples, places))
            yield data.feeder(samples)

    return read


def _directories(session: Session) -> Iterator[str]:
    command = session.command
    if command.model_list:
        yield from models.listed(command)
    elif command.init_model_path:
        yield command.init_model_path
    else:
        yield from _passes(session)


def _passes(session: Session) -> Iterator[str]:
    command = session.command
    for pass_id in range(command.test_pass, command.num_passes):
        directory = os.path.join(session.save_dir, models.pass_name(pass_id))
        if not _is_there(directory, command.test_wait):
            if pass_id == command.test_pass:
                raise errors.NotFoundError(f"there is no saved pass {directory}")
            return
        yield directory


def _is_there(directory: str, waits: bool) -> bool:
    deadline = time.monotonic() + WAIT_SECONDS
    is_told = False
    while not models.is_finished(directory):
        if not waits:
            return False
        if not is_told:
            log.info(f"waiting for {directory}, for up to {WAIT_SECONDS // 3600} hours")
            is_told = True
        if time.monotonic() > deadline:
            raise errors.Error(f"{directory} was not saved within {WAIT_SECONDS} seconds")
        time.sleep(POLL_SECONDS)
    return True


def _load(session: Session, directory: str) -> None:
    models.load(session.parameters, directory, session.command.load_missing_parameter_strategy)


def _predict(session: Session, data: Data) -> None:
    """Writes the outputs instead of testing: those of a model after those of the one before it."""
    folder = session.command.predict_output_dir
    path = os.path.join(folder, f"rank-{session.rank:05d}")
    pending = f"{path}.partial"
    try:
        os.makedirs(folder, exist_ok=True)
        with open(pending, "w", encoding="utf-8") as file:
            rows = 0
            for directory in _directories(session):
                _load(session, directory)
                for line in _lines(session, data):
                    file.write(line)
                    rows += 1
        os.replace(pending, path)
    except OSError as error:
        if isinstance(error, errors.Error):
            raise
        raise errors.Error(
            f"the outputs cannot be written: {error.strerror} (predict_output_dir: {folder})"
        ) from None
    finally:
        with contextlib.suppress(OSError):
            os.remove(pending)
    log.info(f"wrote {rows} rows to {path}")


def _lines(session: Session, data: Data) -> Iterator[str]:
    """A line of each row: the numbers of the outputs, a semicolon behind each output."""
    outputs = session.configuration.outputs
    inference = Inference(session.parameters, outputs)
    places = {name: place for place, name in enumerate(session.configuration.order)}
    for samples in data.process.samples(0):
        found = inference.infer(samples, feeding=places)
        columns = found if isinstance(found, list) else [found]
        if len({len(column) for column in columns}) > 1:
            counts = (f"{o.name}: {len(c)}" for o, c in zip(outputs, columns, strict=True))
            raise errors.InvalidError(
                "the outputs have different numbers of rows, which cannot share lines; predict "
                f"them one by one ({', '.join(counts)})"
            )
        for row in zip(*columns, strict=True):
            yield "".join(f"{_numbers(each)};" for each in row) + "\n"


def _numbers(row: Any) -> str:
    numbers = row if getattr(row, "ndim", 0) else [row]
    return " ".join(figures.number(float(each)) for each in numbers)
