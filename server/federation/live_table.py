"""The rounds as they run: a table that moves on a terminal, a line a round elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any, TextIO

from rich.console import Console
from rich.live import Live
from rich.table import Table

from pocketquery.server.federation.rounds.round_report import RoundReport

__all__ = ["COLUMNS", "LiveTable", "cells", "report_line"]

COLUMNS = ("round", "asked", "replied", "left out", "loss", "drift", "gate", "result")
"""What a row shows, in this order."""

_LEFT = {"left out", "gate", "result"}
_WRAPPED = {"left out", "gate"}
_SHOWN = 25  # rows on a terminal; the report holds them all


class LiveTable:
    """A context that shows each row it is given, the same round's again as it goes on.

    Args:
        reports: of rounds that are over, from a run that is resumed.
        stream: where to; a terminal gets a moving table, anything else a line when a round is over.
        enabled: False shows nothing.
    """

    def __init__(
        self,
        reports: Iterable[RoundReport] = (),
        *,
        stream: TextIO | None = None,
        enabled: bool = True,
    ) -> None:
        self._rows = {row.round: row for row in reports}
        self._stream = stream or sys.stderr
        self._enabled = enabled
        self._live: Live | None = None

    def __enter__(self) -> LiveTable:
        console = Console(file=self._stream, highlight=False)
        if self._enabled and console.is_terminal:
            self._live = Live(self._table(), console=console, auto_refresh=False)
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, row: RoundReport) -> None:
        """Show ``row`` in the place of what was shown of its round."""
        self._rows[row.round] = row
        if self._live is not None:
            self._live.update(self._table(), refresh=True)
        elif self._enabled and row.version is not None:
            print(report_line(row), file=self._stream, flush=True)

    def _table(self) -> Table:
        table = Table(box=None, pad_edge=False)
        for name in COLUMNS:
            left, wraps = name in _LEFT, name in _WRAPPED
            table.add_column(name, justify="left" if left else "right", no_wrap=not wraps)
        for number in sorted(self._rows)[-_SHOWN:]:
            table.add_row(*cells(self._rows[number]))
        return table


def cells(row: RoundReport) -> tuple[str, ...]:
    """The row's cells, as texts, in the order of the table's columns."""
    return (
        str(row.round),
        str(row.asked),
        str(row.replied),
        _quarantined(row),
        _figure(row, "loss"),
        _figure(row, "drift"),
        _gate(row),
        row.outcome + (", by the mean" if row.fallback else ""),
    )


def report_line(row: RoundReport) -> str:
    """The row as one line of a log."""
    parts = [
        f"round {row.round}: asked {row.asked}, replied {row.replied}, accepted {row.accepted}",
        f"loss {_figure(row, 'loss')}, drift {_figure(row, 'drift')}",
    ]
    out = _quarantined(row)
    parts += [f"left out: {out}"] if out != "-" else []
    parts += [f"gate: {_gate(row)}"] if row.gate else []
    parts += [row.fallback] if row.fallback else []
    parts.append(f"skipped: {row.skipped}" if row.skipped else row.outcome)
    return "; ".join(parts)


def _quarantined(row: RoundReport) -> str:
    counts = {"declined": row.declined, "failed": row.failed, **row.quarantined}
    return ", ".join(f"{name} {count}" for name, count in counts.items() if count) or "-"


def _figure(row: RoundReport, name: str) -> str:
    return f"{row.figures[name]:.4f}" if name in row.figures else "-"


def _gate(row: RoundReport) -> str:
    """How much better the candidate is, and the interval; or why it was refused."""
    if row.gate is None:
        return "-"
    if row.gate["after"] is None:
        return str(row.gate["reason"])
    gain = _gain(row.gate)
    if "mistyped" in row.gate:  # beside the queries as they are
        gain += f", mistyped {_gain(row.gate['mistyped'])}"
    return gain if row.gate["accepted"] else f"{gain} {row.gate['reason']}"


def _gain(gate: Mapping[str, Any]) -> str:
    gained = gate["after"] - gate["before"]
    return f"{gained:+.4f} [{gate['low']:+.4f}, {gate['high']:+.4f}]"
