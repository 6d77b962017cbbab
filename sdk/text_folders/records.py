"""Notebooks, mails and tables: files whose parts are texts of their own."""

from __future__ import annotations

import csv
import email
import email.policy
import email.utils
import io
import json
import re
from collections.abc import Iterator
from email.message import EmailMessage, MIMEPart
from itertools import chain, repeat
from typing import Any, cast

from pocketquery.sdk.text_folders.decoding import decode
from pocketquery.sdk.text_folders.html_text import read_html
from pocketquery.sdk.text_folders.markdown import read_markdown
from pocketquery.sdk.text_folders.outline import Line, Outline, UnreadError, github_anchor
from pocketquery.sdk.text_folders.restructured import read_plain_text

__all__ = ["read_mail", "read_notebook", "read_table"]

_MOST_OUTPUT = 2_000  # characters that a cell of a notebook printed
_LONGEST_HEADER = 2_000  # characters; a parser of addresses takes long
_DELIMITERS = ",;\t|"


def read_notebook(text: str) -> Outline:
    """The cells of a Jupyter notebook: its texts, its code, and the beginning of its outputs."""
    try:
        notebook = json.loads(text)
        cells = notebook.get("cells") or [
            cell for sheet in notebook.get("worksheets", []) for cell in sheet["cells"]
        ]
        parts = [(str(cell.get("cell_type")), cell, _source(cell)) for cell in cells]
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        raise UnreadError("damaged", f"no notebook of Jupyter: {error}") from error
    outline = Outline(github_anchor)
    for kind, cell, source in parts:
        if kind == "heading":
            outline.head(int(cell.get("level", 1)), source)
        elif kind == "code":
            outline.add([Line(line, 0) for line in source.split("\n")], "\n")
            printed = "".join(_printed(cell))[:_MOST_OUTPUT]
            outline.add([Line(line, 0) for line in printed.split("\n")], "\n")
        else:
            read_markdown(source, outline=outline, has_lines=False)
    return outline


def _source(cell: dict[str, Any]) -> str:
    return _joined(cell.get("source", cell.get("input", "")))


def _joined(text: object) -> str:
    return "".join(map(str, text)) if isinstance(text, list) else str(text)


def _printed(cell: dict[str, Any]) -> Iterator[str]:
    for output in cell.get("outputs") or []:
        if isinstance(output, dict):
            data = output.get("data")
            shown = data.get("text/plain") if isinstance(data, dict) else output.get("text")
            text = _joined(shown or "")[:_MOST_OUTPUT]
            yield re.sub(r"\x1b\[[0-9;]*m", "", text) + "\n"


class _Policy(email.policy.EmailPolicy):
    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        name, value = super().header_source_parse(sourcelines)
        return name, value[:_LONGEST_HEADER]


def read_mail(data: bytes) -> Outline:
    """The text of a mail, with its subject as the title."""
    message = cast(EmailMessage, email.message_from_bytes(data, policy=_Policy()))
    outline = Outline()
    try:
        outline.title = _header(message, "subject")
        fields = {"author": _header(message, "from"), "to": _header(message, "to")}
        date = _header(message, "date")
        if email.utils.parsedate_tz(date):
            fields["date"] = email.utils.parsedate_to_datetime(date).isoformat()
        body = message.get_body(("plain", "html"))
        text = _content(body) if body is not None else ""
    except Exception as error:
        raise UnreadError("damaged", f"no mail that can be read: {error}") from error
    if body is not None and body.get_content_type() == "text/html":
        title = outline.title
        read_html(text, outline)
        outline.title = title
    else:
        for paragraph in re.split(r"\n\s*\n", text):
            outline.add([Line(line.strip(), 0) for line in paragraph.split("\n")])
    names = [part.get_filename() or "" for part in message.iter_attachments()]
    outline.add([Line(", ".join(filter(None, names)), 0)])
    outline.fields = {name: value for name, value in fields.items() if value}
    return outline


def _header(message: EmailMessage, name: str) -> str:
    return " ".join(str(message.get(name, "")).split())


def _content(body: MIMEPart) -> str:
    payload = body.get_payload(decode=True)
    data = payload if isinstance(payload, bytes) else b""
    try:
        return data.decode(body.get_content_charset() or "utf-8")
    except (LookupError, ValueError):
        return decode(data)


def read_table(text: str) -> Outline:
    """The rows of a table, each cell with its column's name."""
    lines = text.split("\n")
    counts = [(lines[0].count(one), one) for one in _DELIMITERS]
    outline, (count, delimiter) = Outline(), max(counts, key=lambda pair: pair[0])
    rows = csv.reader(io.StringIO(text), delimiter=delimiter if count else "\x1f")
    names, number = list[str](), 1
    try:
        for row in rows:
            if not names:
                names = [cell.strip() for cell in row]
            if len(names) < 2:  # a list
                outline.add([Line(" ".join(" ".join(row).split()), number)])
            elif number > 1:
                outline.add([Line(_row(names, row), number)])
            number = rows.line_num + 1
    except csv.Error:  # a quotation mark that nothing ends, say
        return read_plain_text(text)
    return outline


def _row(names: list[str], row: list[str]) -> str:
    cells = [" ".join(cell.split()) for cell in row]
    named = zip(chain(names, repeat("")), cells, strict=False)
    return "; ".join(f"{name}: {cell}" if name else cell for name, cell in named if cell)
