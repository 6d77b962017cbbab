"""Changes as steps: known answers, no bias, the norm's bound, and sums that are exact."""

from __future__ import annotations

import math
from hashlib import sha256
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pocketquery.client.private.encoding import (
    Encoding,
    choose_encoding,
    encode,
    largest_total,
    totals,
    value_range,
)
from pocketquery.client.private.masks import Keystream, RingCodes
from pocketquery.client.private.noise import delta, sigma
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.federation.rounds.running_sum import RunningSum

FULL = 36_864  # values of the reference student's adapter
RANGE = 0.0125


class Halves(Keystream):
    """Coins of one half each."""

    def __init__(self) -> None:
        super().__init__(bytes(32))

    def words(self, count: int, dtype: type[np.unsignedinteger[Any]]) -> RingCodes:
        return np.full(count, 2**31, dtype)


class Counted(Keystream):
    draws = 0

    def words(self, count: int, dtype: type[np.unsignedinteger[Any]]) -> RingCodes:
        self.draws += 1
        return super().words(count, dtype)


def coins(name: object) -> Keystream:
    return Keystream(sha256(f"{name}".encode()).digest())


def change(size: int, norm: float, seed: int = 0) -> NDArray[np.float32]:
    values = np.random.default_rng(seed).standard_normal(size)
    return (values * norm / np.linalg.norm(values)).astype(np.float32)


def test_known_answer() -> None:
    encoding = Encoding(4, 16, 14, RANGE, 1.0)
    values = np.array([0.0031, -0.0125, 0.0125, 0], np.float32)
    codes = encode(values, encoding, Halves())
    assert codes.dtype == np.uint16
    assert list(codes) == [51, 65536 - 205, 205, 0]
    assert list(totals(codes, encoding)) == [51, -205, 205, 0]


@pytest.mark.parametrize(
    ("group", "without", "with_noise", "deviation"),
    [(20, 16, 10, 594.1), (100, 14, 10, 257.3), (1000, 10, 9, 41.2), (10_000, 7, 7, 4.02)],
)
def test_steps_of_the_full_adapter(
    group: int, without: int, with_noise: int, deviation: float
) -> None:
    assert choose_encoding(FULL, group, 1.0, RANGE) == Encoding(FULL, 16, without, RANGE, 1.0)
    noisy = choose_encoding(FULL, group, 1.0, RANGE, 2.0)
    assert noisy == Encoding(FULL, 16, with_noise, RANGE, 1.0)
    assert sigma(2.0, noisy, group * 64 // 100) == pytest.approx(deviation, rel=2e-3)
    bounds = {9: 1.019, 7: 1.256, 10: 1.005}
    assert delta(noisy) == pytest.approx(bounds[with_noise], abs=1e-3)


def test_a_small_adapter_takes_32_bits_and_no_finer_step_than_it_needs() -> None:
    found = choose_encoding(2304, 1000, 1.0, RANGE, 2.0)
    assert found == Encoding(2304, 32, 10, RANGE, 1.0)
    assert choose_encoding(4096, 20, 0.6, RANGE).exponent == 10
    assert choose_encoding(4096, 20, 0.4, RANGE).exponent == 11
    assert choose_encoding(4097, 20, 1.0, RANGE).bits == 16


def test_noise_of_less_than_two_steps_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"standard deviation of .* steps, expected"):
        choose_encoding(FULL, 10_000, 1.0, RANGE, 0.9)


@pytest.mark.parametrize(
    "wrong",
    [
        {"group": 0},
        {"size": 0},
        {"clip": 0.0},
        {"clip": math.nan},
        {"range": -1.0},
        {"range": 1e300},
        {"noise_multiplier": -1.0},
        {"noise_multiplier": math.inf},
        {"group": 1, "noise_multiplier": 1.0},
        {"size": 4, "clip": 0.0},
        {"size": 4, "clip": 1e300},
    ],
)
def test_what_cannot_be_encoded_is_refused(wrong: dict[str, Any]) -> None:
    settings: dict[str, Any] = {"size": FULL, "group": 100, "clip": 1.0, "range": RANGE}
    with pytest.raises(InvalidInputError):
        choose_encoding(**(settings | wrong))


@pytest.mark.parametrize(
    "wrong",
    [{"bits": 8}, {"bits": 16.5}, {"exponent": 41}, {"exponent": 1.5}, {"range": 0}, {"clip": -1}],
)
def test_an_encoding_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    fields: dict[str, Any] = {"size": 4, "bits": 16, "exponent": 10, "range": RANGE, "clip": 1.0}
    Encoding(**fields)
    with pytest.raises(InvalidInputError):
        Encoding(**(fields | wrong))


def test_codes_that_their_words_do_not_hold_are_refused() -> None:
    assert Encoding(4, 16, 16, 0.499, 1.0).largest_code == 32703
    with pytest.raises(InvalidInputError, match="codes of 16 bits"):
        Encoding(4, 16, 16, 0.5, 1.0)


def test_the_range_follows_from_the_training() -> None:
    assert value_range(10, 1e-3) == pytest.approx(0.0125)


@given(st.integers(1, 400), st.sampled_from([20, 100, 10_000]), st.integers(0, 50))
def test_no_code_and_no_total_passes_its_bound(size: int, group: int, seed: int) -> None:
    encoding = choose_encoding(size, group, 1.0, RANGE)
    codes = encode(change(size, 40.0, seed), encoding, coins(seed))
    assert np.abs(totals(codes, encoding)).max() <= encoding.largest_code
    assert largest_total(encoding, group, 0.0) == group * encoding.largest_code
    assert largest_total(encoding, group, 0.0) <= 0.75 * 2 ** (encoding.bits - 1)


def test_the_largest_total_has_room_for_noise() -> None:
    encoding = Encoding(4, 16, 10, RANGE, 1.0)
    assert largest_total(encoding, 100, 2.0) == 100 * 13 + 130


@pytest.mark.parametrize("exponent", [8, 10, 14])
def test_rounding_has_no_bias(exponent: int) -> None:
    """Each value's mean over devices, and the sum of all, within four standard errors."""
    size, devices = 100, 4000
    encoding = Encoding(size, 16, exponent, 0.1, 1.0)
    values = change(size, 0.4)
    stream = coins(exponent)
    found = np.zeros(size)
    for _ in range(devices):
        found += totals(encode(values, encoding, stream), encoding)
    exact = values.astype(np.float64) / encoding.step
    spread = np.sqrt((exact - np.floor(exact)) * (np.ceil(exact) - exact) / devices)
    off = (found / devices - exact) / np.maximum(spread, 1e-9)
    assert np.abs(off).max() < 4
    assert abs((found / devices - exact).sum()) < 4 * math.sqrt(float((spread**2).sum()))


def test_a_change_at_the_bound_loses_less_than_a_tenth_of_a_step() -> None:
    """There the redraws choose among the roundings; what they shift is small beside a step."""
    size, devices = 400, 4000
    encoding = Encoding(size, 16, 12, 0.5, 1.0)
    values = change(size, 1.0)
    stream = coins("bound")
    found = np.zeros(size)
    for _ in range(devices):
        found += totals(encode(values, encoding, stream), encoding)
    lost = float(values @ (values / encoding.step - found / devices))
    assert 0 < lost < 0.1 + 4 * 0.5 / math.sqrt(devices)


def test_the_norm_never_passes_its_bound_in_many_redraws() -> None:
    encoding = Encoding(6, 16, 4, 1.0, 1.0)
    values = change(6, 5.0)
    stream = Counted(bytes(32))
    most, encoded = 0.0, 0
    while stream.draws < 100_000:
        codes = totals(encode(values, encoding, stream), encoding)
        most = max(most, math.sqrt(float((codes**2).sum())) * encoding.step)
        encoded += 1
    assert most <= delta(encoding)
    assert most > delta(encoding) - 0.5 * encoding.step  # it is a bound that is nearly met
    assert 1.02 < stream.draws / encoded < 1 / 0.39  # as many as Kairouz et al. promise


def test_the_same_coins_give_the_same_codes() -> None:
    encoding = choose_encoding(500, 20, 1.0, RANGE)
    values = change(500, 1.0)
    first, again = (encode(values, encoding, coins(0)) for _ in range(2))
    assert first.tobytes() == again.tobytes()
    assert first.tobytes() != encode(values, encoding, coins(1)).tobytes()


def test_noise_is_added_and_wraps_around() -> None:
    encoding = Encoding(3, 16, 10, RANGE, 1.0)
    noise = np.array([5, -70_000, 40_000])
    codes = encode(np.zeros(3, np.float32), encoding, coins(0), noise)
    assert list(codes) == [5, -70_000 % 2**16, 40_000]


def test_a_larger_norm_is_clipped() -> None:
    encoding = Encoding(1000, 16, 14, 1.0, 1.0)
    small = totals(encode(change(1000, 1.0), encoding, Halves()), encoding)
    assert (
        np.abs(small - totals(encode(change(1000, 7.0), encoding, Halves()), encoding)).max() <= 1
    )


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_are_refused(value: float) -> None:
    encoding = Encoding(2, 16, 10, RANGE, 1.0)
    with pytest.raises(InvalidInputError, match="finite"):
        encode(np.array([0, value], np.float32), encoding, coins(0))
    with pytest.raises(InvalidInputError, match="shape"):
        encode(np.zeros(3, np.float32), encoding, coins(0))


def test_the_largest_float_is_clipped_like_any_other() -> None:
    encoding = Encoding(2, 16, 10, RANGE, 1.0)
    largest = np.full(2, np.finfo(np.float32).max, np.float32)
    assert set(totals(encode(largest, encoding, coins(0)), encoding)) <= {12, 13}


# -- sums -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [300, 5000])
def test_a_sum_is_exact_in_any_order_and_shifts_into_a_running_sum(size: int) -> None:
    devices = 40
    encoding = choose_encoding(size, devices, 1.0, 0.5)
    codes = [encode(change(size, 1.1, seed), encoding, coins(seed)) for seed in range(devices)]
    found = [
        totals(np.sum([codes[i] for i in order], axis=0, dtype=codes[0].dtype), encoding)
        for order in (range(devices), np.random.default_rng(0).permutation(devices))
    ]
    assert np.array_equal(found[0], found[1])
    one_by_one = RunningSum.empty(size)
    for code in codes:
        decoded = totals(code, encoding) * encoding.step
        one_by_one = one_by_one.add(decoded.astype(np.float32), 1.0)
    shifted = RunningSum.of_totals(found[0], encoding.exponent, devices)
    assert shifted.totals.tobytes() == one_by_one.totals.tobytes()
    assert (shifted.weight, shifted.count) == (one_by_one.weight, one_by_one.count)
    assert shifted.mean().tobytes() == one_by_one.mean().tobytes()
    exact = np.mean([change(size, 1.0, seed) for seed in range(devices)], axis=0)
    assert np.linalg.norm(shifted.mean() - exact) < math.sqrt(size) * encoding.step


def test_the_mean_may_be_over_the_cohort_that_was_asked() -> None:
    found = RunningSum.of_totals(np.array([100, -50]), 4, 9, shares=10)
    assert found.mean().tolist() == [0.625, -0.3125]
    assert found.count == 9


def test_totals_too_fine_or_too_large_for_a_running_sum_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="finer than the 24 bits"):
        RunningSum.of_totals(np.array([1]), 25, 1, bits=24)
    with pytest.raises(InvalidInputError, match="could take the sum past"):
        RunningSum.of_totals(np.array([-(2**40)]), 0, 1)
    assert RunningSum.of_totals(np.array([-(2**22)]), 0, 1).reach == 2**62
