from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketquery import sdk
from pocketquery.client.local_config import LocalConfig
from pocketquery.client.store.store import Example
from pocketquery.client.training.batches import Batches, padded, stream
from pocketquery.client.training.prototypes import MatrixVectors, PrototypeSource
from pocketquery.client.training.step import StepBatch
from pocketquery.client.training.step_description import StateTensor, StepDescription
from pocketquery.client.views.typing_augmenters import DropoutView
from pocketquery.client.views.views import ViewPlan
from pocketquery.sdk.bundle.manifest import Space
from pocketquery.sdk.errors import InvalidInputError, SpaceMismatchError
from pocketquery.sdk.index.index import open_index
from tests.sdk.tiny_bundle import (
    DIMENSION,
    DOCUMENTS,
    SPACE_ID,
    write_tiny_bundle,
    write_tiny_index,
)

QUERIES = ["how do plants make sugar", "the sea", "cafe zurich", "light"]
EXAMPLES = [Example(query) for query in QUERIES]
IDS = [document.id for document in DOCUMENTS]
CONFIG = LocalConfig(nearest_prototypes=2, random_prototypes=1)


def description(objective: str = "index_byol", views: int = 2) -> StepDescription:
    return StepDescription(
        objective=objective,
        part="adapter",
        views=views,
        target_views=1 if objective == "index_byol" else 2,
        dimension=DIMENSION,
        space_id=SPACE_ID,
        encoder_sha256="ab" * 32,
        state=(StateTensor("a", (1,), True, True),),
    )


@pytest.fixture(scope="module")
def tiny_index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_index(tmp_path_factory.mktemp("index") / "tiny")


class Maker:
    """Makes batches of a tiny encoder, of the matrix of its documents unless told otherwise."""

    def __init__(self, bundle: Path) -> None:
        self.encoder = sdk.load(bundle)
        self.matrix = MatrixVectors(
            self.encoder.encode([d.text for d in DOCUMENTS], prompt=""), IDS
        )

    def batches(
        self,
        config: LocalConfig = CONFIG,
        examples: Sequence[Example] = EXAMPLES,
        source: PrototypeSource | None = None,
        plan: ViewPlan | None = None,
        **step: Any,
    ) -> Batches:
        return Batches(
            self.encoder, description(**step), examples, source or self.matrix, config, plan
        )

    def batch(self, *given: Any, seed: int = 0, noisy: bool = True, **options: Any) -> StepBatch:
        batches = self.batches(*given, **options)
        rows = np.arange(len(options.get("examples", EXAMPLES)))
        return batches.make(rows, np.random.default_rng(seed), noisy=noisy)


@pytest.fixture(scope="module")
def maker(tmp_path_factory: pytest.TempPathFactory) -> Maker:
    return Maker(write_tiny_bundle(tmp_path_factory.mktemp("bundle") / "tiny"))


def test_the_first_view_is_the_clean_query_with_the_prompt(maker: Maker) -> None:
    batch = maker.batch()
    expected = [maker.encoder.tokenize("query: " + query) for query in QUERIES]
    for line, ids in enumerate(expected):
        assert batch.online_ids[line, : len(ids)].tolist() == ids
        assert batch.online_mask[line].sum() == len(ids)
        assert batch.target_ids[line, : len(ids)].tolist() == ids
    assert len(batch.online_ids) == 8
    assert len(batch.target_ids) == 4
    np.testing.assert_array_equal(batch.anchor, maker.encoder.encode_query(QUERIES))


def test_the_noise_is_in_the_query_and_not_in_the_prompt(maker: Maker) -> None:
    batch = maker.batch(LocalConfig(typo_rate=1.0, nearest_prototypes=1))
    prompt = maker.encoder.tokenize("query: ")[:-1]
    for line in batch.online_ids[4:]:
        assert line[: len(prompt)].tolist() == prompt
    assert (batch.online_mask[4:].sum(1) != batch.online_mask[:4].sum(1)).any()


def test_without_noise_all_views_are_alike(maker: Maker) -> None:
    batch = maker.batch(LocalConfig(typo_rate=1.0), noisy=False)
    np.testing.assert_array_equal(batch.online_ids[:4], batch.online_ids[4:])


def test_the_prototypes_are_the_nearest_and_others(maker: Maker, tiny_index: Path) -> None:
    with open_index(tiny_index) as index:
        for source in (index, maker.matrix):
            batch = maker.batch(source=source)
            assert batch.prototypes is not None
            assert batch.prototypes.shape == (4, 3, DIMENSION)
            scores = np.einsum("bkd,bd->bk", batch.prototypes, batch.anchor)
            assert (scores[:, 0] >= scores[:, 1]).all()
            assert (scores[:, 1] >= scores[:, 2] - 0.01).all()


def test_byol_asks_for_no_prototypes(maker: Maker) -> None:
    batch = maker.batch(objective="byol")
    assert batch.prototypes is None
    np.testing.assert_array_equal(batch.target_ids, batch.online_ids)


def test_four_views_are_two_light_ones_and_a_heavy_one_of_each(maker: Maker) -> None:
    config = LocalConfig(typo_rate=1.0, light_views=("dropout_view",))
    batch = maker.batch(config, objective="byol", views=4)
    assert len(batch.online_ids) == 16
    np.testing.assert_array_equal(batch.online_ids[:4], batch.online_ids[4:8])
    assert (batch.online_ids[:4] != batch.online_ids[8:12]).any()
    assert (batch.online_ids[8:12] != batch.online_ids[12:]).any()
    width = batch.target_ids.shape[1]
    np.testing.assert_array_equal(batch.target_ids, batch.online_ids[:8, :width])


def test_a_device_may_bring_a_plan_of_its_own(maker: Maker) -> None:
    plan = ViewPlan(heavy=(DropoutView(),))
    batch = maker.batch(plan=plan)
    np.testing.assert_array_equal(batch.online_ids[:4], batch.online_ids[4:])
    with pytest.raises(InvalidInputError, match="makes 2 views, the training step takes 4"):
        maker.batches(plan=plan, objective="byol", views=4)


SHOWN = [
    Example("the sea", ("sugar", "sea", "zurich"), "sea"),
    Example("light", ("sugar", "zurich"), "zurich"),
    Example("no click", ("sugar", "sea"), None),
    Example("not shown", ("sugar",), "sea"),
    Example("alone", ("sea",), "sea"),
    Example("gone", ("gone", "sea"), "gone"),
    Example("one gone", ("gone", "sea", "sugar"), "sea"),
    Example("twice", ("sea", "sea", "sugar", "sugar"), "sugar"),
]


def test_the_opened_one_comes_first_among_those_present(maker: Maker, tiny_index: Path) -> None:
    config = LocalConfig(opened_loss_weight=1.0)
    with open_index(tiny_index) as index:
        for source in (index, maker.matrix):
            batch = maker.batch(config, examples=SHOWN, source=source)
            assert batch.opened_weight.tolist() == [1, 1, 0, 0, 0, 0, 1, 1]
            assert batch.shown_mask.sum(axis=1).tolist() == [3, 2, 0, 0, 0, 0, 2, 2]
            assert not batch.opened.any()
    rows = [IDS.index("sea"), IDS.index("sugar"), IDS.index("zurich")]
    vectors = maker.matrix.vectors(np.array(rows))
    np.testing.assert_allclose(batch.shown[0], vectors, atol=1e-6)
    np.testing.assert_allclose(batch.shown[6, :2], vectors[:2], atol=1e-6)
    np.testing.assert_allclose(batch.shown[7, :2], vectors[[1, 0]], atol=1e-6)
    assert not batch.shown[2].any()


def test_what_was_opened_is_not_looked_up_where_it_is_off(maker: Maker) -> None:
    batch = maker.batch(examples=SHOWN)
    assert batch.shown.shape == (8, 1, DIMENSION)
    assert not batch.shown.any()
    assert not batch.opened_weight.any()


def test_the_same_seed_gives_the_same_batch(maker: Maker) -> None:
    config = LocalConfig(typo_rate=0.5, nearest_prototypes=1, random_prototypes=1)
    made = [maker.batch(config, seed=seed) for seed in (3, 3, 4)]
    np.testing.assert_array_equal(made[0].online_ids, made[1].online_ids)
    np.testing.assert_array_equal(made[0].prototypes, made[1].prototypes)
    assert not np.array_equal(made[0].online_ids, made[2].online_ids)


def test_documents_of_another_space_are_refused(tmp_path: Path, tiny_index: Path) -> None:
    other = Maker(write_tiny_bundle(tmp_path / "other", space=Space("space-other", DIMENSION)))
    with open_index(tiny_index) as index, pytest.raises(SpaceMismatchError, match="space-other"):
        other.batches(source=index)


def test_a_query_that_is_no_text_is_refused(maker: Maker) -> None:
    with pytest.raises(InvalidInputError, match="surrogate"):
        maker.batches(examples=[Example("a\ud800")])


@given(st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=6), min_size=1, max_size=5))
def test_padding_hides_nothing_and_adds_nothing(tokens: list[list[int]]) -> None:
    ids, mask = padded(tokens)
    assert ids.shape == mask.shape == (len(tokens), max(map(len, tokens)))
    assert [line[shown == 1].tolist() for line, shown in zip(ids, mask, strict=True)] == tokens
    assert not ids[mask == 0].any()


@given(st.integers(1, 40), st.integers(1, 16), st.integers(1, 12))
def test_every_example_is_used_as_often(count: int, batch: int, steps: int) -> None:
    batch = min(batch, count)
    drawn = list(stream(count, batch, steps, np.random.default_rng(0)))
    assert [len(rows) for rows in drawn] == [batch] * steps
    uses = np.bincount(np.concatenate(drawn), minlength=count)
    assert uses.max() - uses.min() <= 1
