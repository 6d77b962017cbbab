"""What reads a file of each suffix."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pocketquery.sdk.text_folders.decoding import decode
from pocketquery.sdk.text_folders.html_text import read_html
from pocketquery.sdk.text_folders.markdown import read_markdown
from pocketquery.sdk.text_folders.outline import Outline
from pocketquery.sdk.text_folders.restructured import read_plain_text, read_restructured

__all__ = ["reader_of"]


def _text(data: bytes) -> str:
    return decode(data).replace("\r\n", "\n").replace("\r", "\n")


_READERS: Mapping[str, Callable[[bytes], Outline]] = {
    **dict.fromkeys((".md", ".markdown"), lambda data: read_markdown(_text(data))),
    ".mdx": lambda data: read_markdown(_text(data), is_mdx=True),
    ".rst": lambda data: read_restructured(_text(data)),
    **dict.fromkeys((".html", ".htm", ".xhtml"), lambda data: read_html(_text(data))),
}


def reader_of(suffix: str) -> Callable[[bytes], Outline]:
    """The function that reads files of a suffix; plain text where it is none of ours."""
    return _READERS.get(suffix, lambda data: read_plain_text(_text(data)))
