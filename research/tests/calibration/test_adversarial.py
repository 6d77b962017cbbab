"""The adversarial start: its parts by hand, and a rotation that refinement alone cannot find."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pocketquery.sdk.arrays import AnyFloats
from pocketquery.server.evaluation.geometry import unit_rows
from pocketquery_research.calibration.adversarial import (
    AdversarialConfig,
    adversarial_start,
    discriminator,
    orthogonalized,
)
from pocketquery_research.calibration.rotation import refine
from pocketquery_research.evaluation.translation import two_way
from research.tests.calibration.test_rotation import turned

SHORT = AdversarialConfig(hidden=8, epochs=1, steps=3)


def clouds(dimension: int, seed: int) -> tuple[AnyFloats, AnyFloats]:
    """Clusters of unequal size, and the same ones turned too far for the refinement alone."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(12, dimension))
    rows = rng.choice(12, 1000, p=np.arange(1, 13) / 78)
    first: AnyFloats = centres[rows] + 0.4 * rng.normal(size=(1000, dimension))
    first = unit_rows((first - first.mean(axis=0)) / first.std(axis=0))
    noise = 0.02 * rng.normal(size=first.shape)
    return first, unit_rows(first @ turned(dimension, 0.6, rng) + noise)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_rotation_that_refinement_cannot_find_is_found_from_the_adversarial_start(
    seed: int,
) -> None:
    source, target = clouds(6, seed)
    shuffled = source[np.random.default_rng(9).permutation(1000)]  # nothing is parallel
    quick = AdversarialConfig(
        hidden=64, epochs=4, steps=200, discriminator_steps=2, learning_rate=1.0
    )
    lost = refine(shuffled, target)
    start = adversarial_start(shuffled, target, quick, seed=seed)
    found = refine(shuffled, target, start=start)
    assert two_way(source @ lost.rotation.T, target).accuracy < 0.2
    assert two_way(source @ found.rotation.T, target).accuracy > 0.99
    assert found.cosine > lost.cosine  # what the choice between the two is made by


def test_the_step_pulls_towards_orthogonal_matrices() -> None:
    stretched = torch.diag(torch.tensor([1.2, 0.8]))
    by_hand = torch.diag(torch.tensor([1.1 * 1.2 - 0.1 * 1.2**3, 1.1 * 0.8 - 0.1 * 0.8**3]))
    torch.testing.assert_close(orthogonalized(stretched, 0.1), by_hand)
    for _ in range(200):
        stretched = orthogonalized(stretched, 0.1)
    torch.testing.assert_close(stretched, torch.eye(2))


def test_the_discriminator_is_as_wide_as_its_input_asks() -> None:
    def width(dimension: int, hidden: int) -> int:
        layer = discriminator(dimension, hidden, 0.1)[1]
        assert isinstance(layer, torch.nn.Linear)
        return layer.out_features

    assert (width(256, 0), width(257, 0), width(8, 5)) == (256, 2048, 5)


def test_equal_seeds_give_equal_rotations_and_nothing_outside_is_disturbed() -> None:
    source, target = clouds(6, 0)
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    one = adversarial_start(source, target, SHORT, seed=1)
    assert torch.equal(torch.rand(1), expected)
    np.testing.assert_array_equal(one, adversarial_start(source, target, SHORT, seed=1))
    np.testing.assert_allclose(one.T @ one, np.eye(6), atol=1e-10)


def test_the_best_of_all_epochs_is_kept_and_never_worse_than_no_rotation() -> None:
    _, target = clouds(6, 0)
    # The same cloud twice: no rotation at all is perfect, and training can only spoil it.
    rough = AdversarialConfig(hidden=8, epochs=2, steps=20, learning_rate=3.0)
    found = adversarial_start(target, target, rough, seed=0)
    np.testing.assert_allclose(found, np.eye(6), atol=1e-10)


def test_of_several_restarts_the_best_is_kept() -> None:
    _, target = clouds(6, 0)
    # The first restart begins at the perfect rotation, the others anywhere.
    several = AdversarialConfig(hidden=8, epochs=1, steps=1, restarts=4)
    found = adversarial_start(target, target, several, seed=0)
    np.testing.assert_allclose(found, np.eye(6), atol=1e-10)
