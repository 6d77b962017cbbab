"""A private round as values: who is ready, groups, and what their sums become."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from pocketquery.client.offer import Offer
from pocketquery.client.private.encoding import largest_total
from pocketquery.client.private.messages import Stage
from pocketquery.client.private.noise import rho, sigma
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.federation.orchestration.clock import VirtualClock
from pocketquery.server.federation.orchestration.private_collector import PrivateCollector
from pocketquery.server.federation.rounds.open_round import OpenRound, open_round
from pocketquery.server.federation.rounds.options import FederationOptions
from pocketquery.server.federation.rounds.round import close_round
from pocketquery.server.private.coordinator import SecureReason, Skipped
from pocketquery.server.private.secure_round import (
    Environment,
    SecureRound,
    SeededSource,
    SystemSource,
    begin,
    close_stage,
    deal,
    ready,
    receive,
)
from pocketquery.server.private.settings import SecureSettings
from pocketquery.server.private.stages import charge_of
from pocketquery.server.private.unmasking import Unmasked
from tests.server.federation.replies import SETTINGS, small_state
from tests.server.private.ready_devices import NOW, PLAIN, ready_of

OFFER = Offer(0, b"release", clip_norm=1.0)
SIZE = sum(value.size for value in small_state().adapter.values())
SURROUNDINGS = Environment(SeededSource(1), lambda: NOW)


def all_ready(count: int, settings: SecureSettings = PLAIN) -> SecureRound:
    found = begin(settings, 0, SURROUNDINGS.source)
    for number in range(count):
        found, reason = ready(found, 100 + number, ready_of(found, number), 0, NOW)
        assert reason is None
    return found


def opened(groups: int, secure: SecureRound, survivors: int = 4) -> OpenRound:
    """A round in which of each group so many survived."""
    survived = tuple(range(survivors))
    secure = dataclasses.replace(
        secure,
        groups={
            number: dataclasses.replace(
                group, sum=dataclasses.replace(group.sum, survivors=survived)
            )
            for number, group in secure.groups.items()
        },
    )
    settings = dataclasses.replace(
        SETTINGS, shards=groups, aggregation="mean", clients_per_round=20, weighting="equal"
    )
    return dataclasses.replace(open_round(small_state(), settings), secure=secure)


class InMemory:
    """A journal of one open round."""

    def __init__(self, open_round: OpenRound) -> None:
        self.open_round = open_round

    def advance(self, opened: OpenRound, *, charge: object = None) -> None:
        self.open_round = opened


def finished(opened: OpenRound, results: dict[int, Unmasked | Skipped]) -> OpenRound:
    """The round at its end, where these came of its groups."""
    journal: Any = InMemory(opened)
    nobody: Any = None  # is asked any more
    collector = PrivateCollector(
        nobody, journal, nobody, VirtualClock(), FederationOptions(), SURROUNDINGS
    )
    collector._stages._finish(results)
    found: OpenRound = journal.open_round
    assert found.secure is not None
    assert (found.secure.groups, found.secure.finished) == ({}, True)
    return found


def gave(value: float, survivors: int = 4, blamed: tuple[int, ...] = ()) -> Unmasked:
    return Unmasked(
        np.full(SIZE, round(value * 2**10 * survivors), np.int64), tuple(range(survivors)), blamed
    )


def test_devices_are_dealt_to_groups_of_nearly_the_same_size_that_nobody_foresees() -> None:
    found = deal(all_ready(11), OFFER, SIZE, SURROUNDINGS)
    assert [len(group.nodes) for group in found.groups.values()] == [3, 4, 4]
    nodes = [node for group in found.groups.values() for node in group.nodes]
    assert sorted(nodes) == list(range(100, 111))
    assert nodes != sorted(nodes)
    bindings = [group.sum.binding for group in found.groups.values()]
    assert len({binding.digest for binding in bindings}) == 3
    assert {binding.expiry for binding in bindings} == {int(NOW) + 960}
    assert (found.ready, found.stages) == ({}, {"ready": 11})
    again = deal(all_ready(11), OFFER, SIZE, SURROUNDINGS)
    assert [group.nodes for group in again.groups.values()] == [
        group.nodes for group in found.groups.values()
    ]
    other = deal(all_ready(11), OFFER, SIZE, Environment(SystemSource(), lambda: NOW))
    assert other.groups[0].sum.binding.nonce != found.groups[0].sum.binding.nonce


@pytest.mark.parametrize(("count", "groups"), [(9, 3), (8, 2), (5, 1), (3, 1)])
def test_fewer_devices_make_fewer_groups(count: int, groups: int) -> None:
    assert len(deal(all_ready(count), OFFER, SIZE, SURROUNDINGS).groups) == groups


def test_what_answers_no_stage_or_is_of_nobody_asked_does_not_count() -> None:
    found = deal(all_ready(9), OFFER, SIZE, SURROUNDINGS)
    node = found.groups[1].nodes[2]
    for stage, body, reason in (
        (0, b"", SecureReason.MALFORMED),
        (6, b"", SecureReason.MALFORMED),
        (int(Stage.INVITE), b"no boxes", SecureReason.MALFORMED),
        (int(Stage.OFFER), b"", SecureReason.TOO_LATE),
        (int(Stage.COLLECT), b"", SecureReason.MALFORMED),
    ):
        assert receive(found, node, stage, body)[1] is reason
    assert receive(found, 7, int(Stage.INVITE), b"")[1] is SecureReason.TOO_LATE
    after, skipped = close_stage(found)
    assert (after.groups, after.stages) == ({}, {"ready": 9, "committed": 0})
    assert {one.reason for one in skipped.values()} == {SecureReason.BELOW_LEAST}


def test_sums_of_groups_become_shards_and_the_mean_is_theirs() -> None:
    round_ = opened(3, deal(all_ready(12), OFFER, SIZE, SURROUNDINGS))
    skipped = Skipped(SecureReason.BAD_SHARE, "two lied", (1, 2))
    after = finished(round_, {0: gave(0.25), 1: skipped, 2: gave(0.5, 2, blamed=(3,))})
    assert [shard.count for shard in after.shards] == [4, 0, 2]
    assert after.quarantined == {"bad_share": 4 + 1}  # a group of four, and one beside a sum
    _, report = close_round(after)
    assert report.weight == 6
    assert report.change_norm == pytest.approx((0.25 * 4 + 0.5 * 2) / 6 * math.sqrt(SIZE))


def test_a_group_that_is_far_longer_than_the_others_is_left_out() -> None:
    secure = deal(all_ready(12), OFFER, SIZE, SURROUNDINGS)
    for last, count in ((0.49, 4), (0.51, 0)):
        found = finished(opened(3, secure), {0: gave(0.25), 1: gave(-0.25), 2: gave(last)})
        assert [shard.count for shard in found.shards] == [4, 4, count]
        assert found.quarantined == ({} if count else {"sum_norm": 4})
    pair = deal(all_ready(8), OFFER, SIZE, SURROUNDINGS)
    found = finished(opened(3, pair), {0: gave(0.1), 1: gave(0.9)})  # of two, neither is outside
    assert [shard.count for shard in found.shards] == [4, 4, 0]


def test_of_a_large_group_no_more_noise_is_counted_on_than_devices_let() -> None:
    """And what it costs against a server that deviates is what it might say of a small one."""
    noisy = dataclasses.replace(PLAIN, groups=1, privacy="devices", largest_group=6)
    for count, many in ((12, 3), (6, 3), (4, 2)):
        (group,) = deal(all_ready(count, noisy), OFFER, SIZE, SURROUNDINGS).groups.values()
        binding = group.sum.binding
        assert binding.privacy.counted_on == many
        row = charge_of(noisy, OFFER, SIZE, count)
        assert (row.counted_on, row.rho) == (3, rho(2.4, binding.encoding, many))
        largest = largest_total(binding.encoding, count, sigma(2.4, binding.encoding, many))
        assert largest <= 0.75 * 2 ** (binding.encoding.bits - 1)


def test_the_mean_with_noise_is_over_the_devices_that_were_wanted() -> None:
    noisy = dataclasses.replace(PLAIN, groups=1, privacy="devices", noise_multiplier=2.0)
    secure = deal(all_ready(12, noisy), OFFER, SIZE, SURROUNDINGS)
    found = finished(opened(1, secure, 10), {0: gave(0.25, 10)})
    np.testing.assert_allclose(found.shards[0].mean(), 0.25 * 10 / 20, atol=1e-12)


def test_a_bad_share_and_a_skip_are_told_with_counts_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    round_ = opened(3, deal(all_ready(12), OFFER, SIZE, SURROUNDINGS))
    finished(round_, {0: gave(0.25, blamed=(1,))})
    key = round_.secure and round_.secure.groups[0].sum.certificates[1].key.hex()
    assert f"the device {key} gave or dealt wrong shares" in caplog.text


def test_no_encoding_for_so_many_devices_is_told() -> None:
    strange = dataclasses.replace(PLAIN, range=1e30)
    with pytest.raises(InvalidInputError, match="range"):
        deal(all_ready(12, strange), OFFER, SIZE, SURROUNDINGS)
