"""Plain text as groups of documents: running text, or one sentence a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby, zip_longest
from pathlib import Path
from typing import Literal, get_args

from pocketquery.sdk.errors import CorpusError, InvalidInputError
from pocketquery.server.corpus.groups import Group
from pocketquery.server.corpus.readers.document_groups import document_group
from pocketquery.server.corpus.readers.lines import all_lines
from pocketquery.server.corpus.text import split_sentences

__all__ = ["Unit", "read_plain_text", "read_sentence_lines"]

Unit = Literal["block", "file", "line"]
_Lines = Iterable[tuple[int, str]]


def read_plain_text(
    path: Path | str, document: Unit = "block", *, lang: str = ""
) -> Iterator[Group]:
    """Yield the documents of a file of running text, plain, gzip or xz; ids are their first lines.

    Args:
        path: the file.
        document: what is one document: a ``"block"`` between blank lines, the whole ``"file"``, or
            every ``"line"``. A document's lines are joined with blanks and cut into sentences; in
            a whole file a blank line ends a sentence too.
        lang: of all of them.

    Raises:
        InvalidInputError: unknown ``document``.
        ArtifactNotFoundError: there is no such file.
        CorpusError: the bytes are not UTF-8; names file and line.
    """
    if document not in get_args(Unit):
        raise InvalidInputError(f"document is {document!r}; expected one of {get_args(Unit)}")
    lines = all_lines(path)
    parts = iter([lines]) if document == "file" else _parts(lines, document)
    return (group for part in parts for group in _running_text(part, lang))


def read_sentence_lines(
    path: Path | str, *, document_ids: Path | str | None = None, lang: str = ""
) -> Iterator[Group]:
    """Yield the documents of a file with one sentence a line, plain, gzip or xz.

    Args:
        path: the file. Without ``document_ids`` a blank line ends a document, named after its
            first line's number.
        document_ids: a file whose i-th line names the document of the i-th sentence; neighbours
            with one name are a document. So several languages can share one.
        lang: of all of them.

    Raises:
        ArtifactNotFoundError: there is no such file.
        CorpusError: the bytes are not UTF-8, or the two files have different numbers of lines.
    """
    named = _named(path, document_ids) if document_ids else _between_blanks(path)
    for name, part in groupby(named, lambda pair: pair[0]):
        yield document_group(name, "", (line for _, line in part), lang)


def _parts(lines: _Lines, document: Unit) -> Iterator[_Lines]:
    if document == "line":
        return ([line] for line in lines if line[1].strip())
    runs = groupby(lines, lambda line: bool(line[1].strip()))
    return (part for written, part in runs if written)


def _running_text(lines: _Lines, lang: str) -> Iterator[Group]:
    """The group of a document's lines; nothing where they are all blank."""
    numbered = list(lines)
    first = next((number for number, line in numbered if line.strip()), None)
    if first is not None:
        text = "\n".join(line.strip() for _, line in numbered)
        yield document_group(str(first), "", split_sentences(text), lang)


def _between_blanks(path: Path | str) -> Iterator[tuple[str, str]]:
    """(number of the document's first line, sentence) of every line that is not blank."""
    start = 0
    for number, line in all_lines(path):
        if not line.strip():
            start = 0
            continue
        start = start or number
        yield str(start), line


def _named(path: Path | str, document_ids: Path | str) -> Iterator[tuple[str, str]]:
    """(name of the document, sentence) of every line."""
    for name, line in zip_longest(all_lines(document_ids), all_lines(path)):
        if name is None or line is None:
            number = (line or name)[0]
            raise CorpusError(
                f"{path} and {document_ids} have different numbers of lines: line {number} is in "
                "one alone; expected the i-th line of one to name the i-th of the other"
            )
        yield name[1].strip(), line[1]
