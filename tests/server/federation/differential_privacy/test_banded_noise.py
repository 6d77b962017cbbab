"""Correlated noise: known values, sensitivity by brute force, and what is kept between rounds."""

from __future__ import annotations

import hashlib
import itertools
import math
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError
from pocketquery.server.federation.differential_privacy.banded_noise import (
    BandedNoise,
    bands_of,
    coefficients,
    gaussians,
    sensitivity,
)


def test_the_coefficients() -> None:
    """Known values: the power series of (1 - x)^(-1/2), whose square is that of prefix sums."""
    assert coefficients(5).tolist() == [1, 0.5, 0.375, 0.3125, 0.2734375]
    root = _matrix(12, 12)
    np.testing.assert_allclose(root @ root, np.tril(np.ones((12, 12))), atol=1e-12)


def test_known_sensitivities() -> None:
    """Both where the last column is cut off by the season's end, and where none is."""
    assert sensitivity(8, 3, 3) == pytest.approx(2.007797, abs=1e-6)
    assert sensitivity(50, 10, 5) == pytest.approx(2.993, abs=5e-4)
    whole_columns = math.sqrt(5) * float(np.linalg.norm(coefficients(10)))
    assert sensitivity(50, 10, 5) == pytest.approx(whole_columns)
    assert sensitivity(10, 1, 10) == pytest.approx(math.sqrt(10))  # independent noise


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 9), st.integers(1, 5), st.integers(1, 4))
def test_the_sensitivity_is_that_of_the_worst_schedule(
    rounds: int, bands: int, participations: int
) -> None:
    """Brute force: every schedule that devices' ledgers allow, changes in one direction."""
    matrix = _matrix(rounds, bands)
    worst = 0.0
    for count in range(1, participations + 1):
        for chosen in itertools.combinations(range(rounds), count):
            if all(b - a >= bands for a, b in itertools.pairwise(chosen)):
                taken = np.zeros(rounds)
                taken[list(chosen)] = 1.0
                worst = max(worst, float(np.linalg.norm(matrix @ taken)))
    found = sensitivity(rounds, min(bands, rounds), participations)
    assert found == pytest.approx(worst)


@pytest.mark.parametrize(
    ("rounds", "expected"),
    [
        (10, (0.70, 0.71, 0.81, 1.00)),
        (50, (0.42, 0.42, 0.47, 0.56)),
        (200, (0.26, 0.26, 0.28, 0.33)),
    ],
)
def test_the_noise_left_beside_independent_noise(rounds: int, expected: tuple[float, ...]) -> None:
    """Of the sum of the rounds so far, at equal epsilon, rms over rounds; P = 1, 2, 5, 10."""
    prefix = np.tril(np.ones((rounds, rounds)))
    for participations, value in zip((1, 2, 5, 10), expected, strict=True):
        bands = rounds // participations
        left = np.linalg.norm(prefix @ np.linalg.inv(_matrix(rounds, bands)))
        left *= sensitivity(rounds, bands, participations)
        independent = np.linalg.norm(prefix) * math.sqrt(participations)
        assert float(left / independent) == pytest.approx(
            value, abs=0.007
        )  # published in two digits


def test_bands_leave_room_for_every_participation() -> None:
    """A device that stays away for as many rounds still takes part as often as it may."""
    assert [bands_of(50, p) for p in (1, 5, 7, 50)] == [50, 10, 7, 1]
    with pytest.raises(InvalidInputError, match="participations is 5"):
        bands_of(4, 5)


def test_the_noise_undoes_the_matrix() -> None:
    """C w is the independent noise again, whatever the number of rounds beyond the bands."""
    noise, made, drawn = BandedNoise.start(4, 6), [], []
    for step in range(11):
        key = hashlib.sha256(b"round %d" % step).digest()
        values, noise = noise.next(key, 2.5, step)
        made.append(values)
        drawn.append(gaussians(key, 6) * 2.5)
    np.testing.assert_allclose(_matrix(11, 4) @ np.array(made), np.array(drawn), atol=1e-12)
    assert noise.history.shape == (3, 6)
    np.testing.assert_array_equal(noise.history[0], made[-1])


def test_rounds_without_noise_have_made_it_all_the_same() -> None:
    """Three at once are the same season as one after the other with thirds of one stream."""
    key = hashlib.sha256(b"three rounds").digest()
    _, begun = BandedNoise.start(3, 4).next(bytes(32), 1.0, 7)
    last, after = begun.next(key, 2.0, 10)
    drawn = gaussians(key, 12).reshape(3, 4) * 2.0
    made = [begun.history[0]]
    for independent in drawn:
        noise = independent - 0.5 * made[-1] - (0.375 * made[-2] if len(made) > 1 else 0.0)
        made.append(noise)
    np.testing.assert_allclose(last, made[-1], atol=1e-12)
    np.testing.assert_allclose(after.history, [made[-1], made[-2]], atol=1e-12)
    for number in (0, 10):
        with pytest.raises(InvalidInputError, match=f"round is {number}, .* from 11"):
            after.next(key, 2.0, number)


def test_noise_protects_what_came_before_when_rounds_need_less() -> None:
    """Row t of C w has at least z times the sensitivity of every round until t."""
    needed, made, season = [2.0, 0.5, 3.0, 1.0], [], BandedNoise.start(3, 6)
    keys = [hashlib.sha256(b"round %d" % step).digest() for step in range(4)]
    for step, one in enumerate(needed):
        values, season = season.next(keys[step], one, step)
        season = BandedNoise.from_bytes(season.to_bytes())
        made.append(values)
    expected = [s * gaussians(key, 6) for s, key in zip((2.0, 2.0, 3.0, 3.0), keys, strict=True)]
    np.testing.assert_allclose(_matrix(4, 3) @ np.array(made), np.array(expected), atol=1e-12)


def test_a_season_begun_anew_costs_no_device_more() -> None:
    """Noise after the break is independent: C is two blocks, whose columns are no longer."""
    for rounds, bands, participations in ((8, 3, 3), (9, 4, 2)):
        for cut in range(1, rounds):
            blocks = _matrix(rounds, bands)
            blocks[cut:, :cut] = 0.0
            for chosen in itertools.combinations(range(rounds), participations):
                if all(b - a >= bands for a, b in itertools.pairwise(chosen)):
                    taken = np.zeros(rounds)
                    taken[list(chosen)] = 1.0
                    worst = sensitivity(rounds, bands, participations)
                    assert float(np.linalg.norm(blocks @ taken)) <= worst + 1e-12


def test_a_season_that_was_kept_without_its_rounds_is_begun_anew() -> None:
    """As it was written before: its deviation is not known, and noise that is independent of it
    costs no privacy."""
    head = struct.pack("<4sIIQ", b"PQBN", 3, 2, 4)
    found = BandedNoise.from_bytes(head + np.ones(8, "<f8").tobytes())
    assert (found.bands, found.history.shape, found.deviation, found.last) == (3, (0, 4), 0, None)
    assert found.next(bytes(32), 1.0, 30)[0].tolist() == gaussians(bytes(32), 4).tolist()
    with pytest.raises(CorruptArtifactError, match="no history"):
        BandedNoise.from_bytes(head + bytes(65))


def test_a_resumed_season_makes_the_same_noise() -> None:
    """From the bytes in the journal, to the bit; one band keeps nothing."""
    for bands, steps in ((1, 3), (5, 2), (5, 9)):
        noise = BandedNoise.start(bands, 7)
        for step in range(steps):
            _, noise = noise.next(bytes([step]) * 32, 1.0, 5 + step)
        data = noise.to_bytes()
        again = BandedNoise.from_bytes(data)
        assert again.to_bytes() == data
        assert len(data) == 36 + 8 * 7 * min(bands - 1, steps)
        expected, actual = (one.next(bytes(32), 0.5, 20) for one in (noise, again))
        assert expected[0].tobytes() == actual[0].tobytes()


def test_the_values_are_standard_normal() -> None:
    """A million of them: mean, variance, kurtosis within 4 sigma, and the share beyond 3."""
    values = gaussians(hashlib.sha256(b"normal").digest(), 1_000_000)
    count = values.size
    assert abs(values.mean()) < 4 / math.sqrt(count)
    assert abs(values.var() - 1) < 4 * math.sqrt(2 / count)
    assert abs((values**4).mean() - 3) < 4 * math.sqrt(96 / count)
    share = 0.0026998
    beyond = float(np.mean(np.abs(values) > 3))
    assert abs(beyond - share) < 4 * math.sqrt(share / count)
    assert abs(np.mean(values[::2] * values[1::2])) < 4 / math.sqrt(count // 2)


def test_equal_keys_give_equal_noise_and_others_do_not() -> None:
    """An odd count is the start of the even one."""
    key = hashlib.sha256(b"key").digest()
    assert gaussians(key, 5).tolist() == gaussians(key, 6).tolist()[:5]
    assert gaussians(key, 4).tolist() != gaussians(bytes(32), 4).tolist()
    assert gaussians(key, 4).dtype == np.float64


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_damaged_bytes_are_refused(data: st.DataObject) -> None:
    """Cut, grown or with another head; never another error."""
    noise = BandedNoise.start(3, 4)
    for step in range(2):
        _, noise = noise.next(bytes([step]) * 32, 1.0, step)
    whole = noise.to_bytes()
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(CorruptArtifactError, match="no history of a season's noise"):
        BandedNoise.from_bytes(whole[:cut])
    with pytest.raises(CorruptArtifactError):
        BandedNoise.from_bytes(whole + data.draw(st.binary(min_size=1, max_size=9)))
    place = data.draw(st.integers(0, 19))
    flipped = bytearray(whole)
    flipped[place] ^= data.draw(st.integers(1, 255))
    if 4 <= place < 8:  # the number of bands is any number above the rounds kept
        return
    with pytest.raises(CorruptArtifactError):
        BandedNoise.from_bytes(bytes(flipped))


def test_noise_that_is_not_finite_is_refused() -> None:
    """It would be in every later release."""
    for noise in (
        BandedNoise(2, np.array([[math.nan, 0.0]])),
        BandedNoise(2, np.zeros((0, 2)), math.inf),
        BandedNoise(2, np.zeros((0, 2)), -1.0),
    ):
        with pytest.raises(CorruptArtifactError, match="NaN"):
            BandedNoise.from_bytes(noise.to_bytes())


def test_what_no_season_has_is_refused() -> None:
    """Bands, values and deviations."""
    with pytest.raises(InvalidInputError, match="bands is 0"):
        BandedNoise.start(0, 4)
    with pytest.raises(InvalidInputError, match="size is 0"):
        BandedNoise.start(1, 0)
    with pytest.raises(InvalidInputError, match="deviation is -1"):
        BandedNoise.start(2, 4).next(bytes(32), -1.0, 0)
    with pytest.raises(InvalidInputError, match="participations is 0"):
        sensitivity(10, 2, 0)


def _matrix(rounds: int, bands: int) -> NDArray[np.float64]:
    """C as a matrix: (rounds, rounds), lower triangular."""
    matrix = np.zeros((rounds, rounds))
    for distance, value in enumerate(coefficients(min(bands, rounds))):
        matrix += np.diag(np.full(rounds - distance, value), -distance)
    return matrix
