"""Verdicts on ordering claims: a bootstrap over seeds and items, and what it may say."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

CLAIMS = Path(__file__).parents[2] / "claims"

Table = NDArray[np.float64]


@pytest.fixture(autouse=True)
def as_a_script() -> Iterator[None]:
    """As where the studies are run from."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(CLAIMS), *sys.path])
        yield


def scores(mean: float, seeds: int = 3, items: int = 400, of_seed: float = 0.0) -> Table:
    """Scores around a mean, alike over items in every call."""
    rng = np.random.default_rng(7)
    moved = np.array([-1.0, 0.0, 1.0, -1.0, 1.0])[:seeds, None] * of_seed
    found: Table = mean + moved + rng.normal(0, 0.1, (seeds, items))
    return found


def test_the_interval_is_of_the_size_that_the_two_variances_say() -> None:
    from two_way import estimated

    rng = np.random.default_rng(0)
    table = rng.normal(0, 1, (5, 1)) + rng.normal(0, 1, (1, 300)) + rng.normal(0, 1, (5, 300))
    of_seeds, of_items = table.mean(axis=1).var(ddof=1) / 5, table.mean(axis=0).var(ddof=1) / 300
    found = estimated(table)
    half = 1.645 * np.sqrt(of_seeds + of_items)
    assert found.mean == pytest.approx(table.mean())
    assert (found.high - found.low) / 2 == pytest.approx(half, rel=0.1)


def test_what_only_seeds_move_is_not_decided_by_many_items() -> None:
    """Averaged over seeds first, 400 items alike would make anything certain."""
    from verdicts import OPEN, above

    better = {"auc": scores(0.51, of_seed=0.05)}
    worse = {"auc": np.full((3, 400), 0.5)}
    assert above("a", "b", "auc")({"a": better, "b": worse}).verdict == OPEN


def test_above_says_holds_does_not_hold_and_undecided() -> None:
    from verdicts import FAILS, HOLDS, OPEN, above

    results = {"a": {"m": scores(0.6)}, "b": {"m": scores(0.5)[:, ::-1]}, "c": {"m": scores(0.6)}}
    assert above("a", "b", "m")(results).verdict == HOLDS
    assert above("b", "a", "m")(results).verdict == FAILS
    assert above("a", "c", "m")(results).verdict == OPEN


def test_near_needs_the_whole_interval() -> None:
    from verdicts import FAILS, HOLDS, OPEN, near

    exact = {"a": {"m": scores(0.5)}, "b": {"m": scores(0.5)}}
    assert near("a", "b", "m", 0.01)(exact).verdict == HOLDS
    far = {"a": {"m": scores(0.6)}, "b": {"m": scores(0.5)}}
    assert near("a", "b", "m", 0.01)(far).verdict == FAILS
    noisy = {"a": {"m": scores(0.5, of_seed=0.05)}, "b": {"m": np.full((3, 400), 0.5)}}
    assert near("a", "b", "m", 0.01)(noisy).verdict == OPEN


def test_far_above_and_tolerances() -> None:
    from verdicts import FAILS, HOLDS, far_above, not_above, not_below

    results = {"a": {"m": scores(0.6)}, "b": {"m": scores(0.4)}, "c": {"m": scores(0.59)}}
    assert far_above("a", "b", "m")(results).verdict == HOLDS
    assert far_above("a", "c", "m")(results).verdict == FAILS
    assert not_below("c", "a", "m", 0.02)(results).verdict == HOLDS
    assert not_below("c", "a", "m", 0.005)(results).verdict == FAILS
    assert not_above("a", "c", "m", 0.02)(results).verdict == HOLDS
    assert not_above("a", "b", "m", 0.02)(results).verdict == FAILS


def test_an_order_of_several_arms_is_decided_by_its_margin() -> None:
    from verdicts import FAILS, HOLDS, OPEN, margin_above

    def first_lowest(means: Table) -> Table:
        margin: Table = means[1:].min(axis=0) - means[0]
        return margin

    arms = ("a", "b", "c")
    clear = {arm: {"m": scores(mean)} for arm, mean in zip(arms, (0.4, 0.5, 0.6), strict=True)}
    found = margin_above("a is lowest", arms, "m", first_lowest)(clear)
    assert found.verdict == HOLDS
    assert found.estimate is not None
    assert found.estimate.mean == pytest.approx(0.1)
    turned = margin_above("c is lowest", arms[::-1], "m", first_lowest)(clear)
    assert turned.verdict == FAILS
    noise = {
        arm: {"m": scores(0.5 + 0.0005 * n)[:, :: 1 - 2 * (n % 2)]} for n, arm in enumerate(arms)
    }
    assert margin_above("a is lowest", arms, "m", first_lowest)(noise).verdict == OPEN


def test_a_claim_is_as_its_links_are_and_says_each() -> None:
    from verdicts import Claim, above, decided, ours

    results = {"a": {"m": scores(0.6)}, "b": {"m": scores(0.5)}, "c": {"m": scores(0.4)}}
    whole, links, beside = decided(
        Claim("O0", "a > b > c", [above("a", "b", "m"), ours(above("b", "c", "m"))], []), results
    )
    assert (whole, [link.verdict for link in links], beside) == ("holds", ["holds", "holds"], [])
    assert links[1].text.endswith("(bound ours)")
    turned = Claim("O0", "b > a > c", [above("b", "a", "m"), above("a", "c", "m")])
    assert decided(turned, results)[0] == "does not hold"
    missing = Claim(
        "O0", "a > d", [above("a", "b", "m"), above("a", "d", "m")], [above("d", "a", "m")]
    )
    whole, links, beside = decided(missing, results)
    assert (whole, links[1].verdict, beside) == ("not run", "not run", [])


def test_seeds_of_two_arms_go_together_in_their_order() -> None:
    from verdicts import compared

    results = {"a": {"m": np.arange(10.0).reshape(5, 2)}, "b": {"m": np.zeros((3, 2))}}
    results["start"] = {"m": np.ones((1, 2))}
    assert compared(results, "m", {"a": 1, "b": -1}).tolist() == [[0, 1], [2, 3], [4, 5]]
    assert compared(results, "m", {"a": 1, "start": -1}).shape == (5, 2)
    assert compared(results, "m", {"start": 1}).shape == (1, 2)


def test_every_arm_that_a_claim_compares_is_stored_or_waiting_for_it() -> None:
    from starts import declared_entries
    from stored import PROFILE, STUDIES, definition, results_of
    from study import settings_of

    class Asked(dict[str, dict[str, Table]]):
        """Scores of any arm; remembers which were asked for."""

        def __missing__(self, arm: str) -> dict[str, Table]:
            self[arm] = defaultdict(lambda: np.zeros((3, 4)))
            return self[arm]

    for study in STUDIES:
        there = set(results_of(study))
        arms = set(settings_of(study, PROFILE).get("only", settings_of(study, PROFILE)["arms"]))
        for claim in definition(study).claims():
            asked = Asked()
            for check in claim.checks:
                check(asked)
            named = {
                arm
                for entry in declared_entries("backlog")
                if claim.id.partition(", ")[0] in entry["claims"]
                for arm in entry.get("arms", ())
            }
            assert set(asked) <= arms, claim.id
            assert set(asked) <= there | named, claim.id
