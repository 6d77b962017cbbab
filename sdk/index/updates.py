"""Bringing an index up to date: what is new is added, what differs replaced, the rest left alone.

A document whose title and text are those of one that is replaced or removed takes over its vector,
so that a file that moved is not encoded again. An index of a folder remembers the folder and how it
was read (:class:`IndexSource`), and the files' states (:class:`FileState`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pocketquery.sdk.arrays import NDArray
from pocketquery.sdk.errors import CorruptArtifactError
from pocketquery.sdk.index.database import Connection, damaged, get_meta, set_meta
from pocketquery.sdk.index.documents import (
    Document,
    content,
    delete_documents,
    documents_of_rows,
    find_rows,
    metadata_text,
)
from pocketquery.sdk.index.segments import Snapshot, append_segments
from pocketquery.sdk.index.vector_file import SCALE_BYTES, Codes, quantize
from pocketquery.sdk.index.vectors import unit_rows
from pocketquery.sdk.settings.declaration import as_json, from_json

if TYPE_CHECKING:
    from pocketquery.sdk.index.index import Index

__all__ = [
    "Changes",
    "FileState",
    "IndexSource",
    "change_index",
    "read_files",
    "read_source",
    "record_files",
    "record_source",
]

_SOURCE = "source"  # in the database's meta


@dataclass(frozen=True)
class Changes:
    """What an update did, in documents of the index: of a folder in passages.

    Attributes:
        added: that were not there.
        replaced: with another text or other metadata.
        removed: that are no longer there.
        unchanged: of those given.
        encoded: of those added or replaced; the others took over a vector.
    """

    added: int = 0
    replaced: int = 0
    removed: int = 0
    unchanged: int = 0
    encoded: int = 0


def change_index(
    index: Index,
    documents: Sequence[Document],
    encode: Callable[[list[Document]], NDArray[Any]],
    codes: Codes | None = None,
    *,
    remove: Iterable[str] = (),
    record: Callable[[Connection], object] | None = None,
) -> Changes:
    """Add documents to an index or replace those with their ids, and remove others, in one step.

    Args:
        index: writable.
        documents: checked ones, as they are to be.
        encode: makes vectors of some documents, float (n, dimension).
        codes: the vectors of all, as the vector file has them, where they are made already.
        remove: ids of documents that are to go; unknown ones are passed over.
        record: called in the transaction that changes the index; with it there always is one.
    """
    with index.reading() as (connection, snapshot):
        plan = _plan(connection, snapshot, documents, remove, codes)
    if plan.missing.any():
        chosen = zip(plan.documents, plan.missing, strict=True)
        vectors = encode([document for document, missing in chosen if missing])
        plan.codes[plan.missing] = quantize(unit_rows(vectors, index.dimension, "vectors"))
    if plan.documents or plan.stale or record:
        with index.writing() as connection:
            delete_documents(connection, plan.stale)
            append_segments(connection, index.path, plan.documents, plan.codes)
            if record:
                record(connection)
    return plan.changes


class _Plan(NamedTuple):
    """What is to be written.

    Attributes:
        documents: new or different ones.
        stale: ids of documents that are replaced or removed.
        codes: as the vector file has them, uint8 (n, dimension + 4); undefined where ``missing``.
        missing: bool (n,), which of ``documents`` must be encoded.
        changes: the counts.
    """

    documents: list[Document]
    stale: list[str]
    codes: Codes
    missing: NDArray[np.bool_]
    changes: Changes


def _plan(
    connection: Connection,
    snapshot: Snapshot,
    documents: Sequence[Document],
    remove: Iterable[str],
    codes: Codes | None,
) -> _Plan:
    """Compare documents with what the index has."""
    given = [document.id for document in documents]
    rows = find_rows(connection, dict.fromkeys([*given, *remove]))
    stored = documents_of_rows(connection, sorted(rows.values()))
    present = {identifier: stored[row] for identifier, row in rows.items()}
    raw = {identifier: snapshot.vectors.raw(np.array([row]))[0] for identifier, row in rows.items()}
    changed = [
        position
        for position, document in enumerate(documents)
        if (old := present.get(document.id)) is None
        or (old.text, metadata_text(old)) != (document.text, metadata_text(document))
        or (codes is not None and (raw[old.id] != codes[position]).any())
    ]
    written = [documents[position] for position in changed]
    unchanged = set(given) - {document.id for document in written}
    missing = np.zeros(len(written), bool)
    if codes is None:
        by_content = {content(document): raw[document.id] for document in present.values()}
        codes = np.zeros((len(written), snapshot.vectors.dimension + SCALE_BYTES), np.uint8)
        for position, document in enumerate(written):
            code = by_content.get(content(document))
            missing[position] = code is None
            codes[position] = 0 if code is None else code
    else:
        codes = codes[changed]
    stale = [identifier for identifier in present if identifier not in unchanged]
    replaced = sum(document.id in present for document in written)
    changes = Changes(
        added=len(written) - replaced,
        replaced=replaced,
        removed=len(stale) - replaced,
        unchanged=len(unchanged),
        encoded=int(missing.sum()),
    )
    return _Plan(written, stale, codes, missing, changes)


@dataclass(frozen=True)
class IndexSource:
    """What an index is made of, and how: what an update needs.

    Attributes:
        folder: of the files, absolute.
        include: patterns of the files to read; none: all that can be read.
        exclude: patterns of files and folders to leave out.
        encoder: the digest of what encoded them.
        teacher: the model that encoded them, where it was not a bundle.
        bundle: the bundle that did, where it was not the default one.
        reading: the version of the rules by which files become passages.
    """

    folder: str
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    encoder: str = ""
    teacher: str | None = None
    bundle: str | None = None
    reading: int = 1

    @property
    def root(self) -> Path | None:
        """The folder that the paths of passages begin at: of one file its own; None where it is
        not on this machine."""
        place = Path(self.folder)
        root = place.parent if place.is_file() else place
        return root if root.is_dir() else None


class FileState(NamedTuple):
    """A file as it was read.

    Attributes:
        size: in bytes.
        mtime_ns: when it was last written, nanoseconds since 1970; 0: too soon before it was read
            to tell a later change by it.
        sha256: of its bytes, hexadecimal.
        ids: of its passages; none where it has no text.
    """

    size: int
    mtime_ns: int
    sha256: str
    ids: tuple[str, ...]


def read_source(connection: Connection) -> IndexSource | None:
    """What the index was made of; None where it was not made of a folder.

    Raises:
        CorruptArtifactError: what stands there is none.
    """
    text = get_meta(connection, _SOURCE, "")
    if not text:
        return None
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise damaged(f"a source that cannot be read ({error})", "JSON") from error
    return from_json(IndexSource, values, "the index's source", CorruptArtifactError)


def record_source(connection: Connection, source: IndexSource | None) -> None:
    """Remember what the index was made of, and no files yet."""
    if get_meta(connection, _SOURCE, ""):
        connection.execute("DELETE FROM files")
        connection.execute("DELETE FROM meta WHERE key = ?", (_SOURCE,))
    if source is not None:
        set_meta(connection, _SOURCE, json.dumps(as_json(source), ensure_ascii=False))


def read_files(connection: Connection) -> dict[str, FileState]:
    """The files the index was made of, by their path in the folder.

    Raises:
        CorruptArtifactError: something else is among them.
    """
    files = {}
    for path, size, mtime_ns, sha256, text in connection.execute(
        "SELECT path, size, mtime_ns, sha256, ids FROM files"
    ):
        try:
            ids = json.loads(text)
        except (TypeError, ValueError, RecursionError):
            ids = None
        if not (
            isinstance(ids, list)
            and all(isinstance(one, str) for one in (path, sha256, *ids))
            and isinstance(size, int)
            and isinstance(mtime_ns, int)
        ):
            raise damaged(f"a state of the file {str(path)[:80]!r} that is none", "what it was")
        files[path] = FileState(size, mtime_ns, sha256, tuple(ids))
    return files


def record_files(
    connection: Connection, files: Mapping[str, FileState], gone: Iterable[str] = ()
) -> None:
    """Remember the states of ``files``, by path, and forget those that are ``gone``."""
    connection.executemany("DELETE FROM files WHERE path = ?", [(path,) for path in gone])
    connection.executemany(
        "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?)",
        [
            (path, *state[:3], json.dumps(state.ids, ensure_ascii=False))
            for path, state in files.items()
        ],
    )
