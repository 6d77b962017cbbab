"""Files in a folder that came from elsewhere: plain ones only, and written only under one name.

A name in the folder may be a link, or a pipe that a reader waits on for ever. Reading follows a
link to a plain file (a cache that keeps files by their hash lays folders out so), and writing does
not: what it leads to, or what another name of the same file stands for, is not ours. And who may
read what is made: nobody but its owner, where that holds of what it is made of.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Sequence
from io import BufferedReader
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from pocketquery.sdk.errors import ArtifactError, ArtifactNotFoundError, CorruptArtifactError
from pocketquery.sdk.files import writes

__all__ = [
    "any_closed",
    "check_own_file",
    "close_to_others",
    "has_one_name",
    "is_closed",
    "is_private",
    "local_places",
    "mode_for",
    "open_own_file",
    "open_plain",
    "plain_size",
]


def plain_size(path: Path, mend: str = "build the index again or copy it anew") -> int:
    """The size in bytes of the plain file at ``path``.

    Args:
        path: the file.
        mend: what to do where it is none.

    Raises:
        ArtifactNotFoundError: nothing is there.
        CorruptArtifactError: a folder, a pipe or a device.
    """
    try:
        status = path.stat()
    except OSError as error:  # a link in a circle too
        raise ArtifactNotFoundError(f"{path} is missing; {mend}") from error
    if not stat.S_ISREG(status.st_mode):
        raise CorruptArtifactError(
            f"{path} is {stat.filemode(status.st_mode)}, expected a plain file; {mend}"
        )
    return status.st_size


def open_plain(path: Path | str) -> BufferedReader:
    """Open for reading a file that was listed as a plain one, whatever is there by now.

    A pipe is not waited for, a device not read, and a link not followed.

    Raises:
        OSError: it is none any more, or cannot be opened.
    """
    flags = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)  # Windows has neither
    file = open(path, "rb", opener=lambda name, usual: os.open(name, usual | flags))  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "no plain file any more", str(path))
    return file


def has_one_name(path: Path) -> bool:
    """Whether ``path`` is no link and the file has no other name (hard link)."""
    status = path.lstat()
    return stat.S_ISREG(status.st_mode) and status.st_nlink == 1


def check_own_file(path: Path) -> None:
    """Raise where writing to ``path`` would change something outside its folder, too.

    Raises:
        ArtifactNotFoundError, CorruptArtifactError: as :func:`plain_size`.
        ArtifactError: a link.
    """
    plain_size(path)
    if not has_one_name(path):
        raise ArtifactError(
            f"{path} is a link, expected a file of this folder alone: what is written to it would "
            "change another file. Copy the index and open the copy"
        )


@writes()
def open_own_file(path: Path) -> BinaryIO:
    """Open the file at ``path`` for reading and writing; never through a link.

    Raises:
        ArtifactNotFoundError, CorruptArtifactError, ArtifactError: as :func:`check_own_file`.
    """
    check_own_file(path)
    flags = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    return os.fdopen(os.open(path, flags), "r+b")


def is_private(path: Path | str) -> bool:
    """Whether other users of this machine cannot read all that is at ``path``. That is so where a
    folder on the way to it, the file, or something in the folder or behind a link in it is closed
    to others. What is made of it is for its owner alone, too. Never where a system has no such
    permissions."""
    return os.name != "nt" and _is_private(path, set())


def local_places(address: os.PathLike[str] | str) -> set[str]:
    """What may be a path in ``address``: itself, or where it is a URL or a chain of some, its parts
    (``zip://a.jsonl::file:///b.zip``)."""
    place = os.fspath(address)
    return {place, *re.split("::|://", place)}


def is_closed(path: Path) -> bool:
    """Whether there is something at ``path`` that is for its owner alone."""
    return os.name != "nt" and path.exists() and not path.stat().st_mode & 0o077


def any_closed(files: Sequence[Path]) -> bool:
    """Whether others cannot read all of ``files``, which are in few folders; see is_private."""
    folders = {file.parent for file in files}
    above = folders.union(*(folder.parents for folder in folders))
    return os.name != "nt" and not (
        all(_allows(one, stat.S_IXOTH) for one in above)
        and all(_allows(one, stat.S_IROTH) for one in files)
    )


def close_to_others(folder: Path) -> None:
    """Keep ``folder``, and all in it, for its owner alone."""
    folder.chmod(0o700)
    for one in folder.rglob("*"):
        one.chmod(0o700 if one.is_dir() else 0o600)


def mode_for(path: Path) -> int:
    """The permissions of a file at ``path``, less the umask: its owner's alone in a folder that is,
    and where it takes the place of such a file."""
    return 0o600 if is_closed(path.parent) or is_closed(path) else 0o666


def _is_private(path: Path | str, seen: set[Path]) -> bool:
    try:
        place = Path(os.path.realpath(path))
        place.stat()
    except (OSError, ValueError):  # nothing is there, or can be
        return False
    if place in seen:  # a link in a circle
        return False
    seen.add(place)
    inside = list(place.rglob("*"))
    return (
        any(not _allows(one, stat.S_IXOTH) for one in place.parents)
        or any(not _allows(one, stat.S_IROTH) for one in chain([place], inside))
        or any(_is_private(one, seen) for one in inside if one.is_symlink())
    )


def _allows(path: Path, others: int) -> bool:
    try:
        mode = path.stat().st_mode
    except OSError:  # a link that leads nowhere
        return True
    needed = others | stat.S_IXOTH if stat.S_ISDIR(mode) else others
    return mode & needed == needed
