"""Documents from tables and JSON Lines whose rows are paragraphs, or title and text."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.corpus.groups import Group
from pocketquery.server.corpus.readers.document_groups import document_group
from pocketquery.server.corpus.readers.tables import Columns, read_rows
from pocketquery.server.corpus.text import split_sentences

__all__ = ["read_document_rows"]


def read_document_rows(path: Path | str, columns: Columns, *, lang: str = "") -> Iterator[Group]:
    """Yield the documents of a file whose rows hold their text.

    Args:
        path: the file, plain, gzip or xz.
        columns: one column for the text: neighbouring rows of one ``id`` and language are the
            paragraphs of a document, or every row is one where no ``id`` is named. Two columns:
            a title and its text, every row a document; a row that has one of them has no title.
        lang: of rows that do not say theirs.

    Raises:
        InvalidInputError: more than two columns for the text.
        ArtifactNotFoundError: there is no such file.
        CorpusError: a line has not these fields; names file and line.
    """
    if len(columns.texts) > 2:
        raise InvalidInputError(
            f"{len(columns.texts)} columns are named for documents; expected the text, or the "
            "title and the text"
        )
    if len(columns.texts) == 2:
        return (_titled(row) for row in read_rows(path, "pairs", columns, lang=lang))
    return _from_paragraphs(read_rows(path, "queries", columns, lang=lang))


def _titled(row: Group) -> Group:
    title = row.texts[0] if len(row.texts) == 2 else ""
    return document_group(row.id, title, split_sentences("".join(row.texts[-1:])), row.lang)


def _from_paragraphs(rows: Iterator[Group]) -> Iterator[Group]:
    for (name, lang), run in groupby(rows, lambda row: (row.id, row.lang)):
        sentences = (part for row in run for text in row.texts for part in split_sentences(text))
        yield document_group(name, "", sentences, lang)
