"""``index.json``: the space of an index, and size and hash of its files as they were sealed."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pocketquery.sdk.bundle.manifest import SIGNATURE_FILE
from pocketquery.sdk.errors import ArtifactNotFoundError, CorruptArtifactError
from pocketquery.sdk.fields import Fields
from pocketquery.sdk.files import write_atomic
from pocketquery.sdk.folders import FolderKind
from pocketquery.sdk.index.database import MOST_LANGUAGE, is_vectors_name
from pocketquery.sdk.index.delta_manifest import DELTA_FILE
from pocketquery.sdk.index.vector_file import MOST_DIMENSIONS
from pocketquery.sdk.plain_files import mode_for, plain_size
from pocketquery.sdk.validation import nearest

__all__ = [
    "DATABASE",
    "INDEX_FOLDER",
    "INFO",
    "MOST_INFO_BYTES",
    "SEALED",
    "WRITING",
    "FileRecord",
    "IndexInfo",
    "info_bytes",
    "parse_info",
    "read_info",
    "write_info",
]

INFO = "index.json"
DATABASE = "documents.sqlite"
_FORMAT = "pocketquery-index"
_VERSION = 2
_BUILD = "pocketquery index FOLDER --output INDEX"
INDEX_FOLDER = FolderKind(
    "an index",
    INFO,
    _FORMAT,
    (INFO, DATABASE, f"{DATABASE}-*", "vectors-*.u8", SIGNATURE_FILE, DELTA_FILE),
)
MOST_INFO_BYTES = 1 << 16  # of index.json, which has a few hundred
SEALED, WRITING = "sealed", "writing"
_SHA256 = re.compile("[0-9a-f]{64}")


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
        language: of the texts, which says how words are stemmed: "en", or "none".
        generation: the state that was sealed.
        files: that state's files by name.
        state: "sealed", or "writing" from the first change after it on.
        signature_key_id: of the key it says it is signed by; None where it is not signed.
    """

    space_id: str
    dimension: int
    language: str
    generation: int
    files: Mapping[str, FileRecord]
    state: str
    signature_key_id: str | None = None


def read_info(folder: Path) -> IndexInfo:
    """Read ``index.json``.

    Raises:
        ArtifactNotFoundError: no such folder or file.
        CorruptArtifactError: not an index's.
        UnsupportedVersionError: of another version.
    """
    path = folder / INFO
    if folder.is_file():
        raise ArtifactNotFoundError(
            f"{folder} is a file, and an index is a folder; name that, or build one with: {_BUILD}"
        )
    if not folder.is_dir():
        raise ArtifactNotFoundError(f"there is no index at {folder}{_what_is_there(folder)}")
    if not path.exists() and not (folder / DATABASE).exists():
        raise ArtifactNotFoundError(
            f"{folder} is no index, it has no {INFO}; name an index's folder, or build one with: "
            f"{_BUILD}"
        )
    if plain_size(path) > MOST_INFO_BYTES:
        raise CorruptArtifactError(
            f"{path} has more than {MOST_INFO_BYTES} bytes, expected a few hundred; copy the index "
            "anew or build it again"
        )
    return parse_info(path.read_bytes(), path)


def _what_is_there(folder: Path) -> str:
    """The most likely reason why an index is not where somebody looks for it, and what to do."""
    if folder.with_name(f".{folder.name}.building").is_dir():
        return ", but one is being built or was not finished; close its builder, or build it again"
    with contextlib.suppress(OSError):  # what is above is no folder, or may not be read
        others = [one.parent.name for one in folder.parent.glob(f"*/{INFO}")]
        if near := nearest(folder.name, others):
            return f"; did you mean {folder.with_name(near)}?"
    return f"; build one with: {_BUILD}"


def parse_info(data: bytes, path: Path) -> IndexInfo:
    """What ``data``, the bytes of ``index.json`` at ``path``, say. Raises as :func:`read_info`."""
    fields = Fields.of_json(data, str(path), most_bytes=MOST_INFO_BYTES)
    rebuild = f"build it again: pocketquery index --documents FOLDER --output {path.parent}"
    fields.check_format(_FORMAT, _VERSION, _VERSION, rebuild)
    space, records = fields.child("space"), fields.child("files")
    files = {}
    for name in records:
        record = records.child(name)
        files[name] = FileRecord(record.text("sha256"), record.integer("bytes"))
    info = IndexInfo(
        space_id=space.text("id"),
        dimension=space.integer("dimension"),
        language=fields.text("language", MOST_LANGUAGE),
        generation=fields.integer("generation"),
        files=files,
        state=fields.choice("state", (SEALED, WRITING)),
        signature_key_id=fields.text_or_none("signature_key_id"),
    )
    vectors = [name for name in files if name != DATABASE]
    if (
        not 1 <= info.dimension <= MOST_DIMENSIONS
        or info.generation < 0
        or len(files) != 2
        or len(vectors) != 1
        or not is_vectors_name(vectors[0])
        or not all(_SHA256.fullmatch(one.sha256) and one.bytes >= 0 for one in files.values())
    ):
        raise CorruptArtifactError(
            f"{path} has values that no index has; expected a dimension from 1 to "
            f"{MOST_DIMENSIONS}, a generation from 0, and size and SHA-256 of {DATABASE} and one "
            "vector file (vectors-0.u8). Copy the index anew or build it again"
        )
    return info


def write_info(folder: Path, info: IndexInfo) -> None:
    """Write ``index.json`` in one step."""
    write_atomic(folder / INFO, info_bytes(info), mode=mode_for(folder / INFO))


def info_bytes(info: IndexInfo) -> bytes:
    """The bytes of ``index.json``."""
    signer = {} if info.signature_key_id is None else {"signature_key_id": info.signature_key_id}
    fields = {
        "format": _FORMAT,
        "format_version": _VERSION,
        "state": info.state,
        "space": {"id": info.space_id, "dimension": info.dimension},
        "language": info.language,
        "generation": info.generation,
        "files": {
            name: {"sha256": record.sha256, "bytes": record.bytes}
            for name, record in info.files.items()
        },
        **signer,
    }
    return (json.dumps(fields, indent=2) + "\n").encode("utf-8")
