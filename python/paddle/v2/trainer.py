"""Training: `paddle.trainer.SGD(cost, parameters, update_equation).train(reader)`.

The same program trains in this process or, where `paddle.init` or the environment name parameter
servers, on those. Gradients are summed over the samples of a batch and over trainers, never
averaged.
"""

import atexit
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from paddle import _native, errors
from paddle import feed as feeds
from paddle.v2 import config, event, mistake
from paddle.v2 import printer as printing
from paddle.v2.averages import Averages
from paddle.v2.feeding import Feeder, build_network
from paddle.v2.log import LOGGER
from paddle.v2.lookahead import Known
from paddle.v2.lookahead import batches as known_batches
from paddle.v2.model_config import Message
from paddle.v2.optimizer import Optimizer, merge_settings
from paddle.v2.parameters import Parameters
from paddle.v2.progress import Progress
from paddle.v2.reader import cloud
from paddle.v2.servers import Servers, choose_servers
from paddle.v2.topology import Topology
from paddle.v2.trail import PassEnds, Trail, first_pass

__all__ = ["SGD", "GradientMachine"]


class SGD:
    """Trains a cost with an optimizer.

    cost:             the cost layer, or several.
    parameters:       from `paddle.parameters.create`.
    update_equation:  a `paddle.optimizer`.
    extra_layers:     more layers to compute, for evaluators.
    is_local:         True trains in this process, False on parameter servers; by default on
                      servers if `paddle.init`, the environment or `pserver_spec` names any.
    pserver_spec:     `host:port,…` of the servers, instead of what `paddle.init` says.
    use_etcd:         must be False, or pserver_spec absent: servers are named, not looked up.
    """

    @mistake.checked_arguments
    def __init__(
        self,
        cost: Any,
        parameters: Parameters,
        update_equation: Optimizer,
        extra_layers: Any = None,
        is_local: bool | None = None,
        pserver_spec: str | None = None,
        use_etcd: bool = True,
    ) -> None:
        if not isinstance(parameters, Parameters):
            raise mistake.wrong_type(
                "parameters must come from paddle.parameters.create but is "
                + mistake.kind_of(parameters)
            )
        if not isinstance(update_equation, Optimizer):
            raise mistake.wrong_type(
                "update_equation must be a paddle.optimizer but is "
                + mistake.kind_of(update_equation)
            )
        self._topology = Topology(cost, extra_layers)
        parameters.extend(self._topology.extra_descriptions())
        self._parameters = parameters
        self._optimizer = update_equation
        self._servers: Servers | None = choose_servers(is_local, pserver_spec, use_etcd)
        self._network = build_network(self._topology)
        self._trainer: _native.Trainer | None = None
        # Passes of all calls of `train`, those included that an earlier process has trained.
        self._passes = 0
        self._first_pass: int | None = None
        # What is written down for the process that goes on for this one; None without servers.
        self._ends: PassEnds | None = None
        self._trail: Trail | None = None
        self._averages: Averages | None = None

    def require_cost(self) -> None:
        """Refuses to train a network that has no cost."""
        if not self._network.has_cost():
            first = self._topology.outputs[0]
            error = errors.InvalidError(
                "none of the outputs is a cost, so there is nothing to train; give a cost layer, "
                f"such as cross_entropy_cost (output: {first.name}, at: {first.place})"
            )
            error.at = first.place
            raise error

    @mistake.checked_arguments
    def train(
        self,
        reader: Callable[[], Any],
        num_passes: int | None = None,
        event_handler: Callable[[Any], None] | None = None,
        feeding: Any = None,
        start_pass: int = 0,
    ) -> None:
        """Trains on every batch of `reader()`, `num_passes` times; by default `paddle.job.passes`,
        or once. `reader` may also be what `paddle.feed.files` gives.

        `event_handler` is called with the events of `paddle.event` as they happen. Passes are
        counted from `start_pass`.

        A program that is started again in a job with parameter servers goes on where it was: passes
        and batches that the servers have are skipped, so `reader` must give the same batches again.
        A `cloud_reader` need not: its master knows what is left.
        """
        self.require_cost()
        _check_reader(reader)
        settings = config.current()
        passes = settings.num_passes if num_passes is None else num_passes
        if passes is None:
            passes = 1
        mistake.whole("num_passes", passes, 0)
        mistake.whole("start_pass", start_pass, 0)
        if event_handler is not None and not callable(event_handler):
            raise mistake.wrong_type(
                f"event_handler must be a function but is {mistake.kind_of(event_handler)}"
            )
        feeder = Feeder(self._network, *feeds.feeding_of(reader, feeding))
        readers = feeds.opened(reader, self._network, feeder.places)
        trainer = self._connect()
        if trainer in _leaving:
            _leaving.remove(trainer)
        _, finished, trained, is_elastic, _ = trainer.resume()
        if self._servers is not None:
            self._count_from(start_pass, settings, is_resumed=finished > 0 or trained > 0)
            self._keep_for_others(settings)
        if finished > 0 and finished >= self._passes + passes:
            LOGGER.info(
                "nothing left to train: the servers have %d passes, and %d are asked for",
                finished,
                self._passes + passes,
            )
        progress = Progress(
            settings,
            is_remote=self._servers is not None,
            is_resumed=finished > 0 or trained > 0,
        )
        show = _Show(progress, event_handler)
        # Trainers that come and go have no batches of their own.
        has_trail = self._servers is not None and not is_elastic
        if self._trail is not None:
            self._trail.open()
        elif has_trail:
            self._trail = Trail(settings, finished, trained)
        trail = self._trail
        cloud.set_consumer(trainer)
        try:
            for pass_id in range(start_pass, start_pass + passes):
                self._train_pass(pass_id, readers(self._passes), feeder, (show, trail))
                self._passes += 1
            if self._passes > finished and passes > 0 and not show.progress.has_stepped:
                mistake.warn("the reader gave no batch, so nothing was trained", passes=passes)
        finally:
            cloud.set_consumer(None)
            show.progress.close()
            if trail is not None:
                trail.close()
        if self._servers is not None:
            _leaving.append(trainer)

    @mistake.checked_arguments
    def test(self, reader: Callable[[], Any], feeding: Any = None) -> event.TestResult:
        """The mean cost and the figures over every batch of `reader()`; nothing is learnt.

        Each trainer tests for itself. What `paddle.feed.files` gives is tested as a whole, unless
        its `deal` says otherwise.
        """
        _check_reader(reader)
        feeder = Feeder(self._network, *feeds.feeding_of(reader, feeding))
        read = feeds.opened(reader, self._network, feeder.places, is_testing=True)(0)
        trainer = self._connect()
        trainer.test_begin()
        cost, samples = 0.0, 0
        for data in read():
            with mistake.reported_here():
                batch = feeder(data)
            samples += batch.samples
            cost += trainer.test_batch(batch)
        if samples == 0:
            raise mistake.invalid("the reader gave no batch to test with")
        return event.TestResult(dict(trainer.test_metrics()), cost / samples)

    def save_parameter_to_tar(self, file: BinaryIO) -> None:
        """Writes the model as it is on the servers, or here."""
        self._connect()
        self._parameters.to_tar(file)

    def connect(self) -> _native.Trainer:
        """What computes the steps; connects to the servers, if that was not done yet."""
        return self._connect()

    def feeder(self, feeding: Any = None) -> Feeder:
        """Converts batches of samples; readers may do so ahead of the training."""
        return Feeder(self._network, feeding)

    def get_topology(self) -> Topology:
        """The network that is trained."""
        return self._topology

    def get_topology_proto(self) -> Message:
        """The network that is trained, as the original's `ModelConfig`."""
        return self._topology.proto()

    def _train_pass(
        self,
        pass_id: int,
        reader: Callable[[], Any],
        feeder: Feeder,
        witnesses: "tuple[_Show, Trail | None]",
    ) -> None:
        show, trail = witnesses
        trainer = self._connect()
        is_resumed, finished, trained, is_elastic, _ = trainer.resume()
        if self._passes < finished:
            if self._passes == finished - 1 and trained == 0:
                self._tell_untold(pass_id, show)
            return
        skipped = trained if self._passes == finished else 0
        # Batches of the pass that servers have. A master does not deal those out again.
        applied = skipped
        machine = GradientMachine(trainer)
        show.tell(event.BeginPass(pass_id))
        trainer.start_pass()
        if trail is not None:
            trail.begin_pass(self._passes)
        batches = 0
        fingerprints: dict[int, int | None] = {}
        number = self._passes if is_resumed else None
        for batch_id, (data, following) in enumerate(_batches(reader, number, trainer)):
            batches += 1
            if is_elastic and not cloud.is_dealt():
                raise mistake.invalid(
                    "trainers of this job come and go (min_trainers), so that none has a fixed "
                    "part of the data: let the master deal it out, with cloud_reader or "
                    "paddle.feed.files(deal='master'), which is not for in_memory=True"
                )
            is_dealt = cloud.is_dealt()
            is_skipped = batch_id < skipped and not is_dealt
            if not is_skipped:
                show.tell(event.BeginIteration(pass_id, batch_id))
            with mistake.reported_here():
                batch = feeder(data)
            if trail is not None and not is_dealt:
                fingerprint = fingerprints.pop(batch_id, None) or batch.fingerprint()
                if fingerprint is not None:
                    trail.take(self._passes, batch_id, fingerprint, is_skipped)
            if is_skipped:
                continue
            for coming_id, each in enumerate(following, batch_id + 1):
                if trail is not None and coming_id not in fingerprints:
                    # One that is announced is the trainer's.
                    fingerprints[coming_id] = each.fingerprint()
                trainer.announce(each)
            total, figures = trainer.forward_backward(batch)
            applied += 1
            if self._averages is not None:
                self._averages.note(self._passes, applied)
            self._print(trainer, show)
            show.tell(event.EndForwardBackward(pass_id, batch_id, machine))
            trainer.update()
            cost, metrics = total / batch.samples, dict(figures)
            show.progress.step(pass_id, batch_id, (cost, batch.samples, metrics))
            show.tell(event.EndIteration(pass_id, batch_id, cost, metrics, machine, batch.samples))
        if batches < skipped and not cloud.is_dealt():
            raise mistake.invalid(
                f"this process goes on behind batch {skipped} of the pass, but the reader gave "
                f"only {batches}: give one that gives the same batches every time it is called, or "
                "let a master deal the data out (cloud_reader, or paddle.feed.files with "
                "deal='master')"
            )
        if trail is not None:
            trail.end_pass(self._passes)
        metrics = dict(trainer.pass_metrics())
        if self._averages is not None:
            self._averages.note(self._passes + 1, 0)
        if self._ends is not None:
            self._ends.note(self._passes, metrics, is_told=False)
        trainer.finish_pass()
        show.progress.finish_pass()
        show.tell(event.EndPass(pass_id, metrics, machine))
        if self._ends is not None:
            self._ends.note(self._passes, metrics, is_told=True)

    def _tell_untold(self, pass_id: int, show: "_Show") -> None:
        """Tells the end of the last pass that is over, if an earlier process has not told it."""
        metrics = None if self._ends is None else self._ends.find_untold(self._passes)
        if metrics is None:
            return
        LOGGER.info(
            "an earlier process has not seen the end of pass %d, which is told again", pass_id
        )
        show.tell(event.BeginPass(pass_id))
        show.tell(event.EndPass(pass_id, metrics, GradientMachine(self._connect())))
        if self._ends is not None:
            self._ends.note(self._passes, metrics, is_told=True)

    def _keep_for_others(self, settings: config.Settings) -> None:
        """Takes over what an earlier process has left, and begins to write such things down."""
        if self._ends is not None:
            return
        trainer = self._connect()
        has_begun, finished, trained, is_elastic, _ = trainer.resume()
        is_resumed = finished > 0 or trained > 0 or (is_elastic and has_begun)
        self._ends = PassEnds(settings, is_resumed)
        self._averages = Averages(settings, trainer, self._parameters)
        if is_resumed:
            self._averages.resume(finished, trained, is_elastic)
        else:
            self._averages.begin()

    def _count_from(self, start_pass: int, settings: config.Settings, is_resumed: bool) -> None:
        """Counts passes as the servers do, from the `start_pass` with which the job began."""
        if self._first_pass is not None:
            return
        trainer = self._connect()
        first = first_pass(settings, start_pass, is_resumed)
        if first is None:
            restored = trainer.restored()
            if start_pass > 0 and restored is not None and restored[0] > 0:
                raise mistake.invalid(
                    "the servers have restored a checkpoint and count passes themselves, but which "
                    "start_pass the job began with is not in the checkpoint folder: leave "
                    "start_pass out, or start the servers without --restore",
                    start_pass=start_pass,
                )
            first = start_pass
        self._first_pass = first
        self._passes += start_pass - first

    def _print(self, trainer: _native.Trainer, show: "_Show") -> None:
        """Lets printers write what they watch."""
        for evaluator in self._topology.evaluators.values():
            if (printer := evaluator.printer) is not None:
                look = trainer.look_gradient if printer.wants_gradient else trainer.look
                watched = []
                for layer in evaluator.inputs:
                    values, ids, offsets = look(layer.name)
                    found = values if ids is None else ids
                    watched.append(printing.Watched(layer.name, found, offsets))
                show.progress.clear()
                printer.write(watched)

    def _connect(self) -> _native.Trainer:
        if self._trainer is None:
            recipe = json.dumps(self._recipe())
            with mistake.reported_here():
                if self._servers is None:
                    self._trainer = _native.Trainer(self._network, self._parameters.native, recipe)
                else:
                    description = self._servers.describe(self._optimizer.lag_ratio_max)
                    with self._servers.reported():
                        self._trainer = _native.Trainer(
                            self._network, self._parameters.native, recipe, description
                        )
            *_, has_left = self._trainer.resume()
            if has_left:
                _leave_again(self._trainer)
            if self._servers is not None:
                _refuse_another(self._trainer)
            self._parameters.attach(self._trainer, self._optimizer.is_averaging)
        return self._trainer

    def _recipe(self) -> dict[str, Any]:
        mode = "async" if self._optimizer.is_async else config.current().mode or "sync"
        parameters = {}
        for each in self._topology.descriptions():
            own = {"settings": merge_settings(each["attr"], self._optimizer)}
            # Hybrid: rows as they come, the dense rest in step.
            hybrid = "async" if each["is_sparse"] else "sync"
            parameters[each["name"]] = own | {"mode": hybrid if mode == "hybrid" else mode}
        return {"optimizer": json.loads(self._optimizer.to_json()), "parameters": parameters}


class GradientMachine:
    """What `event.gm` is: a way to see what the network computed for the batch."""

    def __init__(self, trainer: _native.Trainer) -> None:
        self._trainer = trainer

    def getLayerOutputs(self, names: Any) -> dict[str, dict[str, Any]]:  # noqa: N802
        """`{name: {"value": array}}` of some layers; ids are under `"id"`.

        Outputs of the network and inputs of evaluators are as they were computed; other layers are
        computed again, as in a test, with the parameters of now.
        """
        found = {}
        for name in [names] if isinstance(names, str) else names:
            values, _, _ = self._trainer.look(name)
            is_ids = getattr(values, "ndim", 2) == 1
            found[name] = {"id" if is_ids else "value": values}
        return found


class _Show:
    """Whoever wants to know how training goes: the user's function, and the progress line."""

    def __init__(self, progress: Progress, handler: Callable[[Any], None] | None) -> None:
        self.progress = progress
        self._handler = handler

    def tell(self, happened: Any) -> None:
        if self._handler is not None:
            self.progress.clear()
            self._handler(happened)


def _batches(
    reader: Callable[[], Any], number: int | None, trainer: _native.Trainer
) -> Iterator[Known]:
    """The batches of a pass, which the job's master may hold open for the tasks of others."""
    cloud.begin_pass(number)
    yield from known_batches(reader, trainer)
    while cloud.resume_open_pass():
        yield from known_batches(reader, trainer)


def _check_reader(reader: Any) -> None:
    if not callable(reader):
        raise mistake.wrong_type(
            "reader must be a function that returns batches, such as paddle.batch(reader, "
            f"batch_size), but is a {type(reader).__name__}; give the function, do not call it"
        )


# A trainer that ends well tells the servers, which end when all have. One that fails does not: to
# the others it must look like what it is, a trainer that is missing.
_leaving: list[_native.Trainer] = []


def _refuse_another(trainer: _native.Trainer) -> None:
    """Refuses a second SGD on servers on which this program has trained with another one: they have
    its passes and its values, which a new one neither counts nor changes."""
    if any(earlier.restored() == trainer.restored() for earlier in _leaving):
        raise mistake.invalid(
            "this program has trained on these parameter servers with another SGD, and they would "
            "go on from where that one has ended: call train of the same SGD again, or train the "
            "second model in a job of its own"
        )


def _leave_again(trainer: _native.Trainer) -> None:
    """Ends a process whose predecessor was killed behind its last line, on its way out."""
    LOGGER.info("an earlier process of this trainer has finished; nothing is left to do")
    trainer.goodbye()
    trainer.close()
    sys.exit(0)


@atexit.register
def leave() -> None:
    """Tells the servers of every training that ended well; done when the program ends.

    A program that an exception ends after its training, when it saves the model for example, has
    not ended well: it says nothing, and when it is started again it finds its servers.
    """
    # Python keeps the exception that nobody caught; at a prompt it may be an old one.
    if getattr(sys, "last_value", None) is not None and not hasattr(sys, "ps1"):
        return
    while _leaving:
        trainer = _leaving.pop()
        trainer.goodbye()
        trainer.close()
