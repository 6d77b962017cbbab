"""Two-way accuracy, the language probe and RSIM at the values they must take."""

from __future__ import annotations

import numpy as np
import pytest

from pocketquery.sdk.errors import InvalidInputError
from pocketquery_research.evaluation import translation
from pocketquery_research.evaluation.translation import relational_similarity, two_way

RNG = np.random.default_rng(0)
VECTORS = RNG.normal(size=(300, 16)).astype(np.float32)


def test_identical_sides_are_right_and_permuted_ones_are_right_by_chance() -> None:
    assert two_way(VECTORS, VECTORS).accuracy == 1
    assert two_way(VECTORS, 7 * VECTORS).accuracy == 1  # cosines
    order = np.roll(np.arange(300), 1)
    order[:3] = [0, 299, 1]  # row 0 alone stays where it was
    found = two_way(VECTORS, VECTORS[order])
    assert found.accuracy == pytest.approx(1 / 300)
    assert found.forward.nonzero()[0].tolist() == [0]


def test_exchanging_the_languages_exchanges_the_directions() -> None:
    other = VECTORS + 0.8 * RNG.normal(size=VECTORS.shape)
    one, swapped = two_way(VECTORS, other), two_way(other, VECTORS)
    assert 0.2 < one.accuracy < 0.95
    assert one.forward.tolist() == swapped.backward.tolist()
    assert one.accuracy == swapped.accuracy
    assert one.per_pair().mean() == pytest.approx(one.accuracy)


def test_by_hand() -> None:
    left = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    right = np.array([[1.0, 0.0], [1.0, 0.1], [1.0, 1.0]])
    found = two_way(left, right)
    assert found.forward.tolist() == [True, False, True]
    assert found.backward.tolist() == [True, False, True]
    assert found.accuracy == pytest.approx(2 / 3)


def test_a_collapsed_encoder_is_right_one_time_in_n() -> None:
    constant = np.ones((40, 8), dtype=np.float32)
    hits = [two_way(constant, constant, seed=seed) for seed in range(40)]
    assert {found.accuracy for found in hits} == {1 / 40}
    assert len({int(found.forward.argmax()) for found in hits}) > 10  # not always the first row


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    other = VECTORS + 0.8 * np.random.default_rng(1).normal(size=VECTORS.shape)
    whole = two_way(VECTORS, other)
    monkeypatch.setattr(translation, "_BLOCK", 7)
    assert two_way(VECTORS, other).forward.tolist() == whole.forward.tolist()


def test_isomorphic_spaces_have_rsim_one_wherever_they_lie() -> None:
    rotation = np.linalg.qr(RNG.normal(size=(16, 16)))[0]
    assert relational_similarity(VECTORS, VECTORS @ rotation) == pytest.approx(1, abs=1e-4)
    unrelated = np.random.default_rng(4).normal(size=VECTORS.shape)
    assert abs(relational_similarity(VECTORS, unrelated)) < 0.05
    some = VECTORS + unrelated
    assert 0.2 < relational_similarity(VECTORS, some) < 0.9
    assert relational_similarity(VECTORS, np.ones_like(VECTORS)) == 0


def test_rsim_by_hand() -> None:
    left = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])  # cosines 0, .6, .8
    right = np.array([[1.0, 0.0], [0.6, 0.8], [0.8, 0.6]])  # cosines .6, .8, .96
    expected = np.corrcoef([0, 0.6, 0.8], [0.6, 0.8, 0.96])[0, 1]
    assert relational_similarity(left, right) == pytest.approx(expected)


def test_sides_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"\(300, 16\) and \(299, 16\)"):
        two_way(VECTORS, VECTORS[1:])
    with pytest.raises(InvalidInputError, match="one pair at least"):
        two_way(VECTORS[:0], VECTORS[:0])
    with pytest.raises(InvalidInputError, match="2 pairs"):
        relational_similarity(VECTORS[:2], VECTORS[:2])
