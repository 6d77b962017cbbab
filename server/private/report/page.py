"""What a privacy report has beyond other reports' pages: a banner, marked columns, lists."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from html import escape

from pocketquery.server.pages.page import key_figures
from pocketquery.server.pages.page import page as plain_page

__all__ = ["EXPERIMENTAL", "bullets", "html_table", "marked_page", "rounded_up"]

EXPERIMENTAL = "Experimental; not reviewed by an outside cryptographer."

_STYLE = """
.banner { border-left: .3rem solid #D55E00; background: #fdf1e9; padding: .6rem 1rem }
.own { background: #e8f1f8 } th.own { border-top: .2rem solid #0072B2 }
td { vertical-align: top } .bars td:last-child { width: 60% }
.bar { background: #0072B2; height: .8rem; display: inline-block; vertical-align: middle }
"""


def marked_page(
    title: str,
    lead: str,
    banner: str,
    figures: Sequence[tuple[str, str]],
    parts: Sequence[tuple[str, str]],
) -> str:
    """A whole page.

    Args:
        title: of it.
        lead: a sentence under it.
        banner: what nobody may overlook.
        figures: a large value and what it is, each.
        parts: a heading and HTML, each.
    """
    said = f'<p class="banner"><b>{escape(banner)}</b></p>\n{key_figures(figures)}'
    said += "\n".join(f"<h2>{escape(name)}</h2>\n{text}" for name, text in parts)
    return plain_page(title, lead, said, style=_STYLE)


def html_table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], own: Collection[int] = ()
) -> str:
    """A table; ``rows`` are HTML already, ``own`` are the columns that are marked."""

    def mark(place: int) -> str:
        return ' class="own"' if place in own else ""

    head = "".join(f'<th scope="col"{mark(n)}>{escape(text)}</th>' for n, text in enumerate(heads))
    body = "".join(
        "<tr>" + "".join(f"<td{mark(n)}>{cell}</td>" for n, cell in enumerate(row)) + "</tr>\n"
        for row in rows
    )
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table>'
        "</div>\n"
    )


def bullets(texts: Sequence[str]) -> str:
    """A list of sentences."""
    return "<ul>" + "".join(f"<li>{escape(text)}</li>\n" for text in texts) + "</ul>"


def rounded_up(value: float) -> str:
    """An epsilon in two digits, to the safe side."""
    return "no bound" if math.isinf(value) else f"{math.ceil(value * 100 - 1e-9) / 100:.2f}"
