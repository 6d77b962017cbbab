"""The text of PDF files, page by page."""

from __future__ import annotations

import re
from itertools import islice
from typing import Any, NamedTuple

from pocketquery.sdk.errors import MissingExtraError
from pocketquery.sdk.text_folders.outline import Line, Outline, UnreadError

__all__ = ["read_pdf"]

_MOST_PAGES = 20_000
_MOST_HEADINGS = 20_000
_LONGEST_NUMBER = 12  # characters of "Chapter 12. "
_BULLETS = ("•", "▪", "‣", "◦", "–  ")
_MOST_CHARACTERS = 64 << 20
_NO_TITLE = re.compile(r"\.\w{2,4}$|^microsoft (?:word|powerpoint)|^untitled|^\W*$", re.IGNORECASE)
_BROKEN_WORD = re.compile("[\x02\ufffe\u00ad]\\n?|(?<=[a-zß-ÿ])-\\n(?=[a-zß-ÿ])")


class _Heading(NamedTuple):
    level: int
    title: str


def read_pdf(data: bytes) -> Outline:
    """The paragraphs of a PDF's pages.

    Raises:
        UnreadError: it is encrypted or damaged, has no text, or pypdfium2 (extra ``files``) is not
            installed.
    """
    try:
        import pypdfium2
    except ImportError as error:
        raise UnreadError(".pdf", str(MissingExtraError.of("pypdfium2", "files"))) from error
    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            raise UnreadError("encrypted", "encrypted; save a copy without a password") from error
        raise UnreadError("damaged", f"no PDF that can be read: {error}") from error
    outline, characters = Outline(), 0
    try:
        title = " ".join(document.get_metadata_value("Title").split())
        outline.title = "" if _NO_TITLE.search(title) else title
        contents = _contents(document)
        for number in range(min(len(document), _MOST_PAGES)):
            page = document[number]
            text_page = page.get_textpage()
            text = text_page.get_text_bounded()
            text_page.close()
            page.close()
            outline.page = number + 1
            _add_page(outline, text, contents.get(number, []))
            characters += len(text)
            if characters > _MOST_CHARACTERS:
                break
    except (pypdfium2.PdfiumError, ValueError, OSError) as error:
        raise UnreadError("damaged", f"page {(outline.page or 0) + 1}: {error}") from error
    finally:
        document.close()
    if not outline.paragraphs:
        raise UnreadError("without text", "a PDF without text, of pictures alone; OCR it first")
    return outline


def _contents(document: Any) -> dict[int, list[_Heading]]:
    """The headings of the table of contents, by the number of their page from 0."""
    headings = dict[int, list[_Heading]]()
    for bookmark in islice(document.get_toc(), _MOST_HEADINGS):
        target = bookmark.get_dest()
        page = target.get_index() if target else None
        title = " ".join(bookmark.get_title().split())
        if page is not None and title:
            # Below level 1, for the file's title is above them.
            headings.setdefault(page, []).append(_Heading(bookmark.level + 2, title))
    return headings


def _add_page(outline: Outline, text: str, headings: list[_Heading]) -> None:
    """Lines that belong together, below the headings of the page: a heading stands where a line
    is its title, with a number or without. A line that is short ends a paragraph, at a half of the
    longest, or at three quarters where a sentence ends."""
    text = _BROKEN_WORD.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    lines = [" ".join(line.split()) for line in text.split("\n")]
    usual = max(map(len, lines), default=0)
    waiting = [one for one in headings if any(_is_title(line, one.title) for line in lines)]
    for one in headings:
        if one not in waiting:
            outline.head(*one)
    paragraph = list[Line]()
    for line in lines:
        if waiting and _is_title(line, waiting[0].title):
            outline.add(paragraph)
            paragraph = []
            outline.head(waiting.pop(0).level, line)
            continue
        if line.startswith(_BULLETS):
            outline.add(paragraph)
            paragraph = []
        paragraph.append(Line(line, 0))
        ends = line.endswith((".", "!", "?", ":", "。"))
        if not line or len(line) < usual // 2 or (len(line) < usual * 3 // 4 and ends):
            outline.add(paragraph)
            paragraph = []
    outline.add(paragraph)
    for one in waiting:
        outline.head(*one)


def _is_title(line: str, title: str) -> bool:
    return line.endswith(title) and len(line) <= len(title) + _LONGEST_NUMBER
