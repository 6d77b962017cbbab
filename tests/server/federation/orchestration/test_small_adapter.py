"""Rounds over a bundle whose adapter is ``up`` alone: what travels, and what moves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from pocketquery import sdk
from pocketquery.client.training.step import LocalStep
from pocketquery.export.adapter import fixed_tensors
from pocketquery.export.settings import GraphOptions
from pocketquery.sdk.bundle.adapter import parse_adapter
from pocketquery.sdk.bundle.bundle import Bundle
from tests.export.training_bundle import tiny_training_bundle
from tests.server.federation.small_federation import Files, opened, write_federation

pytestmark = pytest.mark.slow  # it exports a bundle of its own


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Files:
    graph, folder = GraphOptions(adapter_rank=1, adapter_train="up"), tmp_path_factory.mktemp("up")
    bundle = tiny_training_bundle(folder / "bundle", graph=graph)
    return write_federation(folder / "federation", bundle)


def test_the_step_trains_and_ships_up_alone(small: Files) -> None:
    bundle = Bundle.open(small.bundle)
    names = {tensor.name: tensor.shape for tensor in LocalStep.open(bundle).description.state}
    assert names == {
        "adapter.layers.0.query.up": (64, 1),
        "adapter.layers.0.value.up": (64, 1),
        "adapter.head.0.up": (96, 1),
        "adapter.head.1.up": (48, 1),
    }
    fixed = fixed_tensors(onnx.load_from_string(bundle.read("encoder.onnx")))
    assert {name: value.shape for name, value in fixed.items()} == {
        "adapter.layers.0.query.down": (1, 64),
        "adapter.layers.0.value.down": (1, 64),
        "adapter.head.0.down": (1, 64),
        "adapter.head.1.down": (1, 96),
    }
    assert sdk.verify(small.bundle).golden is not None


def test_rounds_move_up_alone_and_their_releases_are_small(small: Files, tmp_path: Path) -> None:
    with opened(small, tmp_path) as parts:
        rows = parts.run()
        release = parts.publisher.registry.read()
    assert [(row.accepted, row.outcome) for row in rows] == [(4, "release 2"), (4, "release 3")]
    values = 64 + 64 + 96 + 48
    assert len(release) < 2 * values + 2000
    found = parse_adapter(release).tensors
    assert found.keys() == parts.first.adapter.keys()
    assert all(name.endswith(".up") for name in found)
    assert sum(tensor.size for tensor in found.values()) == values
    assert all(tensor.any() for tensor in found.values())

    encoder = sdk.load(small.bundle)
    before = encoder.encode("the river")
    encoder.swap_adapter(release)
    after = encoder.encode("the river")
    assert encoder.version == "3"
    assert not np.array_equal(before, after)
    assert float(before @ after) > 0.9
    np.testing.assert_array_equal(
        after, sdk.load(small.bundle, adapter=release).encode("the river")
    )
    encoder.swap_adapter(None)
    np.testing.assert_array_equal(before, encoder.encode("the river"))


def test_an_adapter_with_down_is_of_another_encoder(small: Files) -> None:
    encoder = sdk.load(small.bundle)
    more = encoder.adapter | {"adapter.layers.0.query.down": np.zeros((1, 64), np.float32)}
    with pytest.raises(sdk.CorruptArtifactError, match=r"query\.down"):
        encoder.swap_adapter(more)
