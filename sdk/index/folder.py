"""The index's folder: ``index.json``, what it promises, and checking that the files keep it.

``index.json`` names the space and gives the size and SHA-256 of the files in the state
("generation") that was sealed last: when the index was built, and when a writer closed it. Opening
compares sizes and headers, so a large index opens at once; :func:`verify_index` reads everything.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pocketquery.sdk.errors import (
    ArtifactNotFoundError,
    CorruptArtifactError,
    UnsupportedVersionError,
)
from pocketquery.sdk.files import present_folder, write_atomic
from pocketquery.sdk.index.database import Database, get_meta
from pocketquery.sdk.index.segments import generation_of, row_count, verify_segments
from pocketquery.sdk.index.vectors import file_size

__all__ = [
    "DATABASE",
    "FileRecord",
    "IndexInfo",
    "check_sizes",
    "read_info",
    "seal",
    "space_record",
    "verify_index",
]

INFO = "index.json"
DATABASE = "documents.sqlite"
_FORMAT = "pocketquery-index"
_VERSION = 1
_PIECE = 1 << 20


@dataclass(frozen=True)
class FileRecord:
    """A file as it was sealed."""

    sha256: str
    bytes: int


@dataclass(frozen=True)
class IndexInfo:
    """What ``index.json`` says.

    Attributes:
        space_id: the vector space of the documents.
        dimension: of the vectors.
        generation: the state that was sealed.
        files: that state's files by name.
    """

    space_id: str
    dimension: int
    generation: int
    files: Mapping[str, FileRecord]


def read_info(folder: Path) -> IndexInfo:
    """Read ``index.json``.

    Raises:
        ArtifactNotFoundError: no such folder or file.
        CorruptArtifactError: not an index's.
        UnsupportedVersionError: of a newer version.
    """
    path = folder / INFO
    if not folder.is_dir():
        raise ArtifactNotFoundError(
            f"there is no index at {folder}; build one with: pocketquery index"
        )
    if not path.is_file():
        raise ArtifactNotFoundError(f"{path} is missing, so {folder} is not a complete index")
    try:
        return _parse(json.loads(path.read_bytes()), path)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptArtifactError(
            f"{path} is not an index's description ({type(error).__name__}: {error}); "
            "copy the index anew or build it again"
        ) from error


def _parse(fields: dict[str, Any], path: Path) -> IndexInfo:
    if fields["format"] != _FORMAT:
        raise CorruptArtifactError(
            f"{path} has the format {fields['format']!r}, expected {_FORMAT!r}; "
            "is it another artefact?"
        )
    if int(fields["format_version"]) > _VERSION:
        raise UnsupportedVersionError(
            f"{path} is of format version {fields['format_version']}, this release reads up to "
            f"{_VERSION}; upgrade pocketquery"
        )
    return IndexInfo(
        space_id=str(fields["space"]["id"]),
        dimension=int(fields["space"]["dimension"]),
        generation=int(fields["generation"]),
        files={
            name: FileRecord(str(record["sha256"]), int(record["bytes"]))
            for name, record in fields["files"].items()
        },
    )


def space_record(space_id: str, dimension: int) -> str:
    """What the database says of the space; an index that took this one's place may be of another.

    Stored under "space".
    """
    return f"{dimension} {space_id}"


def seal(folder: Path, database: Database) -> None:
    """Write ``index.json`` for the present state, with sizes and hashes."""
    with database.writing() as connection:  # holds other writers off while the files are read
        number, _, space_id = get_meta(connection, "space").partition(" ")
        dimension = int(number)
        vectors = get_meta(connection, "vectors")
        sizes = {
            DATABASE: (folder / DATABASE).stat().st_size,
            vectors: file_size(dimension, row_count(connection)),
        }
        fields = {
            "format": _FORMAT,
            "format_version": _VERSION,
            "space": {"id": space_id, "dimension": dimension},
            "generation": generation_of(connection),
            "files": {
                name: {"sha256": _sha256_of_first(folder / name, size), "bytes": size}
                for name, size in sizes.items()
            },
        }
        write_atomic(folder / INFO, json.dumps(fields, indent=2) + "\n")


def check_sizes(folder: Path, info: IndexInfo, connection: sqlite3.Connection) -> None:
    """Compare the files' sizes with those sealed, where the index is still in that state.

    Raises:
        ArtifactNotFoundError, CorruptArtifactError: name the file.
    """
    if generation_of(connection) == info.generation:
        for name, record in info.files.items():
            _check_size(folder / name, record)


def verify_index(path: Path | str) -> IndexInfo:
    """Read every byte of the index at ``path`` and compare it with what was recorded.

    The files' SHA-256 where the index is in the state that was sealed last; where a writer was
    killed after that, SQLite's own integrity check and the hash of every segment's vectors.

    Raises:
        ArtifactNotFoundError, CorruptArtifactError, UnsupportedVersionError: naming the file.
    """
    folder = present_folder(Path(path))
    read_info(folder)  # says best what is wrong with a folder that is none
    database = Database(folder / DATABASE)
    try:
        with database.reading() as connection:
            info = read_info(folder)  # from here on no other index takes this one's place
            if generation_of(connection) == info.generation:
                for name, record in info.files.items():
                    _check_hash(folder / name, record)
            _check_database(connection, folder / DATABASE)
            verify_segments(connection, folder, info.dimension)
    finally:
        database.close()
    return info


def _check_size(path: Path, record: FileRecord) -> None:
    if not path.is_file():
        raise ArtifactNotFoundError(f"{path} is missing; copy the index anew or build it again")
    # More is no damage: rows that a writer was adding when it was killed.
    if path.stat().st_size < record.bytes:
        raise CorruptArtifactError(
            f"{path} has {path.stat().st_size} bytes, expected {record.bytes}: it is truncated; "
            "copy the index anew or build it again"
        )


def _check_hash(path: Path, record: FileRecord) -> None:
    _check_size(path, record)
    found = _sha256_of_first(path, record.bytes)
    if found != record.sha256:
        raise CorruptArtifactError(
            f"{path} was changed after it was written: its SHA-256 is {found}, expected "
            f"{record.sha256}; copy the index anew or build it again"
        )


def _check_database(connection: sqlite3.Connection, path: Path) -> None:
    (answer,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if answer != "ok":
        raise CorruptArtifactError(f"{path} is damaged: {answer}; copy the index anew")


def _sha256_of_first(path: Path, size: int) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while size > 0 and (piece := file.read(min(size, _PIECE))):
            digest.update(piece)
            size -= len(piece)
    return digest.hexdigest()
