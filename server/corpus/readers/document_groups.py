"""Documents as groups: the title, if any, then the sentences in their order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.corpus.groups import Group
from pocketquery.server.corpus.readers.json_lines import id_and_language, json_objects, text_field
from pocketquery.server.corpus.readers.lines import bad_line
from pocketquery.server.corpus.readers.tables import Columns, read_rows
from pocketquery.server.corpus.text import split_sentences

__all__ = ["read_document_rows", "document_group", "read_document_groups"]


def read_document_groups(
    path: Path | str, *, lang: str = "", join_titles: bool = False
) -> Iterator[Group]:
    """Yield the documents of a JSON Lines file, plain, gzip or xz, one in memory at a time.

    A line has ``text``, ``sentences`` (a list) or ``paragraphs`` (a list of texts, or of objects
    with a ``text``; headings have none and are left out). Its ``title`` comes first; ``_id`` or
    ``id`` names it, otherwise its line number, and ``lang`` or ``language`` goes before the
    argument. A document without a sentence comes as a group without texts. Ids may repeat: to keep
    them all would take memory that grows with the corpus.

    Args:
        path: the file.
        lang: of documents that do not say theirs.
        join_titles: neighbouring lines of one title are paragraphs of one document, which takes
            the first one's id.

    Raises:
        ArtifactNotFoundError: there is no such file.
        CorpusError: a line is not a document; names file and line.
    """
    groups = (_group(path, number, entry, lang) for number, entry in json_objects(path))
    return _joined(groups) if join_titles else groups


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


def document_group(id: str, title: str, sentences: Iterable[str], lang: str) -> Group:
    """The group of a document: white space made single blanks, empty sentences left out."""
    texts = [" ".join(text.split()) for text in (title, *sentences)]
    return Group(id, tuple(filter(None, texts)), lang=lang, title=bool(texts[0]))


def _group(path: Path | str, number: int, entry: dict[str, Any], lang: str) -> Group:
    id, own = id_and_language(path, number, entry, lang)
    title = text_field(path, number, entry.get("title"), "title")
    return document_group(id, title, _sentences(path, number, entry), own)


def _sentences(path: Path | str, number: int, entry: dict[str, Any]) -> list[str]:
    if "sentences" in entry:
        return _texts(path, number, entry["sentences"], "sentences")
    if "paragraphs" in entry:
        paragraphs = _texts(path, number, entry["paragraphs"], "paragraphs")
    elif "text" in entry:
        paragraphs = [text_field(path, number, entry["text"], "text")]
    else:
        found = f"no text among {sorted(entry)}"
        raise bad_line(path, number, found, "text, sentences or paragraphs")
    return [sentence for paragraph in paragraphs for sentence in split_sentences(paragraph)]


def _texts(path: Path | str, number: int, values: object, field: str) -> list[str]:
    """A list of texts, or of objects that may have a ``text``; null counts as an empty one."""
    if values is None:
        return []
    if not isinstance(values, list):
        raise bad_line(path, number, f"{field} is {type(values).__name__}", "a list")
    plain = [value.get("text") if isinstance(value, dict) else value for value in values]
    return [text_field(path, number, value, f"{field}[{i}]") for i, value in enumerate(plain)]


def _joined(groups: Iterable[Group]) -> Iterator[Group]:
    """Neighbours of one title and language as one document."""
    for (title, lang), run in groupby(
        groups, lambda one: (one.texts[0] if one.title else "", one.lang)
    ):
        if title:
            parts = list(run)
            sentences = (text for part in parts for text in part.texts[1:])
            yield document_group(parts[0].id, title, sentences, lang)
        else:
            yield from run
