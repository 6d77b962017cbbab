"""The rounds as a page: what was gained, the plot of retrieval per round, and every round's row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from pocketquery.sdk.files import write_atomic
from pocketquery.server.federation.live_table import COLUMNS, cells
from pocketquery.server.federation.round_row import RoundRow
from pocketquery.server.federation.rounds.options import FederationOptions

__all__ = ["federation_page", "summary", "write_report"]

_NAMES = {"ndcg@10": "nDCG@10"}

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
th, td { padding: .35rem .6rem; text-align: left; border-bottom: 1px solid var(--line) }
td { font-variant-numeric: tabular-nums }
svg { width: 100%; height: auto } code { font-size: .9em }
"""


def write_report(
    path: Path, rows: Sequence[RoundRow], lead: str, settings: FederationOptions
) -> None:
    """Write the page of ``rows`` to ``path``."""
    given = settings.to_dict()
    flat = {name: value for name, value in given.items() if not isinstance(value, dict)}
    every = {**flat, **given["settings"], **given["local"], **(given["secure"] or {})}
    listed = {name: value for name, value in every.items() if value is not None}
    title = "pocketquery: federated rounds"
    write_atomic(path, federation_page(rows, title=title, lead=lead, settings=listed))


def summary(rows: Sequence[RoundRow]) -> dict[str, Any]:
    """The rounds in a few figures, as JSON values; retrieval is None where nothing was judged."""
    judged = [row.gate for row in rows if row.gate is not None]
    last = judged[-1] if judged else None
    return {
        "rounds": len(rows),
        "updates": sum(row.accepted for row in rows),
        "releases": sum(row.outcome.startswith("release") for row in rows),
        "skipped": sum(row.skipped is not None for row in rows),
        "version": rows[-1].version if rows else None,
        "metric": judged[0]["metric"] if judged else None,
        "before": judged[0]["before"] if judged else None,
        "after": last["after" if last["accepted"] else "before"] if last else None,
    }


def federation_page(
    rows: Sequence[RoundRow], *, title: str, lead: str, settings: Mapping[str, object]
) -> str:
    """A self-contained HTML page: no script, no font and no image from elsewhere.

    Args:
        rows: of the rounds that are over.
        title: of the page.
        lead: a sentence on who took part.
        settings: what the rounds were run with, shown at the end.
    """
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in COLUMNS)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells(row)) + "</tr>\n"
        for row in rows
    )
    listed = "".join(
        f"<tr><td>{escape(name)}</td><td><code>{escape(str(value))}</code></td></tr>\n"
        for name, value in settings.items()
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>
<body><h1>{escape(title)}</h1>
<p class="lead">{escape(lead)}</p>
<ul class="figures">{_figures(rows)}</ul>
<h2>Retrieval per round</h2>
{_plot(rows)}
<h2>Rounds</h2>
<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>
{body}</tbody></table></div>
<p>Replied counts every reply. Left out are devices that declined (no consent, not charging, too
few queries: they do not say which) or failed, and replies that were quarantined, with the reason.
Loss and drift are means over the accepted replies; drift is 1 - cos to the shipped encoder. The
gate compares the candidate with the release in force on held-out queries, through the int8 encoder
that devices carry.</p>
<h2>Settings</h2>
<div class="scroll"><table><tbody>
{listed}</tbody></table></div></body></html>
"""


def _figures(rows: Sequence[RoundRow]) -> str:
    found = summary(rows)
    items = [
        (str(found["rounds"]), "rounds"),
        (str(found["updates"]), "updates in the sums"),
        (str(found["releases"]), "releases"),
    ]
    if found["metric"] is not None:
        before, after = found["before"], found["after"]
        said = f"{_metric(found['metric'])}, from {before:.4f} to {after:.4f}"
        items.append((f"{after - before:+.4f}", said))
    return "".join(f"<li><b>{value}</b>{escape(label)}</li>\n" for value, label in items)


def _plot(rows: Sequence[RoundRow]) -> str:
    judged = [row.gate for row in rows if row.gate is not None]
    if not judged:
        return "<p>No round was judged on held-out queries.</p>"
    try:
        from pocketquery.server.federation.plots import retrieval_plot
    except ImportError:  # the server's extra does not bring matplotlib
        return '<p>For the plot: <code>pip install "pocketquery[demo]"</code></p>'
    return retrieval_plot(rows, _metric(judged[0]["metric"]))


def _metric(name: str) -> str:
    return _NAMES.get(name, name)
