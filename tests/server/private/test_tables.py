"""The journal's tables of private rounds: whatever moment a file is copied at, it is read as it was
written."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from collections import Counter
from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pocketquery.client.private.messages import Stage
from pocketquery.sdk.errors import CorruptArtifactError
from pocketquery.server.federation.orchestration.journal import Journal
from pocketquery.server.private.coordinator import SecureSum
from pocketquery.server.private.secure_round import SecureRound, SumGroup
from pocketquery.server.private.settings import SecureSettings
from pocketquery.server.private.tables import TABLES, read_secure, write_secure
from pocketquery_simulation.local_grid import Fault
from tests.server.federation.small_federation import Files, opened
from tests.server.private.test_hostile_devices import LIAR, fresh
from tests.server.private.test_secure_rounds import SECURE, stage_faults
from tests.server.private.test_wrong_shares import contradicting


def same(found: SecureRound, wanted: SecureRound) -> None:
    """Whether both are equal, array by array."""
    assert found.to_dict() == wanted.to_dict()
    assert list(found.ready.items()) == list(wanted.ready.items())
    assert found.groups.keys() == wanted.groups.keys()
    for number, group in wanted.groups.items():
        assert found.groups[number].nodes == group.nodes
        for one in fields(SecureSum):
            a, b = getattr(found.groups[number].sum, one.name), getattr(group.sum, one.name)
            assert np.array_equal(a, b) if one.name == "total" else a == b, one.name


def test_every_moment_of_a_round_is_read_as_it_was_written(
    federation: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: Counter[str] = Counter()
    advance = Journal.advance
    copy = tmp_path / "copy"

    def copying(self: Journal, *given: Any, **named: Any) -> None:
        advance(self, *given, **named)
        assert self.open_round is not None
        wanted = self.open_round.secure
        assert wanted is not None
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir()
        for path in self.path.parent.glob(f"{self.path.name}*"):
            shutil.copy(path, copy)
        with Journal.open(copy / self.path.name) as other:
            assert other.open_round is not None
            assert other.open_round.secure is not None
            same(other.open_round.secure, wanted)
            assert other.open_round.quarantined == self.open_round.quarantined
            seen[wanted.stage.name] += 1

    monkeypatch.setattr(Journal, "advance", copying)
    faults = {"0.2": {3: Fault.DIES}, "0.3": {4: Fault.DIES}, "0.4": {6: Fault.TWICE}}
    options = {
        **SECURE, "secure-least": 3, "secure-groups": 2, "aggregation": "mean",
        "clients-per-round": 12, "over-selection": 1.0,
    }  # fmt: skip
    with opened(federation, tmp_path / "work", **options) as parts:
        (report,) = parts.run(stage_faults(faults))
    assert report.accepted == 10
    # each reply but masked changes, and each close; the last is of no stage
    assert seen["OFFER"] == 12 + 1
    assert seen["INVITE"] == 1 + 11
    assert seen["COLLECT"] == 1
    assert seen["CONFIRM"] > 10
    assert seen["UNMASK"] > 6


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE secure_members SET certificate = x'00'",
        "UPDATE secure_members SET position = 7 WHERE position = 0",
        "UPDATE secure_round SET binding = x'7b7d'",
        "UPDATE secure_round SET stage = 9",
        "UPDATE secure_round SET committed = x'ffffffff'",
        "UPDATE secure_boxes SET boxes = x'00'",
        "DELETE FROM secure_members WHERE position = 1",
        "UPDATE open_round SET body = replace(body, 'neighbours', 'neighbors')",
    ],
)
def test_damaged_rows_are_told(federation: Files, tmp_path: Path, damage: str) -> None:
    def interrupted(node: int, group: str) -> Fault:
        if group == "0.3":
            raise KeyboardInterrupt
        return Fault.NONE

    with opened(federation, tmp_path, **SECURE) as parts, pytest.raises(KeyboardInterrupt):
        parts.run(interrupted)
    path = tmp_path / "rounds.sqlite"
    Journal.open(path).disconnect()
    connection = sqlite3.connect(path)
    assert connection.execute(damage).rowcount > 0
    connection.commit()
    connection.close()
    with pytest.raises(CorruptArtifactError, match=str(path)):
        Journal.open(path)


def test_who_contradicts_a_dealer_is_kept_until_the_group_ends() -> None:
    """A server that is killed then still blames nobody for it."""
    group = fresh()
    moments = [SecureRound(SecureSettings(federation="f", enrolment="0" * 64), bytes(32))]
    certificates = dict(enumerate(group.sum.certificates))
    moments.append(replace(moments[0], ready=certificates))
    while group.sum.stage is not Stage.CONFIRM:
        if group.sum.stage is Stage.COLLECT:
            group.sum, reason = group.sum.receive(Stage.COLLECT, LIAR, contradicting(group, LIAR))
            assert reason is None
        moments.append(replace(moments[0], groups={0: SumGroup(tuple(certificates), group.sum)}))
        group.exchange()
        assert group.close() is None
    moments.append(replace(moments[0], groups={0: SumGroup(tuple(certificates), group.sum)}))
    assert {one for one, _ in group.sum.disputes} == {LIAR}
    assert len(group.sum.disputes) == group.binding.neighbours
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        for statement in TABLES:
            connection.execute(statement)
        for before, after in pairwise(moments):
            write_secure(connection, before, after)
        same(read_secure(connection, moments[0]), moments[-1])
        write_secure(connection, moments[-1], moments[0])
        assert not connection.execute("SELECT * FROM secure_disputes").fetchall()
