"""Whether an ordering claim holds: paired tests over queries, after averaging over seeds.

``a > b`` needs a positive mean difference and a one-sided sign-flip permutation test below 0.05;
``a >> b`` besides that a difference of a fifth of b; ``a ~ b`` an absolute difference below a
tolerance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Claim",
    "Results",
    "Verdict",
    "above",
    "all_of",
    "far_above",
    "gains",
    "near",
    "not_below",
]

Results = Mapping[str, Mapping[str, NDArray[np.float64]]]
"""Arm -> metric -> float64 (seeds, items): the score of every query (or pair) in every seed."""

_FLIPS = 10_000
_LEVEL = 0.05


@dataclass(frozen=True)
class Verdict:
    """Whether a claim holds, and the figures that say so."""

    holds: bool
    evidence: str


Check = Callable[[Results], Verdict]


@dataclass(frozen=True)
class Claim:
    """One ordering claim of a paper.

    Attributes:
        id: O1 to O25.
        text: the claim in words.
        check: decides it from the arms' results.
    """

    id: str
    text: str
    check: Check


def above(better: str, worse: str, metric: str) -> Check:
    """``better > worse``."""

    def check(results: Results) -> Verdict:
        difference, p = _difference(results, better, worse, metric)
        shown = f"{better} - {worse}, {metric}: {difference:+.4f} (p {p:.3f})"
        return Verdict(difference > 0 and p < _LEVEL, shown)

    return check


def far_above(better: str, worse: str, metric: str) -> Check:
    """``better >> worse``: above, and by a fifth of the worse one or more."""

    def check(results: Results) -> Verdict:
        difference, p = _difference(results, better, worse, metric)
        relative = difference / max(float(results[worse][metric].mean()), 1e-9)
        shown = f"{better} / {worse} - 1, {metric}: {relative:+.1%} (p {p:.3f})"
        return Verdict(relative >= 0.2 and p < _LEVEL, shown)

    return check


def near(one: str, other: str, metric: str, tolerance: float) -> Check:
    """``one ~ other``."""

    def check(results: Results) -> Verdict:
        difference, _ = _difference(results, one, other, metric)
        shown = f"|{one} - {other}|, {metric}: {abs(difference):.4f} (at most {tolerance})"
        return Verdict(abs(difference) <= tolerance, shown)

    return check


def not_below(one: str, other: str, metric: str, tolerance: float = 0.0) -> Check:
    """``one >= other - tolerance``, of the means."""

    def check(results: Results) -> Verdict:
        difference, _ = _difference(results, one, other, metric)
        shown = f"{one} - {other}, {metric}: {difference:+.4f} (at least {-tolerance})"
        return Verdict(difference >= -tolerance, shown)

    return check


def all_of(*checks: Check) -> Check:
    """Holds where each of ``checks`` does."""

    def check(results: Results) -> Verdict:
        found = [one(results) for one in checks]
        # One that is made of several has marked its own.
        marked = [
            v.evidence if v.holds or "NOT " in v.evidence else f"NOT {v.evidence}" for v in found
        ]
        return Verdict(all(v.holds for v in found), "; ".join(marked))

    return check


def sign_flip(differences: NDArray[np.float64], seed: int = 0) -> float:
    """One-sided p of "the mean is not above 0", by flipping the signs of paired differences.

    Args:
        differences: float64 (items,).
        seed: of the flips.
    """
    rng = np.random.default_rng(seed)
    observed = differences.sum()
    moved = differences[differences != 0]
    signs = rng.integers(0, 2, (_FLIPS, len(moved)), dtype=np.int8) * 2 - 1
    return float((1 + (signs @ moved >= observed).sum()) / (1 + _FLIPS))


def gains(results: Results, metric: str) -> dict[str, tuple[float, float]]:
    """Arm -> its mean difference to ``start`` and the p of "it is not better"."""
    arms = (arm for arm, found in results.items() if arm != "start" and metric in found)
    return {arm: _difference(results, arm, "start", metric) for arm in arms}


def _difference(results: Results, one: str, other: str, metric: str) -> tuple[float, float]:
    paired = results[one][metric].mean(axis=0) - results[other][metric].mean(axis=0)  # (items,)
    return float(paired.mean()), sign_flip(paired)


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
