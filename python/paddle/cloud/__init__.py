"""The cloud from Python: submit jobs and look after them, as the command `paddlecloud` does.

    from paddle import cloud

    client = cloud.Client()
    job = client.submit("./ctr", name="ctr", entry="python train.py", parallelism=2)
    for piece in client.logs("ctr", follow=True):
        print(piece.worker, piece.text, end="")
    assert client.wait("ctr").state == "succeeded"

Files are copied, listed and removed by the same client, as in
`client.cp("./data", "/pfs/…", recursive=True)`; where fsspec is installed, `pfs://` paths open in
pandas, pyarrow and whatever else knows it.

The configuration is that of the command, `~/.paddle/config`; a token in `PADDLECLOUD_TOKEN` is used
instead of a login. Calls end by Ctrl-C and raise what `paddle.errors` has. `paddle.cloud.dataset`
reads the public data sets of the datacenter in which a job runs.
"""

from paddle.cloud.client import Client, Event, Job, JobDetail, LogPiece, Why, Worker
from paddle.cloud.files import Copied, DiskUsage, FileEntry, Link

__all__ = [
    "Client",
    "Copied",
    "DiskUsage",
    "Event",
    "FileEntry",
    "Job",
    "JobDetail",
    "Link",
    "LogPiece",
    "Why",
    "Worker",
]
