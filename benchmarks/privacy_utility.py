"""What noise on devices costs: ten rounds with and without it, and a curve over cohort and noise.

    python benchmarks/privacy_utility.py [--bundle demo/bundle] [--index demo/index] [--data FOLDER]

Two arms, three seeds, ten rounds. In each round 12 of the 200 users of private_rounds/changes.py
train from the release in force; the release moves by the mean of their changes, clipped at 1, which
stands for the cohort's. In the arm ``z = 2`` it moves also by what the discrete Gaussian noise of
1,000 devices leaves in the mean of 1,000. Both arms ask the same users with the same coins. There
is no gate: what is compared is where ten rounds lead.

nDCG@10 of the int8 encoder on questions about articles that neither the distillation nor a user
has seen, clean and mistyped, in points lost to the arm without noise: paired bootstrap over the
questions, each question's score being its mean over the seeds (and typings).

The curve is cheaper: the end of the rounds without noise plus ten rounds' noise, which leaves out
that the noise of one round changes what is learnt in the next, on 500 of the questions.

Every release is kept in ``runs`` when it is made: killed and started again, it goes on. Figures and
plot go to ``docs/results`` and ``docs/images``. The last line is one JSON object; the exit status
is 1 where z = 2 at 1,000 devices costs more than half a point.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import random
from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from private_rounds.changes import (
    LOCAL,
    ROOT,
    Bank,
    Fleet,
    User,
    add_arguments,
    clipped,
    open_fleet,
)
from private_rounds.noise import mean_noise
from private_rounds.retrieval import CONDITIONS, Retrieval, Scores
from suite.results import store

from pocketquery.sdk.arrays import Floats
from pocketquery.sdk.bundle.adapter_tensors import released
from pocketquery.sdk.files import write_atomic
from pocketquery.server.evaluation import Interval, bootstrap_difference

PLOT = ROOT / "docs" / "images" / "privacy_utility.svg"
ROUNDS = 10
DEVICES = 12  # really trained in a round
COHORT, NOISE = 1_000, 2.0
COHORTS = (100, 300, 1_000, 10_000)
NOISES = (1.0, 2.0, 4.0)
MOST_LOST = 0.005
_LOWEST = -11  # points; what lies below is said in the axis' name


class Rounds:
    """The rounds of one seed, with noise of ``noise`` or, at 0, without; each kept when made."""

    def __init__(self, fleet: Fleet, users: Sequence[User], seed: int, noise: float) -> None:
        self._fleet, self._users, self._seed, self._noise = fleet, users, seed, noise
        self._bank, self._utility = Bank(fleet), Bank(fleet, "privacy_utility")

    def after(self, rounds: int) -> Floats:
        """How far the release has moved after so many rounds, float32 (d,)."""
        if not rounds:
            return np.zeros_like(self._fleet.release)
        name = f"z{self._noise:g}-seed{self._seed}-round{rounds}"
        if name in self._utility:
            return self._utility.get(name)
        before = self.after(rounds - 1)
        moved = before + self._step(rounds, before)
        print(f"{name}: moved {np.linalg.norm(moved):.3f}", flush=True)
        return self._utility.put(name, moved)

    def _step(self, number: int, before: Floats) -> Floats:
        picked = random.Random(f"{self._seed} {number}").sample(range(len(self._users)), DEVICES)
        changes = np.array([clipped(self._trained(n, number, before)) for n in picked])
        mean: Floats = changes.mean(axis=0)
        if self._noise:
            mean += mean_noise(mean.size, COHORT, self._noise, 100 * self._seed + number)
        return mean

    def _trained(self, place: int, number: int, before: Floats) -> Floats:
        if number == 1:  # from the release that the bank's changes are of
            return self._bank.user(self._users, place)
        return self._fleet.change(
            self._users[place].queries,
            1_000 * number + place,
            config=LOCAL,
            adapter=released(self._fleet.moved(before)),
        )


class Measured:
    """Scores of adapters, each measured once and kept."""

    def __init__(self, fleet: Fleet, typings: int = 3, questions: int | None = None) -> None:
        self._fleet, self._tests = fleet, Retrieval(fleet, typings, questions)
        self._kept = Bank(fleet, "privacy_utility")

    def scores(self, name: str, moved: Floats) -> Scores:
        """Of the release moved so far."""
        if f"{name}-clean" not in self._kept:
            found = self._tests.scores(self._fleet.moved(moved))
            for condition in CONDITIONS:
                self._kept.put(f"{name}-{condition}", found[condition])
            means = ", ".join(f"{c} {found[c].mean():.4f}" for c in CONDITIONS)
            print(f"{name}: {means}", flush=True)
        return {c: self._kept.get(f"{name}-{c}").astype(np.float64) for c in CONDITIONS}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_arguments(parser)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    fleet, users = open_fleet(arguments)
    measured, seeds = Measured(fleet), range(1, arguments.seeds + 1)
    start = measured.scores("start", np.zeros_like(fleet.release))
    ends = {(s, z): Rounds(fleet, users, s, z).after(ROUNDS) for z in (0.0, NOISE) for s in seeds}
    quiet = mean_of([measured.scores(f"end-z0-seed{s}", ends[s, 0.0]) for s in seeds])
    noisy = mean_of([measured.scores(f"end-z{NOISE:g}-seed{s}", ends[s, NOISE]) for s in seeds])
    rounds = {
        "without noise": gains(quiet, start),
        f"z = {NOISE:g}": gains(noisy, start),
        "difference": gains(noisy, quiet),
    }
    curve, fewer = {}, Measured(fleet, typings=1, questions=500)
    base = mean_of([fewer.scores(f"curve-0-seed{s}", ends[s, 0.0]) for s in seeds])
    for cohort in COHORTS:
        for noise in NOISES:
            found = []
            for seed in seeds:
                moved = ends[seed, 0.0] + ten_rounds(fleet.release.size, cohort, noise, seed)
                found.append(fewer.scores(f"curve-{cohort}-z{noise:g}-seed{seed}", moved))
            curve[cohort, noise] = gains(mean_of(found), base)
    return report(fleet, arguments.seeds, start, rounds, curve)


def ten_rounds(size: int, cohort: int, noise: float, seed: int) -> Floats:
    drawn = [mean_noise(size, cohort, noise, 1_000 * seed + n) for n in range(1, ROUNDS + 1)]
    total: Floats = np.array(drawn).sum(axis=0)
    return total


def mean_of(runs: Sequence[Scores]) -> Scores:
    return {c: np.mean([run[c] for run in runs], axis=0) for c in CONDITIONS}


def gains(ours: Scores, theirs: Scores) -> dict[str, Interval]:
    return {c: bootstrap_difference([(ours[c], theirs[c])]) for c in CONDITIONS}


def report(
    fleet: Fleet,
    seeds: int,
    start: Scores,
    rounds: dict[str, dict[str, Interval]],
    curve: dict[tuple[int, float], dict[str, Interval]],
) -> int:
    for name, found in rounds.items():
        print(f"{name:<16}" + "".join(f"{points(found[c]):>28}" for c in CONDITIONS))
    for (cohort, noise), found in curve.items():
        cells = "".join(f"{points(found[c]):>28}" for c in CONDITIONS)
        print(f"n = {cohort:<6} z = {noise:g}{cells}")
    lost = {c: -found.estimate for c, found in rounds["difference"].items()}
    missed = [
        f"{c}: z = {NOISE:g} at {COHORT} devices costs {100 * value:.2f} points, at most "
        f"{100 * MOST_LOST:g} are allowed"
        for c, value in lost.items()
        if not value <= MOST_LOST
    ]
    result = {
        "encoder": fleet.name,
        "rounds": ROUNDS,
        "seeds": seeds,
        "questions": len(start["clean"]),
        "start": {c: round(float(start[c].mean()), 4) for c in CONDITIONS},
        "gains": {name: figures(found) for name, found in rounds.items()},
        "curve": [
            {"cohort": cohort, "z": noise, "change": figures(found)}
            for (cohort, noise), found in curve.items()
        ],
        "missed": missed,
    }
    store("privacy_utility", result)
    write_atomic(PLOT, plot(rounds, curve))
    for problem in missed:
        print(f"missed: {problem}")
    print(json.dumps(result))
    return 1 if missed else 0


def figures(found: dict[str, Interval]) -> dict[str, list[float]]:
    return {c: [round(v, 5) for v in (i.estimate, i.low, i.high)] for c, i in found.items()}


def points(found: Interval) -> str:
    low, high = 100 * found.low, 100 * found.high
    return f"{100 * found.estimate:+.2f} [{low:+.2f}, {high:+.2f}]"


def said_below(
    condition: str, gained: float, curve: dict[tuple[int, float], dict[str, Interval]]
) -> str:
    """The name of the plot's axis, with the points that lie below it."""
    below = [
        f"n = {cohort}, z = {noise:g}: {gained + 100 * found[condition].estimate:.0f}"
        for (cohort, noise), found in curve.items()
        if gained + 100 * found[condition].estimate < _LOWEST
    ]
    return "devices a round" + (f" (below: {'; '.join(below)})" if below else "")


def plot(
    rounds: dict[str, dict[str, Interval]], curve: dict[tuple[int, float], dict[str, Interval]]
) -> str:
    """Points gained over the start, by cohort, a line a noise; what rounds without noise gain."""
    # Okabe and Ito's palette: told apart by the colour-blind too.
    colours = dict(zip(NOISES, ("#0072B2", "#007A5A", "#D55E00"), strict=True))
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "pocketquery"}):
        figure = Figure(figsize=(9.6, 3.6), layout="constrained")
        for axes, condition in zip(figure.subplots(1, 2), CONDITIONS, strict=True):
            gained = 100 * rounds["without noise"][condition].estimate
            axes.axhline(gained, color="#595959", linestyle="--", label="without noise")
            axes.axhline(0, color="#595959", linewidth=0.8)
            for place, (noise, colour) in enumerate(colours.items()):
                found = [curve[cohort, noise][condition] for cohort in COHORTS]
                spread = 100 * np.array(
                    [[i.estimate - i.low for i in found], [i.high - i.estimate for i in found]]
                )
                x = [cohort * math.exp(0.06 * (place - 1)) for cohort in COHORTS]
                y = [gained + 100 * i.estimate for i in found]
                axes.errorbar(x, y, spread, color=colour, marker="o", label=f"z = {noise:g}")
            axes.set_xscale("log")
            axes.set_ylim(_LOWEST, 7)
            axes.set_xticks(COHORTS, [f"{cohort:,}" for cohort in COHORTS])
            axes.minorticks_off()
            axes.set_xlabel(said_below(condition, gained, curve))
            axes.set_ylabel(f"nDCG@10, points gained, {condition}")
            axes.grid(visible=True, alpha=0.3)
            axes.spines[["top", "right"]].set_visible(False)
        handles = figure.axes[0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside lower center", ncols=4, frameon=False)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()[buffer.getvalue().index("<svg") :]


if __name__ == "__main__":
    raise SystemExit(main())
