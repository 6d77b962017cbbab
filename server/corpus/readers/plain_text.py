"""Plain text as groups of documents: running text, or one sentence a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Literal, get_args

from pocketquery.sdk.errors import InvalidInputError
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


def read_sentence_lines(path: Path | str, *, lang: str = "") -> Iterator[Group]:
    """Yield the documents of a file with one sentence a line, plain, gzip or xz. A blank line ends
    a document, which is named after its first line's number.

    Raises:
        ArtifactNotFoundError: there is no such file.
        CorpusError: the bytes are not UTF-8.
    """
    for part in _parts(all_lines(path), "block"):
        lines = list(part)
        yield document_group(str(lines[0][0]), "", (line for _, line in lines), lang)


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
