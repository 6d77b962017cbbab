"""The text of PDF files, page by page."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.util import find_spec
from typing import NamedTuple

from pocketquery.sdk.errors import MissingExtraError
from pocketquery.sdk.text_folders import pdf_process
from pocketquery.sdk.text_folders.outline import Line, Outline, UnreadError
from pocketquery.sdk.text_folders.pdf_process import Pages

__all__ = ["read_pdf"]

_MOST_S = 600  # for the process that reads it, on a machine that has much to do
_MOST_HEADINGS = 100  # of a page
_LONGEST_NUMBER = 12  # characters of "Chapter 12. "
_BULLETS = ("•", "▪", "‣", "◦", "–  ")
_NO_TITLE = re.compile(r"\.\w{2,4}$|^microsoft (?:word|powerpoint)|^untitled|^\W*$", re.IGNORECASE)
_BROKEN_WORD = re.compile("[\x02\ufffe\u00ad]\\n?|(?<=[a-zß-ÿ])-\\n(?=[a-zß-ÿ])")


class _Heading(NamedTuple):
    level: int
    title: str


def read_pdf(data: bytes) -> Outline:
    """The paragraphs of a PDF's pages.

    Raises:
        UnreadError: it is encrypted or damaged, takes too much, has no text, or pypdfium2 (extra
            ``files``) is not installed.
    """
    if find_spec("pypdfium2") is None:
        missing = ModuleNotFoundError("pypdfium2")
        raise UnreadError(".pdf", str(MissingExtraError.of("pypdfium2", "files"))) from missing
    read = _pages(data)
    outline = Outline()
    title = " ".join(read["title"].split())
    outline.title = "" if _NO_TITLE.search(title) else title
    contents = dict[int, list[_Heading]]()
    for page, level, words in read["headings"]:
        one = contents.setdefault(page, [])
        if len(one) < _MOST_HEADINGS and (heading := " ".join(words.split())):
            one.append(_Heading(level + 1, heading))  # the file's title is above them
    for number, text in enumerate(read["pages"]):
        outline.page = number + 1
        _add_page(outline, text, contents.get(number, []))
    if not outline.paragraphs:
        raise UnreadError("without text", "a PDF without text, of pictures alone; OCR it first")
    return outline


def _pages(data: bytes) -> Pages:
    # -P: no module is taken from the working folder.
    command = [sys.executable, "-P", "-m", pdf_process.__name__]
    try:
        ended = subprocess.run(command, input=data, capture_output=True, timeout=_MOST_S)
        answer = json.loads(ended.stdout)
    except (subprocess.TimeoutExpired, ValueError) as error:
        raise UnreadError(
            "damaged",
            f"its reader failed: it crashed, or took more than {pdf_process.CPU_S} s or "
            f"{pdf_process.MEMORY >> 30} GB of memory; save the PDF anew, or leave it out",
        ) from error
    if "error" in answer:
        raise UnreadError(*answer["error"])
    pages: Pages = answer
    return pages


def _add_page(outline: Outline, text: str, headings: list[_Heading]) -> None:
    """Lines that belong together, below the headings of the page: a heading stands where a line
    is its title, with a number or without. A line that is short ends a paragraph, at a half of the
    longest, or at three quarters where a sentence ends."""
    text = _BROKEN_WORD.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    lines = [" ".join(line.split()) for line in text.split("\n")]
    usual = max(map(len, lines), default=0)
    cuts = range(_LONGEST_NUMBER + 1) if headings else ()
    titles = {line[cut:] for line in lines for cut in cuts}
    waiting = [one for one in headings if one.title in titles]
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
