"""`cloud_reader`: records that a master deals out to the trainers of a job, task by task.

A task is finished when its records were consumed: when whoever iterates has asked for more after
the last of them, through all decorators (`flow.py`). Until then the lease is renewed, and if this
process dies another gets the task.

A pass is over when all tasks of all trainers are finished. A trainer that gets no task can
therefore not go home yet: it may get one when another dies. But it cannot just wait either, as long
as decorators hold records of its own tasks, such as half a batch: the pass would wait for those
tasks and the decorators for more records. So the iteration ends, which makes the decorators hand
out what they hold, and the pass stays open; `SGD.train` iterates again until it is over
(`resume_open_pass`). While there is nothing to do it tells the parameter servers (`Consumer.rest`),
as the other trainers' synchronous steps must not wait for it.
"""

import json
import os
import pickle
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from paddle import _native, errors
from paddle.v2 import config, mistake
from paddle.v2.files import reported_pickles
from paddle.v2.log import LOGGER
from paddle.v2.reader.flow import Downstream, Reader, Tracked

__all__ = ["cloud_reader"]

# A wait is many short ones, so that Ctrl-C is heard between them.
WAIT_SECONDS = 3600.0
# Launchers start the master first, so one that does not answer soon is said to be waited for, and
# one that does not answer for a minute is not there.
SILENT_SECONDS = 5.0
FIRST_CONTACT_SECONDS = 60.0


class Consumer(Protocol):
    """Whoever learns from the records: a trainer."""

    def rest(self) -> None:
        """There is nothing to learn from for now."""

    def next_cut(self) -> int | None:
        """The first checkpoint that will have all that was learnt so far."""

    def restored(self) -> tuple[int, int] | None:
        """The checkpoint that the parameter servers began with (0: first values), and the epoch."""


class _Alone:
    """Who iterates by itself: no parameter servers, no checkpoints."""

    def rest(self) -> None:
        pass

    def next_cut(self) -> int | None:
        return None

    def restored(self) -> tuple[int, int] | None:
        return None


_consumer: Consumer = _Alone()
# The number of the pass under way in the whole job, if this process continues one; the master and
# the parameter servers may have gone back to different passes.
_pass_number: int | None = None
# Whether a source was iterated in the pass under way.
_is_dealt = False
# Sources that were iterated since a pass was begun, or resumed.
_iterated: "weakref.WeakSet[_Source]" = weakref.WeakSet()


def set_consumer(consumer: Consumer | None) -> None:
    """Says who learns from what is read from now on; None: nobody in particular."""
    global _consumer
    _consumer = consumer or _Alone()


def begin_pass(number: int | None = None) -> None:
    """From now on it counts what is iterated.

    number: of the pass in the whole job, for a process that goes on for another one. What the
    master has behind it is then not repeated, and what it has opened again is done first.
    """
    global _pass_number, _is_dealt
    _pass_number, _is_dealt = number, False
    _iterated.clear()


def is_dealt() -> bool:
    """Whether what was iterated since the pass began comes from a master."""
    return _is_dealt


def resume_open_pass() -> bool:
    """Whether a pass is open although its iteration has ended; the next one then continues it."""
    is_open = [source for source in _iterated if source.is_open]
    for source in is_open:
        source.is_resumed = True
    _iterated.clear()
    return bool(is_open)


@mistake.checked_arguments
def cloud_reader(
    paths: Any = None,
    master_endpoint: str | None = None,
    timeout_sec: float | None = None,
    buf_size: int = 64,
    etcd_endpoints: str | None = None,
    loader: Callable[[bytes], Any] | None = pickle.loads,
) -> Reader:
    """The samples of the tasks that the job's master leases to this trainer, one a record.

    paths:           a path or glob as the master sees it, several with commas between, or a list:
                     RecordIO files, or texts, whose lines are records. None leaves them to
                     `paddle master --dataset`. All trainers must name the same.
    master_endpoint: `host[:port]`; by default what `paddle.init` or PADDLE_MASTER_ENDPOINT says.
    timeout_sec:     how long a master that is away is waited for; by default a minute for the
                     first connection, and 10 minutes for one that was lost.
    buf_size:        ignored: a thread without the interpreter reads a block ahead.
    etcd_endpoints:  ignored, with a warning: the master is named, not looked up.
    loader:          makes a sample of a record; None leaves it as bytes.

    Each call of the reader is a pass. A pickle can run any code: read only files that you or your
    own job wrote. For lines of a text use `loader=bytes.decode`.
    """
    mistake.whole("buf_size", buf_size)
    if loader is not None and not callable(loader):
        raise mistake.wrong_type(
            f"loader must be a function of a record, or None, but is {mistake.kind_of(loader)}"
        )
    endpoint = find_master(master_endpoint, etcd_endpoints)
    with mistake.reported_here():
        client = connect(endpoint, timeout_sec)
        patterns = _patterns(paths)
        if patterns:
            client.set_dataset(patterns)
    return records_of(client, loader)


def records_of(
    client: _native.MasterClient, loader: Callable[[bytes], Any] | None = None
) -> Reader:
    """The records of the tasks that a client gets; each call is a pass."""
    return Tracked(_Source(client, loader).begin)


def tasks_of(
    client: _native.MasterClient, open_task: Callable[[_native.MasterTask], Iterator[Any]]
) -> Tracked:
    """What `open_task` makes of the tasks that a client gets; each call is a pass."""
    return Tracked(_Source(client, None, open_task).begin)


def find_master(master_endpoint: str | None, etcd_endpoints: str | None = None) -> str:
    """The endpoint to use, of what a program of today or of the original's days says."""
    if master_endpoint is not None and "://" in master_endpoint:
        master_endpoint, etcd_endpoints = None, master_endpoint
    endpoint = master_endpoint or config.current().master_endpoint
    if endpoint is None:
        looked_up = f" (it is not looked up in etcd, at {etcd_endpoints})" if etcd_endpoints else ""
        raise mistake.invalid(
            f"nothing says where the job's master is{looked_up}; give "
            "master_endpoint='host:port', or set PADDLE_MASTER_ENDPOINT as `paddle launch "
            "--master` does"
        )
    if etcd_endpoints:
        LOGGER.warning("etcd (%s) is not used; the master is at %s", etcd_endpoints, endpoint)
    return endpoint


def connect(endpoint: str, timeout_sec: float | None = None) -> _native.MasterClient:
    """A connection to the master, with the settings of `paddle.init`."""
    patience = FIRST_CONTACT_SECONDS
    more: dict[str, float] = {}
    if timeout_sec is not None:
        patience = more["timeout_seconds"] = mistake.real("timeout", timeout_sec)
    named = endpoint
    if endpoint == config.current().master_endpoint:
        named = f"{endpoint} (PADDLE_MASTER_ENDPOINT, or master_endpoint of paddle.init)"
    try:
        return _dial(endpoint, min(patience, SILENT_SECONDS), more)
    except (errors.UnavailableError, errors.DeadlineError) as error:
        failure = error
    if patience > SILENT_SECONDS:
        LOGGER.warning("no master answers at %s; waiting %.0f s for it", named, patience)
        try:
            return _dial(endpoint, patience - SILENT_SECONDS, more)
        except (errors.UnavailableError, errors.DeadlineError) as error:
            failure = error
    raise type(failure)(
        f"no master answers at {named}; start the program with `paddle launch --master`, or start "
        f"the master first: {failure}"
    ) from None


def _dial(endpoint: str, patience: float, more: dict[str, float]) -> _native.MasterClient:
    settings = config.current()
    return _native.MasterClient(
        endpoint,
        name=f"trainer-{settings.trainer_id}",
        token=settings.job_token,
        tls_ca=settings.tls_ca,
        tls_name=settings.tls_name,
        connect_seconds=patience,
        **more,
    )


def _patterns(paths: Any) -> list[str]:
    if paths is None:
        return []
    listed = paths.split(",") if isinstance(paths, str) else paths
    # The master may run in another directory.
    return [os.path.abspath(os.fspath(path)) for path in listed if path]


class _Source:
    """What a `cloud_reader` iterates over, pass by pass."""

    def __init__(
        self,
        client: _native.MasterClient,
        loader: Callable[[bytes], Any] | None,
        open_task: Callable[[_native.MasterTask], Iterator[Any]] = _native.MasterTask.records,
    ) -> None:
        self._client = client
        self._loader = loader
        self._open_task = open_task
        # Tasks whose records are somewhere on their way.
        self._unfinished: set[_native.MasterTask] = set()
        self._reported: set[tuple[int, int]] = set()
        self._failure: Exception | None = None
        # The latest pass that records came from.
        self._pass = -1
        # The last iteration ended before its pass did, and whether the next one continues it.
        self.is_open = False
        self.is_resumed = False
        self._said_all_over = False

    def begin(self, downstream: Downstream) -> Iterator[Any]:
        """One pass, or the rest of one."""
        global _is_dealt
        _is_dealt = True
        _iterated.add(self)
        # Who starts an iteration although the pass before is open wants the next one.
        is_late, self.is_open = self.is_open and not self.is_resumed, False
        if _pass_number is not None and not self.is_resumed:
            self._client.begin_pass(_pass_number)
        self.is_resumed = False
        try:
            while True:
                self._report_restores()
                answer = self._next_task()
                if answer == "pass_over" and (is_late or self._was_rolled_back()):
                    is_late = False
                elif isinstance(answer, str):
                    self.is_open = answer == "wait"
                    if answer == "all_over":
                        self._say_all_over()
                    return
                else:
                    yield from self._read(answer, downstream)
        except GeneratorExit:
            # What was not consumed is for others.
            for task in list(self._unfinished):
                self._unfinished.discard(task)
                task.give_back()
            raise

    def _next_task(self) -> _native.MasterTask | str:
        """A task, or why there is none; "wait" only while own tasks are unfinished."""
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        answer = self._client.next_task(0.0)
        if answer == "wait" and not self._unfinished:
            _consumer.rest()
            while answer == "wait":
                answer = self._client.next_task(WAIT_SECONDS)
        return answer

    def _read(self, task: _native.MasterTask, downstream: Downstream) -> Iterator[Any]:
        self._unfinished.add(task)
        self._pass = max(self._pass, task.pass_number)
        try:
            # No Python code of ours runs between records.
            records = self._open_task(task)
            with reported_pickles(self._loader, task=repr(task)):
                yield from records if self._loader is None else map(self._loader, records)
        except (errors.DamagedError, errors.NotFoundError, errors.ConflictError) as error:
            # Another may be able to read it; if not, the master sets it aside and says so.
            LOGGER.warning("cannot read %r, so it goes back to the master: %s", task, error)
            self._fail(task, str(error))
        except Exception as error:
            self._fail(task, f"{type(error).__name__}: {error}")
            raise
        else:
            downstream.mark(lambda: self._finish(task))

    def _say_all_over(self) -> None:
        """Says once why there is no record; an empty pass must not look like a trained one."""
        if not self._said_all_over:
            self._said_all_over = True
            passes = json.loads(self._client.status())["passes"]
            noun = "pass was" if passes == 1 else "passes were"
            LOGGER.info("nothing left to train: all %d %s finished", passes, noun)

    def _was_rolled_back(self) -> bool:
        """Whether the pass that is over is one before ours, which restored servers forgot."""
        following = self._client.current_pass
        return following is not None and following <= self._pass

    def _fail(self, task: _native.MasterTask, reason: str) -> None:
        self._unfinished.discard(task)
        task.fail(reason)

    def _finish(self, task: _native.MasterTask) -> None:
        # Given back meanwhile, because the iteration was given up.
        if task not in self._unfinished:
            return
        try:
            self._report_restores()
            task.finish(_consumer.next_cut())
        except Exception as error:
            # Marks must not raise; the next task will.
            self._failure = error
        self._unfinished.discard(task)

    def _report_restores(self) -> None:
        """Parameter servers went back: what they have forgotten is to be learnt again."""
        restored = _consumer.restored()
        if restored is not None and restored not in self._reported:
            self._reported.add(restored)
            self._client.reopen(*restored)
