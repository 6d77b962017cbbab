"""Rounds under every fault of the grid, and rounds whose defences are broken on purpose.

One cell runs in the fast suite; the grid, plain and private, is slow.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pocketquery.client.offer_limits import OfferLimits
from pocketquery.server.federation.rounds import round as round_module
from pocketquery.server.federation.rounds.options import FederationOptions
from pocketquery.server.private import coordinator, unmasking
from pocketquery_simulation.enrolment import with_enrolment
from pocketquery_simulation.files import SimulationFiles
from tests.server.federation.chaos import grid
from tests.server.federation.chaos.grid import Case, Extent, Row, cases, rows
from tests.server.federation.chaos.kills import same_rounds, writes_of
from tests.server.federation.chaos.rehearsal import Rehearsal, open_rehearsal
from tests.server.federation.small_federation import Files

ROUNDS: dict[str, Any] = {
    "clients-per-round": 8, "over-selection": 1.5, "least-replies": 2, "steps": 1, "batch-size": 4,
}  # fmt: skip
PRIVATE: dict[str, Any] = {"secure-least": 4}


@contextlib.contextmanager
def rehearsal(files: Files, *, secure: bool = False, **options: Any) -> Iterator[Rehearsal]:
    given = ROUNDS | options
    if secure:
        given = with_enrolment({**PRIVATE, **given, "secure": "on"}, 0)
    where = SimulationFiles(
        files.bundle, files.index, clients=files.clients, gate_queries=files.clients
    )
    chosen = FederationOptions.of(given)
    with open_rehearsal(where, chosen, limits=OfferLimits.none(), training=4) as found:
        yield found


def only(
    monkeypatch: pytest.MonkeyPatch, chosen: Callable[[Case], bool] = lambda case: False
) -> None:
    """Run the cells that are ``chosen`` alone."""
    whole = cases
    monkeypatch.setattr(grid, "cases", lambda *given: (one for one in whole(*given) if chosen(one)))


def row_of(
    files: Files, folder: Path, fault: str, *, secure: bool, **options: Any
) -> tuple[Row, Row]:
    """The row of a fault, and that of the kills."""
    with rehearsal(files, secure=secure, **options) as found:
        first, killed = rows(found, Extent((0.0, 0.5), 1, 1), folder)
    assert first.fault == fault
    return first, killed


@pytest.mark.slow
@pytest.mark.parametrize("secure", [False, True])
def test_rounds_that_hold_are_as_expected_in_every_cell(
    federation: Files, tmp_path: Path, secure: bool
) -> None:
    with rehearsal(federation, secure=secure) as found:
        table = rows(found, Extent((0.0, 0.5), 1, 3), tmp_path)
    assert [one.wrong for one in table] == [[]] * len(table)
    assert {one.rounds for one in table} == {"private" if secure else "plain"}
    assert all(one.met and one.runs for one in table)
    assert not any(tmp_path.iterdir())  # of what is as expected nothing is kept
    by_name = {one.fault: one for one in table}
    assert by_name["none"].outcomes == {"released (8 in it)": 1}
    killed = by_name["process killed at a write"]
    assert (killed.runs, killed.passed, killed.lost) == (3, 3, 0)
    assert int(killed.level.split()[-1]) > 200  # writes
    if secure:
        assert by_name["goes before its masked change"].outcomes == {"skipped: below_least": 1}
        assert by_name["garbage under a mask"].outcomes == {"skipped: sum_out_of_range": 1}
        assert len(table) == 18
    else:
        assert by_name["dies before it trains"].outcomes == {"released (6 in it)": 1}
        assert len(table) == 16


def _accepts_replays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(round_module, "known_before", lambda *_: None)


def _ignores_the_range(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unmasking, "_out_of_bounds", lambda *_: None)


def _counts_no_survivors(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = coordinator.SecureSum.begin
    monkeypatch.setattr(
        coordinator.SecureSum,
        "begin",
        staticmethod(lambda binding, certificates, least=2: plain(binding, certificates, 2)),
    )


def _takes_what_is_huge(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = vars(round_module)["read_reply"]

    def without_bound(data: bytes, expected: Any) -> Any:
        vars(expected)["largest_norm"] = float("inf")
        return plain(data, expected)

    monkeypatch.setattr(round_module, "read_reply", without_bound)


@pytest.mark.parametrize(
    ("broken", "fault", "secure"),
    [
        (_accepts_replays, "replayed reply", False),
        pytest.param(_takes_what_is_huge, "huge change", False, marks=pytest.mark.slow),
        pytest.param(_ignores_the_range, "garbage under a mask", True, marks=pytest.mark.slow),
        pytest.param(
            _counts_no_survivors, "goes before its masked change", True, marks=pytest.mark.slow
        ),
    ],
)
def test_a_defence_that_is_broken_is_seen(
    federation: Files,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    broken: Callable[[pytest.MonkeyPatch], None],
    fault: str,
    secure: bool,
) -> None:
    only(monkeypatch, lambda case: case.fault == fault)
    sound, killed = row_of(federation, tmp_path / "sound", fault, secure=secure)
    assert (sound.met, sound.lost, killed.met) == (True, 0, True)
    broken(monkeypatch)
    row, _ = row_of(federation, tmp_path / "broken", fault, secure=secure)
    assert not row.met
    assert row.wrong
    assert len(list((tmp_path / "broken").iterdir())) == 1  # what failed is kept


@pytest.mark.slow
def test_one_weight_that_is_believed_turns_a_round_and_the_row_says_so(
    federation: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only(monkeypatch, lambda case: case.fault in ("none", "sign flip"))
    believing: dict[str, Any] = {"weighting": "declared", "aggregation": "mean", "shards": 1}
    with rehearsal(federation, **believing) as found:
        first, flipped, _ = rows(found, Extent((0.0,), 1, 1), tmp_path)
    assert first.met
    assert (flipped.met, flipped.lost) == (False, 0)
    assert "cosine -" in flipped.wrong[0]


@pytest.mark.slow
def test_a_run_that_ends_in_an_error_is_lost(
    federation: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only(monkeypatch, lambda case: case.fault == "none")

    def failing(*_: Any, **__: Any) -> None:
        raise RuntimeError("on purpose")

    monkeypatch.setattr("pocketquery.server.federation.orchestration.journal.close_round", failing)
    with rehearsal(federation) as found:
        table = rows(found, Extent((0.0,), 1, 1), tmp_path)
    assert [(one.runs, one.passed, one.lost) for one in table] == [(1, 0, 1)] * 2
    assert "RuntimeError: on purpose" in table[0].wrong[0]
    assert "without a kill: RuntimeError: the process failed with status 1" in table[1].wrong[0]


def test_rounds_differ_but_for_copies_that_were_under_way() -> None:
    def left(copies: int, other: int = 0, release: bytes = b"r") -> Any:
        counts = {"duplicate": copies, "stale_round": other}
        return [("1", release)], json.dumps({"rounds": [{"quarantined": counts}]}).encode()

    assert same_rounds(left(3), left(3), secure=False)
    assert not same_rounds(left(2), left(3), secure=False)
    assert same_rounds(left(2), left(3), secure=True)
    assert not same_rounds(left(4), left(3), secure=True)
    assert not same_rounds(left(2, 1), left(3), secure=True)
    assert not same_rounds(left(3, release=b"s"), left(3), secure=True)


def test_writes_are_counted_and_nothing_else(tmp_path: Path) -> None:
    def work() -> None:
        (tmp_path / "folder").mkdir()
        with (tmp_path / "a").open("wb", buffering=0) as file:
            file.write(b"x")
        (tmp_path / "a").read_bytes()
        (tmp_path / "a").replace(tmp_path / "b")
        (tmp_path / "b").unlink()

    assert writes_of(work) == 4


@pytest.mark.very_slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("secure", [False, True])
def test_the_whole_grid(federation: Files, tmp_path: Path, secure: bool) -> None:
    with rehearsal(federation, secure=secure) as opened:
        table = rows(opened, Extent(), tmp_path)
    assert [row.wrong for row in table] == [[]] * len(table)
    assert sum(row.lost for row in table) == 0
    assert sum(row.runs for row in table) > 90
