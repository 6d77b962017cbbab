"""Devices that go away at any stage: the exact sum of the survivors, or a skip with its reason.

Devices and server are real; the sum is compared with that of the survivors' codes, in integers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketquery.client.private.encoding import Encoding
from pocketquery.client.private.messages import Stage
from pocketquery.client.private.state_file import SecureState
from pocketquery.server.private.coordinator import SecureReason, SecureSum, Skipped
from pocketquery.server.private.unmasking import Unmasked, can_unmask, unmask
from tests.client.private.group import NARROW, SMALL, WIDE, Group, Member, member, ready_group
from tests.server.federation.chaos.expectation import expected_sum


@dataclass(frozen=True)
class Graph:
    """One of the two graphs of the grid."""

    size: int
    degree: int
    encoding: Encoding
    least: int

    def member(self, number: int, seed: int) -> Member:
        rules = replace(SMALL, least=self.least, neighbours=self.degree)
        return member(number, seed, size=self.encoding.size, rules=rules)

    def group(self, members: list[Member], seed: int) -> Group:
        degree = min(self.degree, len(members) - 1)
        return ready_group(
            len(members),
            degree,
            3 * degree // 5 + 1,
            seed=seed,
            encoding=self.encoding,
            least=self.least,
            members=members,
        )


COMPLETE = Graph(20, 19, WIDE, 8)
RING = Graph(60, 16, NARROW, 24)
GRAPHS = {"complete": COMPLETE, "ring": RING}
LITTLE = {"small": Graph(9, 8, WIDE, 4), "thin": Graph(12, 6, NARROW, 5)}
SHARES = (0, 5, 10, 20, 30, 40, 50)
SEEDS = (0, 1, 2)
GRID = [
    (name, stage, share, seed)
    for name in GRAPHS
    for seed in SEEDS
    for stage in Stage
    for share in SHARES
]
QUICK = [
    (name, stage, share, seed)
    for name, stage, share, seed in GRID
    if seed == 0
    and (name, share) in (("complete", 0), ("complete", 30), ("complete", 40), ("ring", 10))
]


@cache
def snapshots(
    name: str, seed: int
) -> tuple[Group, dict[Stage, tuple[SecureSum, list[SecureState]]]]:
    """A group that everybody is in, and how it and its devices stood as each stage began."""
    graph = (GRAPHS | LITTLE)[name]
    group = graph.group([graph.member(n, seed) for n in range(graph.size)], seed)
    found = {}
    for stage in list(Stage)[1:]:
        states = [one.file.load() for one in group.members]
        found[stage] = (group.sum, [state for state in states if state is not None])
        group.exchange()
        if stage is not Stage.UNMASK:
            assert group.close() is None
    return group, found


def at(name: str, seed: int, stage: Stage) -> Group:
    """The group as ``stage`` begins."""
    group, found = snapshots(name, seed)
    total, states = found[stage]
    for one, state in zip(group.members, states, strict=True):
        one.back_to(state)
    return Group(group.members, total)


def finish(group: Group, gone: Iterable[int] = ()) -> Unmasked | Skipped:
    """The rest of the round; who is gone in this stage is not there in the next ones."""
    away = set(gone)
    while True:
        group.exchange(silent=away)
        if group.sum.stage is Stage.UNMASK:
            return unmask(group.sum)
        if skipped := group.close():
            return skipped


def expected(group: Group, came: Mapping[Stage, set[int]]) -> tuple[int, ...] | SecureReason:
    """Who must be in the sum, or why there must be none."""
    return expected_sum(group.binding, group.sum.least, came)


def check(group: Group, found: Unmasked | Skipped, wanted: tuple[int, ...] | SecureReason) -> None:
    if isinstance(wanted, SecureReason):
        assert isinstance(found, Skipped)
        assert found.reason is wanted
        return
    assert isinstance(found, Unmasked)
    assert found.survivors == wanted
    assert not found.blamed
    assert np.array_equal(found.totals, group.plain_sum(wanted))


def drop(name: str, stage: Stage, share: int, seed: int) -> None:
    graph = GRAPHS[name]
    rng = np.random.default_rng([seed, stage, share])
    gone = {int(one) for one in rng.permutation(graph.size)[: graph.size * share // 100]}
    if stage is Stage.OFFER:  # they are dealt to no group
        members = [graph.member(n, seed) for n in range(graph.size) if n not in gone]
        group, gone = graph.group(members, seed), set()
    else:
        group = at(name, seed, stage)
    everybody = set(range(group.binding.size))
    came = {one: everybody - gone if one >= stage else everybody for one in Stage}
    check(group, finish(group, gone), expected(group, came))


@pytest.mark.parametrize(("name", "stage", "share", "seed"), QUICK)
def test_devices_that_drop(name: str, stage: Stage, share: int, seed: int) -> None:
    drop(name, stage, share, seed)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "stage", "share", "seed"), GRID)
def test_devices_that_drop_in_the_whole_grid(
    name: str, stage: Stage, share: int, seed: int
) -> None:
    assert len(GRID) == 210
    drop(name, stage, share, seed)


@pytest.mark.parametrize("name", LITTLE)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_drops_stragglers_and_repetitions_at_any_stage(name: str, data: st.DataObject) -> None:
    """Whoever is silent, late or says everything twice: the plain sum of the survivors to the bit,
    or no sum for the right reason.
    """
    group = at(name, 0, Stage.INVITE)
    everybody, came = set(range(group.binding.size)), {}
    least_loss = st.sampled_from(["comes"] * 8 + ["twice", "silent", "late"])
    found: Unmasked | Skipped | None = None
    for stage in list(Stage)[1:]:
        plan = data.draw(st.lists(least_loss, min_size=len(everybody), max_size=len(everybody)))
        came[stage] = {one for one in everybody if plan[one] in ("comes", "twice")}
        if found is not None:
            continue
        late = {}
        for position in data.draw(st.permutations(group.sum.waiting)):
            if plan[position] == "silent" or not isinstance(reply := group.answer(position), bytes):
                continue
            assert group.answer(position) == reply
            if plan[position] == "late":
                late[position] = reply
                continue
            group.sum, reason = group.sum.receive(stage, position, reply)
            assert reason is None
            if plan[position] == "twice":
                assert group.sum.receive(stage, position, reply) == (
                    group.sum,
                    SecureReason.DUPLICATE,
                )
        if stage is Stage.UNMASK:
            found = unmask(group.sum)
            assert can_unmask(group.sum) == isinstance(found, Unmasked)
            continue
        found = group.close()
        for position, reply in late.items() if found is None else ():
            assert group.sum.receive(stage, position, reply) == (group.sum, SecureReason.TOO_LATE)
    assert found is not None
    check(group, found, expected(group, came))
