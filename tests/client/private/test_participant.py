"""A device's states: on disk before a reply leaves, the same bytes again, killed anywhere."""

from __future__ import annotations

import stat
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pocketquery.client.device import Declined
from pocketquery.client.private.binding import Privacy
from pocketquery.client.private.ledger import LEDGER
from pocketquery.client.private.messages import Stage
from pocketquery.client.private.state_file import SecureProgress, SecureState, StateFile
from pocketquery.client.store.file import SECURE
from pocketquery.server.private.unmasking import Unmasked, unmask
from tests.client.private.group import (
    FEDERATION,
    NARROW,
    OFFER,
    SMALL,
    WIDE,
    Group,
    Member,
    announce,
    full_disk,
    is_ready,
    member,
    ready_group,
)
from tests.kills import killed, lines_of

SIZE, K, T = 4, 3, 2
NOISE = Privacy("devices", 2.4, 2, "one", 1)
RULES = replace(SMALL, least=3)
WRITING = ("private/participant.py", "private/state_file.py", "private/ledger.py", "sdk/files.py")

Bodies = dict[Stage, bytes]


@cache
def messages() -> tuple[Bodies, Bodies]:
    """What device 0 of an undisturbed round is asked in each stage, and its replies."""
    group = ready_group(SIZE, K, T, rules=RULES, encoding=NARROW, privacy=NOISE)
    one = group.members[0]
    state = one.file.load()
    assert state is not None
    bodies, replies = {Stage.OFFER: announce(NOISE)}, {Stage.OFFER: state.replies[Stage.OFFER]}
    for stage in list(Stage)[1:]:
        bodies[stage] = group.sum.message(0)
        reply = group.answer(0)
        assert isinstance(reply, bytes)
        replies[stage] = reply
        group.exchange()
        if stage is not Stage.UNMASK:
            assert group.close() is None
    found = unmask(group.sum)
    assert isinstance(found, Unmasked)
    assert np.array_equal(found.totals, group.plain_sum(range(SIZE)))
    return bodies, replies


def on_disk(folder: Path) -> Member:
    """Device 0 with its files in ``folder``."""
    return member(0, size=NARROW.size, rules=RULES, folder=folder)


def ask(one: Member, stage: Stage) -> bytes | Declined:
    offer = OFFER if stage is Stage.OFFER else None
    return one.participant.answer(stage, messages()[0][stage], offer)


def reach(one: Member, stage: Stage) -> Member:
    """The device as it stands before ``stage``."""
    for earlier in Stage:
        if earlier < stage:
            assert ask(one, earlier) == messages()[1][earlier]
    return one


def progress(folder: Path) -> SecureProgress | None:
    state = StateFile(folder / SECURE).load()
    return None if state is None else state.progress


def declined(found: bytes | Declined) -> str:
    assert isinstance(found, Declined), "it answered"
    return found.reason


def test_each_stage_is_on_disk_when_its_reply_leaves_and_only_for_the_owner(tmp_path: Path) -> None:
    one = on_disk(tmp_path)
    for stage in Stage:
        assert ask(one, stage) == messages()[1][stage]
        assert progress(tmp_path) == SecureProgress(stage)
        assert stat.S_IMODE((tmp_path / SECURE).stat().st_mode) == 0o600
        one.restart()  # another process goes on


def test_a_message_again_gets_the_stored_bytes_and_a_later_one_is_declined(tmp_path: Path) -> None:
    one = on_disk(tmp_path)
    assert "in no round" in declined(ask(one, Stage.INVITE))
    for stage in Stage:
        assert ask(one, stage) == messages()[1][stage]
        one.restart()
        again = [ask(one, earlier) for earlier in Stage if earlier <= stage]
        if stage is not Stage.UNMASK:
            assert again == [messages()[1][earlier] for earlier in Stage if earlier <= stage]
        else:  # what was revealed is all that is left of the round
            assert [isinstance(found, Declined) for found in again] == [True] * 4 + [False]
        later = [after for after in Stage if after > stage + 1]
        assert all(isinstance(ask(one, after), Declined) for after in later)
        assert progress(tmp_path) == SecureProgress(stage)
    assert one.trainer.trained == 1


def test_an_offer_again_is_not_trained_on_again_and_another_one_is(tmp_path: Path) -> None:
    one = on_disk(tmp_path)
    body = announce(NOISE)
    for offer, trained in ((OFFER, 1), (OFFER, 1), (replace(OFFER, release=b"other"), 2)):
        assert is_ready(one, one.participant.answer(Stage.OFFER, body, offer))
        assert one.trainer.trained == trained
    earlier = replace(OFFER, round=6)
    assert "another round" in declined(one.participant.answer(Stage.OFFER, body, earlier))
    assert "no offer" in declined(one.participant.answer(Stage.OFFER, body))
    ema = replace(OFFER, round=8, config=replace(OFFER.config, client_init="ema"))
    assert "client_init" in declined(one.participant.answer(Stage.OFFER, body, ema))
    assert "not a valid Stage" in declined(one.participant.answer(9, body))


def test_what_is_kept_of_the_change_goes_as_soon_as_it_is_masked(tmp_path: Path) -> None:
    one = on_disk(tmp_path)
    change, path = one.trainer.change, tmp_path / SECURE
    plain = np.concatenate([change[name] for name in sorted(change)]).tobytes()
    reach(one, Stage.COLLECT)
    state = one.file.load()
    assert state is not None
    secret = state.secret
    for stage in (Stage.COLLECT, Stage.CONFIRM, Stage.UNMASK):
        assert plain in path.read_bytes() if stage is Stage.COLLECT else True
        assert ask(one, stage) == messages()[1][stage]
        data = b"".join(file.read_bytes() for file in tmp_path.iterdir())
        assert plain not in data
        assert secret not in data
    assert messages()[1][Stage.COLLECT] not in path.read_bytes()


def charged(folder: Path) -> int:
    return on_disk(folder).ledger.account(FEDERATION).participations


@pytest.mark.parametrize("points", [5, pytest.param(14, marks=pytest.mark.slow)])
@pytest.mark.parametrize("stage", Stage)
def test_killed_at_any_line_of_a_stage_a_device_goes_on_with_the_same_bytes(
    stage: Stage, points: int, tmp_path: Path
) -> None:
    """At so many lines; writes come at the end of a stage."""
    ask(reach(on_disk(tmp_path / "first"), stage), stage)  # what is computed once is there then
    whole = reach(on_disk(tmp_path / "whole"), stage)
    count = lines_of(lambda: ask(whole, stage), WRITING)
    assert progress(tmp_path / "whole") == SecureProgress(stage)
    before = None if stage is Stage.OFFER else SecureProgress(stage - 1)
    seen = set()
    for point in range(points):
        folder = tmp_path / str(point)
        one = reach(on_disk(folder), stage)
        line = count - (points - 1 - point) * count // (2 * points)
        killed(lambda: lines_of(lambda: ask(one, stage), WRITING, line))  # noqa: B023
        seen.add(found := progress(folder))
        assert found in (before, SecureProgress(stage)), line
        if found == SecureProgress.MASKED:
            assert charged(folder) == 1, line
        one.restart()
        for _ in range(2):
            assert ask(one, stage) == messages()[1][stage], line
        assert charged(folder) == (stage >= Stage.COLLECT), line
    assert seen == {before, SecureProgress(stage)}


def test_killed_after_the_charge_a_device_pays_no_more(
    tmp_path: Path,
) -> None:
    one = reach(on_disk(tmp_path), Stage.COLLECT)
    state = (tmp_path / SECURE).read_bytes()
    ask(one, Stage.COLLECT)
    (tmp_path / SECURE).write_bytes(state)  # as if killed right after the charge
    one.restart()
    assert (charged(tmp_path), progress(tmp_path)) == (1, SecureProgress.SHARED)
    assert ask(one, Stage.COLLECT) == messages()[1][Stage.COLLECT]
    assert charged(tmp_path) == 1


@pytest.mark.parametrize("stage", Stage)
def test_on_a_full_disk_the_old_state_answers_again(stage: Stage, tmp_path: Path) -> None:
    one = reach(on_disk(tmp_path), stage)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with full_disk():
        assert "cannot be written" in declined(ask(one, stage))
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
    assert ask(one, stage) == messages()[1][stage]


def test_a_disk_that_is_full_after_the_charge_keeps_the_charge(tmp_path: Path) -> None:
    one = reach(on_disk(tmp_path), Stage.COLLECT)
    with full_disk(1000):  # room for the ledger
        assert "cannot be written" in declined(ask(one, Stage.COLLECT))
    assert (charged(tmp_path), progress(tmp_path)) == (1, SecureProgress.SHARED)
    assert (tmp_path / LEDGER).stat().st_size < 1000 < (tmp_path / SECURE).stat().st_size
    assert ask(one, Stage.COLLECT) == messages()[1][Stage.COLLECT]
    assert charged(tmp_path) == 1


def test_a_damaged_ledger_declines_every_round(tmp_path: Path) -> None:
    one = reach(on_disk(tmp_path), Stage.COLLECT)
    (tmp_path / LEDGER).write_text("{}")
    assert "Private rounds are declined" in declined(ask(one, Stage.COLLECT))
    assert progress(tmp_path) == SecureProgress.SHARED
    later = replace(OFFER, round=99)
    found = one.participant.answer(Stage.OFFER, announce(NOISE), later)
    assert "Private rounds are declined" in declined(found)


@given(data=st.data())
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_damaged_state_is_removed(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / SECURE
    if not (tmp_path / "good").exists():
        reach(on_disk(tmp_path), Stage.CONFIRM)
        (tmp_path / "good").write_bytes(path.read_bytes())
    good = (tmp_path / "good").read_bytes()
    place = data.draw(st.integers(0, len(good) - 1))
    changed = data.draw(
        st.sampled_from(
            [
                good[:place],
                good + b"\0",
                good[:place] + bytes([good[place] ^ 1 << place % 8]) + good[place + 1 :],
            ]
        )
    )
    path.write_bytes(changed)
    file = StateFile(path)
    assert file.load() is None
    assert not path.exists()


# Bodies that were damaged


@cache
def before(stage: Stage) -> tuple[Member, SecureState]:
    one = reach(member(0, size=NARROW.size, rules=RULES), stage)
    state = one.file.load()
    assert state is not None
    return one, state


@pytest.mark.parametrize("stage", list(Stage)[1:])
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_a_damaged_body_is_declined(stage: Stage, data: st.DataObject) -> None:
    one, state = before(stage)
    one.back_to(state)
    good = messages()[0][stage]
    place = data.draw(st.integers(0, len(good) - 1))
    extra = data.draw(st.binary(min_size=1, max_size=20))
    bad = {
        "cut": good[:place],
        "grown": good + extra,
        "flipped": good[:place]
        + bytes([good[place] ^ extra[0] | 1 << place % 8])
        + good[place + 1 :],
    }[change := data.draw(st.sampled_from(["cut", "grown", "flipped"]))]
    found = one.participant.answer(stage, bad)
    after = one.file.load()
    if isinstance(found, bytes):
        assert change == "flipped"
        # Another nonce, seed or roster is another round, whose masks and marks fit nobody's; a mark
        # that is not theirs costs one confirmer or one share.
        assert bad == good or stage in (Stage.INVITE, Stage.UNMASK)
        if stage is Stage.INVITE:
            assert (found[:32] == messages()[1][stage][:32]) == (bad == good)
        return
    assert after is state or (after is None and change == "flipped")
    assert one.ledger.account(FEDERATION).participations == 0


# Erased queries


@pytest.mark.parametrize("stage", Stage)
def test_erased_queries_end_the_round_at_any_stage(stage: Stage, tmp_path: Path) -> None:
    one = reach(on_disk(tmp_path), stage)
    if stage > Stage.OFFER:
        one.trainer.epoch = "second"
        assert "erased queries" in declined(ask(one, stage))
        assert not (tmp_path / SECURE).exists()
    one.trainer.gone = "no consent"
    assert "no" in declined(ask(one, stage))
    assert not (tmp_path / SECURE).exists()
    assert charged(tmp_path) == (stage > Stage.COLLECT)  # and is not refunded


class ErasedMeanwhile:
    """A trainer whose user erases queries when it is asked for the n-th time."""

    def __init__(self, one: Member, count: int) -> None:
        self.trainer, self.left = one.trainer, count
        self.train = one.trainer.train

    def forgotten(self, epoch: str) -> str | None:
        self.left -= 1
        return "the user erased queries" if self.left < 0 else self.trainer.forgotten(epoch)


@pytest.mark.parametrize("stage", Stage)
def test_what_is_erased_while_a_stage_is_answered_is_not_sent(stage: Stage, tmp_path: Path) -> None:
    one = reach(on_disk(tmp_path), stage)
    one.trainer = ErasedMeanwhile(one, 0 if stage is Stage.OFFER else 1)  # type: ignore[assignment]
    one.restart()
    assert "erased" in declined(ask(one, stage))
    assert not (tmp_path / SECURE).exists()


def test_a_change_that_nobody_wanted_goes_after_a_day(tmp_path: Path) -> None:
    one = reach(on_disk(tmp_path), Stage.INVITE)
    one.now[0] += 86_400
    assert "expired" in declined(ask(one, Stage.INVITE))
    assert not (tmp_path / SECURE).exists()


@pytest.mark.parametrize("stage", list(Stage)[1:])
@pytest.mark.parametrize("end", ["expired", "erased", "at the gateway", "dropped"])
def test_a_round_that_is_over_is_forgotten(end: str, stage: Stage, tmp_path: Path) -> None:
    one = reach(on_disk(tmp_path), stage)
    state = StateFile(tmp_path / SECURE).load()
    assert state is not None
    one.restart()
    one.participant.give_up(OFFER.round - 1)  # another one
    one.participant.drop_over()
    StateFile(tmp_path / SECURE).drop_over(state.kept_until - 1, state.epoch)
    assert one.participant.round == OFFER.round
    if end == "expired":
        one.now[0] = state.kept_until
    elif end == "erased":
        one.trainer.epoch = "second"
    elif end == "at the gateway":
        one.participant.give_up(OFFER.round)
    else:
        StateFile(tmp_path / SECURE).drop_over(state.kept_until)
    one.restart()
    assert one.participant.round is None
    assert not (tmp_path / SECURE).exists()


def test_noise_is_in_the_sum_and_the_same_device_masks_the_same_bytes() -> None:
    groups = [
        ready_group(SIZE, K, T, rules=RULES, encoding=NARROW, privacy=privacy)
        for privacy in (NOISE, NOISE, None)
    ]
    totals = []
    for group in groups:
        group.run_to(Stage.UNMASK)
        group.exchange()
        found = unmask(group.sum)
        assert isinstance(found, Unmasked)
        assert np.array_equal(found.totals, group.plain_sum(range(SIZE)))
        totals.append(found.totals)
    assert np.array_equal(totals[0], totals[1])
    assert np.abs(totals[0] - totals[2]).max() > 100


def test_a_group_of_sixteen_or_thirty_two_bits_gives_the_same_kind_of_sum() -> None:
    for encoding in (NARROW, WIDE):
        group: Group = ready_group(SIZE, K, T, rules=RULES, encoding=encoding)
        group.run_to(Stage.UNMASK)
        group.exchange()
        found = unmask(group.sum)
        assert isinstance(found, Unmasked)
        assert np.array_equal(found.totals, group.plain_sum(range(SIZE)))
