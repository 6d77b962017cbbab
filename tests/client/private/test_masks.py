"""The ring of neighbours and the masks: known answers, and that they cancel to the bit."""

from __future__ import annotations

from hashlib import sha256

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketquery.client.private import masks
from pocketquery.client.private.keys import derive, self_label
from pocketquery.client.private.masks import (
    Keystream,
    RingCodes,
    add_masks,
    keystream,
    neighbours,
    pair_sign,
    word_type,
)
from pocketquery.sdk.errors import InvalidInputError

BETA = sha256(b"binding").digest()


def pair_key(left: int, right: int) -> bytes:
    return sha256(f"pair {min(left, right)} {max(left, right)}".encode()).digest()


def self_key(position: int) -> bytes:
    return sha256(f"self {position}".encode()).digest()


def test_known_answer_of_the_self_mask() -> None:
    key = derive(sha256(b"self").digest(), self_label(BETA))
    assert list(keystream(key, 4, 16)) == [26039, 62310, 31268, 64787]
    assert list(keystream(key, 2, 32)) == [26039 + (62310 << 16), 31268 + (64787 << 16)]


def test_known_answer_of_the_ring() -> None:
    ring = neighbours(sha256(b"graph").digest(), 10, 4)
    assert ring[:4] == ((3, 5, 6, 8), (4, 5, 6, 9), (3, 4, 7, 8), (0, 2, 6, 8))


@given(st.integers(2, 120), st.integers(1, 60), st.binary(max_size=40))
def test_a_ring_is_symmetric_and_of_one_degree(size: int, half: int, seed: bytes) -> None:
    degree = 2 * half
    ring = neighbours(seed, size, degree)
    assert list(ring) == list(neighbours(seed, size, degree))
    assert len(ring) == size
    for position, near in enumerate(ring):
        assert len(near) == min(degree, size - 1)
        assert list(near) == sorted(set(near) - {position})
        assert all(position in ring[other] for other in near)


def test_every_order_of_the_ring_is_as_likely() -> None:
    counts = np.zeros((6, 6), np.int64)
    for seed in range(6000):
        for position, near in enumerate(neighbours(seed.to_bytes(8, "big"), 6, 2)):
            counts[position, list(near)] += 1
    off = counts[~np.eye(6, dtype=bool)]  # each pair is joined with probability 2/5
    assert np.abs(off - 2400).max() < 5 * np.sqrt(6000 * 0.4 * 0.6)


def test_a_biased_draw_is_drawn_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def ring(*draws: int) -> list[tuple[int, ...]]:
        monkeypatch.setattr(masks, "_draws", lambda seed: iter(draws))
        neighbours.cache_clear()
        return list(neighbours(b"", 4, 2))

    last = 2**64 - 1  # of 2**64 numbers, one is left over by three choices, none by four
    assert ring(last, last, 1, 0) == ring(last, 1, 0)
    assert ring(last, last - 1, 0) == ring(last, 2, 0)
    neighbours.cache_clear()


@pytest.mark.parametrize(("size", "degree"), [(1, 4), (0, 0), (10, 3), (10, 0), (10, -2)])
def test_what_is_no_ring_is_refused(size: int, degree: int) -> None:
    with pytest.raises(InvalidInputError, match="neighbours"):
        neighbours(b"", size, degree)


def test_a_small_group_is_complete_whatever_the_degree() -> None:
    for degree in (3, 5, 84):
        ring = neighbours(b"x", 4, degree)
        assert list(ring) == [(1, 2, 3), (0, 2, 3), (0, 1, 3), (0, 1, 2)]
    assert list(neighbours(b"", 3, 2)) == [(1, 2), (0, 2), (0, 1)]


def test_a_ring_is_a_sequence_of_its_size() -> None:
    ring = neighbours(b"x", 10, 4)
    assert ring[-1] == ring[9]
    assert ring[2:4] == (ring[2], ring[3])
    with pytest.raises(IndexError):
        ring[10]


@pytest.mark.parametrize("bits", [16, 32])
@pytest.mark.parametrize(("size", "degree"), [(2, 1), (7, 6), (12, 4)])
def test_pairwise_masks_cancel_exactly(bits: int, size: int, degree: int) -> None:
    ring = neighbours(b"seed", size, degree)
    draws = np.random.default_rng(0).integers(0, 2**bits, (size, 50), np.uint64)
    codes = draws.astype(word_type(bits))
    total: RingCodes = np.zeros_like(codes[0])
    for position in range(size):
        pairs = {other: pair_key(position, other) for other in ring[position]}
        masked = add_masks(codes[position], position, self_key(position), pairs)
        assert masked.dtype == codes.dtype
        assert not np.array_equal(masked, codes[position])
        total += masked
    for position in range(size):
        total = add_masks(total, position, self_key(position), {}, sign=-1)
    assert np.array_equal(total, codes.sum(axis=0, dtype=codes.dtype))


def test_the_masks_of_one_that_is_gone_are_taken_away_with_its_key() -> None:
    codes = np.arange(300, dtype=np.uint16).reshape(3, 100)
    total: RingCodes = np.zeros(100, np.uint16)
    for position in (0, 2):  # 1 is gone
        pairs = {other: pair_key(position, other) for other in range(3) if other != position}
        total += add_masks(codes[position], position, self_key(position), pairs)
    for position in (0, 2):
        pair = {1: pair_key(position, 1)}
        total = add_masks(total, position, self_key(position), pair, sign=-1)
    assert np.array_equal(total, codes[0] + codes[2])


def test_masking_is_a_new_array_and_undone_by_the_other_sign() -> None:
    codes = np.arange(8, dtype=np.uint16)
    masked = add_masks(codes, 3, self_key(3), {1: pair_key(1, 3), 5: pair_key(3, 5)})
    assert list(codes) == list(range(8))
    undone = add_masks(masked, 3, self_key(3), {1: pair_key(1, 3), 5: pair_key(3, 5)}, sign=-1)
    assert np.array_equal(undone, codes)
    assert (pair_sign(1, 5), pair_sign(5, 1)) == (1, -1)


def test_masks_are_uniform_in_their_largest_and_smallest_words() -> None:
    words = keystream(bytes(32), 1_000_000, 16)
    counts = np.bincount(words >> 8, minlength=256)
    assert counts.size == 256
    assert ((counts - words.size / 256) ** 2).sum() / (words.size / 256) < 370  # 255 degrees, 5 s
    assert words.min() == 0
    assert words.max() == 2**16 - 1


@given(st.lists(st.integers(0, 40), max_size=6))
def test_a_keystream_is_one_stream_however_it_is_read(sizes: list[int]) -> None:
    parts = Keystream(bytes(32))
    assert b"".join(parts.read(size) for size in sizes) == Keystream(bytes(32)).read(sum(sizes))


@pytest.mark.parametrize("bits", [0, 8, 12, 64])
def test_codes_of_other_widths_are_refused(bits: int) -> None:
    with pytest.raises(InvalidInputError, match="16 or 32 bits"):
        keystream(bytes(32), 4, bits)
