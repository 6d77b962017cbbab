"""Slices: indexes of those documents of an index that a filter selects, without encoding again.

::

    slice_index("all", {"tenant": "a"}, "slices/a")
    slice_index_by("all", "tenant", "slices")

Texts, metadata and vectors are copied, postings made anew, so that a slice has the very files that
a build of those documents alone would have written.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from pocketquery.sdk.arrays import Rows
from pocketquery.sdk.bundle.signature import Key, key_id, public_key_of
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.files import real_path
from pocketquery.sdk.folders import check_replaceable
from pocketquery.sdk.index.builder import create_index
from pocketquery.sdk.index.info import INDEX_FOLDER, INFO
from pocketquery.sdk.plain_files import is_private
from pocketquery.sdk.results.filters import compile_filter
from pocketquery.sdk.slices.source import IndexState, read_source
from pocketquery.sdk.validation import check_text

__all__ = ["SliceReport", "SlicesReport", "slice_index", "slice_index_by"]

_MOST_NAME = 200  # bytes of a folder's name, which has room for what a build puts around it
_LEAST_FLOAT_COMPARED = (
    2**63
)  # whole numbers from there on compare as the nearest float64, as filters do


@dataclass(frozen=True)
class SliceReport:
    """What was cut.

    Attributes:
        path: the slice's folder.
        documents: in it.
        bytes: of all its files.
        seconds: that it took.
        signature_key_id: of the key it was signed with; None where it was not.
    """

    path: str
    documents: int
    bytes: int
    seconds: float
    signature_key_id: str | None = None


@dataclass(frozen=True)
class SlicesReport:
    """What :func:`slice_index_by` cut.

    Attributes:
        slices: by folder name, in the order in which the values first came.
        left_out: documents that no slice has, since their field is absent, null or an object.
        others: indexes in the output folder that no value of the field gives any more; they are
            left as they are.
    """

    slices: Mapping[str, SliceReport]
    left_out: int
    others: tuple[str, ...] = ()


def slice_index(
    index: Path | str,
    filter: Mapping[str, Any],
    output: Path | str,
    *,
    allow_empty: bool = False,
    public_key: Key | None = None,
    signing_key: Key | None = None,
) -> SliceReport:
    """Cut an index of the documents that ``filter`` selects from ``index``.

    Args:
        index: the folder of the index to cut from; it is read whole, and left as it is.
        filter: see :mod:`pocketquery.sdk.results.filters`.
        output: the slice's folder; an index that is there is replaced when the slice is complete.
        allow_empty: make an index of no documents where none is selected.
        public_key: ``index`` must be signed by its private half.
        signing_key: an Ed25519 private key to sign the slice with: 32 raw bytes, 64 hexadecimal
            digits or a PEM file.

    Raises:
        InvalidInputError: no filter, no documents, or ``output`` holds something else, is
            ``index`` itself or in it.
        ArtifactNotFoundError, CorruptArtifactError, UnsupportedVersionError, SignatureError: the
            index cannot be used.
        ArtifactError: the disk is full, or another process builds the same slice.
    """
    compile_filter(filter)  # before the index is read
    place = _place(index, Path(output))
    with read_source(index, public_key) as source:
        rows = source.matching(filter)
        if not len(rows) and not allow_empty:
            raise InvalidInputError(
                f"the filter selects none of the {len(source)} documents of {index}; expected at "
                "least one. Mend the filter, or ask for an empty index (allow_empty, --allow-empty)"
            )
        return _cut(source, rows, place, signing_key)


def slice_index_by(
    index: Path | str,
    field: str,
    output: Path | str,
    *,
    public_key: Key | None = None,
    signing_key: Key | None = None,
) -> SlicesReport:
    """Cut an index for each value of ``field`` of the metadata: ``output``/value.

    A value is a text, a number, true or false; of a field that is a list each item is one, so that
    a document can be in several slices. Each slice is what :func:`slice_index` cuts with
    ``{field: value}``, and complete as soon as it is there: a run that was ended on the way left
    whole slices, and another makes them all.

    Args:
        index: the folder of the index to cut from; it is read once.
        field: a name at the top of the metadata.
        output: the folder of the slices. A folder has its value's name, characters other than
            ASCII's letters, digits and ``_.-~`` as ``%XX`` of their UTF-8, a leading dot too; that
            of the empty text is ``%``, that of 2.0 is ``2``.
        public_key: as in :func:`slice_index`.
        signing_key: as in :func:`slice_index`.

    Raises:
        InvalidInputError: no document has the field, two values have the same name or differ in
            case alone, or a name is too long; nothing is cut then.
        ArtifactError: as :func:`slice_index`.
    """
    check_text(field, "the field")
    with read_source(index, public_key) as source:
        groups, left_out = _groups(source, field)
        if not groups:
            raise InvalidInputError(
                f"none of the {len(source)} documents of {index} has a text, a number, true or "
                f"false in the field {field!r}; expected one that tells slices apart"
            )
        places = {name: _place(index, Path(output, name)) for name in groups}
        slices = {
            name: _cut(source, np.array(rows), places[name], signing_key)
            for name, rows in groups.items()
        }
    return SlicesReport(slices, left_out, _others(Path(output), slices))


def _place(index: Path | str, output: Path) -> Path:
    place = real_path(output)
    if real_path(index) in (place, *place.parents):  # whose next version would replace it
        raise InvalidInputError(
            f"{output} is the index that is cut from, or is in it; a slice needs a folder elsewhere"
        )
    check_replaceable(output, INDEX_FOLDER)
    return output


def _cut(source: IndexState, rows: Rows, output: Path, signing_key: Key | None) -> SliceReport:
    start = time.perf_counter()
    with create_index(
        output,
        space_id=source.info.space_id,
        dimension=source.info.dimension,
        encoded_by=source.encoded_by,
        language=source.info.language,
        signing_key=signing_key,
        private=is_private(source.folder),
    ) as builder:
        for documents, codes in source.batches(rows):
            builder.add_rows(documents, codes)
    return SliceReport(
        path=str(output),
        documents=len(rows),
        bytes=sum(file.stat().st_size for file in output.iterdir()),
        seconds=time.perf_counter() - start,
        signature_key_id=None if signing_key is None else key_id(public_key_of(signing_key)),
    )


def _groups(source: IndexState, field: str) -> tuple[dict[str, list[int]], int]:
    """The rows of each value, by the name of its slice's folder; how many rows have none."""
    names, groups, left_out = dict[object, str](), dict[str, list[int]](), 0
    shown = dict[str, object]()
    for row, document in source.documents():
        value_or_list = document.metadata.get(field)
        values = {
            _key(one): one
            for one in (value_or_list if isinstance(value_or_list, list) else [value_or_list])
        }
        values.pop(None, None)
        left_out += not values
        for key, value in values.items():
            if key not in names:
                name = _name(value)
                other = shown.setdefault(name.casefold(), value)
                if other is not value:
                    raise InvalidInputError(
                        f"the values {other!r} and {value!r} of {field!r} would have one folder "
                        f"{name!r}; cut them one by one, with filters"
                    )
                names[key] = name
            groups.setdefault(names[key], []).append(row)
    return groups, left_out


def _key(value: object) -> tuple[str, object] | None:
    """What equal values of a field share; None where it is no value that a slice can have."""
    if isinstance(value, bool):
        return "boolean", value
    if isinstance(value, int) and abs(value) >= _LEAST_FLOAT_COMPARED:
        try:
            return "number", float(value)
        except OverflowError:
            return None
    if isinstance(value, (int, float)):
        return "number", value
    return ("text", value) if isinstance(value, str) else None


def _name(value: object) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < _LEAST_FLOAT_COMPARED:
        value = int(value)  # equal values have one name: 2 and 2.0, 0 and -0.0
    text = value if isinstance(value, str) else json.dumps(value)
    name = quote(text, safe="") or "%"
    name = name if not name.startswith(".") else f"%2E{name[1:]}"
    if len(name) > _MOST_NAME:
        raise InvalidInputError(
            f"the value {text[:60]!r}... has a folder's name of {len(name)} characters, expected "
            f"at most {_MOST_NAME}; cut it with a filter"
        )
    return name


def _others(output: Path, slices: Iterable[str]) -> tuple[str, ...]:
    names = {one.name for one in output.iterdir() if (one / INFO).is_file()}
    return tuple(sorted(name for name in names - set(slices) if not name.startswith(".")))
