"""The geometry figures against hand-computed values and known limits."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.evaluation.geometry import (
    alignment,
    hubness,
    language_probe,
    measure_geometry,
)


def gaussian(count: int, dimension: int, seed: int = 0) -> NDArray[np.float64]:
    return np.random.default_rng(seed).standard_normal((count, dimension))


@pytest.mark.parametrize(("dimension", "limit"), [(64, -3.875), (128, -3.937), (256, -3.969)])
def test_points_all_over_the_sphere(dimension: int, limit: float) -> None:
    found = measure_geometry(gaussian(1500, dimension))
    assert found.std_ratio == pytest.approx(1, abs=0.02)
    assert found.uniformity == pytest.approx(limit, abs=0.005)
    assert found.mean_cos == pytest.approx(0, abs=0.005)
    assert found.collapse_level < 0.02
    assert found.eff_rank > 0.9 * dimension
    assert found.alarms() == []


def test_one_point_is_collapse_of_level_one_and_of_rank_one_by_convention() -> None:
    found = measure_geometry(np.tile(gaussian(1, 32).astype(np.float32), (50, 1)))
    assert found.collapse_level == pytest.approx(1)
    assert found.eff_rank == 1
    assert found.top_pc == 1
    assert found.mean_cos == pytest.approx(1)
    assert found.uniformity == pytest.approx(0, abs=1e-9)
    assert {"std_ratio", "mean_cos", "uniformity", "eff_rank", "top_pc"} <= set(found.alarms())


def test_four_points_by_hand() -> None:
    found = measure_geometry(np.array([[2.0, 0], [0, 3], [-1, 0], [0, -5]]))
    assert found.std_ratio == pytest.approx(math.sqrt(2) * math.sqrt(1 / 2))
    assert found.mean_cos == pytest.approx(-1 / 3)  # of 0, -1, 0
    assert found.uniformity == pytest.approx(math.log((2 * math.exp(-4) + math.exp(-8)) / 3))
    assert found.eff_rank == pytest.approx(2)
    assert found.top_pc == pytest.approx(0.5)
    assert found.hubness == 0  # everyone is a neighbour of everyone


def test_rank_and_spread_tell_different_collapses() -> None:
    line = np.random.default_rng(0).choice([-1.0, 1.0], (400, 1)) * np.ones((1, 64))
    dimensional = measure_geometry(line + 0.01 * gaussian(400, 64))
    assert dimensional.std_ratio > 0.9
    assert "eff_rank" not in measure_geometry(gaussian(400, 64)).alarms()
    assert dimensional.top_pc > 0.9
    total = measure_geometry(np.ones((400, 64)) + 0.01 * gaussian(400, 64))
    assert total.std_ratio < 0.05
    assert total.eff_rank > 40
    assert "std_ratio" in total.alarms()


@pytest.mark.parametrize(
    ("count", "dimension"),
    [(2, 384), (3, 16), (5, 64), (12, 8), (30, 384), (65, 64), (384, 384), (1000, 32)],
)
def test_few_healthy_vectors_raise_no_alarm_of_rank_and_collapsed_ones_always_do(
    count: int, dimension: int
) -> None:
    for seed in range(5):
        spread = gaussian(count, dimension, seed)
        assert not {"eff_rank", "std_ratio"} & set(measure_geometry(spread).alarms())
        one_way = np.ones((1, dimension)) + 0.01 * spread
        assert "std_ratio" in measure_geometry(one_way).alarms()
        if count > 2:  # to both ends of one line, where the spread stays: the centred rank falls
            signs = np.where(np.arange(count) % 2, -1.0, 1.0)[:, None]
            found = measure_geometry(signs * one_way)
            assert found.std_ratio > 0.3
            assert "eff_rank" in found.alarms()


def test_the_alarm_of_rank_is_a_tenth_of_the_way_to_all_that_so_many_vectors_can_have() -> None:
    healthy = measure_geometry(gaussian(200, 64))
    assert (healthy.count, healthy.dimension) == (200, 64)
    assert "count" not in healthy.figures()
    assert healthy.least_rank == pytest.approx(7.3)  # 1 + 63 / 10
    few = replace(healthy, count=31)  # a centred rank of 30
    assert few.least_rank == pytest.approx(3.9)
    assert replace(few, eff_rank=3.91).alarms() == []
    assert replace(few, eff_rank=3.89).alarms() == ["eff_rank"]


def test_scale_does_not_matter_and_rotation_neither() -> None:
    x = gaussian(200, 16) + 0.5
    rotation = np.linalg.qr(gaussian(16, 16, seed=1))[0]
    plain, scaled = measure_geometry(x), measure_geometry(7 * x)
    turned = measure_geometry(x @ rotation)
    assert plain.figures() == pytest.approx(scaled.figures())
    for name in ("mean_cos", "uniformity", "eff_rank", "top_pc", "hubness"):
        assert getattr(turned, name) == pytest.approx(getattr(plain, name))


def test_alignment_is_the_mean_squared_distance_of_unit_vectors() -> None:
    first = np.array([[2.0, 0], [0, 1]])
    assert alignment(first, first * 3) == 0
    assert alignment(first, -first) == pytest.approx(4)
    assert alignment(first, first[::-1]) == pytest.approx(2)


def test_a_hub_that_everyone_is_near_to_is_seen() -> None:
    queries, documents = gaussian(300, 64) + 0.5, gaussian(300, 64, seed=1)
    documents -= documents.mean(axis=1, keepdims=True)  # no document is nearer to all than another
    assert hubness(queries, documents) < 2
    documents[0] = 1.0
    assert hubness(queries, documents) > 6


def test_hubness_by_hand() -> None:
    documents = np.eye(4)
    queries = np.eye(4)[[0, 0, 0, 1]]
    counts = np.array([3, 1, 0, 0])
    deviation = counts - 1
    expected = (deviation**3).mean() / ((deviation**2).mean()) ** 1.5
    assert hubness(queries, documents, neighbours=1) == pytest.approx(expected)


@pytest.mark.parametrize("vectors", [np.ones((1, 4)), np.ones(4), np.full((3, 4), np.nan)])
def test_what_has_no_geometry_is_refused(vectors: NDArray[np.float64]) -> None:
    with pytest.raises(InvalidInputError, match="two or more rows of finite"):
        measure_geometry(vectors)


def test_the_probe_sees_an_offset_and_nothing_else() -> None:
    rng = np.random.default_rng(3)
    same = {name: rng.normal(size=(2000, 8)) for name in ("en", "fr", "de", "ja")}
    assert language_probe(same) == pytest.approx(1 / 4, abs=0.05)
    apart = {name: rows + 6 * np.eye(8)[i] for i, (name, rows) in enumerate(same.items())}
    assert language_probe(apart) > 0.98
    slightly = {name: rows + 1.5 * np.eye(8)[i] for i, (name, rows) in enumerate(same.items())}
    assert language_probe(slightly) > 0.6  # by means, for single rows say little
    assert language_probe(dict.fromkeys(("en", "fr"), np.ones((10, 3)))) == pytest.approx(1 / 2)
    with pytest.raises(InvalidInputError, match="two languages"):
        language_probe({"en": same["en"]})
