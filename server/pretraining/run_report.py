"""The report of a run as an HTML page: curves, last figures, settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pocketquery.sdk.files import write_atomic
from pocketquery.server.pages.page import NO_PLOTS, page, settings_table
from pocketquery.server.pretraining.mixture import left_out_of, name_left_out
from pocketquery.server.training.log import read_log

__all__ = ["write_run_report"]


def write_run_report(path: Path, log: Path, settings: Mapping[str, Any]) -> None:
    """Write a self-contained HTML page: no script, no font and no image from elsewhere.

    Args:
        path: of the page.
        log: of the run, JSON lines.
        settings: what it was run with, shown at the end.
    """
    rows = read_log(log)
    last: dict[str, Any] = next((row for row in reversed(rows) if "loss" in row), {})
    alarms: list[str] = next((row["alarms"] for row in reversed(rows) if "alarms" in row), [])
    summary = f"Alarms of the last diagnosis: {', '.join(alarms)}." if alarms else ""
    left_out = left_out_of(rows)
    if left_out:
        summary += f" Languages left out of training, of too few texts: {name_left_out(left_out)}."
    body = f"""{_curves(rows)}
<h2>The last lines' means</h2>
{settings_table(last)}
<h2>Settings</h2>
{settings_table(settings)}"""
    lead = f"{last.get('step', 0)} steps. {summary}"
    write_atomic(path, page("pocketquery: pretraining", lead, body))


def _curves(rows: Sequence[Mapping[str, Any]]) -> str:
    try:
        from pocketquery.server.pretraining.plots import geometry_plot, gradient_plot, loss_plot
    except ImportError:  # the server's extra does not bring matplotlib
        return NO_PLOTS
    curves = f"<h2>Losses</h2>\n{loss_plot(rows)}" if any("loss" in row for row in rows) else ""
    if any("geometry" in row for row in rows):
        curves += f"\n<h2>Geometry of held-out texts</h2>\n{geometry_plot(rows)}"
    if any("gradient_norms" in row for row in rows):
        curves += f"\n<h2>Pull of the losses on the token states</h2>\n{gradient_plot(rows)}"
    return curves
