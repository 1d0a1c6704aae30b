"""`--job=train`: the events of a training of `paddle.v2` become logs, tests and saved models."""

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy

from paddle import _native, errors
from paddle.v1 import figures, models
from paddle.v1.log import log
from paddle.v1.session import Session, show_servers
from paddle.v2 import event


def run(session: Session) -> None:
    """Trains until `--num_passes`."""
    command = session.command
    data = session.require_train()
    directory = load_model(session)
    if not session.is_local:
        show_servers()
        if command.distribute_test and session.test is not None:
            log.info("--distribute_test: figures of tests are those of this trainer's share alone")
    native = session.native
    if directory is not None and not command.init_model_path:
        _resume(session, directory)
    native.start_period()
    reporter = Reporter(session)
    if command.start_pass >= command.num_passes:
        log.warning(
            f"nothing to train: start_pass is {command.start_pass}, num_passes {command.num_passes}"
        )
        return
    session.trainer.train(
        lambda: data.reader(reporter.pass_id)(),
        num_passes=command.num_passes - command.start_pass,
        start_pass=command.start_pass,
        event_handler=reporter.handle,
    )


def load_model(session: Session) -> str | None:
    """Loads the model that the flags name; its directory, or None."""
    directory = models.loaded_directory(session.command, session.save_dir)
    if directory is not None:
        _load(session, directory)
    return directory


def _load(session: Session, directory: str) -> None:
    command = session.command
    try:
        if not command.init_model_path and not models.is_finished(directory):
            raise errors.NotFoundError(
                f"--start_pass={command.start_pass} goes on behind {directory}, which is not there "
                "or was not saved to its end; give the number of a pass behind a saved one, and "
                "its --save_dir"
            )
        models.load(session.parameters, directory, command.load_missing_parameter_strategy)
    except errors.NotFoundError:
        # The first trainer brings the values to the servers; others may not have the files.
        if session.is_local or session.rank == 0 or os.path.isdir(directory):
            raise
        log.warning(f"{directory} is not here; the first trainer loads it")


def _resume(session: Session, directory: str) -> None:
    if not session.is_local:
        _resume_on_servers(session.native, directory)
        return
    try:
        is_whole = session.native.load_state(directory)
    except errors.ConflictError as error:
        log.warning(f"the optimizer begins anew: {error}")
        return
    if not is_whole:
        log.warning(f"the optimizer begins anew: {directory} has only the values of the model")


def _resume_on_servers(native: _native.Trainer, directory: str) -> None:
    """Servers keep the state of the optimizer; the log says whether these have any."""
    has_begun, *_ = native.resume()
    cut, _ = native.restored() or (0, 0)
    if not has_begun and cut == 0:
        log.warning(
            f"the optimizer begins anew: the servers have only the values of {directory}, and no "
            "checkpoint that they were to restore"
        )
        return
    whence = f"checkpoint {cut}" if cut else "the process before this one"
    log.info(
        f"the servers go on with the values and the optimizer of {whence}, not with {directory}"
    )


class Reporter:
    """Follows a training."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._command = session.command
        self._files = models.beside(session.configuration)
        self._pass = _Sum()
        self._period = _Sum()
        self.pass_id = 0

    def handle(self, happened: Any) -> None:
        """What `paddle.v2` calls with its events."""
        if isinstance(happened, event.BeginPass):
            self.pass_id = happened.pass_id
            self._pass, self._period = _Sum(), _Sum()
            self._session.native.start_period()
        elif isinstance(happened, event.EndIteration):
            self._end_batch(happened)
        elif isinstance(happened, event.EndPass):
            self._end_pass(happened)

    def _end_batch(self, happened: event.EndIteration) -> None:
        command, batch = self._command, happened.batch_id + 1
        for each in (self._pass, self._period):
            each.add(happened.cost, happened.samples)
        if _is_due(batch, command.log_period):
            native = self._session.native
            whole = self._session.figures(native.pass_metrics())
            recent = self._session.figures(native.period_metrics())
            log.info(
                f" Batch={batch} samples={self._pass.samples} AvgCost={self._pass.mean()} "
                f"CurrentCost={self._period.mean()} Eval: {whole} CurrentEval: {recent}"
            )
            self._period = _Sum()
            native.start_period()
        elif _is_due(batch, command.dot_period):
            log.dot()
        if _is_due(batch, command.show_parameter_stats_period) and self._session.rank == 0:
            show_parameters(self._session)
        if _is_due(batch, command.saving_period_by_batches) and self._session.rank == 0:
            saved = self._save(models.pass_name(happened.pass_id, batch))
            log.info(f"Saving parameters to {saved}")
        if _is_due(batch, command.test_period):
            test(self._session, happened.pass_id)

    def _end_pass(self, happened: event.EndPass) -> None:
        if self._pass.batches == 0 and self._session.is_local:
            place = self._session.require_train().place
            raise errors.InvalidError(
                f"the data provider gave no sample in a whole pass (at: {place})"
            )
        log.info(
            f" Pass={happened.pass_id} Batch={self._pass.batches} samples={self._pass.samples} "
            f"AvgCost={self._pass.mean()} Eval: {self._session.figures(happened.metrics.items())}"
        )
        # First, so that a fault in the data of tests does not cost the pass.
        saved = self._save_pass(happened.pass_id)
        try:
            if self._command.test_period == 0:
                test(self._session, happened.pass_id)
        finally:
            # As in the original behind the line of the test: scripts look there for its pass.
            if saved is not None:
                log.info(f"Saving parameters to {saved}")

    def _save_pass(self, pass_id: int) -> str | None:
        """Saves a pass if it is one to save; its directory."""
        period = self._command.saving_period
        if self._session.rank != 0 or not period or pass_id % period != 0:
            return None
        directory = self._save(models.pass_name(pass_id))
        if self._command.save_only_one:
            models.remove(self._session.save_dir, pass_id - period)
        return directory

    def _save(self, name: str) -> str:
        directory = os.path.join(self._session.save_dir, name)
        self._session.native.save(directory, self._files)
        return directory


class _Sum:
    """Costs of batches, weighted by their samples."""

    def __init__(self) -> None:
        self.cost, self.samples, self.batches = 0.0, 0, 0

    def add(self, mean: float, samples: int) -> None:
        self.cost += mean * samples
        self.samples += samples
        self.batches += 1

    def mean(self) -> str:
        return figures.number(self.cost / self.samples if self.samples else 0.0)


def test(session: Session, pass_id: int) -> None:
    """Tests the model as it is, and logs it, if there is something to test with."""
    if session.test is None:
        return
    cost, samples = measure(session, session.test.reader(pass_id))
    if samples == 0:
        log.warning(f"the data provider gave no sample to test with (at: {session.test.place})")
        return
    log.info(
        f" Test samples={samples} cost={figures.number(cost)} "
        f"Eval: {session.figures(session.native.test_metrics())}"
    )


def measure(
    session: Session, read: Callable[[], Iterator[_native.Batch]], period: int = 0
) -> tuple[float, int]:
    """The mean cost over batches and how many samples they have; a line every `period` batches."""
    native = session.native
    native.test_begin()
    cost, samples = 0.0, 0
    for number, batch in enumerate(read(), 1):
        cost, samples = cost + native.test_batch(batch), samples + batch.samples
        if _is_due(number, period):
            log.info(f" Batch={number} samples={samples} AvgCost={figures.number(cost / samples)}")
    return cost / max(samples, 1), samples


def show_parameters(session: Session) -> None:
    """Logs the values and gradients of every parameter."""
    for name in session.parameters:
        if session.parameters.native.is_sparse(name):
            found = session.native.gradient(name)
            keys = None if found is None else found[0]
            values = session.parameters.get_rows(name, [] if keys is None else keys)
        else:
            found, values = session.native.gradient(name), session.parameters.get(name)
        shown = f"avg_abs_val={_mean(values)} max_val={_largest(values)}"
        if found is not None:
            shown += f" avg_abs_grad={_mean(found[1])} max_grad={_largest(found[1])}"
        log.info(f"{name:20} {shown}")


def _mean(values: Any) -> str:
    return figures.number(float(numpy.abs(values).mean()) if values.size else 0.0)


def _largest(values: Any) -> str:
    return figures.number(float(numpy.abs(values).max()) if values.size else 0.0)


def _is_due(batch: int, period: int) -> bool:
    return period > 0 and batch % period == 0
