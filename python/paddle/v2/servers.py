"""Which parameter servers a program trains on, and how they are reached.

Servers that are named are used: a program that looks distributed is. Where that cannot be, the
error or the warning says which variable or argument named them.
"""

import contextlib
import dataclasses
import json
from collections.abc import Iterator

from paddle import errors
from paddle.v2 import config, mistake

# Launchers start servers first, so one that does not answer soon is not there.
FIRST_CONTACT_SECONDS = 10.0
TIMEOUT_SECONDS = 60.0
START = "start the program with `paddle launch`"


@dataclasses.dataclass(frozen=True)
class Servers:
    """Parameter servers: `host[:port]` of each, with commas, and where that was read."""

    addresses: str
    source: str

    def describe(self, lag_ratio_max: float | None) -> str:
        """How to reach them, and as whom, as JSON for the native trainer."""
        settings = config.current()
        timeout = settings.timeout_seconds
        # Who asks for a time gets it. A trainer that was restarted may find a server that is still
        # being restarted, too.
        is_patient = timeout is not None or settings.attempt > 0
        timeout = TIMEOUT_SECONDS if timeout is None else timeout
        description = {
            "pservers": self.addresses,
            "rank": settings.trainer_id,
            "trainers": settings.num_gradient_servers,
            "attempt": settings.attempt,
            "port": settings.port,
            "ports_num": settings.ports_num,
            "ports_num_for_sparse": settings.ports_num_for_sparse,
            "token": settings.job_token,
            "tls_ca": settings.tls_ca,
            "tls_name": settings.tls_name,
            "timeout_seconds": timeout,
            "connect_seconds": timeout if is_patient else FIRST_CONTACT_SECONDS,
            "lag_ratio_max": lag_ratio_max,
            "wire_values": settings.wire_values,
        }
        return json.dumps(description)

    @contextlib.contextmanager
    def reported(self) -> Iterator[None]:
        """Says of servers that cannot be reached who named them, and what to do."""
        try:
            yield
        except (errors.UnavailableError, errors.DeadlineError) as error:
            raise type(error)(
                f"no parameter server answers at {self.addresses}, the value of {self.source}; "
                f"{START}, or start the servers first: {error}"
            ) from None


def choose_servers(
    is_local: bool | None, pserver_spec: str | None, use_etcd: bool
) -> Servers | None:
    """The servers to train on; None trains in this process."""
    settings = config.current()
    named = _named(settings, pserver_spec, use_etcd)
    if is_local is None:
        is_local = settings.is_local and pserver_spec is None
        if is_local and settings.num_gradient_servers > 1:
            mistake.warn(
                "the job has several trainers but no parameter servers, so each trains a model of "
                "its own; add servers with `paddle launch --pservers N`, or say is_local=True",
                trainers=settings.num_gradient_servers,
            )
    elif is_local and named is not None and not settings.is_local:
        mistake.warn(
            "is_local=True trains in this process, although the job has parameter servers; leave "
            "is_local out to train on them",
            **{named.source: named.addresses},
        )
    if is_local:
        return None
    if named is None:
        raise mistake.invalid(
            f"training on parameter servers needs their addresses; {START}, or set "
            f"{config.SERVER_VARIABLES[0]}=host:port",
            is_local=False,
        )
    return named


def _named(settings: config.Settings, pserver_spec: str | None, use_etcd: bool) -> Servers | None:
    if pserver_spec is None:
        if settings.pservers is None:
            return None
        return Servers(settings.pservers, settings.pservers_source)
    if use_etcd and "://" in pserver_spec:
        raise mistake.unsupported(
            "servers cannot be looked up in etcd; give pserver_spec='host:port,…', "
            "use_etcd=False, or leave pserver_spec out and let paddle.init name them",
            pserver_spec=pserver_spec,
        )
    return Servers(pserver_spec, "pserver_spec")
