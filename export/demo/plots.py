"""The demo's plot: quality against size and against latency, as SVG text."""

from __future__ import annotations

import io
from collections.abc import Callable

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from pocketquery.export.demo.results import DemoResults, System

__all__ = ["LABELS", "quality_plot"]

LABELS = {
    "teacher": "teacher",
    "student_fp32": "student, float32",
    "student_int8": "student, int8",
    "bm25": "BM25",
    "hybrid": "hybrid (int8 + BM25)",
}
# Okabe and Ito's palette: told apart by the colour-blind too.
_COLOURS = {"teacher": "#0072B2", "student_fp32": "#E69F00", "student_int8": "#D55E00"}
_LINES = {"bm25": "#595959", "hybrid": "#007A5A"}


def quality_plot(results: DemoResults) -> str:
    """nDCG@10 over megabytes and over milliseconds a query, both logarithmic.

    BM25 and hybrid are lines: the one has no encoder to weigh, the other the int8 student's.
    """
    # Text stays text (searchable, small); the ids follow a fixed salt, not the clock.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "pocketquery"}):
        figure = Figure(figsize=(9.6, 4.0), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        _panel(left, results, lambda system: system.bytes / 1e6, "query encoder, MB")
        _panel(right, results, lambda system: system.encode_ms, "encoding one query, ms (p50)")
        left.set_ylabel("nDCG@10, held-out questions")
        figure.legend(
            *left.get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False
        )
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()[buffer.getvalue().index("<svg") :]


def _panel(
    axes: Axes, results: DemoResults, x: Callable[[System], float | None], label: str
) -> None:
    for name, colour in _LINES.items():
        quality = results.system(name).metrics["ndcg@10"]
        axes.axhline(quality, color=colour, linestyle="--", linewidth=1.2, label=LABELS[name])
    for name, colour in _COLOURS.items():
        system = results.system(name)
        place, quality = x(system), system.metrics["ndcg@10"]
        if place is None:
            continue
        axes.scatter([place], [quality], s=70, color=colour, label=LABELS[name], zorder=3)
        axes.annotate(
            f"{place:.2g}" if place < 10 else f"{place:.0f}",
            (place, quality),
            textcoords="offset points",
            xytext=(0, 8),
            ha="center",
            fontsize=9,
        )
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(label)
    axes.margins(x=0.25, y=0.25)
    axes.grid(visible=True, alpha=0.3, which="major")
    axes.spines[["top", "right"]].set_visible(False)
