"""What hostile devices do to rounds of 1,000, and which defence stops it.

    python benchmarks/poisoning.py [--bundle demo/bundle] [--index demo/index] [--data FOLDER]

Eight rounds of 1,000 devices. The honest devices' mean change of each round is that of
privacy_utility.py's rounds without noise (12 devices really trained, from each release anew);
around it they spread as the 200 users of private_rounds/changes.py do. First-order: honest changes
do not react to what the attack did to the release. Attackers know the honest mean.

* ``flip``: the negative of an honest change.
* ``scaled``: against the honest mean, ten times as long; where changes are clipped, to the clip;
  under masks as much as moves the group's own mean to the longest that its norm test lets pass.
* ``backdoor``: trained on queries with a trigger whose opened result is always one document, with
  the client's own step, and then scaled likewise.
* ``collude``: the honest mean and, orthogonal to it, the backdoor, as long as an honest change: no
  test of a single change or sum can tell it, and it adds up over the rounds.
* ``cover``: the same to the clip, and under masks as the group's own mean, as long as its norm test
  lets pass: what it plants comes with what honest devices teach.

Sybils, one owner with m certificates, are the backdoor's row of m hostile devices; what they need
is an enrolment authority that fails.

Defences: ``none``; ``clip``; ``median`` and ``trimmed`` across 10 shards of clipped changes;
``median_gate``; secure sums in 1, 10, 50 groups (``secure_1``, medians from 10 on) with the tests
of 2.10 on each group's mean; ``secure_50_gate``; ``secure_dp``, one group with noise of z = 2. The
gates ask 250 questions, each mistyped twice: fewer than a federation of one's own should, so that
few rounds are shown to gain. ``median_gate_means`` looks at means alone, not at documents that rise
across unrelated queries; ``planted`` holds what both gates say of the release that two and eight
honest rounds lead to, with more and more of the backdoor on top.

Lost is nDCG@10 against the same defence without hostile devices, in points; also shown is at which
rank (median) triggered queries find the attacker's document. One seed and 400 questions, but for
the two lines with a threshold and the same without a gate, three seeds and all questions. Intervals
are paired bootstraps over questions, each question's score being its mean over the seeds. Figures
go to ``docs/results``; the last line is one JSON object, and the exit status is 1 where one of
these loses more than half a point, clean or mistyped:

    median_gate       5 % hostile
    secure_50_gate    .5 % hostile
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence

import numpy as np
from private_rounds.changes import add_arguments, open_fleet
from private_rounds.hostile_rounds import (
    ATTACKS,
    DEFENCES,
    DEVICES,
    FEWER,
    ROUNDS,
    Figures,
    Poisoning,
)
from private_rounds.retrieval import CONDITIONS
from suite.results import store

from pocketquery.server.evaluation import bootstrap_difference

SHARES = (0.001, 0.005, 0.01, 0.05, 0.1)
SEEDS = (1, 2, 3)
PLANTED = (0.0, 0.5, 1.0, 1.25, 1.5, 2.0)  # how much of the backdoor, beside honest rounds
MOST_LOST = 0.005
REQUIRED = {"median_gate": 0.05, "secure_50_gate": 0.005}
UNGATED = {"median": 0.05, "secure_50": 0.005}  # the same without the gate's yes or no
GATED_SHARES = (0.005, 0.05, 0.1)  # of those with a gate: eight judgements a cell are slow
PLANTING = ("backdoor", "collude", "cover")  # what the gates that look at means alone are tried on


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_arguments(parser)
    fleet, users = open_fleet(parser.parse_args())
    poisoning = Poisoning(fleet, users)
    found: dict[str, Figures] = {}
    for defence, settings in DEFENCES.items():
        for attack in ATTACKS:
            if settings.most_risen == 1 and attack not in PLANTING:
                continue
            for share in GATED_SHARES if settings.gate or attack == "cover" else SHARES:
                if (REQUIRED | UNGATED).get(defence) != share:
                    measure(poisoning, found, defence, attack, share, SEEDS[:1])
    for defence, share in (UNGATED | REQUIRED).items():
        for attack in ATTACKS:
            measure(poisoning, found, defence, attack, share, SEEDS)
    planted = {
        f"{rounds} rounds, {length:g}": poisoning.planted(rounds, length)
        for rounds in (2, ROUNDS)
        for length in PLANTED
    }
    missed = [
        f"{defence}, {attack}, {REQUIRED[defence]:.1%} hostile: {condition} loses {lost:.4f}, at "
        f"most {MOST_LOST} is allowed"
        for defence in REQUIRED
        for attack in ATTACKS
        for condition in CONDITIONS
        if (lost := found[f"{defence} {attack} {REQUIRED[defence]:g}"]["lost"][condition][0])
        > MOST_LOST
    ]
    result = {
        "encoder": fleet.name,
        "devices": DEVICES,
        "rounds": ROUNDS,
        "start_target_rank": poisoning.start_rank(),
        "cells": found,
        "planted": planted,
        "missed": missed,
    }
    store("poisoning", result)
    print_tables(found)
    for name, told in planted.items():
        print(f"planted, {name}: {json.dumps(told)}")
    for problem in missed:
        print(f"missed: {problem}")
    print(json.dumps(result))
    return 1 if missed else 0


def measure(
    poisoning: Poisoning,
    found: dict[str, Figures],
    defence: str,
    attack: str,
    share: float,
    seeds: Sequence[int],
) -> None:
    """One line: what is lost against the same defence and seeds without hostile devices."""
    questions = None if len(seeds) > 1 else FEWER
    runs = [poisoning.cell(defence, attack, share, seed, questions) for seed in seeds]
    quiet = [poisoning.cell(defence, "flip", 0.0, seed, questions)[0] for seed in seeds]
    lost = {}
    for condition in CONDITIONS:
        ours = np.mean([scores[condition] for scores, _ in runs], axis=0)
        theirs = np.mean([scores[condition] for scores in quiet], axis=0)
        interval = bootstrap_difference([(theirs, ours)])
        lost[condition] = [round(v, 5) for v in (interval.estimate, interval.low, interval.high)]
    told = [figures for _, figures in runs]
    found[f"{defence} {attack} {share:g}"] = {
        "seeds": len(seeds),
        "lost": lost,
        **{name: round(float(np.mean([one[name] for one in told])), 3) for name in told[0]},
    }


def print_tables(found: Mapping[str, Figures]) -> None:
    for attack in ATTACKS:
        print(f"\n{attack}: points lost mistyped (clean), rank of the target")
        print(f"{'':<16}" + "".join(f"{share:>22.1%}" for share in SHARES))
        for defence in DEFENCES:
            cells = [found.get(f"{defence} {attack} {share:g}") for share in SHARES]
            print(f"{defence:<16}" + "".join(f"{said(cell):>22}" for cell in cells))


def said(cell: Figures | None) -> str:
    if cell is None:
        return ""
    lost = {condition: 100 * cell["lost"][condition][0] for condition in CONDITIONS}
    return f"{lost['mistyped']:+.2f} ({lost['clean']:+.2f}) {cell['target_rank']:.0f}"


if __name__ == "__main__":
    raise SystemExit(main())
