"""`pfs://` for fsspec: pandas, pyarrow, torch readers and others open files of the cloud by it.

    import pandas
    pandas.read_csv("pfs://dc1/home/you@example.com/data.csv")     # also pfs:///pfs/dc1/…

The configuration is that of the command; `storage_options={"datacenter": …, "config": …,
"token": …}` are those of `paddle.cloud.Client`. fsspec finds this class by itself once it is
installed (`pip install fsspec`).
"""

import contextlib
import datetime
import io
import os
import tempfile
import warnings
from typing import Any

from paddle import errors
from paddle.cloud.client import Client
from paddle.cloud.files import FileEntry

try:
    from fsspec.compression import compr
    from fsspec.core import get_compression
    from fsspec.spec import AbstractBufferedFile, AbstractFileSystem
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "pfs:// needs fsspec: pip install fsspec (paddle.cloud.Client works without)"
    ) from missing

READ_BYTES = 4 << 20


class CloudFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """The files that a user of the cloud sees."""

    protocol = "pfs"
    root_marker = "/pfs"

    def __init__(
        self,
        datacenter: str | None = None,
        config: str | None = None,
        token: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.client = Client(datacenter, config=config, token=token)

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        text = os.fspath(path)
        text = text.removeprefix("pfs://").removeprefix("pfs:")
        text = text.rstrip("/")
        if text == "/pfs" or text.startswith("/pfs/"):
            return text
        return f"/pfs/{text.lstrip('/')}".rstrip("/")

    @classmethod
    def _parent(cls, path: str) -> str:
        # fsspec's own takes the marker of the root for a set of letters.
        return str(cls._strip_protocol(path)).rpartition("/")[0] or cls.root_marker

    def unstrip_protocol(self, name: str) -> str:
        path: str = self._strip_protocol(name)
        return "pfs://" + path.removeprefix("/pfs/")

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        between = self._between(path)
        if between is not None:
            return _directory(path)
        return _info(self.client.stat(path))

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        path = self._strip_protocol(path)
        between = self._between(path)
        if between is not None:
            rows = [_directory(f"{path}/{name}") for name in between]
        else:
            rows = [_info(entry) for entry in self.client.ls(path)]
        return rows if detail else [row["name"] for row in rows]

    def _between(self, path: str) -> list[str] | None:
        """The names in a directory that only leads to homes and the public area."""
        names = path.split("/")[2:]
        match names:
            case []:
                return [self.client.datacenter]
            case [_] if names != ["public"]:
                return ["home", "public"]
            case [_, "home"]:
                return [self.client.username]
            case _:
                return None

    def created(self, path: str) -> datetime.datetime:
        raise errors.UnsupportedError("the cloud does not keep when files were made: use modified")

    def modified(self, path: str) -> datetime.datetime:
        return self.info(path)["mtime"]  # type: ignore[no-any-return]

    def ukey(self, path: str) -> str:
        return self.info(path)["ETag"] or path

    checksum = ukey

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        path = self._strip_protocol(path)
        if self.exists(path):
            raise errors.AlreadyExistsError(f"there is something already: {path}")
        if not create_parents and not self.exists(self._parent(path)):
            raise errors.NotFoundError(f"no such directory: {self._parent(path)}")
        self.client.mkdir(path)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        path = self._strip_protocol(path)
        if not exist_ok and self.exists(path):
            raise errors.AlreadyExistsError(f"there is something already: {path}")
        self.client.mkdir(path)

    def rmdir(self, path: str) -> None:
        self.client.rm(self._strip_protocol(path))

    def rm_file(self, path: str) -> None:
        self._rm(path)

    def _rm(self, path: str) -> None:
        self.client.rm(self._strip_protocol(path))

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        if maxdepth is not None:
            raise errors.UnsupportedError("maxdepth: directories are removed as a whole, or not")
        for one in path if isinstance(path, list) else [path]:
            for found in self.client.glob(self._strip_protocol(one)):
                self.client.rm(found.path, recursive=recursive)

    def mv(self, path1: str, path2: str, recursive: bool = False, **_: Any) -> None:
        self.client.mv(self._strip_protocol(path1), self._strip_protocol(path2))

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.isdir(source):
            self.client.mkdir(target)
        else:
            self.client.cp(source, target)

    def put_file(self, lpath: str, rpath: str, callback: Any = None, **_: Any) -> None:
        target = self._strip_protocol(rpath)
        if os.path.isdir(lpath):
            self.client.mkdir(target)
        else:
            self.client.cp(lpath, target)

    def get_file(self, rpath: str, lpath: Any, callback: Any = None, **_: Any) -> None:
        source = self._strip_protocol(rpath)
        if not isinstance(lpath, str | os.PathLike):
            for piece in self.client.pieces(source):
                lpath.write(piece)
        elif self.isdir(source):
            os.makedirs(lpath, exist_ok=True)
        else:
            self.client.cp(source, lpath)

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **_: Any
    ) -> bytes:
        entry = self.client.stat(self._strip_protocol(path))
        entry._check_file()
        begin, stop, _step = slice(start, end).indices(entry.bytes)
        pieces = [
            self.client._files.read(entry.path, entry.etag, offset, min(READ_BYTES, stop - offset))
            for offset in range(begin, stop, READ_BYTES)
        ]
        return b"".join(pieces)

    def open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        cache_options: dict[str, Any] | None = None,
        compression: str | None = None,
        **more: Any,
    ) -> Any:
        plain = mode.replace("t", "").replace("b", "")
        if plain not in ("w", "a", "x"):
            return super().open(path, mode, block_size, cache_options, compression, **more)
        is_automatic = more.pop("autocommit", not self._intrans)
        path = self._strip_protocol(path)
        compression = get_compression(path, compression)
        # Some compressors close the file behind them, whole or not: that must not keep it.
        is_kept_by_closing = is_automatic and compression is None
        file: Any = self._open(path, plain + "b", autocommit=is_kept_by_closing)
        if compression is not None:
            file = NewCompressed(compr[compression](file, mode=plain), file, is_automatic)
        if not is_automatic and self._intrans:
            self.transaction.files.append(file)
        # Text that could not be written to its end is not kept, as with bytes.
        return file if "b" in mode else NewCloudText(file, **more)

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | str | None = None,
        autocommit: bool = True,
        cache_options: dict[str, Any] | None = None,
        **_: Any,
    ) -> Any:
        path = self._strip_protocol(path)
        if mode == "rb":
            entry = self.client.stat(path)
            entry._check_file()
            size = block_size if isinstance(block_size, int) else READ_BYTES
            return CloudFile(self, entry, size, cache_options)
        if mode in ("wb", "ab", "xb"):
            return NewCloudFile(self.client, path, mode, autocommit)
        raise errors.InvalidError(f"files of the cloud open as rb, wb, ab or xb, not {mode}")


def _info(entry: FileEntry) -> dict[str, Any]:
    kind = entry.kind if entry.kind in ("file", "directory") else "other"
    modified = datetime.datetime.fromtimestamp(entry.modified_ms / 1000, datetime.UTC)
    return {
        "name": entry.path,
        "size": entry.bytes,
        "type": kind,
        "mtime": modified,
        "mode": entry.mode,
        "ETag": entry.etag,
    }


def _directory(path: str) -> dict[str, Any]:
    epoch = datetime.datetime.fromtimestamp(0, datetime.UTC)
    return {
        "name": path,
        "size": 0,
        "type": "directory",
        "mtime": epoch,
        "mode": 0o755,
        "ETag": "",
    }


class CloudFile(AbstractBufferedFile):  # type: ignore[misc]
    """A file that is read, a range at a time. One that is replaced meanwhile raises."""

    def __init__(
        self,
        fs: CloudFileSystem,
        entry: FileEntry,
        block_size: int,
        cache_options: dict[str, Any] | None,
    ) -> None:
        self._entry = entry
        super().__init__(
            fs, entry.path, "rb", block_size, cache_options=cache_options, size=entry.bytes
        )

    def _fetch_range(self, start: int, end: int) -> bytes:
        end = min(end, self._entry.bytes)
        if start >= end:
            return b""
        files = self.fs.client._files
        return files.read(self._entry.path, self._entry.etag, start, end - start)  # type: ignore[no-any-return]


class NewCloudFile(io.BufferedRandom):
    """A file that is written. It appears in the cloud whole when it is closed without an error; in
    a transaction of fsspec, when that ends."""

    def __init__(self, client: Client, path: str, mode: str, is_automatic: bool = True) -> None:
        self._client, self._path = client, path
        if mode == "xb" and client.exists(path):
            raise errors.AlreadyExistsError(f"there is something already: {path}")
        handle, local = tempfile.mkstemp(prefix="pfs-")
        self._local: str | None = local
        super().__init__(io.FileIO(handle, "r+b"))
        self._is_exclusive, self._is_automatic = mode == "xb", is_automatic
        self._process = os.getpid()
        if mode == "ab" and client.exists(path):
            try:
                for piece in client.pieces(path):
                    self.write(piece)
            except BaseException:
                self.discard()
                raise

    @property
    def name(self) -> str:
        return self._path

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is not None:
            self.discard()
        super().__exit__(kind, error, trace)

    def discard(self) -> None:
        """Closes it without keeping anything."""
        try:
            super().close()
        finally:
            self._forget()

    def commit(self) -> None:
        """Keeps it; closing does so by itself outside of a transaction."""
        local = self._local
        if local is None:
            return
        if not self._is_automatic and not self.closed:
            self.abandon()
            return
        try:
            super().close()
            # A mode of one's own, as for any new file.
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(local, 0o666 & ~umask)
            self._client.cp(local, self._path, replace=not self._is_exclusive)
        finally:
            self._forget()

    def close(self) -> None:
        if self.closed:
            return
        if self._is_automatic:
            self.commit()
        else:
            super().close()

    def _forget(self) -> None:
        # A process that was forked meanwhile leaves it to its parent.
        if self._local is not None and self._process == os.getpid():
            os.unlink(self._local)
        self._local = None

    def abandon(self) -> None:
        """Keeps nothing, because it was never closed, and says so."""
        self._warn()
        self.discard()

    def _warn(self) -> None:
        if not self.closed:
            message = f"never closed, so nothing of it is in the cloud: {self._path}"
            warnings.warn(message, ResourceWarning, stacklevel=2, source=self)

    def __del__(self) -> None:
        # What was never closed is not known to be whole.
        if getattr(self, "_local", None) is not None:
            self.abandon()


class NewCompressed(io.BufferedIOBase):
    """What is written to it is compressed. The file behind it is kept when this is closed without
    an error, not when that file is closed."""

    def __init__(self, compressor: Any, file: NewCloudFile, is_automatic: bool = True) -> None:
        self._compressor, self._file, self._is_automatic = compressor, file, is_automatic

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return self._compressor.write(data)  # type: ignore[no-any-return]

    def flush(self) -> None:
        if not self._compressor.closed:
            self._compressor.flush()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is not None:
            self.discard()
        super().__exit__(kind, error, trace)

    def discard(self) -> None:
        """Closes it without keeping anything."""
        with contextlib.suppress(Exception):
            self._compressor.close()
        self._file.discard()
        super().close()

    def abandon(self) -> None:
        """Keeps nothing, because it was never closed, and says so."""
        self._file._warn()
        self.discard()

    def commit(self) -> None:
        """Keeps it; closing does so by itself outside of a transaction."""
        if self.closed:
            self._file.commit()
        else:
            self.abandon()

    def close(self) -> None:
        if self.closed:
            return
        try:
            self._compressor.close()
            self._file.close()
            if self._is_automatic:
                self._file.commit()
        except BaseException:
            self._file.discard()
            raise
        finally:
            super().close()

    def __del__(self) -> None:
        # What was never closed is not known to be whole.
        if not self.closed:
            self.abandon()


class NewCloudText(io.TextIOWrapper):
    """Text that is written."""

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is not None and isinstance(self.buffer, NewCloudFile | NewCompressed):
            # Closing it after that has nothing left to do.
            self.buffer.discard()
            return
        super().__exit__(kind, error, trace)

    def __del__(self) -> None:
        try:
            buffer = self.buffer
        except (AttributeError, ValueError):  # Detached, or never begun.
            return
        # Its own end would close the file behind it, and so keep it.
        if isinstance(buffer, NewCloudFile | NewCompressed) and not buffer.closed:
            buffer.abandon()
