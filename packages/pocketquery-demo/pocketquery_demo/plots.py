"""The demo's plot: quality against size and against latency, as SVG text."""

from __future__ import annotations

from collections.abc import Callable

from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter

from pocketquery.server.pages.svg import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    VERMILION,
    new_figure,
    svg,
    tidy,
)
from pocketquery_demo.results import DemoResults, System

__all__ = ["LABELS", "quality_plot"]

LABELS = {
    "teacher": "teacher",
    "student_fp32": "student, float32",
    "student_int8": "student, int8",
    "bm25": "BM25",
    "hybrid": "hybrid (int8 + BM25)",
}
_COLOURS = {"teacher": BLUE, "student_fp32": ORANGE, "student_int8": VERMILION}
_LINES = {"bm25": GREY, "hybrid": GREEN}


def quality_plot(results: DemoResults) -> str:
    """nDCG@10 over megabytes and over milliseconds a query, both logarithmic.

    BM25 and hybrid are lines: the one has no encoder to weigh, the other the int8 student's.
    """
    figure = new_figure(4.0)
    left, right = figure.subplots(1, 2, sharey=True)
    _panel(left, results, lambda system: system.bytes / 1e6, "query encoder, MB")
    _panel(right, results, lambda system: system.encode_ms, "encoding one query, ms (p50)")
    left.set_ylabel("nDCG@10, held-out questions")
    figure.legend(
        *left.get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False
    )
    return svg(figure)


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
    tidy(axes)
