"""The vectors of an index for servers that search by vectors: Parquet and FAISS files.

The space goes along, so the query encoder of a device finds there what it finds in the index. What
is written are the vectors that the index stores (8 bits, widened to float32), with ids and
metadata; texts are not.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from pocketquery.sdk.bundle.signature import Key
from pocketquery.sdk.errors import InvalidInputError, MissingExtraError
from pocketquery.sdk.files import sha256_file
from pocketquery.sdk.folders import FolderKind, check_replaceable, replace_folder
from pocketquery.sdk.index.documents import metadata_text
from pocketquery.sdk.plain_files import is_private
from pocketquery.sdk.slices.source import IndexState, read_source
from pocketquery_stores.sync import FOLDER

__all__ = ["INFO", "VectorFormat", "VectorsReport", "export_vectors"]

INFO = "vectors.json"
VectorFormat: TypeAlias = Literal["parquet", "faiss"]
_FORMAT = "pocketquery-vectors"
_FOLDER = FolderKind(
    "vectors of an index",
    INFO,
    _FORMAT,
    (INFO, "vectors.parquet", "vectors.faiss", "documents.jsonl"),
)
_VERSION = 1
_AT_A_TIME = 8192  # documents; a row group of Parquet


@dataclass(frozen=True)
class VectorsReport:
    """What was written.

    Attributes:
        path: the folder.
        format: "parquet" or "faiss".
        documents: whose vectors are in it.
        space_id: of the vectors.
        dimension: of the vectors.
        bytes: of all files.
    """

    path: str
    format: VectorFormat
    documents: int
    space_id: str
    dimension: int
    bytes: int


def export_vectors(
    index: Path | str,
    output: Path | str,
    *,
    format: VectorFormat = "parquet",
    public_key: Key | None = None,
) -> VectorsReport:
    """Write the vectors, ids and metadata of ``index`` to the folder ``output`` (the
    package's extras "parquet" and "faiss").

    Documents that say too little have no vector, and are left out.

    ``vectors.json`` says format, space and the SHA-256 of the other files. They are, for "parquet",
    ``vectors.parquet``: the columns ``id`` (text), ``metadata`` (JSON as a text) and ``vector``
    (float32, a list of fixed size), with ``pocketquery.space_id`` in the file's metadata; for
    "faiss", ``vectors.faiss``, an ``IndexFlatIP`` whose numbers count the lines of
    ``documents.jsonl``, from 0: ``{"id": ..., "metadata": ...}``.

    Args:
        index: the index's folder; it is read whole.
        output: the folder; vectors that are there are replaced when the new ones are complete.
        format: of the file.
        public_key: the index must be signed by its private half.

    Raises:
        InvalidInputError: another format, or ``output`` holds something else.
        MissingExtraError: the format's package is not installed.
        ArtifactNotFoundError, CorruptArtifactError, UnsupportedVersionError, SignatureError: the
            index cannot be used.
    """
    if format not in get_args(VectorFormat):
        raise InvalidInputError(f"the format is {format!r}, expected parquet or faiss")
    check_replaceable(Path(output), _FOLDER)
    write = _writer(format)
    private = is_private(index)
    with (
        read_source(index, public_key) as source,
        replace_folder(output, private=private) as folder,
    ):
        write(source, folder)
        info, count = source.info, len(source.placed())
        fields = {
            "format": _FORMAT,
            "format_version": _VERSION,
            "space": {"id": info.space_id, "dimension": info.dimension},
            "documents": count,
            "files": {
                file.name: {"sha256": sha256_file(file), "bytes": file.stat().st_size}
                for file in sorted(folder.iterdir())
            },
        }
        (folder / INFO).write_text(json.dumps(fields, indent=2) + "\n", encoding="utf-8")
        return VectorsReport(
            path=str(output),
            format=format,
            documents=count,
            space_id=info.space_id,
            dimension=info.dimension,
            bytes=sum(file.stat().st_size for file in folder.iterdir()),
        )


def _writer(format: VectorFormat) -> Callable[[IndexState, Path], None]:
    """What writes the format; its package is imported now, before the index is read."""
    try:
        if format == "parquet":
            import pyarrow
            import pyarrow.parquet

            return lambda source, folder: _write_parquet(source, folder, pyarrow)
        import faiss
    except ModuleNotFoundError as error:
        package = "pyarrow" if format == "parquet" else "faiss-cpu"
        raise MissingExtraError.of(package, f"{FOLDER}[{format}]") from error
    return lambda source, folder: _write_faiss(source, folder, faiss)


def _write_parquet(source: IndexState, folder: Path, arrow: Any) -> None:
    info = source.info
    columns = [
        ("id", arrow.string()),
        ("metadata", arrow.string()),
        ("vector", arrow.list_(arrow.float32(), info.dimension)),
    ]
    schema = arrow.schema(
        [arrow.field(name, kind, nullable=False) for name, kind in columns],
        {"pocketquery.space_id": info.space_id, "pocketquery.dimension": str(info.dimension)},
    )
    with arrow.parquet.ParquetWriter(folder / "vectors.parquet", schema) as writer:
        for _, documents, vectors in source.with_vectors(source.placed(), _AT_A_TIME):
            flat = np.ascontiguousarray(vectors, np.float32).reshape(-1)
            values = [
                arrow.array([one.id for one in documents], arrow.string()),
                arrow.array([metadata_text(one) for one in documents], arrow.string()),
                arrow.FixedSizeListArray.from_arrays(flat, info.dimension),
            ]
            writer.write_batch(arrow.record_batch(values, schema=schema))


def _write_faiss(source: IndexState, folder: Path, faiss: ModuleType) -> None:
    flat = faiss.IndexFlatIP(source.info.dimension)
    with (folder / "documents.jsonl").open("w", encoding="utf-8") as lines:
        for _, documents, vectors in source.with_vectors(source.placed(), _AT_A_TIME):
            flat.add(np.ascontiguousarray(vectors))
            for one in documents:
                fields = {"id": one.id, "metadata": dict(one.metadata)}
                lines.write(json.dumps(fields, ensure_ascii=False) + "\n")
    faiss.write_index(flat, str(folder / "vectors.faiss"))
