"""Procrustes and the refinement: what they repair, and what they cannot."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from pocketquery.server.evaluation.geometry import unit_rows
from pocketquery_research.calibration.rotation import procrustes, refine
from pocketquery_research.evaluation.translation import two_way

Matrix = NDArray[np.floating]


def turned(dimension: int, share: float, rng: np.random.Generator) -> Matrix:
    """A rotation W with |W - I| / sqrt(2 dim) = share: 1 is as far as a random one is."""
    skew = rng.normal(size=(dimension, dimension))
    skew, one = (skew - skew.T) / np.sqrt(dimension), np.eye(dimension)

    def cayley(angle: float) -> Matrix:
        return np.linalg.solve(one + angle * skew, one - angle * skew)

    low, high = 0.0, 10.0
    for _ in range(60):
        middle = (low + high) / 2
        distance = np.linalg.norm(cayley(middle) - one)
        low, high = (middle, high) if distance < share * np.sqrt(2 * dimension) else (low, middle)
    return cayley(low)


def languages(share: float, seed: int = 0) -> tuple[Matrix, Matrix]:
    """1,000 sentences, and the same ones rotated and disturbed, rows in step."""
    rng = np.random.default_rng(seed)
    first = unit_rows(rng.normal(size=(1000, 32)))
    noisy = unit_rows(first + 0.1 * rng.normal(size=first.shape))
    return noisy, first @ turned(32, share, rng)


def test_procrustes_finds_a_random_rotation() -> None:
    rng = np.random.default_rng(0)
    expected = np.linalg.qr(rng.normal(size=(16, 16)))[0]
    source = rng.normal(size=(200, 16))
    found = procrustes(source, source @ expected.T)
    np.testing.assert_allclose(found, expected, atol=1e-10)
    np.testing.assert_allclose(found.T @ found, np.eye(16), atol=1e-10)


def test_procrustes_stays_orthogonal_where_nothing_fits() -> None:
    rng = np.random.default_rng(1)
    found = procrustes(rng.normal(size=(50, 8)), 100 * rng.normal(size=(50, 8)))
    np.testing.assert_allclose(found.T @ found, np.eye(8), atol=1e-10)


def test_refinement_repairs_a_moderate_rotation() -> None:
    target, source = languages(0.5)
    shuffled = np.random.default_rng(9).permutation(1000)
    before = two_way(source, target).accuracy
    found = refine(source[shuffled], target)
    after = two_way(source @ found.rotation.T, target).accuracy
    assert 0.8 < before < 0.95
    assert after > 0.99
    assert found.pairs > 900
    np.testing.assert_allclose(found.rotation.T @ found.rotation, np.eye(32), atol=1e-10)


def test_refinement_cannot_repair_an_arbitrary_rotation_but_can_from_a_near_start() -> None:
    target, source = languages(0.9)
    lost = refine(source, target)
    assert two_way(source @ lost.rotation.T, target).accuracy < 0.1
    truth = procrustes(source, target)
    near = truth @ turned(32, 0.4, np.random.default_rng(3))
    found = refine(source, target, start=near)
    assert two_way(source @ found.rotation.T, target).accuracy > 0.99
    assert found.cosine > lost.cosine + 0.2  # seen without knowing a single pair


@pytest.mark.parametrize("least", [None, 10_000])
def test_too_few_pairs_leave_the_rotation_as_it_is(least: int | None) -> None:
    target, source = languages(0.5)
    rows = 20 if least is None else 1000
    found = refine(source[:rows], target[:rows], least_pairs=least)
    np.testing.assert_array_equal(found.rotation, np.eye(32))
