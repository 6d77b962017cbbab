"""The text of PDF files, page by page."""

from __future__ import annotations

import re

from pocketquery.sdk.errors import MissingExtraError
from pocketquery.sdk.text_folders.outline import Line, Outline, UnreadError

__all__ = ["read_pdf"]

_MOST_PAGES = 20_000
_MOST_CHARACTERS = 64 << 20
_NO_TITLE = re.compile(r"\.\w{2,4}$|^microsoft (?:word|powerpoint)|^untitled|^\W*$", re.IGNORECASE)
_BROKEN_WORD = re.compile("[\x02\ufffe\u00ad]\\n?|(?<=[a-zß-ÿ])-\\n(?=[a-zß-ÿ])")


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
        for number in range(min(len(document), _MOST_PAGES)):
            page = document[number]
            text_page = page.get_textpage()
            text = text_page.get_text_bounded()
            text_page.close()
            page.close()
            outline.page = number + 1
            _add_page(outline, text)
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


def _add_page(outline: Outline, text: str) -> None:
    """Lines that belong together: a line ends a paragraph where it ends a sentence and is short."""
    text = _BROKEN_WORD.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    lines = [" ".join(line.split()) for line in text.split("\n")]
    usual = max(map(len, lines), default=0) * 3 // 4
    paragraph = list[Line]()
    for line in lines:
        paragraph.append(Line(line, 0))
        if not line or (len(line) < usual and line.endswith((".", "!", "?", ":", "。"))):
            outline.add(paragraph)
            paragraph = []
    outline.add(paragraph)
