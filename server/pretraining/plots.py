"""A run's curves as SVG text: losses, and the geometry where it was diagnosed. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pocketquery.server.pages.svg import COLOURS, new_figure, svg, tidy

__all__ = ["geometry_plot", "gradient_plot", "loss_plot"]

Rows = Sequence[Mapping[str, Any]]

_ALARMS = {  # the figures, in the order of their axes, and where their alarm begins
    "std_ratio": 0.3,
    "mean_cos": 0.9,
    "uniformity": -0.5,
    "eff_rank": None,  # a tenth of the width, which is the model's
    "top_pc": 0.5,
    "hubness": 6.0,
}
_RELATIONS = ("partner_recall@10", "alignment", "lang_probe")


def loss_plot(rows: Rows) -> str:
    """The step's loss, and every further figure of the objectives below it.

    Args:
        rows: lines of the log.
    """
    lines = [row for row in rows if "loss" in row]
    names = ["loss", *sorted({name for row in lines for name in row if "/" in name})]
    figure = new_figure(1.9 * ((len(names) + 2) // 3))
    for axes, name in zip(_grid(figure, len(names)), names, strict=False):
        _curve(axes, [(row["step"], row[name]) for row in lines if name in row], 0)
        _finish(axes, name)
    return svg(figure)


def geometry_plot(rows: Rows) -> str:
    """What the diagnoses found, one colour a view; dashed where the alarm begins.

    Figures of partners and languages come last, where there were any.

    Args:
        rows: lines of the log, some with a diagnosis.
    """
    rows_shown = [row for row in rows if "geometry" in row]
    views = sorted({view for row in rows_shown for view in row["geometry"]})
    seen = {name for row in rows_shown for view in row["geometry"].values() for name in view}
    names = [*_ALARMS, *(name for name in _RELATIONS if name in seen)]
    figure = new_figure(2.1 * ((len(names) + 2) // 3))
    for axes, name in zip(_grid(figure, len(names)), names, strict=False):
        for number, view in enumerate(views):
            diagnosed = [(row["step"], row["geometry"].get(view, {})) for row in rows_shown]
            points = [(step, figures[name]) for step, figures in diagnosed if name in figures]
            _curve(axes, points, number, view)
        alarm = _ALARMS.get(name)
        if alarm is not None:
            axes.axhline(alarm, color="#5b6570", linestyle="--", linewidth=0.8)
        _finish(axes, name)
    if len(views) > 1:
        figure.axes[0].legend(frameon=False)
    return svg(figure)


def gradient_plot(rows: Rows) -> str:
    """How hard each loss pulls at the encoder, one colour a loss, on a logarithmic scale.

    Args:
        rows: lines of the log, some with gradient norms.
    """
    rows_shown = [row for row in rows if "gradient_norms" in row]
    figure = new_figure(2.6)
    axes = figure.add_subplot(1, 1, 1)
    for number, name in enumerate(
        sorted({name for row in rows_shown for name in row["gradient_norms"]})
    ):
        norms = [(row["step"], row["gradient_norms"].get(name, 0.0)) for row in rows_shown]
        _curve(axes, [point for point in norms if point[1] > 0], number, name)
    axes.set_yscale("log")
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    _finish(axes, "gradient norm")
    return svg(figure)


def _grid(figure: Figure, count: int) -> list[Axes]:
    """``count`` axes in rows of three."""
    rows = (count + 2) // 3
    return [figure.add_subplot(rows, 3, place + 1) for place in range(count)]


def _curve(axes: Axes, points: Sequence[tuple[float, float]], number: int, label: str = "") -> None:
    steps, values = [point[0] for point in points], [point[1] for point in points]
    colour = COLOURS[number % len(COLOURS)]
    axes.plot(steps, values, color=colour, marker="." if len(points) < 30 else "", label=label)


def _finish(axes: Axes, name: str) -> None:
    axes.set_title(name, fontsize=9, loc="left")
    axes.tick_params(labelsize=8)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=4, integer=True))
    axes.margins(y=0.15)
    tidy(axes)
