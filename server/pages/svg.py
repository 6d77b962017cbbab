"""Plots for a page, as SVG text in one look. Needs matplotlib."""

from __future__ import annotations

import io

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

__all__ = ["BLUE", "COLOURS", "GREEN", "GREY", "ORANGE", "VERMILION", "new_figure", "svg", "tidy"]

# Okabe and Ito's palette: told apart by the colour-blind too.
BLUE, ORANGE, GREEN, VERMILION, GREY = "#0072B2", "#E69F00", "#007A5A", "#D55E00", "#595959"
COLOURS = (BLUE, VERMILION, GREEN, "#CC79A7", ORANGE, "#56B4E9")
"""For things without an order, in this order."""


def new_figure(height: float) -> Figure:
    """A figure as wide as the page, ``height`` inches high."""
    return Figure(figsize=(9.6, height), layout="constrained")


def tidy(axes: Axes) -> None:
    """A light grid, and no frame on the right and above."""
    axes.grid(visible=True, alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def svg(figure: Figure) -> str:
    """The figure as an ``<svg>`` element; the same figure gives the same text."""
    # Text stays text (searchable, small); the ids follow a fixed salt, not the clock.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "pocketquery"}):
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()[buffer.getvalue().index("<svg") :]
