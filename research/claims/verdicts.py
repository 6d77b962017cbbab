"""Whether an ordering claim holds, link by link, by a bootstrap over seeds and over items.

Every link of a claim is a difference with an interval (``two_way.py``; a twentieth cut off on
either side, so that its lower end is the one-sided test at .05). A link holds where the interval
lies on the claimed side of the bound, does not hold where it lies on the other side, and is
undecided where the bound is within. A claim holds where all of its links do, and does not where one
does not.

``a > b``: the bound is 0. ``a >> b``: a fifth of b. ``a ~ b``: the interval is within a tolerance.
Bounds that are ours, because the paper names none, are marked so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from two_way import Estimate, estimated, resampled, summarised

__all__ = [
    "ABSENT",
    "CLOSE",
    "FAILS",
    "HOLDS",
    "OPEN",
    "Claim",
    "Link",
    "Results",
    "above",
    "compared",
    "decided",
    "far_above",
    "gains",
    "margin_above",
    "near",
    "not_above",
    "not_below",
    "ours",
    "sum_above",
    "table",
    "weighted",
]

Results = Mapping[str, Mapping[str, NDArray[np.float64]]]
"""Arm -> metric -> float64 (seeds, items): the score of every query (or pair) in every seed."""

HOLDS, FAILS, OPEN, ABSENT = "holds", "does not hold", "undecided", "not run"
CLOSE = 0.02
"""Differences smaller than this ask for more seeds."""
_OURS = " (bound ours)"


@dataclass(frozen=True)
class Link:
    """One comparison of a claim, decided.

    Attributes:
        text: what is claimed.
        verdict: "holds", "does not hold" or "undecided"; "not run" where arms are missing.
        evidence: the figures.
        arms: that were compared.
        estimate: of what the bound is held against; None where arms are missing.
        difference: of two arms' means; None where there is no single one.
        bound: that the estimate is held against; of a tolerance the nearer end.
    """

    text: str
    verdict: str
    evidence: str
    arms: tuple[str, ...]
    estimate: Estimate | None = None
    difference: float | None = None
    bound: float = 0.0

    def __str__(self) -> str:
        return f"{self.verdict}: {self.text}: {self.evidence}"


Check = Callable[[Results], Link]


@dataclass(frozen=True)
class Claim:
    """One ordering claim of a paper.

    Attributes:
        id: O1 to O25, and the metric where there are several.
        text: the claim in words.
        checks: its links.
        beside: reported beside them, deciding nothing, where their arms were run: the same at equal
            compute, say.
    """

    id: str
    text: str
    checks: Sequence[Check]
    beside: Sequence[Check] = ()


def decided(claim: Claim, results: Results) -> tuple[str, list[Link], list[Link]]:
    """The claim's verdict, its links, and what stands beside them.

    A link whose arms were not all run is "not run", and so is its claim, unless another link fails.
    """
    links = [_run(check, results) for check in claim.checks]
    beside = [_run(check, results) for check in claim.beside]
    verdicts = {link.verdict for link in links}
    whole = next((one for one in (FAILS, ABSENT, OPEN) if one in verdicts), HOLDS)
    return whole, links, [link for link in beside if link.verdict != ABSENT]


def _run(check: Check, results: Results) -> Link:
    try:
        return check(results)
    except KeyError as missing:
        return Link("a link", ABSENT, f"{missing.args[0]} was not run", ())


def compared(results: Results, metric: str, weights: Mapping[str, float]) -> NDArray[np.float64]:
    """The weighted sum of arms' scores, float64 (seeds, items), of the seeds that all have.

    Seeds of two arms go together in their order; an arm of one seed, which has nothing to draw,
    stands beside every seed of the others.

    Args:
        results: of the arms.
        metric: of theirs.
        weights: by arm.

    Raises:
        KeyError: an arm, or the metric of an arm, is not among the results.
    """
    return weighted([(weight, results[arm][metric]) for arm, weight in weights.items()])


def weighted(parts: Sequence[tuple[float, NDArray[np.float64]]]) -> NDArray[np.float64]:
    """:func:`compared` of tables (seeds, items) that are there already, each with its weight."""
    several = [len(table) for _, table in parts if len(table) > 1]
    seeds = min(several, default=1)
    total = np.zeros((seeds, parts[0][1].shape[1]))
    for weight, found in parts:
        total = total + weight * (found if len(found) == 1 else found[:seeds])
    return total


def above(better: str, worse: str, metric: str) -> Check:
    """``better > worse``."""

    def check(results: Results) -> Link:
        found = compared(results, metric, {better: 1, worse: -1})
        return _link(f"{better} > {worse} ({metric})", found, (better, worse))

    return check


def far_above(better: str, worse: str, metric: str) -> Check:
    """``better >> worse``: above it by a fifth of it or more."""

    def check(results: Results) -> Link:
        found = compared(results, metric, {better: 1, worse: -1.2})
        text = f"{better} >> {worse} ({metric}; {better} less 1.2 times {worse})"
        return replace(_link(text, found, (better, worse)), difference=None)

    return check


def near(one: str, other: str, metric: str, tolerance: float) -> Check:
    """``one ~ other``: their difference is within the tolerance, the interval included."""

    def check(results: Results) -> Link:
        found = estimated(compared(results, metric, {one: 1, other: -1}))
        inside = -tolerance <= found.low and found.high <= tolerance
        outside = found.low > tolerance or found.high < -tolerance
        verdict = HOLDS if inside else FAILS if outside else OPEN
        text = f"{one} ~ {other} ({metric}, within {tolerance})"
        bound = math.copysign(tolerance, found.mean)
        return Link(text, verdict, found.interval, (one, other), found, found.mean, bound)

    return check


def not_below(one: str, other: str, metric: str, tolerance: float = 0.0) -> Check:
    """``one >= other - tolerance``."""

    def check(results: Results) -> Link:
        found = compared(results, metric, {one: 1, other: -1})
        text = f"{one} >= {other}{f' {-tolerance:+}' if tolerance else ''} ({metric})"
        return _link(text, found, (one, other), least=-tolerance)

    return check


def not_above(one: str, other: str, metric: str, tolerance: float) -> Check:
    """``one <= other + tolerance``."""

    def check(results: Results) -> Link:
        found = compared(results, metric, {one: -1, other: 1})
        text = f"{one} <= {other} + {tolerance} ({metric}; {other} less {one})"
        return _link(text, found, (one, other), least=-tolerance)

    return check


def sum_above(text: str, parts: Sequence[tuple[float, str, str]]) -> Check:
    """A weighted sum of scores is above 0.

    Args:
        text: the link in words.
        parts: weight, arm and metric of each summand.
    """

    def check(results: Results) -> Link:
        scores = [(weight, results[arm][metric]) for weight, arm, metric in parts]
        arms = tuple(dict.fromkeys(arm for _, arm, _ in parts))
        return _link(text, weighted(scores), arms)

    return check


def margin_above(
    text: str,
    arms: Sequence[str],
    metric: str,
    margin: Callable[[NDArray[np.float64]], NDArray[np.float64]],
) -> Check:
    """A margin in the order of several arms' means is above 0.

    Args:
        text: the link in words.
        arms: n of them.
        metric: of theirs.
        margin: by how much the order is as claimed, float64 (samples,), of the means in each
            sample, float64 (n, samples).
    """

    def check(results: Results) -> Link:
        seeds = min(len(results[arm][metric]) for arm in arms)
        tables = [results[arm][metric][:seeds] for arm in arms]
        means = np.array([[table.mean()] for table in tables])
        found = summarised(float(margin(means)[0]), margin(resampled(tables)), 0.0, seeds)
        verdict = HOLDS if found.low > 0 else FAILS if found.high < 0 else OPEN
        said = ", ".join(f"{arm} {mean:.4f}" for arm, (mean,) in zip(arms, means, strict=True))
        evidence = f"{said}; margin {found}"
        return Link(f"{text} ({metric})", verdict, evidence, tuple(arms), found)

    return check


def ours(check: Check) -> Check:
    """A link whose bound is ours and not the paper's."""

    def marked(results: Results) -> Link:
        link = check(results)
        return replace(link, text=link.text + _OURS)

    return marked


def _link(
    text: str, differences: NDArray[np.float64], arms: tuple[str, ...], least: float = 0.0
) -> Link:
    found = estimated(differences, least)
    verdict = HOLDS if found.low > least else FAILS if found.high < least else OPEN
    return Link(text, verdict, str(found), arms, found, found.mean, least)


def gains(results: Results, metric: str) -> dict[str, Estimate]:
    """Arm -> its difference to ``start``."""
    arms = (arm for arm, found in results.items() if arm != "start" and metric in found)
    return {arm: estimated(compared(results, metric, {arm: 1, "start": -1})) for arm in arms}


def table(title: str, results: Results, metrics: Sequence[str]) -> str:
    """A Markdown table: mean over seeds and items, and the range over the seeds."""
    lines = [f"| {title} | " + " | ".join(metrics) + " |", "|---|" + "---|" * len(metrics)]
    for arm, found in results.items():
        cells = [_cell(found[metric]) if metric in found else "" for metric in metrics]
        lines.append(f"| `{arm}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(scores: NDArray[np.float64]) -> str:
    seeds = scores.mean(axis=1)
    if len(seeds) == 1:
        return f"{seeds.mean():.3f}"
    return f"{seeds.mean():.3f} ({seeds.min():.3f} to {seeds.max():.3f})"
