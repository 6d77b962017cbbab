"""Documents with their vectors as Parquet: the columns, and batches of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pocketquery.sdk.errors import CorruptArtifactError, MissingExtraError
from pocketquery.sdk.index.documents import Document, metadata_text

__all__ = ["VectorTable", "read_vector_table"]

_SPACE = b"pocketquery.space_id"


class VectorTable:
    """The columns of a table: ``id``, ``text``, ``metadata`` (JSON as a text) and ``vector``
    (float32, a list of fixed size); the space in the file's metadata.

    Args:
        space_id: of the vectors.
        dimension: of the vectors.

    Raises:
        MissingExtraError: pyarrow is not installed.
    """

    def __init__(self, space_id: str, dimension: int) -> None:
        try:
            import pyarrow
            import pyarrow.parquet
        except ModuleNotFoundError as error:
            raise MissingExtraError.of("pyarrow", "shards") from error
        self._arrow: Any = pyarrow
        self._dimension = dimension
        columns = [
            ("id", pyarrow.string()),
            ("text", pyarrow.string()),
            ("metadata", pyarrow.string()),
            ("vector", pyarrow.list_(pyarrow.float32(), dimension)),
        ]
        self._schema = pyarrow.schema(
            [pyarrow.field(name, kind, nullable=False) for name, kind in columns],
            metadata={"pocketquery.space_id": space_id, "pocketquery.dimension": str(dimension)},
        )

    def writer(self, path: Path) -> Any:
        """pyarrow's writer of the file; ``write_batch`` it what :meth:`batch` makes."""
        return self._arrow.parquet.ParquetWriter(path, self._schema)

    def batch(self, documents: Sequence[Document], vectors: NDArray[Any]) -> Any:
        """A row group of documents with float vectors (n, dimension)."""
        arrow = self._arrow
        flat = np.ascontiguousarray(vectors, np.float32).reshape(-1)
        columns = [arrow.array([one.id for one in documents], arrow.string())]
        columns.append(arrow.array([one.text for one in documents], arrow.string()))
        columns.append(arrow.array([metadata_text(one) for one in documents], arrow.string()))
        columns.append(arrow.FixedSizeListArray.from_arrays(flat, self._dimension))
        return arrow.record_batch(columns, schema=self._schema)


def read_vector_table(
    path: Path, space_id: str, rows: int
) -> Iterator[tuple[list[Document], NDArray[np.float32]]]:
    """Yield documents and vectors of a table, ``rows`` at a time.

    Raises:
        CorruptArtifactError: it is none, or of another space.
        MissingExtraError: pyarrow is not installed.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise MissingExtraError.of("pyarrow", "shards") from error
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            stored_id = (file.schema_arrow.metadata or {}).get(_SPACE, b"").decode()
            if stored_id != space_id:
                raise ValueError(f"its space is {stored_id!r}")
            for batch in file.iter_batches(rows):
                ids, texts, metadata = (
                    batch[name].to_pylist() for name in ("id", "text", "metadata")
                )
                vectors = batch["vector"].flatten().to_numpy(zero_copy_only=False)
                entries = zip(ids, texts, map(json.loads, metadata), strict=True)
                yield [Document(*row) for row in entries], vectors.reshape(len(ids), -1)
    except (pyarrow.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
        raise CorruptArtifactError(
            f"{path} is not a part of an encoded corpus in space {space_id} ({error}); encode it "
            "again"
        ) from error
