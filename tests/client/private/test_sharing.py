"""Shamir's sharing: the known answer, and any threshold of the shares gives the secret."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketquery.client.private import sharing
from pocketquery.client.private.sharing import MODULUS, join, join_despite, split
from pocketquery.sdk.errors import InvalidInputError


def number(value: int) -> bytes:
    return value.to_bytes(32, "little")


def test_known_answer() -> None:
    shares = split(number(5), 3, [3, 2], 3)
    assert shares == [number(10), number(19), number(32)]
    assert join(dict(enumerate(shares, 1)), 3) == number(5)


def test_the_modulus_is_prime() -> None:
    """Miller and Rabin's test with the first 64 primes as bases."""
    odd, twos = MODULUS - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    primes = [p for p in range(2, 312) if all(p % q for q in range(2, p))]
    assert len(primes) == 64
    for base in primes:
        powers = [pow(base, odd << step, MODULUS) for step in range(twos)]
        assert powers[0] == 1 or MODULUS - 1 in powers


elements = st.integers(0, MODULUS - 1) | st.sampled_from([0, 1, MODULUS - 1, 2**255])


@given(st.data())
def test_any_threshold_of_the_shares_gives_the_secret(data: st.DataObject) -> None:
    threshold = data.draw(st.integers(1, 12))
    count = data.draw(st.integers(threshold, 20))
    coefficients = data.draw(st.lists(elements, min_size=threshold - 1, max_size=threshold - 1))
    secret = number(data.draw(elements))
    shares = split(secret, threshold, coefficients, count)
    assert len(shares) == count
    places = data.draw(st.permutations(range(1, count + 1)))
    chosen = places[: data.draw(st.integers(threshold, count))]
    assert join({x: shares[x - 1] for x in chosen}, threshold) == secret


@given(elements, st.integers(1, 255), st.integers(0, 4))
def test_a_wrong_share_gives_a_wrong_secret(secret: int, change: int, place: int) -> None:
    shares = dict(enumerate(split(number(secret), 5, [7, 11, 13, 17], 5), 1))
    altered = bytearray(shares[place + 1])
    altered[0] ^= change
    if int.from_bytes(altered, "little") < MODULUS:
        assert join({**shares, place + 1: bytes(altered)}, 5) != number(secret)


@given(st.data())
def test_half_of_the_spare_shares_may_be_wrong(
    data: st.DataObject,
) -> None:
    """Of shares of low degree and secrets at the ends of the field, too."""
    threshold = data.draw(st.integers(1, 9))
    count = data.draw(st.integers(threshold, 16))
    coefficients = data.draw(st.lists(elements, min_size=threshold - 1, max_size=threshold - 1))
    secret = number(data.draw(elements))
    shares = dict(enumerate(split(secret, threshold, coefficients, count), 1))
    places = data.draw(st.permutations(range(1, count + 1)))
    wrong = places[: data.draw(st.integers(0, (count - threshold) // 2))]
    junk = st.binary(min_size=32, max_size=32) | st.just(b"\xff" * 32)
    for place in wrong:
        shares[place] = data.draw(junk)
    mixed = data.draw(st.permutations(sorted(shares)))
    assert join_despite({place: shares[place] for place in mixed}, threshold) == secret


@pytest.mark.parametrize(("threshold", "count"), [(51, 84), (121, 200)])
def test_the_secret_is_found_in_graphs_as_they_are(threshold: int, count: int) -> None:
    coefficients = [pow(3, 200 + power, MODULUS) for power in range(1, threshold)]
    shares = dict(enumerate(split(number(5), threshold, coefficients, count), 1))
    most = (count - threshold) // 2
    for place in range(2, 2 + most):
        shares[place] = number(place)
    assert join_despite(shares, threshold) == number(5)
    shares[1] = number(1)
    assert join_despite(shares, threshold) is None
    few = dict(list(shares.items())[: threshold - 1])
    assert join_despite(few, threshold) is None


def test_fewer_shares_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a small field all polynomials can be tried: whatever two of five shares are, at a
    threshold of three every secret is behind them equally often."""
    monkeypatch.setattr(sharing, "MODULUS", 11)
    behind: Counter[tuple[object, ...]] = Counter()
    for secret, first, second in itertools.product(range(11), repeat=3):
        shares = split(number(secret), 3, [first, second], 5)
        for pair in itertools.combinations(range(5), 2):
            behind[(pair, shares[pair[0]], shares[pair[1]], secret)] += 1
    assert set(behind.values()) == {1}
    assert len(behind) == 10 * 11**3


@pytest.mark.parametrize(
    ("threshold", "coefficients", "count"),
    [
        (0, [], 3),
        (3, [1], 5),
        (3, [1, 2, 3], 5),
        (4, [1, 2, 3], 3),
        (2, [MODULUS], 3),
        (2, [-1], 3),
    ],
)
def test_numbers_that_do_not_go_together_are_refused(
    threshold: int, coefficients: list[int], count: int
) -> None:
    with pytest.raises(InvalidInputError):
        split(number(1), threshold, coefficients, count)


@pytest.mark.parametrize("secret", [b"", bytes(31), bytes(33), b"\xff" * 32, number(MODULUS)])
def test_what_is_no_element_is_neither_shared_nor_joined(secret: bytes) -> None:
    with pytest.raises(InvalidInputError, match="no element of the field"):
        split(secret, 2, [1], 3)
    with pytest.raises(InvalidInputError, match="no element of the field"):
        join({1: number(1), 2: secret}, 2)


def test_too_few_shares_or_a_place_before_the_first_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="found 1 shares, expected at least 2"):
        join({1: number(1)}, 2)
    with pytest.raises(InvalidInputError, match="places from 1"):
        join({0: number(1), 1: number(2)}, 2)
    with pytest.raises(InvalidInputError, match="places from 1"):
        join({}, 0)
