"""Groups of texts on disk, memory-mapped: a corpus larger than memory reads like one in it.

A store is a folder; :mod:`pocketquery.server.corpus.store_writer` writes it::

    store.json          format, kind, counts, languages, roles, fingerprint, the files' sizes
    texts.bin           the texts' UTF-8 bytes, one after another
    text_ends.i64       where each text ends in texts.bin
    group_ends.i64      where each group ends among the texts
    ids.bin, id_ends.i64          the groups' ids, kept like the texts
    languages.i16       of each group, an index into the languages
    titles.u8           1 where a group's first text is its title
    roles.i16           of each text, an index into the roles; -1 in groups without roles

Numbers are little-endian.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from pocketquery.sdk.errors import (
    ArtifactNotFoundError,
    CorruptArtifactError,
    UnsupportedVersionError,
)
from pocketquery.sdk.folders import FolderKind, present_folder
from pocketquery.server.corpus.groups import Group, Kind

__all__ = ["FORMAT", "MANIFEST", "STORE_FOLDER", "VERSION", "TextStore"]

FORMAT = "pocketquery text store"
VERSION = 1
MANIFEST = "store.json"

FILES: Mapping[str, np.dtype[Any]] = {
    "texts.bin": np.dtype("u1"),
    "text_ends.i64": np.dtype("<i8"),
    "group_ends.i64": np.dtype("<i8"),
    "ids.bin": np.dtype("u1"),
    "id_ends.i64": np.dtype("<i8"),
    "languages.i16": np.dtype("<i2"),
    "titles.u8": np.dtype("u1"),
    "roles.i16": np.dtype("<i2"),
}
STORE_FOLDER = FolderKind("a text store", MANIFEST, FORMAT, (MANIFEST, *FILES))


class TextStore:
    """A :class:`pocketquery.server.corpus.groups.Source` on disk.

    Nothing is read into memory but what is asked for. Pickling (for worker processes) carries the
    path alone.

    Args:
        path: the folder, as ``write_text_store`` left it.

    Raises:
        ArtifactNotFoundError: there is no store.
        CorruptArtifactError: a file is missing, or not of the size it was written with.
        UnsupportedVersionError: a newer version wrote it.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        folder = present_folder(self.path)
        manifest = _read_manifest(folder)
        self.kind: Kind = manifest["kind"]
        self.fingerprint: str = manifest["fingerprint"]
        self.languages: tuple[str, ...] = tuple(sorted(manifest["languages"]))
        self._language_names: list[str] = manifest["languages"]  # in the order of their codes
        self._role_names: list[str] = manifest["roles"]
        arrays = {name: _mapped(folder, name, manifest["files"]) for name in FILES}
        self._texts, self._text_ends = arrays["texts.bin"], arrays["text_ends.i64"]
        self._ids, self._id_ends = arrays["ids.bin"], arrays["id_ends.i64"]
        self._group_ends = arrays["group_ends.i64"]
        self._languages, self._titles = arrays["languages.i16"], arrays["titles.u8"]
        self._roles = arrays["roles.i16"]

    @classmethod
    def open(cls, path: Path | str) -> TextStore:
        """The store at ``path``; raises as the class does."""
        return cls(path)

    def __reduce__(self) -> tuple[Any, ...]:
        return TextStore, (self.path,)

    def __len__(self) -> int:
        return len(self._group_ends)

    def __getitem__(self, row: int) -> Group:
        row = range(len(self))[row]  # negative rows, and the error for one that is not there
        first, last = _start(self._group_ends, row), int(self._group_ends[row])
        return Group(
            id=self._ids[_start(self._id_ends, row) : self._id_ends[row]].tobytes().decode(),
            texts=self._group_texts(first, last),
            roles=self._group_roles(first, last),
            lang=self._language_names[self._languages[row]],
            title=bool(self._titles[row]),
        )

    def counts(self) -> NDArray[np.int32]:
        """Texts of every group, int32 (groups,)."""
        return np.diff(self._group_ends, prepend=np.int64(0)).astype(np.int32)

    def lengths(self) -> NDArray[np.int64]:
        """UTF-8 bytes of every group's texts together, int64 (groups,)."""
        groups = np.concatenate([np.zeros(1, np.int64), self._group_ends])  # (groups + 1,)
        bytes_before = np.zeros(len(groups), np.int64)
        bytes_before[groups > 0] = self._text_ends[groups[groups > 0] - 1]
        return np.diff(bytes_before)

    def text_lengths(self) -> NDArray[np.int64]:
        """UTF-8 bytes of every text, group by group, int64 (texts,)."""
        return np.diff(self._text_ends, prepend=np.int64(0))

    def language_codes(self) -> NDArray[np.int16]:
        """Index into ``languages`` of every group, int16 (groups,)."""
        names = self._language_names
        ranks = np.array([self.languages.index(name) for name in names], dtype=np.int16)
        codes: NDArray[np.int16] = ranks[self._languages]
        return codes

    def _group_texts(self, first: int, last: int) -> tuple[str, ...]:
        """The texts of one group from one read."""
        start = _start(self._text_ends, first)
        ends = (self._text_ends[first:last] - start).tolist()
        data = self._texts[start : start + (ends[-1] if ends else 0)].tobytes()
        return tuple(data[a:b].decode() for a, b in pairwise([0, *ends]))

    def _group_roles(self, first: int, last: int) -> tuple[str, ...]:
        codes = self._roles[first:last].tolist()
        return tuple(self._role_names[code] for code in codes if code >= 0)


def _start(ends: NDArray[np.int64], row: int) -> int:
    return int(ends[row - 1]) if row else 0


def _read_manifest(folder: Path) -> dict[str, Any]:
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ArtifactNotFoundError(
            f"{folder}: no {MANIFEST}; expected a text store, as pocketquery mine writes it"
        ) from error
    except ValueError as error:
        raise CorruptArtifactError(f"{folder / MANIFEST} is not JSON ({error})") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise CorruptArtifactError(f"{folder / MANIFEST} does not describe a {FORMAT}")
    if manifest["version"] != VERSION:
        raise UnsupportedVersionError(
            f"{folder}: text store version {manifest['version']}, this release reads {VERSION}; "
            "write the store again, or install a newer release"
        )
    if manifest["kind"] not in get_args(Kind):
        raise CorruptArtifactError(
            f"{folder}: kind {manifest['kind']!r}; expected one of {get_args(Kind)}"
        )
    return manifest


def _mapped(folder: Path, name: str, sizes: Mapping[str, int]) -> NDArray[Any]:
    """The file's array, mapped and read-only."""
    path, dtype = folder / name, FILES[name]
    size = path.stat().st_size if path.is_file() else None
    if size != sizes.get(name) or size is None or size % dtype.itemsize:
        raise CorruptArtifactError(
            f"{path}: found {'nothing' if size is None else f'{size} bytes'}, expected "
            f"{sizes.get(name)}; write the store again"
        )
    if not size:
        return np.empty(0, dtype)  # an empty file cannot be mapped
    return np.asarray(np.memmap(path, dtype, mode="r"))  # plain: memmap's own slicing is slow
