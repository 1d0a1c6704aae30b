"""What data sets share: where their files are, fetching them, and files for many trainers.

`DATA_HOME` is looked at in every call: a program may set it, `common.DATA_HOME = "/pfs/…"`. A file
that is there with the right checksum is never fetched, so without a network files are simply put
into their place.
"""

import hashlib
import http.client
import os
import shutil
import urllib.parse
import urllib.request
from types import ModuleType

from paddle import errors
from paddle.v2 import mistake
from paddle.v2.dataset.pending import published
from paddle.v2.dataset.shards import cluster_files, cluster_files_reader, convert, split
from paddle.v2.log import LOGGER

__all__ = [
    "DATA_HOME",
    "cluster_files",
    "cluster_files_reader",
    "convert",
    "download",
    "fetch_all",
    "fetch_all_recordio",
    "md5file",
    "split",
]

DATA_HOME = os.path.expanduser("~/.cache/paddle/dataset")

DOWNLOAD_TRIES = 3
# A server that is silent for longer is not there.
SILENCE_SECONDS = 60
_BYTES_AT_ONCE = 1 << 20


@mistake.checked_arguments
def md5file(fname: str | os.PathLike[str]) -> str:
    """The MD5 checksum of a file, in hexadecimal."""
    with open(fname, "rb") as file:
        return hashlib.file_digest(file, _md5).hexdigest()


@mistake.checked_arguments
def download(url: str, module_name: str, md5sum: str, save_name: str | None = None) -> str:
    """The path of a data set's file, `DATA_HOME/<module_name>/<name>`; fetched if it is not there.

    The name is `save_name`, or the last part of the address. A file with another checksum than
    `md5sum` is fetched anew.
    """
    name = save_name or urllib.parse.unquote(url).rsplit("/", 1)[-1]
    path = os.path.join(DATA_HOME, module_name, name)
    reason = "it is not there"
    if os.path.exists(path):
        found = md5file(path)
        if found == md5sum:
            return path
        reason = f"the file that is there has the checksum {found}"
    for _ in range(DOWNLOAD_TRIES):
        LOGGER.info("fetching %s to %s: %s", url, path, reason)
        try:
            with published(path) as file:
                with urllib.request.urlopen(url, timeout=SILENCE_SECONDS) as answer:
                    shutil.copyfileobj(answer, file, _BYTES_AT_ONCE)
                file.flush()
                found = md5file(file.name)
                if found != md5sum:
                    raise _OtherContentError(f"what was fetched has the checksum {found}")
            return path
        except (_OtherContentError, http.client.HTTPException, OSError) as error:
            reason = str(error)
    raise errors.UnavailableError(
        f"cannot fetch a data set, tried {DOWNLOAD_TRIES} times: {reason}; put the file into its "
        f"place by hand (file: {path}, url: {url}, md5: {md5sum})"
    )


def fetch_all() -> None:
    """Fetches every data set but Criteo's, which is larger than all others together."""
    for module in _modules():
        module.fetch()


@mistake.checked_arguments
def fetch_all_recordio(path: str | os.PathLike[str]) -> None:
    """Writes the same data sets as RecordIO files, each to a folder of its own under `path`."""
    for module in _modules():
        module.convert(os.path.join(os.fspath(path), module.__name__.rsplit(".", 1)[-1]))


class _OtherContentError(Exception):
    """What was fetched is not what was wanted."""


def _md5() -> "hashlib._Hash":
    # It finds accidents, not attacks, and must also work where MD5 is not allowed for more.
    return hashlib.md5(usedforsecurity=False)


def _modules() -> list[ModuleType]:
    # They import this module.
    from paddle.v2.dataset import (
        cifar,
        conll05,
        flowers,
        imdb,
        imikolov,
        mnist,
        movielens,
        mq2007,
        sentiment,
        uci_housing,
        voc2012,
        wmt14,
        wmt16,
    )

    texts = [imikolov, imdb, movielens, conll05, sentiment, wmt14, wmt16]
    return [mnist, cifar, flowers, voc2012, uci_housing, mq2007, *texts]
