"""The job that this process belongs to: `paddle.job.rank`, `paddle.job.trainers` and others.

A program that reads its rank, its number of passes and its output folder here runs unchanged alone
and under every launcher. The values are those of `paddle.init` or of the environment
(`docs/environment.md`); a process that was told nothing is the only trainer of its job.

>>> if paddle.job.is_chief:
...     save(os.path.join(paddle.job.output_dir, "model.tar"))
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paddle.v2.config import Settings

name: str
"""The name of the job; empty without a launcher."""
user: str
"""Who runs the job; empty without a launcher."""
datacenter: str
"""Where the job runs, the first part of `/pfs/<datacenter>/home/<user>/…`; empty if unknown."""
rank: int
"""The number of this trainer, from 0."""
trainers: int
"""How many trainers the job has."""
is_chief: bool
"""Whether this is trainer 0, which saves the model and does whatever must be done once."""
attempt: int
"""How often this trainer was restarted."""
passes: int | None
"""How often to go through the data; None leaves it to the program (`trainer.train` goes once)."""
output_dir: str
"""The folder to save models in; `output` without a launcher. The program makes it."""
log_dir: str | None
"""The folder of this trainer's logs."""
has_servers: bool
"""Whether the job has parameter servers. `trainer.SGD` trains on them by default."""
has_master: bool
"""Whether the job has a master, which deals out the data."""

_FACTS: dict[str, Callable[["Settings"], Any]] = {
    "name": lambda settings: settings.job_name,
    "user": lambda settings: settings.username,
    "datacenter": lambda settings: settings.datacenter,
    "rank": lambda settings: settings.trainer_id,
    "trainers": lambda settings: settings.num_gradient_servers,
    "is_chief": lambda settings: settings.trainer_id == 0,
    "attempt": lambda settings: settings.attempt,
    "passes": lambda settings: settings.num_passes,
    "output_dir": lambda settings: settings.output_dir,
    "log_dir": lambda settings: settings.log_dir,
    "has_servers": lambda settings: not settings.is_local,
    "has_master": lambda settings: settings.master_endpoint is not None,
}

__all__ = list(_FACTS)


def __getattr__(attribute: str) -> Any:
    # Here and not above, so that `import paddle` alone stays light.
    from paddle.v2 import config, mistake

    if attribute not in _FACTS:
        raise mistake.missing_name("paddle.job", attribute, _FACTS)
    return _FACTS[attribute](config.current())


def __dir__() -> list[str]:
    return sorted([*globals(), *_FACTS])
