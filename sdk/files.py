"""Writing files so that a crash at any moment leaves the old file or the new one, whole.

The order is always: write to a temporary sibling, fsync it, rename over the target, fsync the
folder. Folders are published the same way: filled beside the target, then renamed. A folder that is
for its owner alone stays so, whatever the umask, and so are its files.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from errno import EEXIST, ENOTEMPTY
from fnmatch import fnmatchcase
from functools import wraps
from typing import TYPE_CHECKING, NamedTuple, ParamSpec, TypeVar

from pocketquery.sdk.errors import ArtifactError, InvalidInputError, PocketQueryError, WriteError

if TYPE_CHECKING:  # it takes 4 ms, and a query encoded by the default bundle needs none of it
    from pathlib import Path

__all__ = [
    "TWO_RENAMES",
    "FolderKind",
    "check_file_replaceable",
    "check_replaceable",
    "checked_path",
    "hold_folder",
    "is_present",
    "let_go",
    "make_folder",
    "present_folder",
    "publish_folder",
    "real_path",
    "recover_folder",
    "remove_file",
    "replace_folder",
    "sha256_bytes",
    "sha256_file",
    "sync_folder",
    "write_atomic",
    "writes",
]

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")

_OF_SYSTEMS = (".DS_Store", "Thumbs.db", "desktop.ini")  # left in any folder that was looked at
_TRIES = 10
TWO_RENAMES = 0.05
"""Seconds, ample, in which :func:`publish_folder` puts one folder in another's place."""
_ABANDONED = 3600  # seconds without a change after which a temporary is a dead process's


def checked_path(path: object, name: str) -> Path:
    """``path`` as a Path; an error calls what it leads to ``name``.

    Raises:
        InvalidInputError: it is neither text nor path; or empty, as an unset variable of a shell
            is, which would mean the folder one is in.
    """
    if path == "":
        raise InvalidInputError(f"{name} is an empty path; is a variable unset? Write . for here")
    if isinstance(path, (str, os.PathLike)):
        return _path(path)
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


class FolderKind(NamedTuple):
    """A kind of folder that is published whole, in the place of an older one.

    Attributes:
        name: what such a folder is, with its article.
        marker: the file that says so.
        format: the ``format`` in the marker, a JSON object; None: it names none.
        files: patterns of all that such a folder holds; empty: they cannot be told.
    """

    name: str
    marker: str
    format: str | None = None
    files: tuple[str, ...] = ()


def check_replaceable(place: Path, kind: FolderKind) -> None:
    """What is replaced is gone: only a folder of the same kind may be, with nothing of somebody
    else's in it, or an empty one.

    Raises:
        InvalidInputError: ``place`` holds something else, or lies below what is no folder.
    """
    above = next((one for one in place.absolute().parents if one.exists()), place)
    if not above.is_dir():
        raise InvalidInputError(
            f"{above} is not a folder, so {place} cannot be made in it; name another place"
        )
    if not place.exists():
        return
    entries = sorted(one.name for one in place.iterdir()) if place.is_dir() else None
    if entries == []:
        return
    if entries is None or not _is_marked(place / kind.marker, kind.format):
        raise InvalidInputError(
            f"{place} exists and is not {kind.name}; it is left alone. Name another place or "
            "remove it"
        )
    known = (*kind.files, *_OF_SYSTEMS)
    added = [one for one in entries if not any(fnmatchcase(one, each) for each in known)]
    if kind.files and added:
        raise InvalidInputError(
            f"{place} holds {added[0]!r}, which is not of {kind.name} and would be gone; move it "
            "away, or name another place"
        )


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


def _is_marked(marker: Path, format: str | None) -> bool:
    """Whether it is there, and not of another program; a damaged one counts as ours."""
    if not marker.is_file():
        return False
    if format is None:
        return True
    try:
        found = json.loads(marker.read_bytes())
    except (OSError, ValueError, RecursionError):
        return True
    return isinstance(found, dict) and found.get("format") == format


def _sync_file(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


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
    path = _path(path)
    payload = data.encode("utf-8") if isinstance(data, str) else data
    temporary = _temporary(path)
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
    path = _path(path)
    for file in (path, *_temporaries(path)):
        file.unlink(missing_ok=True)


@contextlib.contextmanager
def replace_folder(path: Path | str, *, private: bool = False) -> Iterator[Path]:
    """Yield an empty folder beside ``path``; on leaving without an error it becomes ``path``, for
    its owner alone where it is ``private`` or takes the place of one that is.

    A kill on the way leaves the temporary folder, which a later call removes, and the old
    ``path``, whole.
    """
    path = real_path(path)
    make_folder(path.parent)
    recover_folder(path)
    _sweep(path)
    temporary = _temporary(path)
    make_folder(temporary, 0o700 if private or _is_closed(path) else 0o777)
    try:
        yield temporary
        for file in sorted(temporary.rglob("*")):
            if file.is_file():
                _sync_file(file)
            elif file.is_dir():
                sync_folder(file)
        publish_folder(temporary, path)
    except BaseException as error:
        _remove(temporary)
        if isinstance(error, OSError) and WriteError.is_meant_by(error):  # ours, told by its path
            raise WriteError.of(path, error) from error
        raise


@writes(1)
def publish_folder(finished: Path, path: Path) -> None:
    """Rename ``finished``, whose files are synced, to ``path``, replacing what is there.

    POSIX cannot exchange two folders portably, so an existing ``path`` is moved aside first and
    removed last; a crash exactly between the two renames leaves it beside as ``.<name>.old``, and
    :func:`recover_folder` puts it back. Where ``path`` is a link, what it leads to is replaced.

    Raises:
        WriteError: the folders cannot be moved; ``path`` is as it was before.
    """
    path = real_path(path)
    if _is_closed(finished):
        from pocketquery.sdk.plain_files import close_to_others  # here, as below

        close_to_others(finished)
    sync_folder(finished)
    old = _aside(path)
    for tries_left in reversed(range(_TRIES)):
        if path.exists():
            path.rename(old)
        try:
            finished.rename(path)
            break
        except BaseException as error:
            recover_folder(path)
            # Another process took the time between our renames for a kill and put the old one back.
            put_back = isinstance(error, OSError) and error.errno in (ENOTEMPTY, EEXIST)
            if not put_back or not tries_left:
                raise
    sync_folder(path.parent)
    _remove(old)


def present_folder(path: Path) -> Path:
    """``path``, or the old folder that a killed :func:`publish_folder` left beside it.

    For readers, who change nothing.
    """
    old = _aside(path)
    return old if old.is_dir() and not path.exists() else path


def is_present(path: Path | str) -> bool:
    """Whether there is something at ``path``, or what :func:`present_folder` finds for it."""
    return os.path.exists(path) or os.path.isdir(_aside_of(path))


@writes()
def recover_folder(path: Path) -> None:
    """Undo a :func:`publish_folder` that was killed between its two renames."""
    path = real_path(path)
    old = _aside(path)
    if old.is_dir():
        if path.exists():
            _remove(old)
        else:
            old.rename(path)


@writes()
def hold_folder(folder: Path, *, private: bool = False) -> int | None:
    """Make ``folder`` and keep other processes from building in it, until :func:`let_go` or a kill.
    Where it is ``private``, it is for its owner alone.

    Returns:
        What :func:`let_go` takes.

    Raises:
        ArtifactError: another process holds it, or it is a link.
    """
    if folder.is_symlink():  # what it leads to would be emptied
        raise ArtifactError(f"{folder} is a link, expected a folder of our own; remove it")
    folder.mkdir(mode=0o700 if private else 0o777, exist_ok=True)
    if private:  # one that was there, too
        folder.chmod(0o700)
    if os.name == "nt":  # there a folder with open files cannot be renamed or emptied anyway
        return None
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), folder.stat()):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)  # held by another, or published by another just before
    raise ArtifactError(f"another process is building in {folder}; wait for it or end it")


def let_go(descriptor: int | None) -> None:
    """Let other processes build in a folder of :func:`hold_folder`."""
    if descriptor is not None:
        os.close(descriptor)


def real_path(path: Path | str) -> Path:
    """``path`` with a name of its own ("." has none) and free of links, whether it exists or not.

    What is written beside a folder, to take its place, must be beside the folder itself.
    """
    return _path(_real(path))


def _real(path: Path | str) -> str:
    try:
        return os.path.realpath(path)
    except ValueError:  # a NUL in it: nothing can be there, and whoever looks will say so
        return os.path.join(os.getcwd(), path)


def _path(path: str | os.PathLike[str]) -> Path:
    from pathlib import Path  # see above

    return Path(path)


def _is_closed(path: Path) -> bool:
    from pocketquery.sdk.plain_files import is_closed  # here: it takes pathlib

    return is_closed(path)


def _aside(path: Path) -> Path:
    return _path(_aside_of(path))


def _aside_of(path: Path | str) -> str:
    folder, name = os.path.split(_real(path))
    return os.path.join(folder, f".{name}.old")


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.urandom(4).hex()}.tmp")


def _temporaries(path: Path) -> Iterator[Path]:
    import glob

    return path.parent.glob(f".{glob.escape(path.name)}.????????.tmp")


def _sweep(path: Path) -> None:
    """Remove temporaries of ``path`` that processes killed long ago left behind."""
    for left in _temporaries(path):
        if time.time() - left.stat().st_mtime > _ABANDONED:
            _remove(left)


def _remove(folder: Path) -> None:
    import shutil  # here: it takes 6 ms, and reading needs none of it

    shutil.rmtree(folder, ignore_errors=True)


def sha256_bytes(data: bytes) -> str:
    """Hexadecimal SHA-256 of ``data``."""
    return hashlib.sha256(data).hexdigest()


def sha256_file(path: Path | str) -> str:
    """Hexadecimal SHA-256 of a file, read in pieces."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
