"""Writing files so that a crash at any moment leaves the old file or the new one, whole.

The order is always: write to a temporary sibling, fsync it, rename over the target, fsync the
folder. :mod:`pocketquery.sdk.folders` does the same with folders.
"""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

from pocketquery.sdk.errors import InvalidInputError, PocketQueryError, WriteError

__all__ = [
    "check_file_replaceable",
    "checked_path",
    "make_folder",
    "real_path",
    "remove_file",
    "sha256_bytes",
    "sha256_file",
    "sync_folder",
    "temporaries_of",
    "temporary_of",
    "write_atomic",
    "writes",
]

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def checked_path(path: object, name: str) -> Path:
    """``path`` as a Path; an error calls what it leads to ``name``.

    Raises:
        InvalidInputError: it is neither text nor path; or empty, as an unset variable of a shell
            is, which would mean the folder one is in.
    """
    if path == "":
        raise InvalidInputError(f"{name} is an empty path; is a variable unset? Write . for here")
    if isinstance(path, (str, os.PathLike)):
        return Path(path)
    raise InvalidInputError(f"{name} is a {type(path).__name__}, expected a path")


def writes(
    argument: int = 0,
) -> Callable[[Callable[_Parameters, _Result]], Callable[_Parameters, _Result]]:
    """For functions that write the place which is their first argument, or another: the system's
    errors become ours.

    Raises:
        WriteError: the disk is full, the place is read-only or not there.
    """

    def decorated(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
        @wraps(function)
        def explained(*args: _Parameters.args, **options: _Parameters.kwargs) -> _Result:
            try:
                return function(*args, **options)
            except PocketQueryError:
                raise
            except OSError as error:
                place = (*args, *options.values())[argument]
                raise WriteError.of(place, error) from error

        return explained

    return decorated


@writes()
def make_folder(path: Path | str, mode: int = 0o777) -> None:
    """Make the folder ``path`` and those above it, where they are not there.

    Args:
        path: the folder.
        mode: its permissions, less the umask.

    Raises:
        WriteError: it cannot be made.
    """
    os.makedirs(path, mode, exist_ok=True)


def sync_folder(path: Path) -> None:
    """Make a rename inside ``path`` durable (a no-op where folders cannot be fsynced)."""
    if os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_file_replaceable(place: Path, kind: str, read: Callable[[Path], object]) -> None:
    """What is replaced is gone: only a file of the same kind may be.

    Args:
        place: the file that is to be written.
        kind: what it is to hold, with its article.
        read: reads one of the kind, and raises a PocketQueryError where a file is none.

    Raises:
        InvalidInputError: ``place`` holds something else.
    """
    if not place.exists():
        return
    try:
        read(place)
    except (PocketQueryError, OSError) as error:
        raise InvalidInputError(
            f"{place} exists and is not {kind}; it is left alone. Name another file or remove it"
        ) from error


@writes()
def write_atomic(path: Path | str, data: bytes | str, *, mode: int = 0o666) -> None:
    """Replace the file ``path`` by ``data`` (str is written as UTF-8) in one step.

    Args:
        path: the file.
        data: its new content.
        mode: its permissions, from the first byte on and less the process's umask, whatever those
            of the old file were. 0o600: for the owner alone.

    Raises:
        WriteError: the disk is full or the folder not writable; ``path`` is then as it was before.
    """
    path = Path(path)
    payload = data.encode("utf-8") if isinstance(data, str) else data
    temporary = temporary_of(path)
    try:
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(payload)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


@writes()
def remove_file(path: Path | str) -> None:
    """Remove the file ``path``, and what a killed :func:`write_atomic` left beside it.

    A :func:`write_atomic` that runs meanwhile in another process may lose its file, and then fails.

    Raises:
        WriteError: something cannot be removed.
    """
    path = Path(path)
    for file in (path, *temporaries_of(path)):
        file.unlink(missing_ok=True)


def real_path(path: Path | str) -> Path:
    """``path`` with a name of its own ("." has none) and free of links, whether it exists or not.

    What is written beside a folder, to take its place, must be beside the folder itself.
    """
    return Path(_real(path))


def _real(path: Path | str) -> str:
    try:
        return os.path.realpath(path)
    except ValueError:  # a NUL in it: nothing can be there, and whoever looks will say so
        return os.path.join(os.getcwd(), path)


def temporary_of(path: Path) -> Path:
    """A new name beside ``path``, to be renamed to it."""
    return path.with_name(f".{path.name}.{os.urandom(4).hex()}.tmp")


def temporaries_of(path: Path) -> Iterator[Path]:
    """The files and folders that :func:`temporary_of` named, of killed processes too."""
    return path.parent.glob(f".{glob.escape(path.name)}.????????.tmp")


def sha256_bytes(data: bytes) -> str:
    """Hexadecimal SHA-256 of ``data``."""
    return hashlib.sha256(data).hexdigest()


def sha256_file(path: Path | str) -> str:
    """Hexadecimal SHA-256 of a file, read in pieces."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
