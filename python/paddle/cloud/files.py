"""The files of a user of the cloud: the verbs of the command, as methods."""

import dataclasses
import json
import os
from collections.abc import Iterator, Sequence

from paddle import errors
from paddle._native import CloudFiles
from paddle.cloud.answer import Answer

PIECE_BYTES = 4 << 20

Path = str | os.PathLike[str]


@dataclasses.dataclass(frozen=True)
class FileEntry(Answer):
    """A file or directory of the cloud."""

    path: str
    """Where it is: `/pfs/…`."""
    kind: str
    """`file`, `directory`, or what a job may have made: `link`, `other`."""
    bytes: int
    """Its length; 0 for what is not a file."""
    modified_ms: int
    """When it was changed last, in milliseconds since 1970."""
    mode: int
    """Its permissions, as of chmod; 0 where the store has none."""
    etag: str = ""
    """Changes whenever the content does; empty for what is not a file."""

    @property
    def name(self) -> str:
        """Its last component."""
        return self.path.rsplit("/", 1)[-1]

    @property
    def is_directory(self) -> bool:
        """Whether it is a directory."""
        return self.kind == "directory"

    def _check_file(self) -> None:
        """Refuses what has no content: it would be taken for an empty file."""
        if self.is_directory:
            raise errors.InvalidError(f"this is a directory, and no file: {self.path}")
        if self.kind != "file":
            raise errors.InvalidError(
                f"this is a link, a pipe or a socket that a job has made, and no file: {self.path}"
            )


@dataclasses.dataclass(frozen=True)
class DiskUsage(Answer):
    """How much is below a path."""

    bytes: int
    files: int
    directories: int


@dataclasses.dataclass(frozen=True)
class Copied(Answer):
    """What was copied."""

    files: int
    bytes: int
    """Bytes of these files."""
    moved_bytes: int
    """Bytes that went over the network; the others were there already."""


@dataclasses.dataclass(frozen=True)
class Link(Answer):
    """A link by which anybody may download a file."""

    id: str
    path: str
    url: str
    created_ms: int


class Files:
    """What `paddle.cloud.Client` can do with files. Paths of the cloud begin with `/pfs/`."""

    def __init__(self, native: CloudFiles) -> None:
        self._files = native

    @property
    def home(self) -> str:
        """The user's home, `/pfs/<datacenter>/home/<user>`."""
        return self._files.home

    def cp(
        self,
        source: Path | Sequence[Path],
        destination: Path,
        *,
        recursive: bool = False,
        replace: bool = True,
    ) -> Copied:
        """Uploads, downloads, or copies inside the cloud, as `paddlecloud cp` does.

        A destination that is a directory, or ends with a slash, takes the sources in. What was
        interrupted goes on where it was. Raises if any file could not be copied.

        recursive: directories, with everything in them.
        replace:   whether files that are there are replaced.
        """
        sources = [source] if isinstance(source, str | os.PathLike) else list(source)
        texts = [os.fspath(path) for path in sources]
        if not texts:
            raise errors.InvalidError("cp needs at least one source")
        target = os.fspath(destination)
        return Copied._of(json.loads(self._files.copy(texts, target, recursive, replace)))

    def ls(self, path: Path | None = None, *, recursive: bool = False) -> list[FileEntry]:
        """What is in a directory, or matches a pattern; the home unless a path is given."""
        text = self.home if path is None else os.fspath(path)
        return [FileEntry._of(entry) for entry in json.loads(self._files.list(text, recursive))]

    def glob(self, pattern: str) -> list[FileEntry]:
        """What matches a pattern of `*`, `?` and `[…]`, directories themselves included."""
        return [FileEntry._of(entry) for entry in json.loads(self._files.expand(pattern))]

    def stat(self, path: Path) -> FileEntry:
        """What is at a path; `paddle.errors.NotFoundError` where nothing is."""
        return FileEntry._of(json.loads(self._files.stat(os.fspath(path))))

    def exists(self, path: Path) -> bool:
        """Whether something is at a path."""
        try:
            self.stat(path)
        except errors.NotFoundError:
            return False
        return True

    def mkdir(self, path: Path) -> FileEntry:
        """Makes a directory and those above it; one that is there is no error."""
        return FileEntry._of(json.loads(self._files.make_directory(os.fspath(path))))

    def rm(self, path: Path, *, recursive: bool = False) -> None:
        """Removes a file, an empty directory, or with `recursive` all of a directory."""
        self._files.remove(os.fspath(path), recursive)

    def mv(self, source: Path, destination: Path, *, replace: bool = True) -> FileEntry:
        """Gives a file or directory another name, in one step."""
        texts = os.fspath(source), os.fspath(destination)
        return FileEntry._of(json.loads(self._files.rename(*texts, replace)))

    def cat(self, path: Path) -> bytes:
        """The content of a file."""
        return b"".join(self.pieces(path))

    def pieces(self, path: Path) -> Iterator[bytes]:
        """The content of a file, a few megabytes at a time, each checked."""
        entry = self.stat(path)
        entry._check_file()
        for offset in range(0, entry.bytes, PIECE_BYTES):
            length = min(PIECE_BYTES, entry.bytes - offset)
            yield self._files.read(entry.path, entry.etag, offset, length)

    def du(self, path: Path | None = None) -> DiskUsage:
        """How much is below a path; below the home unless one is given."""
        text = self.home if path is None else os.fspath(path)
        return DiskUsage._of(json.loads(self._files.usage(text)))

    def publish(self, path: Path) -> Link:
        """Makes a link by which anybody may download a file of yours."""
        return Link._of(json.loads(self._files.publish(os.fspath(path))))

    def links(self) -> list[Link]:
        """Your links."""
        return [Link._of(link) for link in json.loads(self._files.links())]

    def revoke(self, link: Link | str) -> None:
        """Ends a link."""
        self._files.revoke(link.id if isinstance(link, Link) else link)
