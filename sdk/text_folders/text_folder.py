"""The texts of a folder as documents: notes, manuals, web pages, cut into passages.

A passage is some paragraphs of one section, as long as an encoder reads. Its title is the file's
with the headings above it. Its id comes from the file and those headings, so that a change in one
section leaves the others' ids alone.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.index.documents import Document
from pocketquery.sdk.plain_files import is_private, open_plain
from pocketquery.sdk.text_folders.decoding import decode
from pocketquery.sdk.text_folders.listing import Skipped, TextFile, list_files
from pocketquery.sdk.text_folders.outline import Outline, Paragraph, UnreadError, storable
from pocketquery.sdk.text_folders.passages import (
    Tokens,
    cut_passages,
    estimated_tokens,
    fitting_title,
)
from pocketquery.sdk.validation import check, whole

__all__ = ["read_file", "read_folder"]

_INDEX_NAMES = frozenset(("index", "readme", "_index"))
_PARTED = re.compile(r"(?<=[^\W\d_])[-_]+(?=[^\W_])|(?<=[^\W_])[-_]+(?=[^\W\d_])")
_LONGEST_FIELD = 500  # characters of a field of front matter; every passage has it
_TRIES = 3  # to read a file that changes meanwhile


def read_folder(
    folder: Path | str,
    *,
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    tokens: Tokens = estimated_tokens,
    most: int = 120,
    on_skipped: Callable[[Skipped], None] | None = None,
) -> Iterator[Document]:
    """Yield the passages of all files below ``folder`` that can be read. ::

        for passage in sdk.read_folder("notes", exclude=["drafts/"]):
            print(passage.id, passage.metadata["title"])

    Files are those of :func:`list_files`, passages those of :func:`read_file`.

    Args:
        folder: the folder, or one file.
        include: only files that match one of these patterns, as in ``.gitignore``.
        exclude: no files and folders that match one of these.
        tokens: counts the tokens of texts; by default an estimate.
        most: tokens of a passage with its title.
        on_skipped: called with each file or folder that is not read.

    Raises:
        ArtifactNotFoundError: there is no such folder.
        InvalidInputError: ``most`` is under 16, a pattern cannot be read, ``folder`` is no path.
    """
    check("most", most, whole(16))
    listing = list_files(folder, include=include, exclude=exclude)
    skipped = on_skipped or (lambda one: None)
    for one in listing.skipped:
        skipped(one)
    for file in listing.files:
        try:
            yield from read_file(file, tokens=tokens, most=most)
        except UnreadError as error:
            skipped(Skipped(file.name, error.kind, str(error)))


def read_file(
    file: TextFile, *, tokens: Tokens = estimated_tokens, most: int = 120
) -> list[Document]:
    """The passages of one file, in their order. ::

        listing = list_files("notes")
        passages = read_file(listing.files[0])

    Ids are ``path#headings``, ``garden.md#roses/pruning``, with ``:2`` for the second passage of a
    section; before the first heading ``path#1``. Metadata has ``title`` (the file's with the
    headings), ``path``, ``headings`` (a list), ``anchor`` and ``line`` where they are known,
    ``page`` of what has pages, ``part`` (which passage of its section, from 1), ``preamble`` (so
    many characters at the beginning of the first are the file's name, aliases and tags, which a
    snippet leaves out) and the fields of front matter. Passages of a file that others cannot read
    are ``private``.

    Args:
        file: of a :class:`Listing`.
        tokens: counts the tokens of texts; by default an estimate.
        most: tokens of a passage with its title.

    Raises:
        InvalidInputError: ``file`` is a path, say.
        UnreadError: the file cannot be read as text; its ``kind`` can be counted.
    """
    if not isinstance(file, TextFile):
        raise InvalidInputError(
            f"file is {file!r}, expected one of sdk.list_files(folder).files; of a path there is "
            "sdk.read_folder(path)"
        )
    suffix = Path(file.name).suffix.lower()
    try:
        outline = _read_outline(_bytes(file.path), suffix)
        private = is_private(file.path)
    except OSError as error:
        raise UnreadError("unreadable", error.strerror or str(error)) from error
    outline.end()
    name, typed = _names(file)
    words = _searchable_words(outline, name, typed)
    preamble = "".join(f"{one.text}\n" for one in words)
    paragraphs = [*words, *outline.paragraphs]
    if not outline.paragraphs:
        if not outline.title:
            raise UnreadError("without text", "no text")
        paragraphs.append(Paragraph(None, outline.title, [(0, 1)]))
    fields = {
        name: value for name, value in outline.fields.items() if len(str(value)) <= _LONGEST_FIELD
    }
    documents, parts = list[Document](), Counter[str]()
    for (section, page), group in groupby(paragraphs, lambda one: (one.section, one.page)):
        title, headings = outline.title_above(section, name)
        whole_title, rest = fitting_title(_title_parts(title, headings), tokens, most)
        texts = [Paragraph(section, rest, (), page)] if rest else []
        place = section.key if section else f"page-{page}" if page else ""
        for passage in cut_passages([*texts, *group], whole_title, tokens, most):
            parts[place] += 1
            begins = passage.text.startswith(preamble)
            known = {
                "anchor": section.anchor if section else "",
                "line": passage.line,
                "page": page,
                "preamble": len(preamble) if begins and not documents else 0,
            }
            metadata = {
                **fields,
                "title": whole_title,
                "path": file.name,
                "headings": [one.heading for one in section.path()] if section else [],
                "part": parts[place],
                **{name: value for name, value in known.items() if value},
            }
            identifier = f"{file.name}#{_identifier(place, parts[place])}"
            documents.append(Document(identifier, passage.text, metadata, private))
    return documents


def _identifier(place: str, part: int) -> str:
    if not place:
        return str(part)
    return f"{place}:{part}" if part > 1 or place.isdigit() else place


def _title_parts(title: str, headings: list[str]) -> list[str]:
    above = [heading for heading in headings[:-1] if not _contains(title, heading)]
    return [title, *above, *(one for one in headings[-1:] if one != title)]


def _contains(title: str, heading: str) -> bool:
    """Whether ``title`` contains ``heading``, word for word."""
    title_words, words = (re.findall(r"\w+", text.casefold()) for text in (title, heading))
    return f" {' '.join(words)} " in f" {' '.join(title_words)} "


def _names(file: TextFile) -> tuple[str, str]:
    """The file's name as a title, and as it is typed; of an index or README the folder's, twice."""
    path = Path(file.name)
    stem, typed = path.stem, path.name
    is_index = stem.lower() in _INDEX_NAMES
    if is_index:
        stem = Path(os.path.realpath(file.path)).parent.name or stem
    title = stem if " " in stem else _PARTED.sub(" ", stem)
    return title, title if is_index else typed


def _searchable_words(outline: Outline, name: str, typed: str) -> list[Paragraph]:
    """Words by which the file is to be found, for its first passage: its name, as it is typed, and
    those of front matter."""
    first = outline.paragraphs[0] if outline.paragraphs else Paragraph(None, "")
    title = " ".join(_title_parts(*outline.title_above(first.section, name)))
    words = [
        ", ".join(map(str, value if isinstance(value, list) else [value]))
        for field in ("aliases", "alias", "description", "summary", "tags", "keywords")
        if (value := outline.fields.get(field)) and not isinstance(value, Mapping)
    ]
    names = [typed] if typed != name or not _contains(title, name) else []
    start = [(0, first.line(0))]
    return [Paragraph(first.section, one, start, first.page) for one in [*names, *words]]


def _bytes(path: Path) -> bytes:
    """A file's content, none of which is of another moment than the rest."""
    for _ in range(_TRIES):
        with open_plain(path) as file:
            before = os.fstat(file.fileno())
            data = file.read()
            after = os.fstat(file.fileno())
        if (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns):
            return data
    raise UnreadError("changing", "it changes while it is read; index it again later")


def _read_outline(data: bytes, suffix: str) -> Outline:
    """The sections and paragraphs of a file of ``suffix``; of one not known, as plain text.

    Raises:
        UnreadError: it cannot be read as text.
    """
    try:
        outline = _outline(data, suffix)
        outline.title = storable(outline.title)
        outline.fields = json.loads(storable(json.dumps(outline.fields, ensure_ascii=False)))
    except UnreadError:
        raise
    except Exception as error:  # of a file from elsewhere, which must not keep the others out
        kind = type(error).__name__
        raise UnreadError("damaged", f"it cannot be read: {kind}: {error}"[:200]) from error
    return outline


def _outline(data: bytes, suffix: str) -> Outline:
    if suffix in (".pdf", ".docx", ".pptx", ".odt", ".epub", ".eml"):
        return _outline_of_bytes(data, suffix)
    text = decode(data).replace("\r\n", "\n").replace("\r", "\n")
    if suffix in (".md", ".markdown", ".mdx"):
        from pocketquery.sdk.text_folders.markdown import read_markdown

        return read_markdown(text, is_mdx=suffix == ".mdx")
    if suffix in (".html", ".htm", ".xhtml"):
        from pocketquery.sdk.text_folders.html_text import read_html

        return read_html(text)
    if suffix in (".ipynb", ".csv", ".tsv"):
        from pocketquery.sdk.text_folders.records import read_notebook, read_table

        return read_notebook(text) if suffix == ".ipynb" else read_table(text)
    from pocketquery.sdk.text_folders.restructured import read_plain_text, read_restructured

    return read_restructured(text) if suffix == ".rst" else read_plain_text(text)


def _outline_of_bytes(data: bytes, suffix: str) -> Outline:
    if suffix == ".pdf":
        from pocketquery.sdk.text_folders.pdf import read_pdf

        return read_pdf(data)
    if suffix == ".eml":
        from pocketquery.sdk.text_folders.records import read_mail

        return read_mail(data)
    from pocketquery.sdk.text_folders import zipped

    readers = {
        ".docx": zipped.read_docx,
        ".pptx": zipped.read_pptx,
        ".odt": zipped.read_odt,
        ".epub": zipped.read_epub,
    }
    return readers[suffix](data)
