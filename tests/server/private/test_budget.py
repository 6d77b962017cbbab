"""The server's ledger: what is charged stays, epsilon follows from rows, and the stop is hard."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import math
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dp_accounting
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketquery.client.private.ledger import cost_of, epsilon_of
from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError
from pocketquery.server.private.accounting import epsilon_of_zcdp, rho_of
from pocketquery.server.private.budget import (
    Charge,
    Season,
    charge,
    create,
    refusal,
    rows,
    set_state,
    spent,
)
from tests.kills import by_fork, in_memory, printed
from tests.server.private.bindings import noisy_binding

ROOT = Path(__file__).parents[3]
_DELTA = 1e-6


@pytest.fixture
def ledger() -> Iterator[sqlite3.Connection]:
    """An empty one."""
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        create(connection)
        yield connection


def test_rows_come_back_as_they_were_charged(ledger: sqlite3.Connection) -> None:
    """In order of rounds, with the state they were given."""
    season = Season("spring", participations=2)
    first = season.charge(4, counted_on=640, least_honest=35, rho=0.0876)
    charge(ledger, first)
    charge(ledger, season.charge(3))
    set_state(ledger, 4, "released")
    assert rows(ledger) == [season.charge(3), dataclasses.replace(first, state="released")]


def test_a_resumed_round_is_charged_once(ledger: sqlite3.Connection) -> None:
    """And a round that goes on otherwise than it was charged is refused, its row kept."""
    season = Season("spring")
    charge(ledger, season.charge(0, counted_on=64))
    set_state(ledger, 0, "skipped")
    charge(ledger, season.charge(0, counted_on=64))
    assert [row.state for row in rows(ledger)] == ["skipped"]
    with pytest.raises(InvalidInputError, match="round 0 is in the ledger"):
        charge(ledger, season.charge(0, counted_on=640))
    assert [row.counted_on for row in rows(ledger)] == [64]


def test_a_season_costs_its_dearest_participations() -> None:
    """As many as a device may take part in, whatever the number of rounds."""
    season = Season("spring", rounds=10, participations=2, noise_multiplier=2.0)
    found = [season.charge(n, rho=rho) for n, rho in enumerate((0.125, 0.2, 0.125, 0.15))]
    cost = spent(found)["spring"]
    assert cost.rounds == 4
    assert cost.rho["H"] == pytest.approx(0.35)
    ideal = spent([season.charge(n) for n in range(4)])["spring"]
    assert ideal.epsilon("H", _DELTA) == pytest.approx(epsilon_of_zcdp(rho_of(2.0, 2), _DELTA))
    assert ideal.epsilon("R", _DELTA) == ideal.epsilon("H", _DELTA)


def test_a_deviating_server_costs_more() -> None:
    """By what it may leave out of the noise that is counted on: the specification's figure."""
    season = Season("spring", noise_multiplier=2.4)
    cost = spent([season.charge(0, counted_on=640, least_honest=35)])["spring"]
    assert cost.epsilon("H", _DELTA) == pytest.approx(1.98, abs=0.0051)
    assert cost.epsilon("M", _DELTA) == pytest.approx(10.18, abs=0.0051)


def test_the_round_that_would_pass_epsilon_is_refused() -> None:
    """One before it is not; the participations of a season cap what it can cost."""
    season = Season("s", participations=3, noise_multiplier=2.0, epsilon=3.6)
    two = [season.charge(n) for n in range(2)]
    assert refusal(two[:1], season, two[1]) is None  # 3.54
    said = refusal(two, season, season.charge(2))
    assert said is not None
    assert "to epsilon 4.44" in said
    assert "above the 3.6" in said
    capped = dataclasses.replace(season, participations=2)
    many = [capped.charge(n) for n in range(9)]
    assert refusal(many, capped, capped.charge(9)) is None


def test_a_killed_rounds_own_row_does_not_count_twice() -> None:
    """It goes on: its row is there, and is the one that would be charged."""
    season = Season("s", rounds=1, noise_multiplier=2.0, epsilon=2.5)
    assert refusal([season.charge(0)], season, season.charge(0)) is None


def test_a_season_that_is_over_is_refused() -> None:
    """By the number of its rounds, skipped ones without a row included."""
    season = Season("s", rounds=3)
    known = [season.charge(5), season.charge(6)]
    assert refusal(known, season, season.charge(7)) is None
    assert "is over" in str(refusal(known, season, season.charge(8)))
    following = dataclasses.replace(season, name="t")
    assert refusal(known, following, following.charge(8)) is None


@pytest.mark.parametrize(
    "change", [{"noise_multiplier": 4.0}, {"participations": 2}, {"rounds": 11}]
)
def test_a_season_is_fixed_before_its_first_round(change: dict[str, Any]) -> None:
    """Its noise, participations and rounds; a new season may have others."""
    season = Season("s")
    other = dataclasses.replace(season, **change)
    assert "is fixed before" in str(refusal([season.charge(0)], other, other.charge(1)))
    renamed = dataclasses.replace(other, name="t", epsilon=99.0)
    assert refusal([season.charge(0)], renamed, renamed.charge(1)) is None


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.floats(1e-4, 2.0), min_size=1, max_size=12),
    st.integers(1, 4),
    st.floats(1e-4, 2.0),
)
def test_another_row_never_makes_a_season_cheaper(
    costs: list[float], participations: int, more: float
) -> None:
    """And a season is never cheaper than any choice of rounds that one device can have."""
    season = Season("s", rounds=20, participations=participations)
    found = [season.charge(n, rho=rho) for n, rho in enumerate(costs)]
    before = spent(found)["s"].rho["H"]
    after = spent([*found, season.charge(len(costs), rho=more)])["s"].rho["H"]
    assert after >= before
    assert before >= sum(costs[:participations]) - 1e-12


def test_a_damaged_row_is_refused(ledger: sqlite3.Connection) -> None:
    """A number that would make it cheaper is not believed where it cannot be."""
    season = Season("s")
    charge(ledger, season.charge(0))
    for column, value in (("rho", -1.0), ("least_honest", 0), ("rho", "x")):
        ledger.execute("SAVEPOINT before")
        ledger.execute(f"UPDATE privacy_ledger SET {column} = ?", (value,))
        with pytest.raises(CorruptArtifactError, match="damaged row"):
            rows(ledger)
        ledger.execute("ROLLBACK TO before")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rounds": 0}, "rounds is 0"),
        ({"participations": 11}, "participations is 11, expected a whole number from 1 to 10"),
        ({"noise_multiplier": 0.0}, "noise_multiplier is 0"),
        ({"delta": 1.0}, "delta is 1"),
        ({"epsilon": math.inf}, "epsilon is inf"),
    ],
)
def test_bad_seasons_are_refused(change: dict[str, Any], message: str) -> None:
    """Each with what was found."""
    with pytest.raises(InvalidInputError, match=message):
        Season(**({"name": "s"} | change))


def test_bad_charges_are_refused() -> None:
    """None costs nothing."""
    row = Season("s").charge(0)
    for change in ({"rho": 0.0}, {"rho": math.inf}, {"round": -1}, {"counted_on": 0}):
        with pytest.raises(InvalidInputError):
            dataclasses.replace(row, **change)
    assert isinstance(row, Charge)


@by_fork
@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("ledger_of", ["server", "device"])
def test_a_kill_between_charge_and_send_never_counts_less(
    ledger_of: str, every: int, tmp_path: Path
) -> None:
    """At every so many lines of both, on either side."""
    module = "tests.server.private.ledger_kill_points"
    with in_memory(tmp_path) as folder:
        points, waiting = ast.literal_eval(printed(module, ledger_of, folder, every)[-1])
    assert points > 20
    assert waiting > 1 or every > 1


def test_both_sides_account_alike() -> None:
    """The device computes epsilon with a formula of its own: that of the accountant, over other
    orders; never below what Gaussian noise of that rho costs exactly."""
    for rho in (1e-3, 0.0125, 0.0868, 0.125, 0.5, 3.0):
        for delta in (1e-8, 1e-6, 1e-4):
            found, accounted = epsilon_of(rho, delta), epsilon_of_zcdp(rho, delta)
            assert found == pytest.approx(accounted, rel=0.06)
            assert found >= dp_accounting.get_epsilon_gaussian(1 / math.sqrt(2 * rho), delta)
    binding = noisy_binding(bytes(16), 0)
    season = Season("spring", noise_multiplier=2.4)
    spent_there = cost_of(binding.privacy, binding.encoding) / 1e6
    assert spent_there == pytest.approx(season.charge(0).rho, rel=1e-4)
    assert spent_there >= season.charge(0).rho
