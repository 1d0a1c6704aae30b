"""`paddle.init`: what a process is told about itself, by its arguments or by the environment.

Arguments win over the environment, whose variables `docs/environment.md` lists. Nothing starts
here: threads start when a network first runs, connections when training begins. Programs read the
result as `paddle.job`.
"""

import dataclasses
import hashlib
import os
import time
from collections.abc import Mapping
from typing import Any

from paddle import _native
from paddle.v2 import mistake

TRUE = ("1", "true", "t", "yes", "y", "on")
FALSE = ("0", "false", "f", "no", "n", "off", "")
WIRE_VALUES = ("f32", "bf16")

# The variables that list parameter servers; the first that has a value is read.
SERVER_VARIABLES = ("PADDLE_INIT_PSERVERS", "PADDLE_PSERVERS_IP_PORT_LIST", "PADDLE_PSERVER_IPS")

# Flags of the original that change nothing here; programs that give them go on working.
IGNORED = frozenset(
    {
        "comment", "dot_period", "gpu_id", "log_clipping", "log_error_clipping", "log_period",
        "log_period_server", "nics", "rdma_tcp", "saving_period", "save_dir",
        "show_layer_stat", "show_parameter_stats_period", "small_messages", "start_pserver",
        "thread_local_rand_use_global_seed", "use_mkldnn", "use_old_updater",
    }
)  # fmt: skip


def _told(default: Any) -> Any:
    """A field that only the environment gives; `init` has no such argument."""
    return dataclasses.field(default=default, metadata={"is_told": True})


@dataclasses.dataclass(frozen=True)
class Settings:
    """What `init` accepts, and what the environment alone says.

    use_gpu:               compute on a GPU, in builds that support one.
    trainer_count:         threads that compute in this process.
    seed:                  where first values and dropout come from.
    trainer_id:            the rank of this trainer, from 0.
    num_gradient_servers:  trainers of the job.
    pservers:              `host[:port]` of every parameter server, with commas.
    port, ports_num, ports_num_for_sparse:  their ports.
    timeout_seconds:       how long to wait for servers that do not answer; by default 10 s for the
                           first connection, and 60 s for one that was lost.
    master_endpoint:       `host[:port]` of the master that hands out the data.
    mode:                  how trainers meet: sync, async, stale:K or hybrid.
    wire_values:           how gradients and values travel to and from parameter servers: f32, or
                           bf16, which halves the bytes; sync parameters always travel as f32.
    job_token:             the secret of the job; servers that have one ask for it.
    tls_ca, tls_name:      certificates in PEM that servers must prove to be `tls_name` by.
    num_passes:            how often `train` goes through the data, where it is not told itself;
                           once by default.
    output_dir:            where the program saves its models.
    log_dir:               where `metrics.jsonl` goes; none is written without.
    show_progress:         draw a progress line while training, if a terminal is there.

    From the environment alone:

    job_name, username, datacenter:  the job, who runs it and where; empty without a launcher.
    attempt:               how often this trainer was restarted.
    checkpoint_dir:        where the servers keep checkpoints, and trainers their trail.
    is_local:              whether the job has no parameter servers.
    pservers_source:       the variable or argument that `pservers` comes from.
    """

    use_gpu: bool = False
    trainer_count: int = 1
    seed: int = 1
    trainer_id: int = 0
    num_gradient_servers: int = 1
    pservers: str | None = None
    port: int = 7164
    ports_num: int = 1
    ports_num_for_sparse: int = 1
    timeout_seconds: float | None = None
    master_endpoint: str | None = None
    mode: str | None = None
    wire_values: str = "f32"
    job_token: str | None = dataclasses.field(default=None, repr=False)
    tls_ca: str | None = dataclasses.field(default=None, repr=False)
    tls_name: str = "pserver"
    num_passes: int | None = None
    output_dir: str = "output"
    log_dir: str | None = None
    show_progress: bool = True
    job_name: str = _told("")
    username: str = _told("")
    datacenter: str = _told("")
    attempt: int = _told(0)
    checkpoint_dir: str | None = _told(None)
    is_local: bool = _told(True)
    pservers_source: str = _told("")

    def __post_init__(self) -> None:
        # With a master, trainers may be added to those that a job began with.
        is_fixed = self.master_endpoint is None
        if is_fixed and self.trainer_id >= self.num_gradient_servers:
            raise mistake.invalid(
                "trainer_id counts from 0, so it must be below num_gradient_servers, the number "
                "of trainers",
                trainer_id=self.trainer_id,
                num_gradient_servers=self.num_gradient_servers,
            )
        if self.wire_values not in WIRE_VALUES:
            raise mistake.invalid(
                f"wire_values must be one of {', '.join(WIRE_VALUES)}", wire_values=self.wire_values
            )
        if self.mode is not None:
            with mistake.reported_here():
                _native.check_mode(self.mode)


_OF_PROGRAM = "paddle.init(pservers=…)"
_current: Settings | None = None


def init(**arguments: Any) -> None:
    """Tells this process how to train: see `Settings` for what is accepted.

    >>> paddle.init(use_gpu=False, trainer_count=2)
    """
    global _current
    _current = read(arguments, os.environ)


def draw_seed(**arguments: Any) -> int:
    """A seed that is another one in each job, and the same in all trainers of a job."""
    settings = read(arguments, os.environ)
    if settings.job_token is not None:
        # Launchers draw one for each job. A few bytes of a hash tell nobody the token.
        digest = hashlib.sha256(b"seed " + settings.job_token.encode()).digest()
        return int.from_bytes(digest[:4], "little")
    if settings.num_gradient_servers > 1:
        raise mistake.invalid(
            "trainers cannot draw the same seed without a job token; give all of them the same "
            "seed other than 0",
            seed=0,
        )
    return time.time_ns() % 2**32


def name_source(source: str) -> None:
    """Says who gave the servers to `init`, for errors; without it, the program did."""
    global _current
    if current().pservers_source == _OF_PROGRAM:
        _current = dataclasses.replace(current(), pservers_source=source)


def current() -> Settings:
    """What `init` was told; the environment alone, if it was not called."""
    global _current
    if _current is None:
        _current = read({}, os.environ)
    return _current


def read(arguments: Mapping[str, Any], environment: Mapping[str, str]) -> Settings:
    """Arguments over environment over defaults, all checked."""
    fields = {
        field.name: field
        for field in dataclasses.fields(Settings)
        if "is_told" not in field.metadata
    }
    with mistake.reported_here():
        values: dict[str, Any] = _native.read_environment(dict(environment))
    if "pservers" in values:
        values["pservers_source"] = next(filter(environment.get, SERVER_VARIABLES))
    for name, field in fields.items():
        variable = f"PADDLE_INIT_{name.upper()}"
        if name not in values and environment.get(variable, "") != "":
            values[name] = _convert(variable, field.type, environment[variable])
    for name, value in arguments.items():
        if name in IGNORED:
            continue
        if name == "parallel_nn":
            raise mistake.unsupported("parallel_nn: layers cannot be placed on devices one by one")
        if name not in fields:
            hint = mistake.suggestion(name, fields) or f"; it accepts {', '.join(fields)}"
            raise mistake.wrong_type(f"init has no argument {name!r}{hint}")
        if value is not None:
            values[name] = _convert(name, fields[name].type, value)
    if arguments.get("pservers") is not None:
        values |= {"is_local": False, "pservers_source": _OF_PROGRAM}
    return Settings(**values)


def _convert(name: str, kind: Any, value: Any) -> Any:
    if kind is bool:
        return _truth(name, value)
    if kind in (int, int | None):
        return mistake.whole(name, _number(name, value, int), least=0)
    if kind in (float, float | None):
        return mistake.real(name, _number(name, value, float))
    if not isinstance(value, str):
        raise mistake.wrong_type(f"{name} must be text but is {mistake.kind_of(value)}")
    return value


def _number(name: str, value: Any, kind: type[int] | type[float]) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return kind(value.strip())
    except ValueError:
        what = "a whole number" if kind is int else "a number"
        raise mistake.invalid(f"{name} must be {what} but is {value!r}") from None


def _truth(name: str, value: Any) -> bool:
    text = str(value).strip().lower()
    if text in TRUE or text in FALSE:
        return text in TRUE
    raise mistake.invalid(f"{name} must be true or false but is {value!r}")
