from __future__ import annotations

import contextlib
import dataclasses
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pocketquery.sdk.errors import (
    ArtifactError,
    CorruptArtifactError,
    InvalidInputError,
    UnsupportedVersionError,
)
from pocketquery.server.federation.orchestration.journal import Journal
from pocketquery.server.federation.rounds.round import apply
from pocketquery.server.federation.rounds.round_report import RoundReport
from pocketquery.server.federation.rounds.server_optimizers import FedAdam
from pocketquery.server.federation.rounds.validation import Reason
from tests.server.federation.replies import SETTINGS, replies, reply, small_state

STATE = small_state()
SHARDED = dataclasses.replace(SETTINGS, aggregation="median", shards=3, optimizer=FedAdam())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rounds.sqlite"


def test_a_round_through_the_journal_is_the_round(path: Path) -> None:
    updates = [*replies(6), b"noise", reply(2)]
    wanted, report = apply(STATE, updates, SHARDED)
    with Journal.open(path) as journal:
        assert (journal.state, journal.open_round) == (None, None)
        journal.begin(STATE, SHARDED, now=0.0)
        receipts = [journal.receive(data, 0.0) for data in updates]
        state, told = journal.close()
    assert state.to_bytes() == wanted.to_bytes()
    assert told == report
    assert [receipt.reason for receipt in receipts[6:]] == [Reason.MALFORMED, Reason.DUPLICATE]


def test_it_is_for_its_owner_alone_and_so_is_its_log(path: Path) -> None:
    before = os.umask(0o022)
    try:
        with Journal.open(path) as journal:
            journal.begin(STATE, SETTINGS)
            journal.receive(reply(0))
            files = list(path.parent.glob("rounds.sqlite*"))
            assert path.with_name("rounds.sqlite-wal") in files
            assert {one.stat().st_mode & 0o777 for one in files} == {0o600}
    finally:
        os.umask(before)


def test_a_place_that_is_none_is_an_error_that_names_it(path: Path) -> None:
    path.mkdir()
    with pytest.raises(ArtifactError, match=r"rounds\.sqlite, a .*, cannot be opened"):
        Journal.open(path)


def test_an_opened_journal_goes_on_where_the_last_process_was(path: Path) -> None:
    """The file is closed and opened between any two calls, and the round is still the round."""
    updates = [*replies(6), b"noise"]
    wanted, report = apply(STATE, updates, SHARDED)
    with Journal.open(path) as journal:
        journal.begin(STATE, SHARDED, asked=7, now=0.0)
    for data in updates:
        with Journal.open(path) as journal:
            assert journal.receive(data, 0.0).accepted == (data != b"noise")
    with Journal.open(path) as journal:
        assert journal.open_round is not None
        assert journal.open_round.asked == 7
        assert journal.receive(updates[0], 0.0).reason == Reason.DUPLICATE
        state, told = journal.close()
    with Journal.open(path) as journal:
        assert journal.open_round is None
        assert journal.state is not None
        assert journal.candidate is not None
        assert journal.state.to_bytes() == STATE.to_bytes()
        assert journal.candidate.to_bytes() == state.to_bytes() == wanted.to_bytes()
        assert journal.reports() == [told]
    assert told.received == 8
    assert told == dataclasses.replace(
        report, quarantined={"duplicate": 1, "malformed": 1}, asked=7
    )


def test_replies_that_come_together_are_one_transaction(path: Path) -> None:
    wanted, _ = apply(STATE, replies(8), SETTINGS)
    with Journal.open(path) as journal:
        journal.begin(STATE, SETTINGS)
        statements: list[str] = []
        journal._connection.set_trace_callback(statements.append)
        receipts = journal.receive_all([*replies(8), reply(3)])
        journal._connection.set_trace_callback(None)
        assert statements.count("COMMIT") == 1
        assert [receipt.accepted for receipt in receipts] == [True] * 8 + [False]
        assert journal.close()[0].to_bytes() == wanted.to_bytes()


def test_a_candidate_waits_for_its_decision(path: Path) -> None:
    with Journal.open(path) as journal:
        journal.begin(STATE, SETTINGS)
        journal.receive_all(replies(4))
        candidate, _ = journal.close()
        with pytest.raises(InvalidInputError, match=r"settle journal\.candidate"):
            journal.begin(STATE, SETTINGS)  # the closed round a second time
        journal.settle(candidate.released("2"))
    with Journal.open(path) as journal:
        assert journal.candidate is None
        assert journal.state is not None
        assert (journal.state.version, journal.state.round) == ("2", 1)
        journal.begin(journal.state, SETTINGS)
        journal.receive_all([reply(10 + n, journal.state) for n in range(4)])
        refused, _ = journal.close()
        journal.begin(journal.state.rejected(refused), SETTINGS)
        assert journal.candidate is None
        assert journal.state.version == "2"
        assert journal.state.round == 2
        assert journal.state.adapter.keys() == candidate.adapter.keys()
        for name, value in journal.state.adapter.items():
            assert value.tobytes() == candidate.adapter[name].tobytes()


def test_a_report_is_complete_once_it_is_decided_what_became_of_the_round(path: Path) -> None:
    heard = RoundReport(0, STATE.version, declined=2, figures={"loss": 0.5}, seconds=3.0)
    gate = {"accepted": True, "reason": "accepted"}
    with Journal.open(path) as journal:
        journal.begin(STATE, SETTINGS)
        journal.receive_all(replies(4))
        candidate, told = journal.close(heard)
        assert (told.accepted, told.declined, told.figures) == (4, 2, {"loss": 0.5})
        assert (told.seconds, told.version, told.outcome) == (3.0, None, "running")
        journal.settle(candidate.released("2"), dataclasses.replace(told, gate=gate, version="2"))
        wanted = [dataclasses.replace(told, gate=gate, version="2")]
        assert journal.reports() == wanted
        assert journal.state is not None
        journal.begin(journal.state, SETTINGS)
        journal.receive(reply(9, journal.state))
        journal.close()  # skipped: decided at once
        for settled in (True, False):  # without a report; by the next begin()
            state = journal.state
            journal.begin(state, SETTINGS)
            journal.receive_all([reply(10 * state.round + n, state) for n in range(4)])
            candidate, _ = journal.close()
            if settled:
                journal.settle(state.rejected(candidate))
    with Journal.open(path) as journal:
        assert journal.candidate is not None
        assert journal.state is not None
        journal.begin(journal.candidate.released("3"), SETTINGS)
        assert journal.reports()[:1] == wanted
        found = [(report.round, report.outcome) for report in journal.reports()]
    assert found == [(0, "release 2"), (1, "skipped"), (2, "rejected"), (3, "release 3")]


@pytest.mark.parametrize("version", [1, 3])
def test_a_journal_of_an_earlier_release_is_refused(path: Path, version: int) -> None:
    """Its tables and its ledger are others."""
    with Journal.open(path):
        pass
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    with pytest.raises(UnsupportedVersionError, match=rf"version {version}.* from 4 on; name ano"):
        Journal.open(path)


def test_a_skipped_round_leaves_no_candidate(path: Path) -> None:
    with Journal.open(path) as journal:
        journal.begin(STATE, SETTINGS)
        journal.receive(reply(1))
        state, report = journal.close()
    with Journal.open(path) as journal:
        assert report.skipped
        assert journal.candidate is None
        assert journal.state is not None
        assert journal.state.to_bytes() == state.to_bytes()
        assert journal.state.round == 1


def test_what_is_out_of_turn_is_refused(path: Path) -> None:
    with Journal.open(path) as journal:
        calls: tuple[Callable[[], object], ...] = (
            lambda: journal.receive(b""),
            journal.close,
        )
        for call in calls:
            with pytest.raises(InvalidInputError, match="no open round"):
                call()
        journal.begin(STATE, SETTINGS)
        for call in (lambda: journal.begin(STATE, SETTINGS), lambda: journal.settle(STATE)):
            with pytest.raises(InvalidInputError, match="round 0 open"):
                call()


def test_the_clock_is_one_of_this_process(path: Path) -> None:
    """Readings of a monotonic clock mean nothing to the next process: what has elapsed counts."""
    settings = dataclasses.replace(SETTINGS, deadline_seconds=10.0)
    with Journal.open(path, clock=lambda: 1e6) as journal:
        journal.begin(STATE, settings)
        assert journal.receive(reply(1), now=1e6 + 6).accepted
    with Journal.open(
        path, clock=lambda: 3.0
    ) as journal:  # booted anew; down for who knows how long
        assert journal.receive(reply(2)).accepted
        assert journal.receive(reply(3), now=7.0).accepted
        assert journal.receive(reply(4), now=7.5).reason == Reason.TOO_LATE
        assert journal.close()[1].seconds == 10.5


def test_a_reply_that_cannot_be_written_does_not_count(path: Path) -> None:
    large = dataclasses.replace(STATE, adapter={"w": np.ones(50_000, np.float32)})
    data = reply(1, change={"w": np.ones(50_000, np.float32)})
    with Journal.open(path) as journal:
        journal.begin(large, SETTINGS)
        journal._connection.execute("PRAGMA max_page_count = 1")  # no page more: a full disk
        with pytest.raises(ArtifactError, match=r"the disk is full"):
            journal.receive(data)
        assert journal.open_round is not None
        assert journal.open_round.received == 0
        journal._connection.execute("PRAGMA max_page_count = 100000")
        assert journal.receive(data).accepted


def test_a_second_server_on_the_file_is_refused(path: Path) -> None:
    with (
        Journal.open(path),
        pytest.raises(ArtifactError, match="in use by another process"),
    ):
        Journal.open(path)
    Journal.open(path).disconnect()


def test_other_files_are_refused(path: Path) -> None:
    path.write_bytes(b"not a database at all, but long enough to be looked at" * 100)
    with pytest.raises(CorruptArtifactError, match="damaged or not a journal"):
        Journal.open(path)
    path.unlink()
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE mine (a)")
    other.close()
    with pytest.raises(CorruptArtifactError, match="not a journal"):
        Journal.open(path)
    path.unlink()
    Journal.open(path).disconnect()
    newer = sqlite3.connect(path)
    newer.execute("PRAGMA user_version = 5")
    newer.close()
    with pytest.raises(UnsupportedVersionError, match="upgrade"):
        Journal.open(path)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE states SET body = x'00'",
        "UPDATE open_round SET body = '{}'",
        "UPDATE open_round SET body = 'x'",
        "UPDATE shards SET totals = x'00'",
        "UPDATE shards SET number = 77",
    ],
)
def test_damaged_rows_are_told(path: Path, damage: str) -> None:
    with Journal.open(path) as journal:
        journal.begin(STATE, SETTINGS)
        journal.receive(reply(1))
    connection = sqlite3.connect(path)
    connection.execute(damage)
    connection.commit()
    connection.close()
    with pytest.raises(CorruptArtifactError, match=str(path)):
        Journal.open(path)


@pytest.mark.parametrize("body", ["x", "[]", "{}", '{"round": 1}'])
def test_damaged_reports_are_told(path: Path, body: str) -> None:
    with Journal.open(path) as journal:
        journal.begin(STATE, SETTINGS)
        journal.receive(reply(1))
        journal.close()
        journal._connection.execute("UPDATE reports SET body = ?", (body,))
        with pytest.raises(CorruptArtifactError, match=f"{path}: the report of a round"):
            journal.reports()


def test_no_update_is_in_the_file_and_no_sum_after_the_round(path: Path) -> None:
    """A sum of one update is that update: what is deleted is overwritten."""
    with Journal.open(path) as journal:
        journal.begin(STATE, SETTINGS)
        journal.receive(reply(1))
        assert journal.open_round is not None
        total = journal.open_round.shards[0].totals.tobytes()
    held = path.read_bytes()  # the log is part of the file once that is closed
    assert total in held
    assert reply(1) not in held
    with Journal.open(path) as journal:
        journal.receive(reply(2))
        journal.close()
    assert total not in path.read_bytes()


def test_the_folder_is_made(tmp_path: Path) -> None:
    Journal.open(tmp_path / "a" / "b" / "rounds.sqlite").disconnect()
    assert (tmp_path / "a" / "b" / "rounds.sqlite").is_file()
