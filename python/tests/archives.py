"""Small archives for tests of data sets, put where these look for theirs."""

import io
import os
import tarfile
import zipfile

import pytest

import recordio
from paddle.v2.dataset import common


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Puts a file where a data set looks for it, and makes its checksum the right one."""
    monkeypatch.setattr(common, "DATA_HOME", str(tmp_path))
    # A file that is not there is a mistake of the test, and nothing to be fetched.
    monkeypatch.setattr(common, "DOWNLOAD_TRIES", 0)

    def put(module, path, content, constant="MD5"):
        target = tmp_path / path
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(content)
        monkeypatch.setattr(module, constant, common.md5file(target))

    return put


def tar(files):
    """A compressed tar of `{name: content}`."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as file:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            file.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def zipped(files):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        for name, content in files.items():
            file.writestr(name, content)
    return packed.getvalue()


def converted(module, folder):
    """How many records `module.convert` writes to each file."""
    module.convert(str(folder))
    return {name: len(recordio.reader(folder / name)) for name in sorted(os.listdir(folder))}
