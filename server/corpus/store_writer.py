"""Writing a text store group by group: memory holds one buffer, whatever the corpus's size."""

from __future__ import annotations

import contextlib
import hashlib
import json
from array import array
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, get_args

import numpy as np

from pocketquery.sdk.errors import CorpusError, InvalidInputError
from pocketquery.sdk.folders import check_replaceable, replace_folder
from pocketquery.server.corpus.groups import Group, Kind
from pocketquery.server.corpus.text_store import (
    FILES,
    FORMAT,
    MANIFEST,
    STORE_FOLDER,
    VERSION,
    TextStore,
)

__all__ = ["write_text_store"]

_BUFFER = 1 << 20  # bytes held a file
_MOST_NAMES = 30_000  # languages, and roles: their codes are int16
_NO_ROLE = -1


def write_text_store(path: Path | str, groups: Iterable[Group], kind: Kind) -> TextStore:
    """Write ``groups`` to the folder ``path``, one in memory at a time, and open it.

    A store already at ``path`` is replaced in one step at the end; a kill on the way leaves it
    whole.

    Raises:
        InvalidInputError: unknown kind, or ``path`` holds something that is not a text store.
        CorpusError: a text cannot be written as UTF-8, or more than 30,000 different languages or
            roles occur.
        OSError: the disk is full or not writable; ``path`` is as it was before.
    """
    path = Path(path)
    if kind not in get_args(Kind):
        raise InvalidInputError(f"kind is {kind!r}; expected one of {', '.join(get_args(Kind))}")
    check_store_replaceable(path)
    # The files close, and so hold all that is buffered, before the folder is synced and published.
    with replace_folder(path) as folder, contextlib.ExitStack() as stack:
        files = {
            name: stack.enter_context((folder / name).open("wb", buffering=_BUFFER))
            for name in FILES
        }
        writer = _Writer(files, kind)
        for group in groups:
            writer.add(group)
        manifest = writer.manifest()
        (folder / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    return TextStore.open(path)


def check_store_replaceable(path: Path) -> None:
    """A store may replace a store or an empty folder, and nothing else.

    Raises:
        InvalidInputError: ``path`` holds something else.
    """
    check_replaceable(path, STORE_FOLDER)


class _Writer:
    """Open files, and how far each has come."""

    def __init__(self, files: dict[str, BinaryIO], kind: Kind) -> None:
        self._files = files
        self._kind = kind
        self._digest = hashlib.sha256(kind.encode())
        self._languages: dict[str, int] = {}
        self._roles: dict[str, int] = {}
        self._groups = self._texts = self._text_bytes = self._id_bytes = 0

    def add(self, group: Group) -> None:
        """Append one group."""
        self._digest.update(repr(group).encode())  # as GroupList has it: one content, one name
        ends = array("q")
        for text in group.texts:
            self._text_bytes += self._files["texts.bin"].write(_encoded(text, group))
            ends.append(self._text_bytes)
        self._texts += len(ends)
        self._groups += 1
        self._id_bytes += self._files["ids.bin"].write(_encoded(group.id, group))
        self._write("text_ends.i64", ends)
        self._write("group_ends.i64", [self._texts])
        self._write("id_ends.i64", [self._id_bytes])
        self._write("languages.i16", [_code(self._languages, group.lang, "languages")])
        self._write("titles.u8", [int(group.title)])
        roles = [_code(self._roles, role, "roles") for role in group.roles]
        self._write("roles.i16", roles or [_NO_ROLE] * len(ends))

    def manifest(self) -> dict[str, object]:
        """What describes the files; languages and roles in the order of their codes."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "kind": self._kind,
            "groups": self._groups,
            "texts": self._texts,
            "fingerprint": self._digest.hexdigest(),
            "languages": list(self._languages),
            "roles": list(self._roles),
            "files": {name: file.tell() for name, file in self._files.items()},
        }

    def _write(self, name: str, values: Iterable[int]) -> None:
        self._files[name].write(np.asarray(values, FILES[name]).tobytes())


def _encoded(text: str, group: Group) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise CorpusError(
            f"the group {group.id!r} holds a lone surrogate (character {error.start} of "
            f"{text[:40]!r}); expected text that UTF-8 can hold"
        ) from error


def _code(codes: dict[str, int], name: str, what: str) -> int:
    """The number of ``name``, a new one where it is new."""
    code = codes.setdefault(name, len(codes))
    if code >= _MOST_NAMES:
        raise CorpusError(
            f"found more than {_MOST_NAMES} different {what}; expected a few, such as "
            '"user" and "agent": map names of persons to what they are in the session'
        )
    return code
