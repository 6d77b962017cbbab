"""Open any corpus: a store on disk, a raw file of any layout, or a folder of texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.folders import present_folder
from pocketquery.server.corpus.groups import Group, GroupList, Kind, Source
from pocketquery.server.corpus.readers.document_groups import (
    read_document_groups,
    read_document_rows,
)
from pocketquery.server.corpus.readers.lines import numbered_lines
from pocketquery.server.corpus.readers.parquet import is_parquet
from pocketquery.server.corpus.readers.plain_text import Unit, read_plain_text, read_sentence_lines
from pocketquery.server.corpus.readers.sessions import read_sessions
from pocketquery.server.corpus.readers.tables import Columns, read_rows
from pocketquery.server.corpus.readers.text_folders import read_text_folder
from pocketquery.server.corpus.text_store import MANIFEST, TextStore

__all__ = ["ReadOptions", "open_source", "read_all", "read_groups", "read_numbered"]


@dataclass(frozen=True)
class ReadOptions:
    """How a raw file is read; each setting matters to the kinds and layouts that it names.

    Attributes:
        lang: language of groups that do not say theirs.
        columns: the fields of tables, and of JSON Lines of pairs, triples and queries. With
            documents: the one with the text, or those with title and text, and the one that names
            the document.
        join_titles: JSON Lines of documents: neighbours of one title are one document.
        document: plain text: what is one document.
        sentence_lines: plain text has one sentence a line; a blank line ends a document.
        rename: sessions: roles become "user" and "agent"; False keeps their own names.
    """

    lang: str = ""
    columns: Columns | None = None
    join_titles: bool = False
    document: Unit = "block"
    sentence_lines: bool = False
    rename: bool = True


def open_source(path: Path | str, kind: Kind, reading: ReadOptions | None = None) -> Source:
    """The groups at ``path``: a text store mapped, a raw file or folder of texts read into memory.

    Raises:
        InvalidInputError: the store holds another kind.
        ArtifactError: the store cannot be used.
        CorpusError: a line of the file cannot be read, or the folder has no text.
    """
    if _is_store(path, kind):
        return _store(path, kind)
    return GroupList(list(read_groups(path, kind, reading)), kind)


def read_all(
    paths: Sequence[Path | str], kind: Kind, reading: ReadOptions | None = None
) -> Iterator[Group]:
    """Yield the groups of stores and raw files, one place after the other.

    Groups of one id count as parts of one thing, and a group without an id is named by its line.
    With several places, each place's number is put before its ids, so that two first lines stay two
    things.

    Raises:
        InvalidInputError: as :func:`open_source` and :func:`read_groups` do.
        ArtifactError: a store cannot be used.
        CorpusError: a line cannot be read; names file and line.
    """
    for number, path in enumerate(paths):
        yield from read_numbered(path, kind, reading, None if len(paths) == 1 else number)


def read_numbered(
    path: Path | str, kind: Kind, reading: ReadOptions | None, number: int | None
) -> Iterator[Group]:
    """Yield the groups of a store or raw file as those of place ``number``; None: the only one.

    Errors as :func:`read_all`.
    """
    for group in _groups(path, kind, reading):
        yield group if number is None else replace(group, id=f"{number}/{group.id}")


def _groups(path: Path | str, kind: Kind, reading: ReadOptions | None) -> Iterator[Group]:
    if not _is_store(path, kind):
        return read_groups(path, kind, reading)
    store = _store(path, kind)
    return (store[row] for row in range(len(store)))


def _is_store(path: Path | str, kind: Kind) -> bool:
    """Whether a folder is to be a store: of a folder of texts documents are read, nothing else."""
    place = present_folder(Path(path))
    return place.is_dir() and (kind != "documents" or (place / MANIFEST).exists())


def _store(path: Path | str, kind: Kind) -> TextStore:
    store = TextStore.open(path)
    if store.kind != kind:
        raise InvalidInputError(f"{path} holds {store.kind}, and {kind} are asked for")
    return store


def read_groups(
    path: Path | str, kind: Kind, reading: ReadOptions | None = None
) -> Iterator[Group]:
    """Yield the groups of a raw file, plain, gzip or xz; its first character tells the layout.
    With documents also those of a folder of texts.

    Raises:
        InvalidInputError: unknown kind, or settings that do not go together.
        ArtifactNotFoundError: there is no such file.
        CorpusError: a line cannot be read; names file and line.
    """
    reading = reading or ReadOptions()
    if kind == "documents":
        return _documents(path, reading)
    if kind == "sessions":
        return read_sessions(path, lang=reading.lang, rename=reading.rename)
    return read_rows(path, kind, reading.columns, lang=reading.lang)


def _documents(path: Path | str, reading: ReadOptions) -> Iterator[Group]:
    if Path(path).is_dir():
        if reading.columns is not None or reading.sentence_lines:
            raise InvalidInputError(
                f"{path} is a folder of texts, and columns or sentence_lines are given, which are "
                "of a file; leave them out, or name a file"
            )
        return read_text_folder(path, lang=reading.lang)
    if reading.columns is not None:
        return read_document_rows(path, reading.columns, lang=reading.lang)
    is_json = is_parquet(path) or _begins_as_json(path)
    if reading.sentence_lines and is_json:
        raise InvalidInputError(
            f"{path} is JSON Lines, and its lines are to be read as sentences; expected plain text "
            "with one sentence a line, or the file without --sentence-lines"
        )
    if reading.sentence_lines:
        return read_sentence_lines(path, lang=reading.lang)
    if is_json:
        return read_document_groups(path, lang=reading.lang, join_titles=reading.join_titles)
    return read_plain_text(path, reading.document, lang=reading.lang)


def _begins_as_json(path: Path | str) -> bool:
    return next(numbered_lines(path), (0, ""))[1].lstrip().startswith("{")
