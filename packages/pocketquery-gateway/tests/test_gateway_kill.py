"""A kill at any statement of a gateway's journal loses nothing and counts nothing twice."""

from __future__ import annotations

import ast
import contextlib
import sqlite3
from pathlib import Path

import pytest
from gateway_kill_points import key_of, offer_of, receive, send

from pocketquery.sdk.errors import ArtifactError, UnsupportedVersionError
from pocketquery_gateway.journal import GatewayJournal
from tests.kills import by_fork, in_memory, printed

FEW = 13  # every thirteenth statement: some of each kind

slow, very_slow = pytest.mark.slow, pytest.mark.very_slow


@by_fork
@pytest.mark.parametrize("step", [FEW, pytest.param(1, marks=slow)])
@pytest.mark.parametrize("mode", ["", pytest.param("buffered", marks=slow)])
def test_killed_at_statements_of_a_round(tmp_path: Path, step: int, mode: str) -> None:
    with in_memory(tmp_path) as folder:
        module = "gateway_kill_points"
        lines = printed(module, folder, step, *mode.split())
    seen = ast.literal_eval(lines[-1])
    assert set(seen) == {"idle", "open", "closed"}
    assert min(seen.values()) >= (5 if step == 1 else 1), seen


@by_fork
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "step", [FEW, pytest.param(4, marks=slow), pytest.param(1, marks=very_slow)]
)
def test_killed_at_statements_of_private_rounds(tmp_path: Path, step: int) -> None:
    with in_memory(tmp_path) as folder:
        lines = printed("relay_kill_points", folder, step, timeout=3500)
    seen = ast.literal_eval(lines[-1])
    assert set(seen) == {"boxes", "none", "OFFER", "INVITE", "COLLECT", "CONFIRM", "UNMASK"}
    assert min(seen.values()) >= (1 if step == FEW else 5), seen


def test_a_batch_that_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    with GatewayJournal.open(tmp_path / "journal.sqlite", clock=lambda: 0.0) as journal:
        with journal.batch():
            for device in range(3):
                journal.register(key_of(device), 1, 100)
            journal.begin(offer_of(0))
        send(journal, 0, (0,))
        before = journal.cohort_round.opened
        journal._connection.execute("PRAGMA max_page_count = 1")
        with pytest.raises(ArtifactError, match="full"):
            receive_and_register_many(journal)
        assert journal.devices == 3
        assert journal.cohort_round.opened is not None
        assert before is not None
        assert journal.cohort_round.opened.accepted == before.accepted == 1
        assert journal.cohort_round.verdict(key_of(1)) is None
        journal._connection.execute("PRAGMA max_page_count = 1000000")
        send(journal, 0, (1,))
        assert journal.cohort_round.opened.accepted == 2


def receive_and_register_many(journal: GatewayJournal) -> None:
    with journal.batch():
        receive(journal, [1])
        for number in range(1500):
            journal.register(number.to_bytes(32, "big"), 1, 10_000)


def test_a_second_gateway_on_the_same_journal_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    with (
        GatewayJournal.open(path),
        pytest.raises(ArtifactError, match="stop that gateway"),
        GatewayJournal.open(path),
    ):
        pass


@pytest.mark.parametrize(("version", "problem"), [(5, "from 6 on"), (7, "up to 6; upgrade")])
def test_a_journal_of_another_version_is_refused(
    tmp_path: Path, version: int, problem: str
) -> None:
    path = tmp_path / "journal.sqlite"
    with GatewayJournal.open(path):
        pass
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    with pytest.raises(UnsupportedVersionError, match=problem):
        GatewayJournal.open(path)
