"""A run's curves as SVG text: losses, and the geometry where it was diagnosed. Needs matplotlib."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

__all__ = ["geometry_plot", "loss_plot"]

Rows = Sequence[Mapping[str, Any]]

# Okabe and Ito's palette: told apart by the colour-blind too.
_COLOURS = ("#0072B2", "#D55E00", "#007A5A", "#CC79A7", "#E69F00", "#56B4E9")
_ALARMS = {  # the figures, in the order of their axes, and where their alarm begins
    "std_ratio": 0.3,
    "mean_cos": 0.9,
    "uniformity": -0.5,
    "eff_rank": None,  # a tenth of the width, which is the model's
    "top_pc": 0.5,
    "hubness": 6.0,
}


def loss_plot(rows: Rows) -> str:
    """The step's loss, and every further figure of the objectives below it.

    Args:
        rows: lines of the log.
    """
    lines = [row for row in rows if "loss" in row]
    names = ["loss", *sorted({name for row in lines for name in row if "/" in name})]
    figure = Figure(figsize=(9.6, 1.9 * ((len(names) + 2) // 3)), layout="constrained")
    for axes, name in zip(_grid(figure, len(names)), names, strict=False):
        _curve(axes, [(row["step"], row[name]) for row in lines if name in row], 0)
        _finish(axes, name)
    return _svg(figure)


def geometry_plot(rows: Rows) -> str:
    """What the diagnoses found, one colour a view; dashed where the alarm begins.

    Args:
        rows: lines of the log, some with a diagnosis.
    """
    found = [row for row in rows if "geometry" in row]
    views = sorted({view for row in found for view in row["geometry"]})
    figure = Figure(figsize=(9.6, 4.2), layout="constrained")
    for axes, (name, alarm) in zip(_grid(figure, len(_ALARMS)), _ALARMS.items(), strict=True):
        for number, view in enumerate(views):
            points = [
                (r["step"], r["geometry"][view][name]) for r in found if view in r["geometry"]
            ]
            _curve(axes, points, number, view)
        if alarm is not None:
            axes.axhline(alarm, color="#5b6570", linestyle="--", linewidth=0.8)
        _finish(axes, name)
    if len(views) > 1:
        figure.axes[0].legend(frameon=False)
    return _svg(figure)


def _grid(figure: Figure, count: int) -> list[Axes]:
    """``count`` axes in rows of three."""
    rows = (count + 2) // 3
    return [figure.add_subplot(rows, 3, place + 1) for place in range(count)]


def _curve(axes: Axes, points: Sequence[tuple[float, float]], number: int, label: str = "") -> None:
    steps, values = [point[0] for point in points], [point[1] for point in points]
    colour = _COLOURS[number % len(_COLOURS)]
    axes.plot(steps, values, color=colour, marker="." if len(points) < 30 else "", label=label)


def _finish(axes: Axes, name: str) -> None:
    axes.set_title(name, fontsize=9, loc="left")
    axes.tick_params(labelsize=8)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=4, integer=True))
    axes.margins(y=0.15)
    axes.grid(visible=True, alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def _svg(figure: Figure) -> str:
    # Text stays text (searchable, small); the ids follow a fixed salt, not the clock.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "pocketquery"}):
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()[buffer.getvalue().index("<svg") :]
