"""Folders that are published whole: filled beside their place, then renamed into it.

A crash at any moment leaves the old folder or the new one. A folder that is for its owner alone
stays so, whatever the umask, and so are its files.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Iterator
from errno import EEXIST, ENOTEMPTY
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from pocketquery.sdk.errors import ArtifactError, InvalidInputError, WriteError
from pocketquery.sdk.files import (
    make_folder,
    real_path,
    sync_folder,
    temporaries_of,
    temporary_of,
    writes,
)
from pocketquery.sdk.plain_files import close_to_others, is_closed

__all__ = [
    "TWO_RENAMES",
    "FolderKind",
    "building_folder",
    "check_replaceable",
    "held_for_building",
    "hold_folder",
    "is_present",
    "present_folder",
    "publish_folder",
    "recover_folder",
    "release_folder",
    "replace_folder",
]

_SYSTEM_FILES = (".DS_Store", "Thumbs.db", "desktop.ini")  # left in any folder that was looked at
_RENAME_TRIES = 10
TWO_RENAMES = 0.05
"""Seconds, ample, in which :func:`publish_folder` puts one folder in another's place."""
_ABANDONED_S = 3600  # seconds without a change after which a temporary is a dead process's


class FolderKind(NamedTuple):
    """A kind of folder that is published whole, in the place of an older one.

    Attributes:
        name: what such a folder is, with its article.
        marker: the file that says so.
        format: the ``format`` in the marker, a JSON object; None: it names none.
        files: patterns of all that such a folder holds; empty: nobody knows.
    """

    name: str
    marker: str
    format: str | None = None
    files: tuple[str, ...] = ()


def check_replaceable(place: Path, kind: FolderKind) -> None:
    """What is replaced is gone: only a folder of the same kind may be, with nothing of somebody
    else's in it, or an empty one.

    Raises:
        InvalidInputError: ``place`` holds something else, or is below what is no folder.
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
    known = (*kind.files, *_SYSTEM_FILES)
    added = [one for one in entries if not any(fnmatchcase(one, each) for each in known)]
    if kind.files and added:
        raise InvalidInputError(
            f"{place} holds {added[0]!r}, which is not of {kind.name} and would be gone; move it "
            "away, or name another place"
        )


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
    temporary = temporary_of(path)
    make_folder(temporary, 0o700 if private or is_closed(path) else 0o777)
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
        if isinstance(error, OSError) and WriteError.is_meant_by(error):
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
    if is_closed(finished):
        close_to_others(finished)
    sync_folder(finished)
    old = _aside(path)
    for tries_left in reversed(range(_RENAME_TRIES)):
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
    return Path(path).exists() or _aside(path).is_dir()


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
    """Make ``folder`` and keep other processes from building in it, until :func:`release_folder`
    or a kill. Where it is ``private``, it is for its owner alone.

    Returns:
        What :func:`release_folder` takes.

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


def building_folder(path: Path) -> Path:
    """Where the folder that is to be at ``path`` is made, in steps that a kill does not undo."""
    real = real_path(path)
    return real.with_name(f".{real.name}.building")


@contextlib.contextmanager
def held_for_building(path: Path) -> Iterator[None]:
    """Keep other processes from building what is at ``path``, while it is changed in its place.

    Raises:
        ArtifactError: another process does.
        WriteError: the place is read-only.
    """
    folder = building_folder(path)
    lock = hold_folder(folder, private=is_closed(real_path(path)))
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # it has what a build that was killed had done
            folder.rmdir()
        release_folder(lock)


def release_folder(descriptor: int | None) -> None:
    """Let other processes build in a folder of :func:`hold_folder`."""
    if descriptor is not None:
        os.close(descriptor)


def _is_marked(marker: Path, format: str | None) -> bool:
    """Whether it is there, and not of another program; a damaged one counts as ours."""
    if not marker.is_file():
        return False
    if format is None:
        return True
    try:
        fields = json.loads(marker.read_bytes())
    except (OSError, ValueError, RecursionError):
        return True
    return isinstance(fields, dict) and fields.get("format") == format


def _sync_file(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _aside(path: Path | str) -> Path:
    place = real_path(path)
    return place.with_name(f".{place.name}.old")


def _sweep(path: Path) -> None:
    """Remove temporaries of ``path`` that processes killed long ago left behind."""
    for temporary in temporaries_of(path):
        if time.time() - temporary.stat().st_mtime > _ABANDONED_S:
            _remove(temporary)


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
