"""Private rounds from the first question to the release, with devices that train, mask and fail."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Message

from pocketquery.client.private.messages import BOX_BYTES
from pocketquery.client.private.state_file import SecureProgress, StateFile
from pocketquery.client.private.transport import read_secure_reply
from pocketquery.client.store.store import Example
from pocketquery.sdk.bundle.adapter import parse_adapter
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.federation.orchestration.journal import Journal
from pocketquery.server.private.stages import BANNER
from pocketquery_simulation.devices import random_faults
from pocketquery_simulation.local_grid import Fault, FaultPlan, LocalGrid
from pocketquery_simulation.users import SimulatedStore
from tests.server.federation.small_federation import Files, Parts, opened
from tests.synthetic_sentences import sentences

SECURE: dict[str, Any] = {
    "secure": "on", "secure-least": 4, "clients-per-round": 8, "rest": 1, "rounds": 1,
}  # fmt: skip


def adapter(parts: Parts, version: str = "2") -> np.ndarray[Any, np.dtype[np.float64]]:
    tensors = parse_adapter(parts.publisher.registry.read(version)).tensors
    return np.concatenate([tensors[n].ravel().astype(np.float64) for n in sorted(tensors)])


def with_users(parts: Parts, count: int) -> Parts:
    """The same with more users, of four queries each."""
    texts = sentences(4 * count)
    stores = {
        f"user-{n}": SimulatedStore(tuple(Example(one) for one in texts[4 * n : 4 * n + 4]))
        for n in range(count)
    }
    return replace(parts, devices=replace(parts.devices, stores=stores))


def stage_faults(faults: dict[str, dict[int, Fault]]) -> FaultPlan:
    """Faults by stage, as "round.stage", of the nodes that come in a place among those asked."""
    return lambda node, group: faults.get(group, {}).get(node, Fault.NONE)


def test_a_private_round_releases_the_mean_that_a_plain_one_does(
    federation: Files, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    steps = {"steps": 20}
    with opened(federation, tmp_path / "secure", **SECURE | steps) as parts:
        (report,) = parts.run()
        found, first = adapter(parts), adapter(parts, "1")
        journal = (parts.work / "rounds.json").read_text()
    plain = {"rounds": 1, "aggregation": "mean", "clients-per-round": 8, **steps}
    with opened(federation, tmp_path / "plain", **plain) as parts:
        parts.run()
        wanted = adapter(parts)
    assert (report.asked, report.accepted, report.outcome) == (12, 8, "release 2")
    assert report.stages == {
        "ready": 8, "committed": 8, "survivors": 8, "confirmed": 8, "revealed": 6,
    }  # fmt: skip
    assert (report.figures, report.quarantined, report.privacy) == ({}, {}, None)
    assert report.weight == 8
    # Both round, each in its own way.
    assert np.linalg.norm(found - wanted) < 0.1 * np.linalg.norm(wanted - first)
    assert BANNER in caplog.text
    assert json.loads(journal)["rounds"][0]["stages"] == report.stages


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bits(federation: Files, tmp_path: Path) -> None:
    found = []
    for number, seed in enumerate((5, 5, 6)):
        with opened(federation, tmp_path / str(number), **SECURE | {"seed": seed}) as parts:
            reports = parts.run()
            found.append((reports, parts.publisher.registry.read()))
    assert found[0] == found[1]
    assert found[0][1] != found[2][1]


def test_devices_that_fail_in_any_stage_are_counted_and_the_sum_is_of_the_others(
    federation: Files, tmp_path: Path
) -> None:
    options = {**SECURE, "clients-per-round": 12, "over-selection": 1.0}
    faults = {
        "0.1": {1: Fault.DIES},
        "0.2": {3: Fault.NEVER, 4: Fault.TWICE},
        "0.3": {4: Fault.LATE, 5: Fault.TWICE},
        "0.4": {7: Fault.TWICE},
        "0.5": {8: Fault.LATE},
    }
    with opened(federation, tmp_path, **options) as parts:
        (report,) = parts.run(stage_faults(faults))
    assert report.stages == {
        "ready": 11, "committed": 10, "survivors": 9, "confirmed": 9, "revealed": 8,
    }  # fmt: skip
    assert (report.accepted, report.failed, report.declined) == (9, 1, 0)
    assert report.quarantined == {"duplicate": 3}  # of the stages that had to wait for others
    assert report.outcome == "release 2"
    assert report.seconds > 2 * 120  # those of the stages that a device was silent in


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stage", "gone", "reason"),
    [(2, range(1, 10), "below_least"), (3, range(1, 10), "below_least"),
     (4, range(1, 8), "below_threshold"), (5, range(1, 8), "below_threshold")],
)  # fmt: skip
def test_a_group_that_too_many_leave_is_skipped_and_the_next_round_goes_on(
    federation: Files, tmp_path: Path, stage: int, gone: range, reason: str
) -> None:
    faults = {f"0.{stage}": dict.fromkeys(gone, Fault.NEVER)}
    options = {**SECURE, "clients-per-round": 12, "over-selection": 1.0, "rounds": 2}
    with opened(federation, tmp_path, **options) as parts:
        skipped, report = parts.run(stage_faults(faults))
    assert (skipped.accepted, skipped.outcome) == (0, "skipped")
    assert skipped.quarantined == {reason: 12}
    assert report.outcome == "release 2"
    if stage != 3:  # devices that masked nothing in the first round do so in the second
        assert report.accepted == 12


def test_with_too_few_devices_that_are_ready_nobody_is_dealt_a_place(
    federation: Files, tmp_path: Path
) -> None:
    faults = {"0.1": dict.fromkeys(range(1, 10), Fault.DIES)}
    with opened(federation, tmp_path, **SECURE) as parts:
        (report,) = parts.run(stage_faults(faults))
        left = {path.name for path in (parts.work / "devices").glob("*.privacy.json")}
    assert (report.outcome, report.failed, report.stages) == ("skipped", 9, {"ready": 3})
    assert left == set()  # no ledger knows of a round that no secret was drawn for


def test_what_cannot_be_summed_is_refused_before_anybody_trains(
    federation: Files, tmp_path: Path
) -> None:
    with (
        opened(federation, tmp_path, **SECURE | {"range": 1e30}) as parts,
        pytest.raises(InvalidInputError, match="range"),
    ):
        parts.run()
    with Journal.open(tmp_path / "rounds.sqlite") as journal:
        assert (journal.open_round, journal.reports()) == (None, [])


def test_groups_are_sums_of_their_own_and_their_median_is_taken(
    federation: Files, tmp_path: Path
) -> None:
    options = {
        **SECURE, "secure-least": 2, "secure-groups": 5, "clients-per-round": 12,
        "over-selection": 1.0,
    }  # fmt: skip
    faults = {"0.3": {1: Fault.NEVER}}  # a group of two or three
    with opened(federation, tmp_path, **options) as parts:
        (report,) = parts.run(stage_faults(faults))
    assert report.aggregation == "median"
    assert report.filled_shards in (4, 5)
    assert report.accepted + sum(report.quarantined.values()) in (11, 12)
    assert report.outcome == "release 2"


@pytest.mark.slow
def test_devices_rest_after_a_round(federation: Files, tmp_path: Path) -> None:
    options = {**SECURE, "rest": 2, "rounds": 3, "clients-per-round": 12, "over-selection": 1.0}
    with opened(federation, tmp_path, **options) as parts:
        reports = parts.run()
    assert [one.declined for one in reports] == [0, 12, 0]
    assert [one.outcome for one in reports] == ["release 2", "skipped", "release 3"]


def test_nothing_of_a_round_is_left_on_disk(federation: Files, tmp_path: Path) -> None:
    with opened(federation, tmp_path, **SECURE) as parts:
        parts.run()
        with Journal.open(parts.work / "rounds.sqlite") as journal:
            tables = journal._connection.execute(
                "SELECT name FROM sqlite_master WHERE name LIKE 'secure%'"
            ).fetchall()
            for (name,) in tables:
                rows = journal._connection.execute(f"SELECT count(*) FROM {name}").fetchone()
                assert rows == (0,), name
        log = parts.work / "rounds.sqlite-wal"
        assert not log.exists() or log.stat().st_size == 0
        for path in (parts.work / "devices").glob("*.secure.safetensors"):
            state = StateFile(path).load()
            assert state is not None
            if state.progress > SecureProgress.SHARED:
                assert (state.secret, state.change.size) == (b"", 0)


@pytest.mark.slow
def test_what_is_over_is_in_no_file_while_the_server_goes_on(
    federation: Files, tmp_path: Path
) -> None:
    """SQLite overwrites what is deleted, but the write-ahead log holds it until that is cut."""
    sent: dict[str, list[bytes]] = {}
    looked: list[tuple[str, str]] = []

    def pieces(body: bytes) -> list[bytes]:
        return [body[at : at + 24] for at in range(len(body) // 3, len(body) - 24, 50)]

    def client(parts: Parts, node: int) -> Any:
        def answer(message: Message) -> Message:
            stage = message.metadata.group_id
            held = b"".join(path.read_bytes() for path in parts.work.glob("rounds.sqlite*"))
            for earlier, bodies in sent.items():
                if any(one in held for body in bodies for one in pieces(body)):
                    looked.append((stage, earlier))
            reply = parts.devices[node](message)
            body = read_secure_reply(reply).body or b""
            if stage[-1] == "2":  # the boxes; commitments stay, for shares are held against them
                body = body[: 100 + BOX_BYTES * ((len(body) - 100) // (BOX_BYTES + 32))]
            if stage[-1] == "3":  # of a masked change the part behind marks and receipts
                body = body[-4000:]
            sent.setdefault(stage, []).append(body)
            return reply

        return answer

    with opened(federation, tmp_path, **SECURE | {"rounds": 2}) as parts:
        parts.run(grid=LocalGrid({node: client(parts, node) for node in parts.devices}))
    found = {(now, earlier) for now, earlier in looked if earlier[-1] != "1"}
    for number in "01":
        assert (f"{number}.3", f"{number}.2") in found  # boxes wait for their delivery
        assert (f"{number}.4", f"{number}.2") not in found
        assert (f"{number}.5", f"{number}.4") in found  # confirm marks for theirs
        assert not any(earlier == f"{number}.3" for _, earlier in found)
    assert not any(now[0] != earlier[0] for now, earlier in found)


def test_the_memory_is_that_of_one_device_at_a_time(federation: Files, tmp_path: Path) -> None:
    """A device lives while it answers: what the grid keeps of it is its message or its reply."""
    alive = 0

    def counting(parts: Parts) -> LocalGrid:
        def client(node: int) -> Any:
            def answer(message: Any) -> Any:
                nonlocal alive
                alive += 1
                assert alive == 1
                reply = parts.devices[node](message)
                alive -= 1
                return reply

            return answer

        return LocalGrid({node: client(node) for node in parts.devices})

    with opened(federation, tmp_path, **SECURE) as parts:
        parts.run(grid=counting(parts))


def test_a_private_round_is_not_gone_on_with_as_a_plain_one(
    federation: Files, tmp_path: Path
) -> None:
    def broken(node: int, group: str) -> Fault:
        if group == "0.3":
            raise KeyboardInterrupt
        return Fault.NONE

    with opened(federation, tmp_path, **SECURE) as parts, pytest.raises(KeyboardInterrupt):
        parts.run(broken)
    with opened(federation, tmp_path, rounds=1) as parts, pytest.raises(InvalidInputError) as told:
        parts.run()
    assert "begun as a private one" in str(told.value)
    with opened(federation, tmp_path, **SECURE) as parts:
        assert parts.run()[0].outcome == "release 2"


def test_a_plain_round_is_not_gone_on_with_where_rounds_are_private(
    federation: Files, tmp_path: Path
) -> None:
    def asked(node: int, group: str) -> Fault:
        raise KeyboardInterrupt

    def nobody(node: int, group: str) -> Fault:
        raise AssertionError("a device was asked for a change that the server reads")

    plain = {"clients-per-round": 8, "least-replies": 4}
    refused = pytest.raises(InvalidInputError, match=r"begun as a plain one.*with rounds 1, then")
    with opened(federation, tmp_path, rounds=1, **plain) as parts, pytest.raises(KeyboardInterrupt):
        parts.run(asked)
    with opened(federation, tmp_path, **SECURE | {"rounds": 2}) as parts, refused:
        parts.run(nobody)
    with opened(federation, tmp_path, rounds=1, **plain) as parts:
        assert parts.run()[0].stages == {}
    with opened(federation, tmp_path, **SECURE | {"rounds": 2}) as parts:
        assert parts.run()[1].stages["ready"] == 8


NOISY: dict[str, Any] = {
    **SECURE, "privacy": "devices", "clients-per-round": 100, "over-selection": 1.0,
    "secure-least": 100, "steps": 1, "participations": 2, "season-rounds": 3, "epsilon": 4.0,
}  # fmt: skip


@pytest.mark.very_slow
@pytest.mark.timeout(3600)
def test_a_hundred_devices_in_three_rounds_some_of_which_fail_anywhere(
    federation: Files, tmp_path: Path
) -> None:
    options = {
        **SECURE, "clients-per-round": 100, "over-selection": 1.25, "secure-least": 20,
        "rounds": 3, "steps": 1,
    }  # fmt: skip
    with opened(federation, tmp_path, **options) as parts:
        reports = with_users(parts, 130).run(random_faults(0.3, seed=1))
    assert [one.outcome for one in reports] == ["release 2", "release 3", "release 4"]
    for one in reports:
        assert one.stages["ready"] == 100
        assert one.stages["revealed"] >= 51
        counts = [one.stages[name] for name in ("committed", "survivors", "confirmed")]
        assert 100 >= counts[0] >= counts[1] >= counts[2] > 70
        assert counts[2] < 96
        assert one.accepted == counts[1]
        assert set(one.quarantined) <= {"duplicate"}


@pytest.mark.very_slow
@pytest.mark.timeout(3600)
def test_noise_of_devices_is_paid_for_until_the_budget_is_spent(
    federation: Files, tmp_path: Path
) -> None:
    options = {**NOISY, "rounds": 3, "participations": 3, "epsilon": 3.0}  # three cost 3.6
    with opened(federation, tmp_path, **options) as parts:
        with pytest.raises(InvalidInputError, match="above the 3 allowed"):
            with_users(parts, 100).run()
        with Journal.open(parts.work / "rounds.sqlite") as journal:
            charges, reports = journal.charges(), journal.reports()
    assert [(one.round, one.state) for one in charges] == [(0, "released"), (1, "released")]
    assert [one.weight for one in reports] == [100, 100]
    for one in reports:
        assert one.privacy is not None
        assert one.privacy["season"] == "1"
        # The noise of a mean of 100 devices, as long as it is expected to be.
        assert one.change_norm == pytest.approx(1.25 * 2.4 * 1.25 * 1120**0.5 / 100, rel=0.1)
    costs = [one.privacy["epsilon"] for one in reports if one.privacy]
    assert costs == pytest.approx([1.983, 2.896], abs=0.01)
