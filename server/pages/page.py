"""A report as a self-contained HTML page: no script, no font and no image from elsewhere."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from html import escape

__all__ = ["NO_PLOTS", "METRIC_NAMES", "key_figures", "page", "settings_table", "table"]

METRIC_NAMES = {"ndcg@10": "nDCG@10", "mrr@10": "MRR@10"}
"""Metrics as people write them, where that is not their name."""

NO_PLOTS = '<p>For the plots: <code>pip install "pocketquery[demo]"</code></p>'
"""The text in a plot's place where matplotlib is not installed."""

_STYLE = """
:root { color-scheme: light; --line: #d5d9de; --soft: #5b6570; }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem;
       color: #1c2126; background: #fff; }
h1 { font-size: 1.6rem; margin-bottom: .2rem } h2 { font-size: 1.15rem; margin-top: 2.2rem }
.lead { color: var(--soft); margin-top: 0 }
.figures { display: flex; flex-wrap: wrap; gap: 1rem; padding: 0; list-style: none }
.figures li { border: 1px solid var(--line); border-radius: .5rem; padding: .7rem 1rem; flex: 1 }
.figures b { display: block; font-size: 1.5rem }
.scroll { overflow-x: auto } table { border-collapse: collapse; width: 100%; font-size: .9rem }
th, td { padding: .4rem .6rem; text-align: left; border-bottom: 1px solid var(--line) }
td { font-variant-numeric: tabular-nums }
.numbers th, .numbers td { text-align: right }
.numbers th:first-child, .numbers td:first-child { text-align: left } tr.ours { font-weight: 600 }
svg { width: 100%; height: auto } ol { padding-left: 1.3rem }
.hit { margin-bottom: .5rem } .hit small { color: var(--soft) } code { font-size: .9em }
"""


def page(title: str, lead: str, body: str, *, style: str = "") -> str:
    """The whole page.

    Args:
        title: as text.
        lead: a sentence below it, as text.
        body: all the rest, as HTML: what is not ours in it is escaped.
        style: rules of this page's own, in CSS.
    """
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}{style}</style>
</head>
<body><h1>{escape(title)}</h1>
<p class="lead">{escape(lead)}</p>
{body}</body></html>
"""


def key_figures(figures: Iterable[tuple[str, str]]) -> str:
    """A row of boxes, each a figure and what it is, as texts."""
    items = (f"<li><b>{escape(value)}</b>{escape(label)}</li>\n" for value, label in figures)
    return f'<ul class="figures">{"".join(items)}</ul>\n'


def table(
    rows: Iterable[Sequence[str]],
    header: Sequence[str] = (),
    *,
    numbers: bool = False,
    ours: Container[int] = (),
) -> str:
    """A table of texts.

    Args:
        rows: its cells.
        header: names of the columns; none: no header.
        numbers: every column but the first has numbers.
        ours: the places of the rows that stand out.
    """
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in header)
    body = "".join(_row([escape(cell) for cell in row], at in ours) for at, row in enumerate(rows))
    return _scrolling(f"<thead><tr>{head}</tr></thead>" if header else "", body, numbers)


def settings_table(values: Mapping[str, object]) -> str:
    """Names and what they were set to."""
    rows = ([escape(str(k)), f"<code>{escape(str(v))}</code>"] for k, v in values.items())
    return _scrolling("", "".join(_row(row) for row in rows))


def _row(cells: Iterable[str], ours: bool = False) -> str:
    inner = "".join(f"<td>{cell}</td>" for cell in cells)
    return f'<tr class="ours">{inner}</tr>\n' if ours else f"<tr>{inner}</tr>\n"


def _scrolling(head: str, body: str, numbers: bool = False) -> str:
    kind = ' class="numbers"' if numbers else ""
    return f'<div class="scroll"><table{kind}>{head}<tbody>\n{body}</tbody></table></div>\n'
