"""Shares that are dealt or revealed wrong: whoever is proven to have lied is named, nobody else is,
the shares of everybody else count, and the sum is exact wherever they give it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketquery.client.private.commitments import commitments
from pocketquery.client.private.keys import box_label, derive
from pocketquery.client.private.messages import Stage
from pocketquery.client.private.replies import Boxes, Masked
from pocketquery.server.private.coordinator import SecureReason, Skipped
from pocketquery.server.private.unmasking import Unmasked
from tests.client.private.group import Group, drawn
from tests.server.private.test_hostile_devices import (
    GONE,
    LIAR,
    OTHER,
    SIZE,
    K,
    Lie,
    T,
    garbage,
    is_exact,
    parsed,
    run,
)

SPARE = K - T  # wrong shares of one secret that there may be, where it is known which they are
DECODED = SPARE // 2  # and where it is not


def dealing(receivers: Collection[int], *, told: bool, junk: bool = True) -> Lie:
    """A dealer that gives some neighbours wrong shares.

    Args:
        receivers: their positions.
        told: whether it commits to what it gave them, or else to something else.
        junk: whether the shares are wrong; else the commitments alone are.
    """

    def lie(group: Group, position: int) -> bytes:
        honest = parsed(group, position)
        assert isinstance(honest, Boxes)
        boxes, committed = list(honest.boxes), list(honest.commitments)
        beta, own = group.binding.digest, group.members[position].key
        for place, other in enumerate(group.binding.ring[position]):
            if other not in receivers:
                continue
            public = group.members[other].key.public
            label = box_label(beta, own.public, public)
            box = ChaCha20Poly1305(derive(own.agree(public), label))
            places = beta + position.to_bytes(4, "big") + other.to_bytes(4, "big")
            content = box.decrypt(bytes(12), boxes[place], places)
            self_share, mask_share = (drawn(part, position, other) for part in ("self", "mask"))
            if junk:
                boxes[place] = box.encrypt(
                    bytes(12), content[:32] + self_share + mask_share, places
                )
            if told or not junk:
                committed[place] = commitments(beta, position, other, self_share, mask_share)
        return replace(honest, boxes=tuple(boxes), commitments=tuple(committed)).to_bytes()

    return lie


def contradicting(group: Group, position: int) -> bytes:
    """Receipts of other shares than it got."""
    honest = parsed(group, position)
    assert isinstance(honest, Masked)
    return replace(honest, receipts=tuple(drawn(one) for one in honest.receipts)).to_bytes()


def near(count: int) -> range:
    """The first neighbours, whose shares are looked at first; the liar may be among them."""
    return range(count)


Lies = dict[tuple[Stage, int], Lie]
DEAL, MASK, GIVE = Stage.INVITE, Stage.COLLECT, Stage.UNMASK
BOTH = {LIAR, OTHER}
ENDS: dict[str, tuple[Lies, tuple[int, ...], set[int]]] = {
    "one wrong share": ({(DEAL, LIAR): dealing(near(1), told=False)}, (), set()),
    "one, committed to": ({(DEAL, LIAR): dealing(near(1), told=True)}, (), {LIAR}),
    "as many as are decoded": ({(DEAL, LIAR): dealing(near(DECODED), told=True)}, (), {LIAR}),
    "as many as there are to spare": (
        {(DEAL, LIAR): dealing(near(SPARE + 1), told=False)}, (), set(),
    ),
    "of one that is gone": ({(DEAL, GONE): dealing(near(1), told=False)}, (GONE,), set()),
    "committed to, of one that is gone": (
        {(DEAL, GONE): dealing(near(1), told=True)}, (GONE,), {GONE},
    ),
    "other commitments, to one": (
        {(DEAL, LIAR): dealing(near(1), told=False, junk=False)}, (), set(),
    ),
    "other commitments, to everybody": (
        {(DEAL, LIAR): dealing(range(SIZE), told=False, junk=False)}, (), set(),
    ),
    "two dealers, the same neighbours": (
        {(DEAL, one): dealing(near(DECODED), told=True) for one in BOTH}, (), BOTH,
    ),
    "a giver": ({(GIVE, LIAR): garbage}, (GONE,), {LIAR}),
    "a giver that contradicts all dealers": (
        {(MASK, LIAR): contradicting, (GIVE, LIAR): garbage}, (GONE,), set(),
    ),
    "a dealer and the giver that it dealt wrong": (
        {(DEAL, LIAR): dealing({0, OTHER}, told=True), (GIVE, OTHER): garbage}, (), BOTH,
    ),
    "a dealer, and a giver against the same third": (
        {(DEAL, LIAR): dealing({0}, told=False), (GIVE, OTHER): garbage}, (), {OTHER},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDS)
def test_the_sum_is_exact_and_the_proven_liars_are_named(name: str) -> None:
    lies, gone, blamed = ENDS[name]
    group, found = run(lies, gone)
    is_exact(group, found, *sorted(blamed))


@pytest.mark.parametrize(
    ("told", "blamed"), [(True, (LIAR,)), (False, ())], ids=["committed to", "not committed to"]
)
def test_a_dealer_of_too_many_wrong_shares_spoils_the_sum_and_is_named_where_it_is_proven(
    told: bool, blamed: tuple[int, ...]
) -> None:
    _, found = run({(DEAL, LIAR): dealing(range(SIZE), told=told)})
    assert isinstance(found, Skipped)
    assert (found.reason, found.blamed) == (SecureReason.BAD_SHARE, blamed)
    assert f"position {LIAR} do not give its secret" in found.detail


def test_the_shares_of_those_who_were_dealt_wrong_count_for_everybody_else() -> None:
    """Of as few as there may be, each is needed for each other."""
    gone = tuple(range(T + 1, SIZE))
    group, found = run({(DEAL, gone[0]): dealing({0}, told=False)}, gone)
    is_exact(group, found)
    _, found = run({(DEAL, gone[0]): dealing({0}, told=True)}, gone)
    assert isinstance(found, Skipped)
    assert found.blamed == (gone[0],)


HOSTILE = st.dictionaries(
    st.integers(0, SIZE - 1),
    st.tuples(st.frozensets(st.integers(0, SIZE - 1)), st.booleans(), st.booleans(), st.booleans()),
    max_size=3,
)


@given(hostile=HOSTILE, junk=st.booleans())
@settings(deadline=None, max_examples=15)
def test_whatever_few_devices_do_nobody_honest_is_named_and_no_sum_is_wrong(
    hostile: dict[int, tuple[frozenset[int], bool, bool, bool]], junk: bool
) -> None:
    lies: Lies = {}
    for one, (receivers, told, contradicts, gives) in hostile.items():
        lies[DEAL, one] = dealing(receivers, told=told, junk=junk)
        if contradicts:
            lies[MASK, one] = contradicting
        if gives:
            lies[GIVE, one] = garbage
    group, found = run(lies)
    assert set(found.blamed) <= hostile.keys()
    if isinstance(found, Unmasked):
        is_exact(group, found, *found.blamed)
    else:
        assert found.reason is SecureReason.BAD_SHARE
        assert hostile
