from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketquery.sdk.errors import CorruptArtifactError
from pocketquery.server.federation.rounds.nonces import NonceSet

nonces = st.lists(st.integers(0, 2**128 - 1).map("{:032x}".format), unique=True, max_size=30)


@given(nonces, nonces)
def test_it_is_a_set(held: list[str], others: list[str]) -> None:
    made = NonceSet()
    for nonce in held:
        made = made.add(nonce)
    assert len(made) == len(held)
    assert all(nonce in made for nonce in held)
    assert [nonce in made for nonce in others] == [nonce in held for nonce in others]
    assert made == NonceSet.of(bytes.fromhex(nonce) for nonce in held)


@given(nonces, nonces)
def test_adding_leaves_the_old_set_as_it_was(first: list[str], more: list[str]) -> None:
    before = NonceSet.of(map(bytes.fromhex, first))
    after = before
    for nonce in more:
        after = after.add(nonce).add(nonce)
    assert set(after) == set(map(bytes.fromhex, [*first, *more]))
    assert len(after) == len(set(after))
    assert after == before.add_all([*more, *first, *more])
    assert set(before) == set(map(bytes.fromhex, first))


def test_nonces_that_share_their_first_byte_are_told_apart() -> None:
    made = NonceSet()
    for number in reversed(range(300)):
        made = made.add(f"{number:032x}")
    assert len(made) == 300
    assert f"{299:032x}" in made
    assert f"{300:032x}" not in made


@given(nonces)
def test_equal_sets_give_equal_bytes_and_come_back(held: list[str]) -> None:
    made = NonceSet.of(map(bytes.fromhex, held))
    array = made.to_array()
    assert array.tobytes() == NonceSet.of(map(bytes.fromhex, reversed(held))).to_array().tobytes()
    assert NonceSet.of_array(array) == made


@pytest.mark.parametrize(
    "array", [np.zeros((2, 15), np.uint8), np.zeros(16, np.uint8), np.zeros((1, 16), np.int8)]
)
def test_other_arrays_are_refused(array: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> None:
    with pytest.raises(CorruptArtifactError, match="expected uint8"):
        NonceSet.of_array(array)
