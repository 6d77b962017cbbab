"""The report's plot: retrieval after each round, as SVG text. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from pocketquery.server.federation.rounds.round_report import RoundReport
from pocketquery.server.pages.svg import BLUE, GREEN, VERMILION, new_figure, svg, tidy

__all__ = ["retrieval_plot"]

_IN_FORCE, _ACCEPTED, _REFUSED = BLUE, GREEN, VERMILION


def retrieval_plot(rows: Sequence[RoundReport], metric: str) -> str:
    """What held-out queries find with the release in force after each round, and with each
    candidate, whose whisker is the interval of its difference to the release before it.

    Args:
        rows: of rounds that are over; those the gate judged are shown.
        metric: what the gate measured, as it is to be called.
    """
    figure = new_figure(3.6)
    axes = figure.subplots()
    _draw_releases(axes, rows)
    _draw_candidates(axes, rows, accepted=True)
    _draw_candidates(axes, rows, accepted=False)
    _finish(axes, metric)
    return svg(figure)


def _draw_releases(axes: Axes, rows: Sequence[RoundReport]) -> None:
    """The release in force: where it starts, then after each round."""
    places: list[float] = []
    values: list[float] = []
    for row in rows:
        if row.gate is None:
            continue
        if not places:
            places.append(row.round)
            values.append(row.gate["before"])
        places.append(row.round + 1)
        values.append(row.gate["after" if row.gate["accepted"] else "before"])
    axes.step(places, values, where="post", color=_IN_FORCE, label="release in force")


def _draw_candidates(axes: Axes, rows: Sequence[RoundReport], *, accepted: bool) -> None:
    judged = [
        (row, row.gate)
        for row in rows
        if row.gate and row.gate["accepted"] is accepted and row.gate["after"] is not None
    ]
    if not judged:  # none, or a candidate whose vectors are not finite and have no place here
        return
    after = [gate["after"] for _, gate in judged]
    below = [max(0.0, gate["after"] - gate["before"] - gate["low"]) for _, gate in judged]
    above = [max(0.0, gate["high"] - gate["after"] + gate["before"]) for _, gate in judged]
    axes.errorbar(
        [row.round + 1 for row, _ in judged],
        after,
        yerr=[below, above],
        fmt="o" if accepted else "x",
        color=_ACCEPTED if accepted else _REFUSED,
        elinewidth=1.0,
        capsize=2,
        label="candidate, accepted" if accepted else "candidate, refused",
    )


def _finish(axes: Axes, metric: str) -> None:
    axes.set_xlabel("rounds")
    axes.set_ylabel(f"{metric}, held-out queries")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.margins(y=0.15)
    tidy(axes)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, ncols=3, loc="best")
