"""A file of texts and vectors as a teacher: Parquet or npz, from an API, say.

Parquet has the columns ``text`` and ``vector`` (lists of floats of one length), npz the arrays
``text`` (strings) and ``vector`` (n, dimension). A third, ``role``, says ``query`` or ``document``
for each row; without it every text is both. ``space_id``, in Parquet's metadata (where
``encode-corpus`` writes it) or as an array of npz, names the space; without it the rows do.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pocketquery.distill.teachers import VectorTeacher, directions
from pocketquery.sdk.arrays import Floats
from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError, MissingExtraError
from pocketquery.server.corpus.readers.parquet import is_parquet
from pocketquery.server.modeling.vector_cache import texts_sha256

__all__ = ["SUFFIXES", "FileTeacher"]

SUFFIXES = (".npz", ".parquet")
"""How the name of such a file ends, if it is to be named where it is missing."""

_NAMES = {"text": ("text", "texts"), "vector": ("vector", "vectors", "embedding", "embeddings")}
_ROLES = ("query", "document")
_LEAST_COSINE = 1 - 1e-3  # of vectors that one text has twice: services round
_SPACE = "pocketquery.space_id"


@dataclass(frozen=True)
class _Table:
    """The columns as they are in the file."""

    texts: list[Any]
    vectors: Any
    roles: list[Any] | None
    space_id: str | None


class FileTeacher(VectorTeacher):
    """The vectors of a file; it has no others. ::

        teacher = FileTeacher("vectors.npz")
        distill(teacher, teacher.texts, "student", documents=teacher.documents)

    Args:
        path: of the file.

    Attributes:
        texts: to learn from: the queries, or all where the file says no roles.
        documents: to rank; empty where the file says no roles.
        blank: rows left out because their text is blank.
        repeated: rows left out because their text came before, with the same vector.

    Raises:
        InvalidInputError: a column is missing or of another kind; a vector that is not finite, or
            of another length; one text with two vectors; no text.
        CorruptArtifactError: neither Parquet nor npz, or damaged.
        MissingExtraError: Parquet without pyarrow (extra "teachers").
    """

    is_fixed = True

    def __init__(self, path: str | Path) -> None:
        super().__init__(self._known, name=Path(path).name)
        self.blank = self.repeated = 0
        self._path = path
        table = _read_parquet(path) if is_parquet(path) else _read_npz(path)
        self._vectors = _checked_vectors(path, table)
        self._rows = self._by_role(table)
        self._given_id = table.space_id
        self.texts = list(self._rows["query"])
        self.documents = [] if table.roles is None else list(self._rows["document"])
        if not self.texts:
            raise InvalidInputError(f"{path} has no text of the role query; expected some to learn")

    @property
    def space_id(self) -> str:
        """What the file says, or what names its rows."""
        return self._given_id or self.content_id

    @property
    def content_id(self) -> str:
        """Of all texts, roles and vectors."""
        digest = hashlib.sha256(self._vectors.tobytes())
        for role, rows in self._rows.items():
            digest.update(f"{role}/{texts_sha256(rows)}/{list(rows.values())}".encode())
        return f"space-{digest.hexdigest()[:32]}"

    @property
    def dimension(self) -> int:
        """Width of the vectors."""
        return int(self._vectors.shape[1])

    def _known(self, texts: list[str], role: str) -> Floats:
        rows = self._rows[role]
        missing = [text for text in texts if text.strip() not in rows]
        if missing:
            raise InvalidInputError(
                f"{self._path} has no {role} vector of {missing[0][:60]!r}"
                + (f" and {len(missing) - 1} more texts" if len(missing) > 1 else "")
                + "; a file teaches the texts that it has"
            )
        vectors: Floats = self._vectors[[rows[text.strip()] for text in texts]]
        return vectors

    def _by_role(self, table: _Table) -> Mapping[str, Mapping[str, int]]:
        """The row of each text, by role."""
        if table.roles is not None and (bad := [r for r in table.roles if r not in _ROLES]):
            raise InvalidInputError(
                f'{self._path}: a row has the role {bad[0]!r}, expected "query" or "document"'
            )
        both: dict[str, int] = {}
        by_role = {role: both if table.roles is None else {} for role in _ROLES}
        for row, text in enumerate(table.texts):
            if not isinstance(text, str):
                raise InvalidInputError(
                    f"{self._path}, row {row + 1}: the text is {text!r}, expected a string"
                )
            rows = by_role["query" if table.roles is None else table.roles[row]]
            if not text.strip():
                self.blank += 1
            elif (before := rows.setdefault(text.strip(), row)) != row:
                cosine = float(self._vectors[before] @ self._vectors[row])
                if cosine < _LEAST_COSINE:
                    raise InvalidInputError(
                        f"{self._path}: {text[:60]!r} has two vectors, in rows {before + 1} and "
                        f"{row + 1} (cosine {cosine:.3f}); expected one a text. Are they of a "
                        'query and a document? Say so in a column "role"'
                    )
                self.repeated += 1
        return by_role


def _checked_vectors(path: str | Path, table: _Table) -> Floats:
    """Rows of unit length, float32 (n, dimension)."""
    vectors = np.asarray(table.vectors)
    if vectors.dtype.kind != "f" or vectors.ndim != 2 or not vectors.size:
        raise InvalidInputError(
            f"{path} has vectors of dtype {vectors.dtype} and shape {vectors.shape}, expected "
            "floats of shape (n, dimension); unpack what is quantised first"
        )
    counts = [len(table.texts), len(vectors)]
    counts += [] if table.roles is None else [len(table.roles)]
    if len(set(counts)) > 1:
        raise InvalidInputError(
            f"{path} has {' and '.join(map(str, counts))} texts, vectors"
            f"{' and roles' if table.roles is not None else ''}; expected as many of each"
        )
    unit, bad = directions(vectors)
    if len(bad):
        raise InvalidInputError(
            f"{path}, row {bad[0] + 1} ({str(table.texts[bad[0]])[:60]!r}): the vector is all "
            f"zeros or has a value that is not finite, as in {len(bad)} of {len(vectors)} rows; "
            "expected finite numbers with a direction"
        )
    return unit


def _column(path: str | Path, kind: str, names: list[str]) -> str:
    matches = [name for name in _NAMES[kind] if name in names]
    if len(matches) != 1:
        raise InvalidInputError(
            f"{path} has {', '.join(names) or 'nothing'}; expected one {kind!r} beside the other, "
            "as a column of Parquet or an array of npz"
        )
    return matches[0]


def _read_npz(path: str | Path) -> _Table:
    try:
        with Path(path).open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, AttributeError, zipfile.BadZipFile) as error:
        if str(error).startswith("Object arrays"):
            raise InvalidInputError(
                f"{path} has an array of Python objects, which is never read; save the texts with "
                "np.array(texts, dtype=str), and vectors of one length as floats"
            ) from error
        raise CorruptArtifactError(
            f"{path} is neither Parquet nor a whole npz file; write it with np.savez(path, "
            "text=..., vector=...)"
        ) from error
    names = list(arrays)
    return _Table(
        arrays[_column(path, "text", names)].tolist(),
        arrays[_column(path, "vector", names)],
        arrays["role"].tolist() if "role" in arrays else None,
        str(arrays["space_id"]) if "space_id" in arrays else None,
    )


def _read_parquet(path: str | Path) -> _Table:
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise MissingExtraError.of("pyarrow", "teachers") from error
    try:
        table = pyarrow.parquet.read_table(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise CorruptArtifactError(
            f"{path} is damaged Parquet ({error}); expected a whole file, copy it again"
        ) from error
    names = table.column_names
    column = table[_column(path, "vector", names)].combine_chunks()
    texts = table[_column(path, "text", names)].to_pylist()
    kind = column.type
    if not hasattr(kind, "value_type") or not pyarrow.types.is_floating(kind.value_type):
        raise InvalidInputError(f"{path} has vectors of {kind}, expected lists of floats")
    lengths = np.array(pyarrow.compute.list_value_length(column).fill_null(0))
    usual = int(np.bincount(lengths).argmax()) if len(lengths) else 0
    odd = np.flatnonzero(lengths != usual)
    if len(odd):
        raise InvalidInputError(
            f"{path}, row {odd[0] + 1}: the vector has {lengths[odd[0]]} values, others have "
            f"{usual}; expected one length"
        )
    values = column.flatten().to_numpy(zero_copy_only=False)
    space_id = (table.schema.metadata or {}).get(_SPACE.encode())
    return _Table(
        texts,
        values.reshape(len(column), -1),
        table["role"].to_pylist() if "role" in names else None,
        None if space_id is None else space_id.decode(),
    )
