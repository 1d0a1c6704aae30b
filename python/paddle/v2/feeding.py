"""Which place of a sample feeds which data layer."""

import functools
import os
from typing import Any

from paddle import _native, errors
from paddle.v2 import config, mistake
from paddle.v2.topology import Topology


class Feeder:
    """A network together with the places of its data layers in a sample.

    feeding: None, places in the order of the data layers; a dict, name to place; or a list of
    names, in the order of the sample. said_by: the argument that it was given as.
    """

    def __init__(
        self, network: _native.Network, feeding: Any = None, said_by: str = "feeding"
    ) -> None:
        self._network = network
        self.places = _places(network.inputs(), feeding, said_by)

    def __call__(self, samples: Any) -> _native.Batch:
        # Readers may convert ahead.
        if isinstance(samples, _native.Batch):
            return samples
        try:
            return self._network.feed(samples, self.places)
        except errors.InvalidError as error:
            if not isinstance(samples, tuple):
                raise
            # What a reader gives that nobody wrapped is one sample.
            raise errors.InvalidError(
                "expected a batch, a list of samples, but got a tuple, as one sample is; wrap the "
                f"reader with paddle.batch(reader, batch_size): {error}"
            ) from None


def build_network(topology: Topology) -> _native.Network:
    """The network of a topology, to be run as `paddle.init` said."""
    settings = config.current()
    if not settings.use_gpu:
        _warn_of_threads(
            settings.trainer_count, settings.trainer_id, os.environ.get("PADDLE_TRAINER_IPS", "")
        )
    with mistake.reported_here():
        return _native.Network(
            topology.to_json(),
            threads=settings.trainer_count,
            use_gpu=settings.use_gpu,
            seed=settings.seed,
        )


@functools.cache
def _warn_of_threads(count: int, rank: int, hosts: str) -> None:
    """Says once, in one of a machine's trainers, that they have more threads than it has cores."""
    listed = hosts.split(",")
    here = [rank]
    if rank < len(listed):
        here = [other for other, host in enumerate(listed) if host == listed[rank]]
    cores = len(os.sched_getaffinity(0))
    if count > 1 and len(here) * count > cores and rank == here[0]:
        mistake.warn(
            f"this machine's trainers have {len(here) * count} threads that compute, but "
            f"{cores} cores, so threads wait for one another; set trainer_count to "
            f"{max(1, cores // len(here))}",
            trainer_count=count,
            trainers=len(here),
        )


def _places(layers: list[str], feeding: Any, said_by: str) -> list[int]:
    if feeding is None:
        return list(range(len(layers)))
    if isinstance(feeding, dict):
        places = {name: mistake.whole(f"feeding[{name!r}]", feeding[name], 0) for name in feeding}
    elif isinstance(feeding, list | tuple):
        places = {name: place for place, name in enumerate(feeding)}
    else:
        raise mistake.wrong_type(
            "feeding must be a dict of names and places, or a list of names, "
            f"but is {mistake.kind_of(feeding)}"
        )
    for name in places:
        if not isinstance(name, str):
            raise mistake.wrong_type(f"feeding must have names of data layers, not {name!r}")
    missing = [name for name in layers if name not in places]
    if missing:
        hint = mistake.suggestion(missing[0], places)
        raise mistake.invalid(
            f"{said_by} does not say where the value of data layer {missing[0]!r} is{hint}",
            **{said_by: sorted(places)},
        )
    return [places[name] for name in layers]
