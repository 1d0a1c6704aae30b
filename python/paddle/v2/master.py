"""The master's client as the original has it: `import paddle.v2.master`.

New programs read through `paddle.reader.creator.cloud_reader`; this is for those that ask for
records one by one, or want to know whether to save the model.
"""

from collections.abc import Iterable, Iterator

from paddle import errors
from paddle.v2 import mistake
from paddle.v2.log import LOGGER
from paddle.v2.reader import cloud

__all__ = ["client"]

PASS_END = -2
ERROR = -1


class client:  # noqa: N801
    """A connection to the master.

    endpoint:    `host[:port]` of the master; an etcd address of the original's days is not used,
                 and PADDLE_MASTER_ENDPOINT says where the master is.
    timeout_sec: how long a master that is away is waited for.
    buf_size:    ignored.
    """

    @mistake.checked_arguments
    def __init__(
        self, endpoint: str | None = None, timeout_sec: float | None = None, buf_size: int = 0
    ) -> None:
        mistake.whole("buf_size", buf_size, least=0)
        with mistake.reported_here():
            self._client = cloud.connect(cloud.find_master(endpoint), timeout_sec)
        self._reader = cloud.records_of(self._client)
        self._records: Iterator[bytes] = iter(())

    def set_dataset(self, paths: Iterable[str]) -> None:
        """Says which files the data is in: paths and globs. The first trainer's word counts."""
        self._client.set_dataset(list(paths))

    def paddle_start_get_records(self, pass_id: int) -> None:
        """Begins a pass. The master counts passes itself, so `pass_id` says nothing."""
        self._records = iter(self._reader())

    def next_record(self) -> tuple[bytes | None, int]:
        """(record, 0); (None, -2) at the end of the pass; (None, -1) after an error."""
        try:
            record = next(self._records, None)
        except errors.Error as error:
            LOGGER.error(error)
            return None, ERROR
        return (None, PASS_END) if record is None else (record, 0)

    def request_save_model(self, trainer_id: str | int, block_ms: int) -> int:
        """1 if this trainer is the one that saves the model, for so long; 0 if not; -1: error."""
        try:
            return int(self._client.request_save_model(str(trainer_id), block_ms / 1000))
        except errors.Error as error:
            LOGGER.error(error)
            return ERROR

    def release(self) -> None:
        """Gives tasks back; no call may follow."""
        self._client.leave()
