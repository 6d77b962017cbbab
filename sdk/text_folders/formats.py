"""What reads a file of each suffix."""

from __future__ import annotations

import json

from pocketquery.sdk.text_folders.decoding import decode
from pocketquery.sdk.text_folders.outline import Outline, UnreadError, storable

__all__ = ["read_outline"]


def read_outline(data: bytes, suffix: str) -> Outline:
    """The sections and paragraphs of a file.

    Args:
        data: its bytes.
        suffix: of its name, in small letters; one that is not known is read as plain text.

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
        return _of_bytes(data, suffix)
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


def _of_bytes(data: bytes, suffix: str) -> Outline:
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
