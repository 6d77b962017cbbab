"""CSLS by hand, against its equation, and against a hub."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from pocketquery.server.evaluation.geometry import unit_rows
from pocketquery_research.calibration import csls
from pocketquery_research.calibration.csls import mean_nearest, mutual_neighbours


def csls_scores(
    left: NDArray[np.floating], right: NDArray[np.floating], neighbours: int = 10
) -> NDArray[np.floating]:
    """The equation, all scores at once."""
    to_right = mean_nearest(left, right, neighbours)
    to_left = mean_nearest(right, left, neighbours)
    scores: NDArray[np.floating] = 2 * (left @ right.T) - to_right[:, None] - to_left[None, :]
    return scores


def test_by_hand() -> None:
    left = np.array([[1.0, 0.0], [0.0, 1.0]])
    right = np.array([[1.0, 0.0], [0.6, 0.8]])
    # Cosines 1, .6; 0, .8. With K = 1: r of the left 1, .8; of the right 1, .8.
    np.testing.assert_allclose(csls_scores(left, right, 1), [[0.0, -0.6], [-1.8, 0.0]])
    # With K = 2: .8, .4 and .5, .7.
    np.testing.assert_allclose(csls_scores(left, right, 2), [[0.7, -0.3], [-0.9, 0.5]])
    np.testing.assert_allclose(csls_scores(left, right, 10), csls_scores(left, right, 2))


def test_a_hub_loses_its_rank() -> None:
    rng = np.random.default_rng(0)
    common = unit_rows(rng.normal(size=(1, 24)))
    left = unit_rows(common + 0.1 * rng.normal(size=(60, 24)))
    right = unit_rows(left + 0.1 * rng.normal(size=(60, 24)))
    hub = unit_rows(left.mean(axis=0, keepdims=True))
    targets = np.concatenate([right, hub])
    plain = (left @ targets.T).argmax(axis=1)
    corrected = csls_scores(left, targets).argmax(axis=1)
    assert (plain == 60).mean() > 0.4  # nearest to half of everything
    assert (corrected == 60).mean() < 0.1
    own = np.arange(60)
    assert (corrected == own).mean() > (plain == own).mean() + 0.3


@pytest.mark.parametrize("sizes", [(700, 333), (200, 900), (5, 3)])
def test_blocks_find_the_pairs_that_the_whole_matrix_does(
    sizes: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csls, "_BLOCK", 128)
    rng = np.random.default_rng(1)
    left, right = (unit_rows(rng.normal(size=(size, 6))) for size in sizes)
    scores = csls_scores(left, right)
    expected = [
        (row, column)
        for row, column in enumerate(scores.argmax(axis=1))
        if scores[:, column].argmax() == row
    ]
    found = mutual_neighbours(left, right)
    assert list(zip(found.left.tolist(), found.right.tolist(), strict=True)) == expected
    cosines = [left[row] @ right[column] for row, column in expected]
    assert found.cosine == pytest.approx(np.mean(cosines))


def test_mean_nearest_is_the_mean_of_the_k_largest() -> None:
    rng = np.random.default_rng(2)
    left, right = (unit_rows(rng.normal(size=(30, 5))) for _ in range(2))
    expected = np.sort(left @ right.T, axis=1)[:, -4:].mean(axis=1)
    np.testing.assert_allclose(mean_nearest(left, right, 4), expected)
