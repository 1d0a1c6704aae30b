"""`--job=test`: saved models, tested one after the other."""

import os
import time
from collections.abc import Iterator

from paddle import errors
from paddle.v1 import figures, models
from paddle.v1.log import log
from paddle.v1.session import Session
from paddle.v1.training import _Counted
from paddle.v2.inference import Inference

# How long `--test_wait` waits for the next pass.
WAIT_SECONDS = 24 * 3600
POLL_SECONDS = 1.0


def run(session: Session) -> None:
    """Tests each model that the flags name."""
    data = session.test
    if data is None:
        raise errors.InvalidError(
            f"{session.configuration.path} has no data to test with; give test_list to "
            "define_py_data_sources2"
        )
    for number, directory in enumerate(_directories(session)):
        strategy = session.command.load_missing_parameter_strategy
        models.load(session.parameters, directory, strategy)
        if session.command.predict_output_dir:
            _predict(session)
            continue
        counted = _Counted(data.reader(number))
        tested = session.trainer.test(counted)
        name = os.path.basename(os.path.normpath(directory))
        shown = name.removeprefix("pass-").lstrip("0") or "0"
        log.info(
            f" Pass={shown} samples={counted.samples} AvgCost={figures.number(tested.cost)} "
            f"Eval: {session.figures(tested.metrics.items())}"
        )


def _directories(session: Session) -> Iterator[str]:
    command = session.command
    if command.model_list:
        try:
            with open(command.model_list, encoding="utf-8") as file:
                yield from [line.strip() for line in file if line.strip()]
        except OSError as error:
            raise errors.InvalidError(
                f"cannot read --model_list: {error.strerror} (file: {command.model_list})"
            ) from None
    elif command.init_model_path:
        yield command.init_model_path
    elif command.test_pass >= 0:
        yield from _passes(session)
    else:
        raise errors.InvalidError(
            "name what to test: --init_model_path=DIR, --test_pass=N with --save_dir, or "
            "--model_list=FILE"
        )


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
    while not os.path.exists(os.path.join(directory, "done")):
        if not waits:
            return False
        if not is_told:
            log.info(f"waiting for {directory}, for up to {WAIT_SECONDS // 3600} hours")
            is_told = True
        if time.monotonic() > deadline:
            raise errors.Error(f"{directory} was not saved within {WAIT_SECONDS} seconds")
        time.sleep(POLL_SECONDS)
    return True


def _predict(session: Session) -> None:
    """Writes the outputs, a row a line, instead of testing."""
    data, command = session.test, session.command
    assert data is not None
    inference = Inference(session.parameters, session.configuration.outputs)
    os.makedirs(command.predict_output_dir, exist_ok=True)
    path = os.path.join(command.predict_output_dir, f"rank-{session.rank:05d}")
    places = {name: place for place, name in enumerate(session.configuration.order)}
    rows = 0
    with open(path, "w", encoding="utf-8") as file:
        for samples in data.process.batches(0, list):
            outputs = inference.infer(samples, feeding=places)
            for output in outputs if isinstance(outputs, list) else [outputs]:
                for row in output:
                    numbers = row if getattr(row, "ndim", 0) else [row]
                    file.write(" ".join(figures.number(float(each)) for each in numbers) + ";\n")
                    rows += 1
    log.info(f"wrote {rows} rows to {path}")
