from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pocketquery import sdk
from pocketquery.client.store.store import Example
from pocketquery.client.training.batches import Batches
from pocketquery.client.training.hybrid_teacher import HybridBatches
from pocketquery.client.training.monitors import MonitorLimits
from pocketquery.client.training.prototypes import MatrixVectors, PrototypeSource
from pocketquery.client.training.step import LocalStep, State, _batch_feed
from pocketquery.client.training.training import LocalConfig, LocalResult, train_locally
from pocketquery.client.transforms import norm_of
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.manifest import ADAPTER_FILE
from pocketquery.sdk.bundle.safetensors import parse
from pocketquery.sdk.errors import InvalidInputError, SpaceMismatchError
from pocketquery.sdk.index.documents import Document
from pocketquery.sdk.index.index import Index, create_index, open_index
from tests.sdk.tiny_bundle import write_tiny_bundle
from tests.synthetic_sentences import sentences
from tests.trainable_bundle import trainable_bundle

TEXTS = sentences(160)
QUERIES = [Example(text) for text in TEXTS[:40]]
FAST = LocalConfig(steps=3, batch_size=8, nearest_prototypes=10, random_prototypes=10)
# So many letters mistyped and steps that a random encoder of this size shows what it learns.
LONG = LocalConfig(steps=40, learning_rate=3e-3, typo_rate=0.2)


@dataclasses.dataclass(frozen=True)
class TrainingSetup:
    """What a device trains with."""

    encoder: sdk.Encoder
    step: LocalStep
    adapter: dict[str, NDArray[Any]]
    documents: NDArray[np.float32]

    def train(
        self,
        examples: list[Example] = QUERIES,
        config: LocalConfig = FAST,
        seed: int = 0,
        source: PrototypeSource | None = None,
        **options: Any,
    ) -> LocalResult:
        return train_locally(
            self.encoder,
            self.step,
            examples,
            self.documents if source is None else source,
            config=config,
            seed=seed,
            **{"adapter": self.adapter} | options,
        )

    def view_loss(self, change: dict[str, NDArray[np.float32]]) -> float:
        """Of queries mistyped otherwise than in any training here, after ``change``."""
        examples = [Example(text) for text in TEXTS[:40]]
        batches = Batches(self.encoder, self.step.description, examples, self.documents, LONG)
        batch = batches.make(np.arange(40), np.random.default_rng(99))
        start = self.step.initial_state(self.adapter)
        moved = {name: value + change.get(name, 0) for name, value in start.online.items()}
        state: State = dataclasses.replace(start, online=moved)
        return self.step.run(batch, state, LONG.hyperparameters)[1].view_loss


def equip(path: Path) -> TrainingSetup:
    encoder = sdk.load(path)
    adapter = parse(Bundle.open(path).read(ADAPTER_FILE))
    step = LocalStep.open(path)
    if step.description.part != "adapter":
        adapter = {}
    return TrainingSetup(encoder, step, adapter, encoder.encode(TEXTS))


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> TrainingSetup:
    return equip(trainable_bundle(tmp_path_factory.mktemp("bundle") / "bundle"))


@pytest.fixture(scope="module")
def byol(tmp_path_factory: pytest.TempPathFactory) -> TrainingSetup:
    """The other objective, in DSSL's four views."""
    folder = tmp_path_factory.mktemp("byol") / "bundle"
    from tests.export.training_bundle import tiny_training_bundle  # torch

    return equip(tiny_training_bundle(folder, objective="byol", views=4))


@pytest.fixture(scope="module")
def index(device: TrainingSetup, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    with index_of(device, tmp_path_factory.mktemp("index") / "index") as opened:
        yield opened


def index_of(setup: TrainingSetup, path: Path) -> Index:
    documents = [Document(f"doc-{number}", text) for number, text in enumerate(TEXTS)]
    with create_index(path, space_id=setup.encoder.space_id, dimension=48) as builder:
        builder.add(documents, setup.documents)
    return open_index(path)


def same(left: LocalResult, right: LocalResult) -> bool:
    return (
        left.losses == right.losses
        and left.change.keys() == right.change.keys()
        and all((left.change[name] == right.change[name]).all() for name in left.change)
    )


def test_the_result_of_a_round(device: TrainingSetup) -> None:
    result = device.train()
    assert result.stopped is None
    assert (result.examples, result.steps, len(result.losses)) == (24, 3, 3)
    assert {name: value.shape for name, value in result.change.items()} == {
        name: value.shape for name, value in device.adapter.items()
    }
    assert all(value.dtype == np.float32 for value in result.change.values())
    assert norm_of(result.change) > 0
    assert result.drift is not None
    assert 0 <= result.drift < 0.05
    assert result.effective_rank is not None
    assert result.effective_rank > 3


def test_training_on_mistyped_queries_lowers_their_loss(device: TrainingSetup) -> None:
    result = device.train(config=LONG)
    assert result.stopped is None
    assert device.view_loss(result.change) < 0.8 * device.view_loss({})


def test_the_seed_decides_every_bit(device: TrainingSetup, index: Index) -> None:
    for source in (device.documents, index):
        assert same(device.train(source=source), device.train(source=source))
    assert not same(device.train(), device.train(seed=1))


def test_index_and_matrix_train_alike(device: TrainingSetup, index: Index) -> None:
    """The index's vectors are rounded to 8 bits, so alike and not equal."""
    left, right = device.train(), device.train(source=index)
    for a, b in zip(left.losses, right.losses, strict=True):
        assert a.loss == pytest.approx(b.loss, rel=0.05)


@pytest.mark.parametrize("count", [1, 2, 3, 17])
def test_fewer_queries_than_a_batch(device: TrainingSetup, count: int) -> None:
    result = device.train(QUERIES[:count], LocalConfig(steps=2))
    assert result.stopped is None
    assert result.examples == count
    assert norm_of(result.change) > 0


def test_one_document_is_enough(device: TrainingSetup) -> None:
    result = device.train(source=device.documents[:1])
    assert result.stopped is None
    assert result.losses[0].view_loss == 0


def test_no_more_queries_are_used_than_the_steps_can_take(device: TrainingSetup) -> None:
    many = [Example(text) for text in TEXTS]
    result = device.train(many, LocalConfig(steps=2, batch_size=4))
    assert result.examples == 8


@pytest.mark.parametrize("text", ["", " ", "a", "the " * 400, "\U0001f30a", "\x00"])
def test_odd_queries_train(device: TrainingSetup, text: str) -> None:
    assert device.train([Example(text), *QUERIES[:3]]).stopped is None


def test_without_queries_there_is_nothing_to_learn(device: TrainingSetup) -> None:
    with pytest.raises(InvalidInputError, match=r"found 0 examples.* at least 1"):
        device.train([])


def test_a_query_that_is_no_text(device: TrainingSetup) -> None:
    with pytest.raises(InvalidInputError, match="surrogate"):
        device.train([Example("\ud800")])


def answers(*texts: str | None) -> Callable[[], str | None]:
    """Says None and reasons in turn."""
    left = list(texts)
    return lambda: left.pop(0)


@pytest.mark.parametrize("asked", [0, 1, 2, 3, 4])
def test_a_stopped_run_leaves_nothing(device: TrainingSetup, asked: int) -> None:
    """Asked before the start, before each of three steps, and before the result is given."""
    told = answers(*[None] * asked, "the consent was withdrawn")
    result = device.train(may_continue=told)
    assert result.stopped == "the consent was withdrawn"
    assert result.change == {}
    assert result.steps == max(asked - 1, 0)


def test_it_asks_no_more_often_than_that(device: TrainingSetup) -> None:
    assert device.train(may_continue=answers(*[None] * 5)).stopped is None


def test_a_hostile_learning_rate_is_stopped_by_the_monitors(device: TrainingSetup) -> None:
    result = device.train(config=dataclasses.replace(FAST, learning_rate=3.0))
    assert result.change == {}
    assert result.stopped is not None
    assert result.stopped.startswith("step 2: drift: queries moved")


def test_a_last_step_that_goes_wrong_is_seen_too(device: TrainingSetup) -> None:
    """The losses are of the states before a step, so the result is judged itself."""
    result = device.train(config=dataclasses.replace(FAST, steps=1, learning_rate=3.0))
    assert result.change == {}
    assert result.stopped is not None
    assert result.stopped.startswith("drift: queries moved")


def beyond(name: str, value: float) -> LocalConfig:
    """A configuration out of range, as none can be made: a faulty bundle may do what it would."""
    config = dataclasses.replace(FAST)
    object.__setattr__(config, name, value)
    return config


@pytest.mark.parametrize("rate", [1e20, 1e38])
def test_a_loss_that_is_not_finite_ends_the_run(device: TrainingSetup, rate: float) -> None:
    result = device.train(config=beyond("learning_rate", rate))
    assert result.change == {}
    assert result.stopped is not None


def test_an_infinite_loss_of_finite_vectors_ends_it_too(device: TrainingSetup) -> None:
    source = MatrixVectors(device.documents, [f"doc-{row}" for row in range(len(TEXTS))])
    config = beyond("opened_loss_weight", 3e38)
    result = device.train(with_clicks(), config, source=source)
    assert (result.stopped, result.change) == ("step 1: the loss is inf", {})


def test_a_collapse_is_named(device: TrainingSetup) -> None:
    strict = MonitorLimits(rank_kept=1.0, spread_kept=1.0, drift=2.0)
    result = device.train(config=dataclasses.replace(LONG, limits=strict))
    assert result.stopped is not None
    assert "collapse" in result.stopped


def with_clicks(number: int = 24) -> list[Example]:
    """Each opens the last of five documents shown."""
    return [
        Example(TEXTS[row], tuple(f"doc-{row + step}" for step in range(1, 6)), f"doc-{row + 5}")
        for row in range(number)
    ]


def test_opened_results_are_learned_where_they_count(device: TrainingSetup, index: Index) -> None:
    # These clicks say nothing of meaning: to follow them the encoder must leave its place.
    config = dataclasses.replace(
        LONG, opened_loss_weight=1.0, limits=MonitorLimits(spread_kept=0.1)
    )
    result = device.train(with_clicks(), config, source=index)
    opened = [loss.opened_loss for loss in result.losses]
    assert result.stopped is None
    assert np.mean(opened[-5:]) < 0.8 * np.mean(opened[:5])
    ignored = device.train(with_clicks(), dataclasses.replace(LONG, steps=3), source=index)
    assert [loss.opened_loss for loss in ignored.losses] == [0, 0, 0]


HYBRID = dataclasses.replace(LONG, hybrid_loss_weight=1.0, hybrid_candidates=10)


def test_the_hybrid_ranking_is_learned(device: TrainingSetup, index: Index) -> None:
    config = dataclasses.replace(
        HYBRID, anchor_weight=0.5, limits=MonitorLimits(drift=1.0), hybrid_mistyped=0.0
    )
    result = device.train(config=config, source=index)
    taught = [loss.opened_loss for loss in result.losses]
    assert result.stopped is None
    assert np.mean(taught[-5:]) < 0.9 * np.mean(taught[:5])
    assert same(result, device.train(config=config, source=index))
    assert not same(result, device.train(config=config, source=index, seed=1))


def test_the_hybrid_ranking_replaces_clicks(device: TrainingSetup, index: Index) -> None:
    config = dataclasses.replace(HYBRID, steps=3)
    clicks = with_clicks()
    bare = [Example(one.query) for one in clicks]
    taught = device.train(clicks, config, source=index, least_opened=100)
    assert same(taught, device.train(bare, config, source=index))


def test_the_mistyped_view_is_taught_too(device: TrainingSetup, index: Index) -> None:
    config = dataclasses.replace(HYBRID, typo_rate=0.3, hybrid_mistyped=0.5)
    encoder, size = device.encoder, len(QUERIES)
    own = Batches(encoder, device.step.description, QUERIES, index, config)
    made = HybridBatches(own, index, config)
    rows = np.arange(size)
    plain, batch = (
        own.make(rows, np.random.default_rng(0)),
        made.make(rows, np.random.default_rng(0)),
    )
    assert batch.clean is not None
    assert 0 < (batch.clean >= size).sum() < size
    assert (batch.online_ids[batch.clean] == plain.online_ids[:size]).all()
    other = (batch.clean + size) % (2 * size)
    assert (batch.online_ids[other] == plain.online_ids[size:]).all()
    assert (batch.target_ids == plain.target_ids).all()
    assert (batch.anchor == plain.anchor).all()
    fed = _batch_feed(batch)["anchor"]
    assert (fed == np.where(batch.clean[:, None] < size, plain.anchor, 0)).all()
    assert made.make(rows, np.random.default_rng(0), noisy=False).clean is None

    # The monitors look at what was typed well, which has not moved: mistyped vectors would end it.
    still = dataclasses.replace(
        config, steps=3, learning_rate=1e-9, limits=MonitorLimits(drift=0.01)
    )
    assert device.train(config=still, source=index).stopped is None

    learned = dataclasses.replace(config, steps=3, limits=MonitorLimits(drift=1.0))
    result = device.train(config=learned, source=index)
    assert same(result, device.train(config=learned, source=index))
    everyone = dataclasses.replace(learned, hybrid_mistyped=1.0)
    assert not same(result, device.train(config=everyone, source=index))


@pytest.mark.slow
def test_byol_views_keep_their_places(byol: TrainingSetup, tmp_path: Path) -> None:
    config = dataclasses.replace(FAST, hybrid_loss_weight=1.0, hybrid_candidates=10)
    clean = dataclasses.replace(config, hybrid_mistyped=0.0)
    with index_of(byol, tmp_path / "index") as index:
        given = byol.train(config=config, source=index)
        assert given.losses
        assert same(given, byol.train(config=clean, source=index))


def test_vectors_alone_have_no_hybrid_ranking(device: TrainingSetup) -> None:
    with pytest.raises(InvalidInputError, match=r"hybrid_loss_weight is 1, but .* vectors alone"):
        device.train(config=HYBRID)


def test_a_matrix_with_ids_takes_opened_results(device: TrainingSetup) -> None:
    source = MatrixVectors(device.documents, [f"doc-{row}" for row in range(len(TEXTS))])
    config = dataclasses.replace(FAST, opened_loss_weight=1.0)
    result = device.train(with_clicks(), config, source=source)
    assert all(loss.opened_loss > 0 for loss in result.losses)


def test_opened_results_of_a_few_count_for_nothing(device: TrainingSetup) -> None:
    source = MatrixVectors(device.documents, [f"doc-{row}" for row in range(len(TEXTS))])
    counting = dataclasses.replace(FAST, opened_loss_weight=1.0)

    def train(examples: list[Example], least: int, **changes: Any) -> LocalResult:
        config = dataclasses.replace(counting, **changes)
        return device.train(examples, config, source=source, least_opened=least)

    clicks = with_clicks()
    without = device.train([Example(one.query) for one in clicks], FAST, source=source)
    assert same(train(clicks, 24), train(clicks, 0))
    assert same(train(clicks, 25), without)
    # Of documents that are in the index, where another one that was shown is too.
    gone = [Example(one.query, ("gone", *one.shown), "gone") for one in clicks[:12]]
    alone = [Example(one.query, ("gone", one.shown[0]), one.shown[0]) for one in clicks[12:20]]
    few = [*gone, *alone, *clicks[20:]]
    assert same(train(few, 4), train(few, 0))
    assert not same(train(few, 4), without)
    assert same(train(few, 5), without)
    # Of the eight queries that are drawn, however many the device has.
    assert train(clicks, 8, steps=1, batch_size=8).losses[0].opened_loss > 0
    assert train(clicks, 9, steps=1, batch_size=8).losses[0].opened_loss == 0


def test_the_proximal_pull_keeps_it_near(device: TrainingSetup) -> None:
    free, near, held = (
        device.train(config=dataclasses.replace(FAST, proximal=share)) for share in (0, 0.5, 1)
    )
    assert norm_of(near.change) < 0.8 * norm_of(free.change)
    assert norm_of(held.change) < 1e-6


def test_starting_from_ones_own_last_result(device: TrainingSetup) -> None:
    start = {name: value.astype(np.float32) for name, value in device.adapter.items()}
    own = {name: value + 0.01 for name, value in start.items()}
    apart = norm_of({name: own[name] - value for name, value in start.items()})

    def begun(scale: float) -> dict[str, NDArray[np.float32]]:
        """Held where it begins, the change is how far from the release that was."""
        config = dataclasses.replace(FAST, client_init="ema", init_scale=scale, proximal=1.0)
        return device.train(config=config, previous=own).change

    assert norm_of(begun(0.0)) < 1e-6
    half = begun(0.5 / apart)
    for name, value in start.items():
        np.testing.assert_allclose(half[name], (own[name] - value) / 2, atol=1e-6)
    assert norm_of(begun(1e6)) == pytest.approx(apart, rel=1e-4)
    ema = dataclasses.replace(FAST, client_init="ema")
    assert same(device.train(config=ema), device.train())  # no last result
    assert same(device.train(previous=own), device.train())  # not asked for


def test_the_release_that_was_given_is_left_alone(device: TrainingSetup) -> None:
    before = {name: value.copy() for name, value in device.adapter.items()}
    device.train()
    assert all((device.adapter[name] == value).all() for name, value in before.items())


def test_an_adapter_of_another_encoder_is_refused(device: TrainingSetup) -> None:
    with pytest.raises(InvalidInputError, match="does not train"):
        device.train(adapter=device.adapter | {"adapter.layers.9.query.down": np.ones(2)})


def test_an_encoder_of_another_space_is_refused(device: TrainingSetup, tmp_path: Path) -> None:
    other = sdk.load(write_tiny_bundle(tmp_path / "other"))
    with pytest.raises(SpaceMismatchError, match="the training step"):
        dataclasses.replace(device, encoder=other).train()


@pytest.mark.slow
def test_byol_trains_and_its_heads_stay_at_home(byol: TrainingSetup) -> None:
    result = byol.train(config=LocalConfig(steps=4))
    assert result.stopped is None
    assert any(tensor.name.startswith("predictor.") for tensor in byol.step.description.state)
    assert result.change.keys() == byol.adapter.keys()
    assert all(-1 <= loss.view_loss <= 1 for loss in result.losses)
    assert same(result, byol.train(config=LocalConfig(steps=4)))


@pytest.mark.slow
def test_byol_needs_two_queries(byol: TrainingSetup) -> None:
    with pytest.raises(InvalidInputError, match=r"found 1 examples.* at least 2"):
        byol.train(QUERIES[:1])
    with pytest.raises(InvalidInputError, match="batch_size of 1"):
        byol.train(config=LocalConfig(batch_size=1))
    assert byol.train(QUERIES[:2]).stopped is None


@pytest.mark.slow
@pytest.mark.slow
def test_last_layer_and_head_train_without_an_adapter(tmp_path: Path) -> None:
    from tests.export.training_bundle import tiny_training_bundle  # torch

    top = equip(tiny_training_bundle(tmp_path / "top", part="top"))
    result = top.train()
    assert result.stopped is None
    assert result.change.keys() == {tensor.name for tensor in top.step.description.state}
    assert {name.split(".")[0] for name in result.change} == {"layers", "head"}
