"""The client of the cloud, and what it answers with."""

import dataclasses
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from paddle import errors
from paddle._native import CloudClient
from paddle.cloud.answer import Answer as _Answer
from paddle.cloud.files import Files

TOKEN_VARIABLE = "PADDLECLOUD_TOKEN"


@dataclasses.dataclass(frozen=True)
class Job(_Answer):
    """A job. Times are milliseconds since 1970."""

    name: str
    uid: str
    """What tells it from others of the same name."""
    user: str
    datacenter: str
    state: str
    """`pending`, `starting`, `running`, `killing`, `succeeded`, `failed` or `killed`."""
    reason: str
    """Why it is in that state; empty where the state says it all."""
    trainers: int
    pservers: int
    succeeded: int
    """Trainers that ended well."""
    failed: int
    active: int
    pservers_ready: int
    queue: str
    exit_code: int | None
    submitted_ms: int
    started_ms: int | None
    ended_ms: int | None
    revision: int

    @property
    def has_ended(self) -> bool:
        """Whether nothing of it runs any more."""
        return self.state in ("succeeded", "failed", "killed")


@dataclasses.dataclass(frozen=True)
class Worker(_Answer):
    """A replica of a job."""

    name: str
    role: str
    rank: int
    state: str
    host: str
    attempt: int
    started_ms: int | None
    ended_ms: int | None
    exit_code: int | None
    message: str


@dataclasses.dataclass(frozen=True)
class JobDetail(Job):
    """All of a job."""

    spec: dict[str, Any]
    """What was asked for."""
    package: dict[str, Any] | None
    """What it ran: `digest`, `files`, `bytes`; None if it came from a path below /pfs/."""
    workers: list[Worker]
    notes: list[str]


@dataclasses.dataclass(frozen=True)
class Why(_Answer):
    """What a job waits for, or why it ended."""

    state: str
    sentence: str
    notes: list[str]

    def __str__(self) -> str:
        return self.sentence


@dataclasses.dataclass(frozen=True)
class Event(_Answer):
    """Something that the cloud saw."""

    number: int
    at_ms: int
    text: str


@dataclasses.dataclass(frozen=True)
class LogPiece(_Answer):
    """Something that a worker printed."""

    worker: str
    text: str
    cursor: str
    skipped_bytes: int = 0
    """Bytes before it that are no longer kept."""
    is_last: bool = False


class Client(Files):
    """A user at one datacenter.

    datacenter: one of the configuration; its current one unless given.
    config:     the configuration file; `~/.paddle/config` unless given.
    token:      used instead of a login; that in `PADDLECLOUD_TOKEN` unless given.
    """

    def __init__(
        self,
        datacenter: str | None = None,
        *,
        config: str | os.PathLike[str] | None = None,
        token: str | None = None,
    ) -> None:
        self._native = CloudClient(
            os.path.expanduser("~"),
            config=None if config is None else os.fspath(config),
            datacenter=datacenter,
            token=token or os.environ.get(TOKEN_VARIABLE) or None,
        )
        super().__init__(self._native.files())

    @property
    def username(self) -> str:
        """Who makes the calls."""
        return self._native.username

    @property
    def datacenter(self) -> str:
        """The name of the datacenter, as in `/pfs/<datacenter>/…`."""
        return self._native.datacenter

    def submit(
        self,
        package: str | os.PathLike[str],
        *,
        name: str = "paddle-cluster-job",
        entry: str = "",
        topology: str = "",
        parallelism: int = 1,
        pservers: int | None = None,
        allow_idle: bool = False,
        cpu: int | str = 1,
        gpu: int = 0,
        memory: str = "1Gi",
        pscpu: int | str = 1,
        psmemory: str = "1Gi",
        passes: int = 1,
        image: str = "",
        registry: str = "",
        faulttolerant: bool = False,
        min_instance: int | None = None,
        max_instance: int | None = None,
        restarts: int | None = None,
        queue: str = "",
        priority: str = "normal",
        time_limit_seconds: int | None = None,
        env: Mapping[str, str] | None = None,
        mode: str = "sync",
    ) -> Job:
        """Sends the directory of a program, as far as the server lacks it, and runs it as a job.

        package: the directory, or a path below /pfs/ that is in the cloud already.
        pservers: as many as trainers unless given.

        Everything else is as the flags of `paddlecloud submit`.
        """
        # 1 is the original's own default, and means nothing.
        if not faulttolerant and not {min_instance, max_instance} <= {None, 1}:
            raise errors.InvalidError(
                "min_instance and max_instance are for jobs whose size may change: add "
                "faulttolerant=True"
            )
        spec: dict[str, Any] = {
            "name": name,
            "entry": entry,
            "topology": topology,
            "trainers": parallelism,
            "pservers": parallelism if pservers is None else pservers,
            "allow_idle": allow_idle or (pservers is None and parallelism == 1),
            "master": faulttolerant,
            "resources": {
                "trainer": {"cpu": str(cpu), "memory": memory, "gpu": str(gpu)},
                "pserver": {"cpu": str(pscpu), "memory": psmemory},
            },
            "passes": passes,
            "image": image,
            "registry": registry,
            "restarts": (10 if faulttolerant else 0) if restarts is None else restarts,
            "queue": queue,
            "priority": priority,
            "time_limit_seconds": time_limit_seconds,
            "env": dict(env or {}),
            "mode": mode,
        }
        if faulttolerant:
            spec["fault_tolerance"] = {
                "min_trainers": 1 if min_instance is None else min_instance,
                "max_trainers": parallelism if max_instance is None else max_instance,
            }
        return Job._of(json.loads(self._native.submit(os.fspath(package), json.dumps(spec))))

    def resubmit(self, name: str, *, new_name: str | None = None) -> Job:
        """Runs what a job ran, again: the same files and settings."""
        return Job._of(json.loads(self._native.resubmit(name, new_name)))

    def jobs(self, limit: int = 100) -> list[Job]:
        """The newest jobs."""
        return [Job._of(job) for job in json.loads(self._native.jobs(limit))]

    def job(self, name: str) -> JobDetail:
        """All of one job, by its name (the newest of that name) or uid."""
        return _detail(self._native.job(name))

    def describe(self, name: str) -> JobDetail:
        """As `job`, under the command's name for it."""
        return self.job(name)

    def why(self, name: str) -> Why:
        """What a job waits for, or why it ended, in one sentence."""
        return Why._of(json.loads(self._native.why(name)))

    def events(self, name: str) -> list[Event]:
        """What the cloud saw of a job."""
        return [Event._of(event) for event in json.loads(self._native.events(name))]

    def logs(
        self,
        name: str,
        *,
        lines: int | None = None,
        worker: str | None = None,
        role: str | None = None,
        follow: bool = False,
    ) -> Iterator[LogPiece]:
        """What the workers of a job printed, piece by piece.

        lines:  begin with the last so many lines of each; everything that is kept unless given.
        follow: go on until the job has ended, also when the server is restarted meanwhile.
        """
        pieces = self._native.logs(name, lines=lines, worker=worker, role=role, follow=follow)
        return (LogPiece._of(json.loads(piece)) for piece in pieces)

    def kill(self, name: str, *, remove: bool = False, force: bool = False) -> Job:
        """Asks a job to end; `remove` also removes it from history when it has."""
        return Job._of(json.loads(self._native.kill(name, remove, force)))

    def scale(self, name: str, trainers: int) -> Job:
        """Changes the number of trainers of a fault-tolerant job."""
        return Job._of(json.loads(self._native.scale(name, trainers)))

    def wait(self, name: str, timeout: float | None = None) -> JobDetail:
        """The job when it has ended; `paddle.errors.DeadlineError` after `timeout` seconds."""
        return _detail(self._native.wait(name, timeout))


def _detail(text: str) -> JobDetail:
    fields = json.loads(text)
    fields["workers"] = [Worker._of(worker) for worker in fields["workers"]]
    return JobDetail._of(fields)
