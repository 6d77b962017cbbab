"""Reads one PDF in a process of its own: ``python -m pocketquery.sdk.text_folders.pdf_process``.

The library is native code, and a PDF can be made to crash it. Bytes come on stdin, and what was
read goes as one JSON object to stdout: :class:`Pages`, or ``{"error": [kind, why]}``.
"""

from __future__ import annotations

import contextlib
import json
import sys
from itertools import islice
from typing import Any, TypedDict

__all__ = ["CPU_S", "MEMORY", "Pages"]

CPU_S = 120
"""Seconds of processor time that a PDF may take; the largest manuals take ten."""
MEMORY = 2 << 30
"""Bytes of memory that it may take, where the system holds processes to that."""

_MOST_PAGES = 20_000
_MOST_HEADINGS = 20_000
_MOST_CHARACTERS = 64 << 20


class Pages(TypedDict):
    """What a PDF has.

    Attributes:
        title: of its metadata.
        pages: the text of each.
        headings: of the table of contents: number of the page from 0, level from 1, and title.
    """

    title: str
    pages: list[str]
    headings: list[tuple[int, int, str]]


def _read(data: bytes) -> Pages:
    import pypdfium2

    document = pypdfium2.PdfDocument(data)
    pages, characters = list[str](), 0
    for number in range(min(len(document), _MOST_PAGES)):
        page = document[number]
        text_page = page.get_textpage()
        pages.append(text_page.get_text_bounded())
        text_page.close()
        page.close()
        characters += len(pages[-1])
        if characters > _MOST_CHARACTERS:
            break
    headings = [
        (target.get_index(), bookmark.level + 1, bookmark.get_title())
        for bookmark in islice(document.get_toc(), _MOST_HEADINGS)
        if (target := bookmark.get_dest())
    ]
    return {"title": document.get_metadata_value("Title"), "pages": pages, "headings": headings}


def _main() -> None:
    with contextlib.suppress(ImportError, ValueError, OSError):  # Windows has none
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a private text is in it
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    answer: Pages | dict[str, Any]
    try:
        answer = _read(sys.stdin.buffer.read())
    except Exception as error:
        is_locked = "password" in str(error).lower()
        locked = ["encrypted", "encrypted; save a copy without a password"]
        damaged = ["damaged", f"no PDF that can be read: {str(error) or type(error).__name__}"]
        answer = {"error": locked if is_locked else damaged}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    _main()
