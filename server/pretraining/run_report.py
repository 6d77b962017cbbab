"""A run as a page: its curves, its last figures, and what it was run with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from pocketquery.sdk.files import write_atomic
from pocketquery.server.pretraining.mixture import left_out_of, name_left_out
from pocketquery.server.training.log import read_log

__all__ = ["write_run_report"]

_STYLE = """
:root { color-scheme: light; --line: #d5d9de; --soft: #5b6570; }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem;
       color: #1c2126; background: #fff; }
h1 { font-size: 1.6rem; margin-bottom: .2rem } h2 { font-size: 1.15rem; margin-top: 2.2rem }
.lead { color: var(--soft); margin-top: 0 }
table { border-collapse: collapse; width: 100%; font-size: .9rem }
td { padding: .35rem .6rem; border-bottom: 1px solid var(--line) }
td { font-variant-numeric: tabular-nums }
svg { width: 100%; height: auto } code { font-size: .9em }
"""


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
    said = f"Alarms of the last diagnosis: {', '.join(alarms)}." if alarms else ""
    left_out = left_out_of(rows)
    if left_out:
        said += f" Languages left out of training, of too few texts: {name_left_out(left_out)}."
    page = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>pocketquery: pretraining</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>
<body><h1>pocketquery: pretraining</h1>
<p class="lead">{last.get("step", 0)} steps. {escape(said)}</p>
{_curves(rows)}
<h2>The last lines' means</h2><table><tbody>{_table(last)}</tbody></table>
<h2>Settings</h2><table><tbody>{_table(settings)}</tbody></table></body></html>
"""
    write_atomic(path, page)


def _curves(rows: Sequence[Mapping[str, Any]]) -> str:
    try:
        from pocketquery.server.pretraining.plots import geometry_plot, gradient_plot, loss_plot
    except ImportError:  # the server's extra does not bring matplotlib
        return '<p>For the curves: <code>pip install "pocketquery[demo]"</code></p>'
    curves = f"<h2>Losses</h2>\n{loss_plot(rows)}" if any("loss" in row for row in rows) else ""
    if any("geometry" in row for row in rows):
        curves += f"\n<h2>Geometry of held-out texts</h2>\n{geometry_plot(rows)}"
    if any("gradient_norms" in row for row in rows):
        curves += f"\n<h2>Pull of the losses on the token states</h2>\n{gradient_plot(rows)}"
    return curves


def _table(values: Mapping[str, Any]) -> str:
    return "".join(
        f"<tr><td>{escape(str(name))}</td><td><code>{escape(str(value))}</code></td></tr>\n"
        for name, value in values.items()
    )
