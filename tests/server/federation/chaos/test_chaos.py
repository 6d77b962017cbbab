"""``pocketquery chaos``: of rounds that hold, and of rounds whose defences are broken."""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pocketquery.client.offer_limits import OfferLimits
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.federation.chaos import grid
from pocketquery.server.federation.chaos.command import chaos, ending, line, summary
from pocketquery.server.federation.chaos.expectation import Wrong
from pocketquery.server.federation.chaos.grid import Case, Extent, Row, cases, rows
from pocketquery.server.federation.chaos.kills import same_rounds, writes_of
from pocketquery.server.federation.chaos.network import network_row
from pocketquery.server.federation.chaos.rehearsal import Rehearsal, open_rehearsal
from pocketquery.server.federation.rounds import round as round_module
from pocketquery.server.federation.rounds.options import FederationOptions
from pocketquery.server.federation.secure import coordinator, unmasking
from pocketquery.server.federation.simulation.enrolment import with_enrolment
from pocketquery.server.federation.simulation.files import SimulationFiles
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
        first, killed = rows(found, Extent((0.0, 0.5), 1, 1), folder, lambda row: None)
    assert first.fault == fault
    return first, killed


@pytest.mark.parametrize("secure", [False, True])
def test_rounds_that_hold_are_as_expected_in_every_cell(
    federation: Files, tmp_path: Path, secure: bool
) -> None:
    shown: list[Row] = []
    with rehearsal(federation, secure=secure) as found:
        table = rows(found, Extent((0.0, 0.5), 1, 3), tmp_path, shown.append)
    assert shown == table
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
        (_takes_what_is_huge, "huge change", False),
        (_ignores_the_range, "garbage under a mask", True),
        (_counts_no_survivors, "goes before its masked change", True),
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
    assert "NOT AS EXPECTED" in line(row)


def test_one_weight_that_is_believed_turns_a_round_and_the_row_says_so(
    federation: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only(monkeypatch, lambda case: case.fault in ("none", "sign flip"))
    believing: dict[str, Any] = {"weighting": "declared", "aggregation": "mean", "shards": 1}
    with rehearsal(federation, **believing) as found:
        first, flipped, _ = rows(found, Extent((0.0,), 1, 1), tmp_path, lambda row: None)
    assert first.met
    assert (flipped.met, flipped.lost) == (False, 0)
    assert "cosine -" in flipped.wrong[0]


def test_a_run_that_ends_in_an_error_is_lost(
    federation: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only(monkeypatch, lambda case: case.fault == "none")

    def failing(*_: Any, **__: Any) -> None:
        raise RuntimeError("on purpose")

    monkeypatch.setattr("pocketquery.server.federation.orchestration.journal.close_round", failing)
    with rehearsal(federation) as found:
        table = rows(found, Extent((0.0,), 1, 1), tmp_path, lambda row: None)
    assert [(one.runs, one.passed, one.lost) for one in table] == [(1, 0, 1)] * 2
    assert "RuntimeError: on purpose" in table[0].wrong[0]
    assert "without a kill: RuntimeError: the process failed with status 1" in table[1].wrong[0]


def test_what_an_earlier_run_left_is_not_gone_on_with(
    federation: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither what failed and is kept, nor what a kill left half done."""
    only(monkeypatch, lambda case: case.fault == "none")
    with rehearsal(federation) as found:
        with monkeypatch.context() as patched:
            patched.setattr(grid, "wrong", lambda *_: [Wrong("on purpose")])
            patched.setattr(grid, "same_rounds", lambda *_, **__: False)
            failed = rows(found, Extent((0.0,), 1, 1), tmp_path, lambda row: None)
        assert [one.passed for one in failed] == [0, 0]
        left = {one.name for one in tmp_path.iterdir()}
        assert left == {"plain-0-0", "plain-killed-1"}
        (tmp_path / "plain-whole").mkdir()
        (tmp_path / "plain-whole" / "rounds.sqlite").write_text("half of one")
        table = rows(found, Extent((0.0,), 1, 1), tmp_path, lambda row: None)
    assert [one.wrong for one in table] == [[], []]
    assert not any(tmp_path.iterdir())


def test_a_row_counts_and_the_table_sums() -> None:
    row = Row("plain", "a fault", "20 %", "what must be")
    missing = Path("nowhere")
    row.add("released (8 in it)", [], missing)
    row.add("released (8 in it)", [], missing)
    assert line(row).split("  ")[-1] == "2 x released (8 in it)"
    assert row.met
    row.add("skipped: too few replies", [Wrong("a skip", lost=True), Wrong("b")], missing)
    assert (row.runs, row.passed, row.lost, row.met) == (3, 2, 1, False)
    assert "  2/3  2 x released (8 in it), 1 x skipped: too few replies  lost 1" in line(row)
    assert line(row).endswith("NOT AS EXPECTED: a skip (see nowhere)")
    absent = Row("deployment", "network", "loss", "x", not_run="needs root")
    assert line(absent).endswith("-  not run: needs root")
    table = summary([row, absent], Extent.quick())
    assert {name: table[name] for name in ("met", "runs", "passed", "lost", "not_run")} == {
        "met": False, "runs": 3, "passed": 2, "lost": 1, "not_run": 1,
    }  # fmt: skip
    assert json.loads(json.dumps(table)) == table | {
        "extent": {"levels": [0.0, 0.3], "repeats": 1, "kills": 4}
    }
    said = ending(table, Path("out"))
    assert "3 runs, 2 as expected; lost: 1; 1 rows not run" in said
    assert "What failed is kept in out/runs" in said
    assert summary([absent], Extent())["met"]  # what was not run fails nothing


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


def command(files: Files, output: Path, *extra: str) -> int:
    parser = argparse.ArgumentParser()
    chaos(parser.add_subparsers())
    words = [
        word for name, value in (ROUNDS | PRIVATE).items() for word in (f"--{name}", str(value))
    ]
    places = ["--bundle", str(files.bundle), "--index", str(files.index)]
    users = ["--clients", str(files.clients), "--any-offer", "--output", str(output)]
    arguments = parser.parse_args(["chaos", *places, *users, *words, *extra])
    code: int = arguments.run(arguments)
    return code


def test_the_command_prints_rows_and_leaves_the_table(
    federation: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    only(monkeypatch, lambda case: case.fault == "none")
    assert command(federation, tmp_path, "--quick") == 0
    said = capsys.readouterr().out
    assert "expected: a release of everybody asked for, exactly\n  plain      none" in said
    assert "\n  private    process killed at a write" in said
    assert "10 runs, 10 as expected; lost: 0; 1 rows not run" in said
    assert json.loads((tmp_path / "table.json").read_text())["passed"] == 10
    # with --secure on private rounds alone; a fault that is not met is an exit code
    monkeypatch.setattr(grid, "wrong", lambda *_: [Wrong("on purpose")])
    assert command(federation, tmp_path, "--quick", "--secure", "on", "--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert [one["rounds"] for one in found["rows"]] == ["private", "private", "deployment"]
    assert found["rows"][0]["wrong"] == [f"on purpose (see {tmp_path / 'runs/private-0-0'})"]
    assert logging.getLogger("pocketquery").level == logging.NOTSET  # as before the command


def test_where_private_rounds_cannot_be_a_row_says_why(
    federation: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    only(monkeypatch, lambda case: case.fault == "none")
    assert command(federation, tmp_path, "--quick", "--secure-least", "20") == 0
    assert "not run: secure-least is 20 devices" in capsys.readouterr().out
    with pytest.raises(InvalidInputError, match="secure-least is 20"):
        command(federation, tmp_path, "--secure", "on", "--secure-least", "20")
    with pytest.raises(InvalidInputError, match="found 12 users, but clients-per-round is 13"):
        command(federation, tmp_path, "--clients-per-round", "13")


def test_a_network_that_cannot_be_made_is_a_row_that_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert network_row(None, [], tmp_path).not_run == (
        "needs root on Linux, to make a network namespace"
    )
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda name: None if name == "tc" else "/x")
    assert network_row(None, [], tmp_path).not_run == "needs the command tc (iproute2)"
    monkeypatch.setattr("shutil.which", lambda name: f"/{name}")
    row = network_row(None, [], tmp_path)
    assert row.not_run == "needs --network examples/deployment/run_rounds.py"
    assert row.met


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_whole_grid(
    federation: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(federation, tmp_path, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["passed"], found["lost"]) == (found["runs"], 0)
    assert found["runs"] > 200
