"""The rounds as a page: what was gained, the plot of retrieval per round, and every round's row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pocketquery.sdk.files import write_atomic
from pocketquery.server.federation.live_table import COLUMNS, cells
from pocketquery.server.federation.rounds.options import FederationOptions
from pocketquery.server.federation.rounds.round_report import RoundReport
from pocketquery.server.pages.page import (
    METRIC_NAMES,
    NO_PLOTS,
    key_figures,
    page,
    settings_table,
    table,
)

__all__ = ["federation_page", "summary", "write_report"]


def write_report(
    path: Path, rows: Sequence[RoundReport], lead: str, settings: FederationOptions
) -> None:
    """Write the page of ``rows`` to ``path``."""
    given = settings.to_dict()
    flat = {name: value for name, value in given.items() if not isinstance(value, dict)}
    every = {**flat, **given["settings"], **given["local"], **(given["secure"] or {})}
    listed = {name: value for name, value in every.items() if value is not None}
    title = "pocketquery: federated rounds"
    write_atomic(path, federation_page(rows, title=title, lead=lead, settings=listed))


def summary(rows: Sequence[RoundReport]) -> dict[str, Any]:
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
    rows: Sequence[RoundReport], *, title: str, lead: str, settings: Mapping[str, object]
) -> str:
    """A self-contained HTML page: no script, no font and no image from elsewhere.

    Args:
        rows: of the rounds that are over.
        title: of the page.
        lead: a sentence on who took part.
        settings: what the rounds were run with, shown at the end.
    """
    body = f"""{key_figures(_figures(rows))}<h2>Retrieval per round</h2>
{_plot(rows)}
<h2>Rounds</h2>
{table(map(cells, rows), COLUMNS)}
<p>Replied counts every reply. Left out are devices that declined (no consent, not charging, too
few queries: they do not say which) or failed, and replies that were quarantined, with the reason.
Loss and drift are means over the accepted replies; drift is 1 - cos to the shipped encoder. The
gate compares the candidate with the release in force on held-out queries, through the int8 encoder
that devices carry.</p>
<h2>Settings</h2>
{settings_table(settings)}"""
    return page(title, lead, body)


def _figures(rows: Sequence[RoundReport]) -> list[tuple[str, str]]:
    figures = summary(rows)
    items = [
        (str(figures["rounds"]), "rounds"),
        (str(figures["updates"]), "updates in the sums"),
        (str(figures["releases"]), "releases"),
    ]
    if figures["metric"] is not None:
        before, after = figures["before"], figures["after"]
        words = f"{_metric(figures['metric'])}, from {before:.4f} to {after:.4f}"
        items.append((f"{after - before:+.4f}", words))
    return items


def _plot(rows: Sequence[RoundReport]) -> str:
    judged = [row.gate for row in rows if row.gate is not None]
    if not judged:
        return "<p>No round was judged on held-out queries.</p>"
    try:
        from pocketquery.server.federation.plots import retrieval_plot
    except ImportError:  # the server's extra does not bring matplotlib
        return NO_PLOTS
    return retrieval_plot(rows, _metric(judged[0]["metric"]))


def _metric(name: str) -> str:
    return METRIC_NAMES.get(name, name)
