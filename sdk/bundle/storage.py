"""Read named files from a folder, or from a zip of it.

A bundle travels as either. Reading never unpacks to disk, never follows a name or a link out of the
folder, never waits for a pipe, and never reads more than the caller allows, so a hostile one can at
most be refused.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from pocketquery.sdk.bundle.installed import bundles, installed_bundle, warn_of_shadow
from pocketquery.sdk.errors import ArtifactError, ArtifactNotFoundError, CorruptArtifactError

if TYPE_CHECKING:  # at run time only where a zip is
    from pathlib import Path

    from pocketquery.sdk.bundle.stored_zip import StoredZip

__all__ = ["Storage", "FolderStorage", "ZipStorage", "open_storage", "read_file"]

# Where a system lacks it there are no pipes to wait for.
_NONBLOCKING = getattr(os, "O_NONBLOCK", 0)
_BINARY = getattr(os, "O_BINARY", 0)
_CHUNK_BYTES = 1 << 17  # bytes: what stays in the processor's cache


class Storage(Protocol):
    """Where named files lie."""

    def __fspath__(self) -> str:
        """The folder's path, or the zip's."""
        ...

    def size(self, name: str) -> int | None:
        """The file's size in bytes; None where it is not there."""
        ...

    def read(self, name: str, limit: int) -> bytes:
        """The whole file, or its first ``limit`` bytes where it is longer."""
        ...

    def pieces(self, name: str, limit: int) -> Iterator[bytes | memoryview]:
        """What :meth:`read` gives, some at a time; a piece is over when the next is asked for."""
        ...


class FolderStorage:
    """The files of a folder; a link to a plain file is followed, as hub caches lay folders out so.

    Raises:
        CorruptArtifactError: a name is that of a folder, a pipe or a device.
        ArtifactError: the system does not let it be read.
    """

    def __init__(self, path: Path | str) -> None:
        self._folder = os.fspath(path)

    def __fspath__(self) -> str:
        """The folder's path."""
        return self._folder

    def size(self, name: str) -> int | None:
        """The file's size in bytes; None where it is not there."""
        path = os.path.join(self._folder, name)
        try:
            with _explained(path):
                status = os.stat(path)
        except ArtifactNotFoundError:
            return None
        _check_plain(status.st_mode, path)
        return status.st_size

    def read(self, name: str, limit: int) -> bytes:
        """The whole file, or its first ``limit`` bytes where it is longer."""
        return read_file(os.path.join(self._folder, name), limit)

    def pieces(self, name: str, limit: int) -> Iterator[bytes | memoryview]:
        """What :meth:`read` gives, some at a time; a piece is over when the next is asked for."""
        path = os.path.join(self._folder, name)
        buffer = memoryview(bytearray(_CHUNK_BYTES))
        with _explained(path), _opened(path) as file:
            while limit and (count := file.readinto(buffer[:limit])):
                yield buffer[:count]
                limit -= count


class ZipStorage:
    """The files of a zip without compression.

    Raises:
        CorruptArtifactError: not a zip; a name that leaves the folder, the same name twice, a
            compressed or an encrypted file, or anything else that
            :mod:`pocketquery.sdk.bundle.stored_zip` refuses.
        ArtifactError: the system does not let it be read.
    """

    def __init__(self, path: Path) -> None:
        from pocketquery.sdk.bundle.stored_zip import StoredZip

        self._path = path
        with _explained(path):
            self._zip: StoredZip = StoredZip(path)

    def __fspath__(self) -> str:
        """The zip's path."""
        return os.fspath(self._path)

    def size(self, name: str) -> int | None:
        """The file's size in bytes as the zip states it; None where it is not there."""
        return self._zip.sizes.get(name)

    def read(self, name: str, limit: int) -> bytes:
        """The whole file, or its first ``limit`` bytes where it is longer.

        Raises:
            CorruptArtifactError: the zip's own check sum does not fit.
        """
        with _explained(self._path):
            return self._zip.read(name, limit)

    def pieces(self, name: str, limit: int) -> Iterator[bytes | memoryview]:
        """What :meth:`read` gives, whole: its check sum is the whole's."""
        yield self.read(name, limit)


def read_file(path: Path | str, limit: int) -> bytes:
    """The whole file at ``path``, or its first ``limit`` bytes where it is longer.

    Raises:
        ArtifactNotFoundError: nothing is there.
        CorruptArtifactError: a folder, a pipe or a device.
        ArtifactError: the system does not let it be read.
    """
    with _explained(path), _opened(path) as file:
        return file.read(limit)


@contextlib.contextmanager
def _opened(path: Path | str) -> Iterator[io.BufferedReader]:
    """The plain file at ``path``."""
    descriptor = os.open(path, os.O_RDONLY | _BINARY | _NONBLOCKING)
    try:
        _check_plain(os.fstat(descriptor).st_mode, path)
        with open(descriptor, "rb", closefd=False) as file:
            yield file
    finally:
        os.close(descriptor)


def _check_plain(mode: int, path: Path | str) -> None:
    if not stat.S_ISREG(mode):
        kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe"}
        kind = kinds.get(stat.S_IFMT(mode), "a device or a socket")
        raise CorruptArtifactError(f"{path}: found {kind}, expected a plain file")


@contextlib.contextmanager
def _explained(path: Path | str) -> Iterator[None]:
    """What the system says of a file, as an error of ours."""
    try:
        yield
    except ArtifactError:  # some are an OSError too
        raise
    except FileNotFoundError as error:
        raise ArtifactNotFoundError(f"{path} is missing") from error
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise CorruptArtifactError(f"{path}: found a link, expected a plain file") from error
        raise ArtifactError(f"{path} cannot be read: {error.strerror or error}") from error


def open_storage(path: Path | str) -> Storage:
    """The folder or zip at ``path``; a text that names an installed bundle (see installed.py) means
    that one, and a warning says so where there is a bundle of that name in the working folder.

    Raises:
        ArtifactNotFoundError: neither is.
        CorruptArtifactError: a file that is not a usable zip.
        ArtifactError: the system does not let it be read.
        InvalidInputError: ``path`` is no path.
    """
    with _explained(path):
        place = installed_bundle(path)
        if place is not None:
            warn_of_shadow(path, "manifest.json")
            path = place
        if isinstance(path, str) and os.path.isdir(path):  # what needs no pathlib, as the default
            return FolderStorage(path)
        # Here: with pathlib they take 5 ms, which the built-in bundle needs none of.
        from pocketquery.sdk.files import checked_path
        from pocketquery.sdk.folders import present_folder

        path = checked_path(path, "the bundle")
        if not path.exists():
            path = present_folder(path)  # a writer killed between its renames leaves it beside
        if path.is_dir():
            return FolderStorage(path)
        if path.is_file():
            return ZipStorage(path)
    raise ArtifactNotFoundError(
        f"{path}: found nothing there, expected a folder, a zip of one, or an installed bundle's "
        f"name: {', '.join(bundles())}"
    )
