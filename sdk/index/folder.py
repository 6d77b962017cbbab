"""The index's folder: ``index.json``, what it promises, and checking that the files keep it.

``index.json`` names the space and gives the size and SHA-256 of the files in the state
("generation") that was sealed last: when the index was built, and when a writer closed it. Opening
compares sizes and headers, so a large index opens at once; :func:`verify_index` reads everything.

Sealing calls what is there good, so it must not be reached with damage. A writer of a sealed index
compares the hashes first and then marks it as being written (:func:`begin_writing`). An index with
such a mark, left by a writer that was killed, is read whole before more is written. Without the
mark no other generation than the sealed one is right.

A publisher may sign the sealed state, see :mod:`pocketquery.sdk.index.signature`.
"""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

from pocketquery.sdk.bundle.manifest import SIGNATURE_FILE
from pocketquery.sdk.bundle.signature import Key, key_id, public_key_of, sign
from pocketquery.sdk.errors import CorruptArtifactError
from pocketquery.sdk.files import write_atomic
from pocketquery.sdk.folders import present_folder
from pocketquery.sdk.index.database import (
    Connection,
    Database,
    check_structure,
    generation_of,
    get_meta,
    next_generation,
    set_meta,
    vectors_name,
)
from pocketquery.sdk.index.info import (
    DATABASE,
    INFO,
    SEALED,
    WRITING,
    FileRecord,
    IndexInfo,
    info_bytes,
    read_info,
    write_info,
)
from pocketquery.sdk.index.segments import SCHEMA, row_count, verify_segments
from pocketquery.sdk.index.untrusted_file import sha256_of_first
from pocketquery.sdk.index.vector_file import file_size
from pocketquery.sdk.plain_files import check_own_file, plain_size
from pocketquery.sdk.words import AUTO

__all__ = [
    "begin_compacting",
    "begin_writing",
    "check_contents",
    "check_hashes",
    "check_sizes",
    "check_whole",
    "end_compacting",
    "seal",
    "space_record",
    "verify_index",
]

_COMPACTING = "compacting"  # in the database's meta: "1" until its file was rewritten


def space_record(space_id: str, dimension: int) -> str:
    """What the database says of the space; an index that took this one's place may be of another.

    Stored under "space".
    """
    return f"{dimension} {space_id}"


def seal(
    folder: Path,
    database: Database,
    written: tuple[int, int] | None = None,
    signing_key: Key | None = None,
    signed_by: str | None = None,
) -> None:
    """Write ``index.json`` for the present state, with sizes and hashes.

    Args:
        folder: the index's.
        database: writable.
        written: the database file that was begun to be written. Nothing is sealed where another
            file has taken its place, another writer has sealed what both wrote, or one is about to
            rewrite it.
        signing_key: an Ed25519 private key to sign the state with.
        signed_by: the id of the key that signed the delta the state came from, without a key.
    """
    with database.writing() as connection:  # holds other writers off while the files are read
        if written is not None and (
            connection.file != written
            or read_info(folder).state == SEALED
            or get_meta(connection, _COMPACTING, "")
        ):
            return
        number, _, space_id = get_meta(connection, "space").partition(" ")
        dimension = int(number)
        vectors = vectors_name(connection)
        sizes = {
            DATABASE: plain_size(folder / DATABASE),
            vectors: file_size(dimension, row_count(connection)),
        }
        files = {
            name: FileRecord(sha256_of_first(folder / name, size), size)
            for name, size in sizes.items()
        }
        generation = generation_of(connection)
        signer = signed_by if signing_key is None else key_id(public_key_of(signing_key))
        language = get_meta(connection, "language")
        info = IndexInfo(space_id, dimension, language, generation, files, SEALED, signer)
        if signing_key is not None:
            write_atomic(folder / SIGNATURE_FILE, sign(info_bytes(info), signing_key))
        write_info(folder, info)


def check_sizes(folder: Path, info: IndexInfo, connection: sqlite3.Connection) -> None:
    """Compare the files' sizes with those sealed, where the index is still in that state.

    Raises:
        ArtifactNotFoundError, CorruptArtifactError: name the file, or what cannot have come after
            the state that was sealed.
    """
    if _is_as_sealed(folder, info, connection):
        for name, record in info.files.items():
            _check_size(folder / name, record)


def check_hashes(folder: Path, info: IndexInfo) -> None:
    """Read the files and compare them with what was sealed.

    Raises:
        ArtifactNotFoundError, CorruptArtifactError: name the file.
    """
    for name, record in info.files.items():
        _check_hash(folder / name, record)


def begin_writing(folder: Path, connection: Connection, checked: tuple[int, int] | None) -> None:
    """Before a change: what is there must be what was written, for it will be sealed again.

    Args:
        folder: the index's.
        connection: in the transaction that is to change it.
        checked: the database file this was called on before, if it was.

    Raises:
        ArtifactNotFoundError, CorruptArtifactError: name the file.
        ArtifactError: one of the files is a link.
    """
    info = read_info(folder)
    check_own_file(folder / DATABASE)
    check_own_file(folder / vectors_name(connection))
    as_sealed = _is_as_sealed(folder, info, connection)
    if info.state == WRITING and checked == connection.file:
        return
    if as_sealed:
        check_hashes(folder, info)
    else:
        check_contents(connection, folder, info.dimension)
    if get_meta(connection, _COMPACTING, ""):  # whoever did was killed
        set_meta(connection, _COMPACTING, "")
    if info.state != WRITING:
        write_info(folder, replace(info, state=WRITING, signature_key_id=None))


def begin_compacting(connection: Connection) -> None:
    """From here on nobody seals: the file will be rewritten, which is no change of its state."""
    set_meta(connection, _COMPACTING, "1")


def end_compacting(folder: Path, connection: Connection) -> None:
    """The file was rewritten; a seal set meanwhile, after another writer came, is taken back."""
    set_meta(connection, _COMPACTING, "")
    info = read_info(folder)
    if info.state != WRITING:
        next_generation(connection)
        write_info(folder, replace(info, state=WRITING, signature_key_id=None))


def check_contents(connection: sqlite3.Connection, folder: Path, dimension: int) -> None:
    """Read everything and hold the parts against each other; no recorded hash of a file is needed.

    Raises:
        ArtifactNotFoundError, CorruptArtifactError: name the file.
    """
    check_structure(connection, folder / DATABASE)
    verify_segments(connection, folder, dimension)


def verify_index(path: Path | str) -> IndexInfo:
    """Read every byte of the index at ``path`` and compare it with what was recorded.

    The files' SHA-256 where the index is in the state that was sealed last. In any case SQLite's
    own integrity check, the hash of every segment's vectors, and documents against postings.

    Raises:
        ArtifactNotFoundError, CorruptArtifactError, UnsupportedVersionError: naming the file.
    """
    folder = present_folder(Path(path))
    read_info(folder)  # says best what is wrong with a folder that is none
    database = Database(folder / DATABASE, schema=SCHEMA)
    try:
        with database.reading() as connection:
            return check_whole(connection, folder)
    finally:
        database.close()


def check_whole(connection: sqlite3.Connection, folder: Path) -> IndexInfo:
    """Read every byte of the state that ``connection`` sees, as :func:`verify_index`.

    Raises:
        ArtifactNotFoundError, CorruptArtifactError: name the file.
    """
    info = read_info(folder)  # from here on no other index takes this one's place
    if _is_as_sealed(folder, info, connection):
        check_hashes(folder, info)
    check_contents(connection, folder, info.dimension)
    return info


def _is_as_sealed(folder: Path, info: IndexInfo, connection: sqlite3.Connection) -> bool:
    """Whether the index is in the state that was sealed, and not in a later one."""
    generation, vectors = generation_of(connection), vectors_name(connection)
    language, is_later = get_meta(connection, "language"), generation > info.generation
    if language != info.language and not (info.language == AUTO and is_later):
        raise CorruptArtifactError(
            f"{folder / DATABASE} is in the language {language[:40]!r}, {INFO} says "
            f"{info.language!r}; expected the same. Files of two indexes were mixed, copy it anew"
        )
    if generation == info.generation:
        if vectors not in info.files:
            raise CorruptArtifactError(
                f"{folder / DATABASE} names the vectors {vectors!r}, {INFO} others; expected the "
                "same. Files of two indexes were mixed, copy it anew"
            )
        return True
    if generation < info.generation or info.state == SEALED:
        raise CorruptArtifactError(
            f"{folder / DATABASE} is at generation {generation}, but {INFO} was sealed at "
            f"{info.generation} and not written since; files of two states were mixed, copy the "
            "index anew or build it again"
        )
    return False


def _check_size(path: Path, record: FileRecord) -> None:
    # More is no damage: rows that a writer was adding when it was killed.
    if (size := plain_size(path)) < record.bytes:
        raise CorruptArtifactError(
            f"{path} has {size} bytes, expected {record.bytes}: it is truncated; "
            "copy the index anew or build it again"
        )


def _check_hash(path: Path, record: FileRecord) -> None:
    _check_size(path, record)
    sha256 = sha256_of_first(path, record.bytes)
    if sha256 != record.sha256:
        raise CorruptArtifactError(
            f"{path} was changed after it was written: its SHA-256 is {sha256}, expected "
            f"{record.sha256}; copy the index anew or build it again"
        )
