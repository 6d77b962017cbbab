"""The texts of a folder as documents: notes, manuals, web pages, cut into passages.

Plain text, Markdown, reStructuredText and HTML. A passage is some paragraphs of one section, as
long as an encoder reads; its title is the file's with the section's heading. A heading above other
headings, with no text of its own, is in their titles, and one with nothing below it is a passage.
What cannot be read is named, never passed over in silence.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from pocketquery.sdk.errors import ArtifactNotFoundError, InvalidInputError
from pocketquery.sdk.files import checked_path
from pocketquery.sdk.index.documents import Document
from pocketquery.sdk.plain_files import is_private
from pocketquery.sdk.text_folders.html_text import html_text
from pocketquery.sdk.text_folders.outline import cut_passages
from pocketquery.sdk.text_folders.plain_text import plain_text
from pocketquery.sdk.validation import check, whole

__all__ = ["SUFFIXES", "read_folder"]

SUFFIXES = (".txt", ".md", ".markdown", ".rst", ".html", ".htm", "")
"""Of the files that are read; without one it must look like text."""

_MOST_BYTES = 64 << 20  # of one file


def read_folder(
    folder: Path | str,
    *,
    words: int = 120,
    on_skipped: Callable[[Path, str], None] | None = None,
) -> Iterator[Document]:
    """Yield the passages of all text files below ``folder``, in the order of their paths.

    Ids are ``path#number``; metadata has ``title``, ``path`` and ``part`` (from 1). The title is
    the file's with the section's heading, and between them the headings above that have no text of
    their own ("Orchard: Fruit trees: Pruning"); a heading with nothing below it is a passage.
    Fenced code is one paragraph, without headings. Of reStructuredText, labels, comments and
    directives without text are left out; of Markdown, comments and lines of HTML tags alone. Hidden
    files and folders are left out, and links to folders, which are named. Passages of a file that
    others cannot read are ``private``.

    Args:
        folder: the folder, or one file.
        words: of a passage, at most; longer paragraphs are cut, at the end of a sentence where
            there is one. In scripts without spaces two characters count as a word, and of a word
            of more than 100 characters 20 do.
        on_skipped: called with each file or folder that is not read, and why; also files without
            text.

    Raises:
        ArtifactNotFoundError: there is no such folder.
        InvalidInputError: fewer than 10 words; ``folder`` is no path.
    """
    check("words", words, whole(10))
    root = checked_path(folder, "the folder of texts")
    if not root.exists():
        raise ArtifactNotFoundError(f"{root}: found nothing there, expected a folder of texts")
    base = root if root.is_dir() else root.parent

    def skipped(path: Path, error: OSError | InvalidInputError) -> None:
        if on_skipped is not None:
            on_skipped(path, str(getattr(error, "strerror", None) or error))

    for path in _files(root, skipped):
        name = path.relative_to(base).as_posix()
        try:
            text = _read(path, name)
        except (OSError, InvalidInputError) as error:
            skipped(path, error)
            continue
        suffix = path.suffix.lower()
        title, paragraphs = (
            html_text(text) if suffix in (".html", ".htm") else plain_text(text, suffix)
        )
        if not paragraphs:
            skipped(path, InvalidInputError("no text"))
        private = is_private(path)
        title = title or path.stem.replace("_", " ").replace("-", " ")
        passages = [p for p in paragraphs if not (p.is_heading and _contains(title, p.text))]
        for part, (headings, passage) in enumerate(
            cut_passages(passages or paragraphs[:1], words), start=1
        ):
            metadata = {"title": _whole_title(title, headings), "path": name, "part": part}
            yield Document(f"{name}#{part}", passage, metadata, private)


def _whole_title(title: str, headings: tuple[str, ...]) -> str:
    above = [heading for heading in headings[:-1] if not _contains(title, heading)]
    return ": ".join([title, *above, *(one for one in headings[-1:] if one != title)])


def _contains(title: str, heading: str) -> bool:
    """Whether ``title`` contains ``heading``, word for word."""
    title_words, words = (re.findall(r"\w+", text.casefold()) for text in (title, heading))
    return f" {' '.join(words)} " in f" {' '.join(title_words)} "


def _files(
    root: Path, skipped: Callable[[Path, OSError | InvalidInputError], None]
) -> Iterator[Path]:
    if not root.is_dir():
        yield root
        return

    def unlisted(error: OSError) -> None:
        skipped(Path(error.filename), error)

    for place, folders, names in os.walk(root, onerror=unlisted):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in folders:
            if (path := Path(place, name)).is_symlink():  # which os.walk does not enter
                skipped(path, InvalidInputError("a link to a folder; name the folder itself"))
        for name in sorted(names):
            if not name.startswith("."):
                yield Path(place, name)


def _read(path: Path, name: str) -> str:
    try:
        name.encode()
    except UnicodeEncodeError as error:  # the name of another system, and part of an id here
        raise InvalidInputError("its name is not UTF-8; rename it") from error
    if path.suffix.lower() not in SUFFIXES:
        raise InvalidInputError(
            f"a {path.suffix} file; expected one of {', '.join(filter(None, SUFFIXES))}"
        )
    if not path.is_file():
        raise InvalidInputError("no plain file")
    if (size := path.stat().st_size) > _MOST_BYTES:
        raise InvalidInputError(f"{size / 1e6:.0f} MB; at most {_MOST_BYTES / 1e6:.0f} are read")
    data = path.read_bytes()
    if b"\0" in data and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InvalidInputError("not text: it has zero bytes")
    encoding = "utf-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise InvalidInputError(
            f"not {error.encoding} at byte {error.start}; save it as UTF-8"
        ) from error
