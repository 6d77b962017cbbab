"""Documents of a corpus in BEIR's layout: corpus.jsonl (plain, gzip or xz), or as Parquet."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pocketquery.sdk.index.documents import Document
from pocketquery.sdk.plain_files import is_private, local_places
from pocketquery.server.corpus.readers.json_lines import field_name, json_objects, text_field
from pocketquery.server.corpus.readers.lines import bad_line, encodable, identifier

__all__ = ["Place", "read_documents"]


Place = tuple[str, int]
"""A file and a line of it, or a row."""


def read_documents(path: Path | str, places: dict[str, Place] | None = None) -> Iterator[Document]:
    """Yield the documents of a JSON Lines or Parquet file in their order, one in memory at a time.

    The file is a path or an fsspec URL. Each line has ``_id`` or ``id``, and ``text`` or
    ``sentences`` (a list, joined with blanks). Its ``title``, its other fields and those of a BEIR
    ``metadata`` object become metadata. What is of a file that others cannot read is ``private``.

    Args:
        path: the file.
        places: where documents before this file's were met, by id; its own are put there, too.

    Raises:
        ArtifactNotFoundError: there is no such file.
        CorpusError: a line is not a document, or repeats an id; the message names file and line,
            and where the id was before.
    """
    places = {} if places is None else places
    private = any(map(is_private, local_places(path)))
    for number, entry in json_objects(path):
        document = _document(path, number, entry, private)
        file, first = places.setdefault(document.id, (str(path), number))
        if (file, first) != (str(path), number):
            where = f"line {first}" if file == str(path) else f"{file}, line {first},"
            found = f"the id {document.id!r} of {where} again"
            raise bad_line(path, number, found, "a different id for every document")
        yield document


def _document(path: Path | str, number: int, entry: dict[str, Any], private: bool) -> Document:
    name = field_name(path, number, entry, "_id", "id")
    return Document(
        id=identifier(path, number, entry[name], name),
        text=_text(path, number, entry),
        metadata=_metadata(path, number, entry, name),
        private=private,
    )


def _metadata(path: Path | str, number: int, entry: dict[str, Any], name: str) -> dict[str, Any]:
    metadata = {key: entry[key] for key in entry if key not in {name, "text", "sentences"}}
    if isinstance(metadata.get("metadata"), dict):
        metadata = metadata.pop("metadata") | metadata
    title = text_field(path, number, metadata.pop("title", None), "title")
    try:
        written = json.dumps(metadata, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        name = next((key for key in metadata if not _is_json(metadata[key])), "metadata")
        found = f"the field {name!r}, which cannot be stored ({error})"
        expected = "finite numbers and shallow nesting; write it as text, or leave it out"
        raise bad_line(path, number, found, expected) from error
    encodable(path, number, written, "metadata")
    return metadata | ({"title": title} if title else {})


def _is_json(value: object) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _text(path: Path | str, number: int, entry: dict[str, Any]) -> str:
    sentences = entry.get("sentences")
    if "text" in entry and (sentences is None or entry["text"] is not None):
        return text_field(path, number, entry["text"], "text")
    if sentences is None and "sentences" in entry:
        return ""
    if not isinstance(sentences, list):
        found = f"no field 'text' or 'sentences' among {list(entry)[:20]}"
        if "sentences" in entry:
            found = f"no text, and sentences is {type(sentences).__name__}"
        raise bad_line(path, number, found, "text, a string, or sentences, a list of strings")
    texts = [text_field(path, number, part, f"sentences[{i}]") for i, part in enumerate(sentences)]
    return " ".join(texts)
