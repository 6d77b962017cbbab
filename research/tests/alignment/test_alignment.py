"""Alignment: what stays frozen, what each loss does, baselines, resuming, and bad input."""

from __future__ import annotations

import hashlib
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pocketquery.sdk.errors import (
    ArtifactError,
    CorpusError,
    InvalidInputError,
    SpaceMismatchError,
)
from pocketquery.server.corpus.groups import Group, GroupList
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.space import weights_fingerprint
from pocketquery_research.alignment.alignment import (
    ALIGNMENT_LOSSES,
    AlignmentConfig,
    align,
    measure_margin,
)
from pocketquery_research.alignment.inputs import AlignmentData, alignment_data
from pocketquery_research.alignment.query_towers import (
    EncoderTower,
    QueryTower,
    WordAverage,
    with_alignment_head,
)
from pocketquery_research.augmentation.word2vec import WordVectors
from tests.tiny_models import WORDS, bert_teacher, sentences

QUICK = AlignmentConfig(steps=60, batch_size=32, learning_rate=3e-3)


def triples(count: int = 60) -> GroupList:
    """A query shares its words with its positive, and its first ones with its negative."""
    texts = sentences(200)
    rng = random.Random(0)
    groups = []
    for place in range(count):
        words = texts[place].split()
        document = f"{' '.join(rng.sample(words, len(words)))} {rng.choice(WORDS)}"
        groups.append(Group(str(place), (texts[place], document, texts[100 + place])))
    return GroupList(groups, "triples")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> AlignmentData:
    return alignment_data(bert_teacher(), triples(), tmp_path_factory.mktemp("cache"))


def tower(trained: str = "head") -> EncoderTower:
    query_encoder = bert_teacher(layers=2, width=32, seed=1)
    return EncoderTower(with_alignment_head(query_encoder, bert_teacher()), trained)


def word_vectors() -> WordVectors:
    words = (*WORDS, *"0123456789")
    drawn = np.random.default_rng(0).normal(size=(len(words), 16))
    return WordVectors(words, drawn.astype(np.float32))


def state_hash(module: torch.nn.Module) -> str:
    return weights_fingerprint(module.state_dict())


def test_the_document_side_is_the_same_to_the_bit_after_every_loss(tmp_path: Path) -> None:
    documents = bert_teacher().train()
    before = state_hash(documents)
    given = alignment_data(documents, triples(), tmp_path)
    vectors = hashlib.sha256(given.documents.tobytes() + given.own.tobytes()).hexdigest()
    aligned = EncoderTower(with_alignment_head(documents, documents), "full")
    start = state_hash(aligned)
    for loss in ALIGNMENT_LOSSES:
        align(aligned, given, replace(QUICK, loss=loss, steps=2))
    assert state_hash(aligned) != start
    assert state_hash(documents) == before
    assert hashlib.sha256(given.documents.tobytes() + given.own.tobytes()).hexdigest() == vectors
    assert not documents.training
    assert not any(parameter.requires_grad for parameter in documents.parameters())
    with pytest.raises(ValueError, match="read-only"):
        given.documents[0] = 0


@pytest.mark.parametrize("loss", ALIGNMENT_LOSSES)
def test_every_loss_falls_and_contrasts_raise_the_margin(loss: str, data: AlignmentData) -> None:
    aligned = tower()
    before = measure_margin(aligned, data).margin
    losses = align(aligned, data, replace(QUICK, loss=loss))
    assert np.mean(losses[-5:]) < 0.9 * np.mean(losses[:5])
    if loss in ("align_nce", "align_trip"):  # regressions shrink to the mean of the answers
        assert measure_margin(aligned, data).margin > before + 0.05


def test_the_second_stage_raises_the_margin_of_the_first(data: AlignmentData) -> None:
    aligned = tower()
    align(aligned, data, QUICK)
    first = measure_margin(aligned, data).margin
    align(aligned, data, replace(QUICK, loss="align_nce"))
    assert measure_margin(aligned, data).margin > first


@pytest.mark.parametrize(
    ("trained", "moving"), [("head", set()), ("head_and_top", {"1"}), ("full", {"0", "1"})]
)
def test_what_is_not_trained_stays(trained: str, moving: set[str], data: AlignmentData) -> None:
    aligned = tower(trained)
    before = {name: p.clone() for name, p in aligned.encoder.named_parameters()}
    align(aligned, data, replace(QUICK, steps=2))
    changed = {
        name
        for name, parameter in aligned.encoder.named_parameters()
        if not torch.equal(parameter, before[name])
    }
    assert {name.split(".")[3] for name in changed if "encoder.layer" in name} == moving
    assert any(name.startswith("head") for name in changed)
    assert any("embeddings" in name for name in changed) is (trained == "full")
    aligned.train()
    layers = aligned.encoder.backbone.encoder.layer
    assert [layer.training for layer in layers] == [str(i) in moving for i in range(2)]


def test_frozen_features_give_the_vectors_of_the_encoder(data: AlignmentData) -> None:
    aligned = tower()
    align(aligned, data, replace(QUICK, steps=5))
    found = aligned.encode(data.queries[:5], batch_size=2)
    np.testing.assert_allclose(found, aligned.encoder.encode(data.queries[:5]), atol=1e-5)


def test_the_aligned_encoder_is_saved_with_its_space(tmp_path: Path, data: AlignmentData) -> None:
    aligned = tower()
    assert aligned.encoder.space_id == bert_teacher().space_id == data.space_id
    aligned.encoder.save(tmp_path / "aligned")
    again = SentenceEncoder.load(tmp_path / "aligned")
    assert again.space_id == data.space_id
    np.testing.assert_allclose(
        again.encode(data.queries[:5]), aligned.encode(data.queries[:5]), atol=1e-6
    )
    stacked = with_alignment_head(again, bert_teacher())
    assert stacked.dimension == 64
    assert len(stacked.head or ()) == 2 * len(again.head or ())


def test_another_document_encoder_asks_for_another_head(tmp_path: Path) -> None:
    other = alignment_data(bert_teacher(seed=5), triples(4), tmp_path)
    with pytest.raises(SpaceMismatchError, match="make a new head"):
        align(tower(), other, QUICK)


@pytest.mark.parametrize(
    "make", [lambda: tower("full"), lambda: WordAverage.dan(word_vectors(), 64)]
)
def test_a_run_that_was_killed_continues_to_the_same_weights(
    make: Any, data: AlignmentData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = replace(QUICK, loss="align_nce", steps=6, checkpoint_every=2)
    whole: QueryTower[Any] = make()
    losses = align(whole, data, config)
    cut: QueryTower[Any] = make()
    path = tmp_path / "checkpoint.pt"

    raw, calls = cut.raw, 0

    def raw_until(*args: Any) -> torch.Tensor:
        nonlocal calls
        calls += 1
        if calls == 6:
            raise KeyboardInterrupt
        return raw(*args)

    monkeypatch.setattr(cut, "raw", raw_until)
    with pytest.raises(KeyboardInterrupt):
        align(cut, data, config, checkpoint=path)
    resumed: QueryTower[Any] = make()
    assert align(resumed, data, config, checkpoint=path) == losses[4:]
    assert state_hash(resumed) == state_hash(whole)
    with pytest.raises(ArtifactError, match="another run"):
        align(make(), data, replace(config, seed=1), checkpoint=path)


def edited(data: AlignmentData, part: str) -> AlignmentData:
    """The data with one thing changed."""
    if part in ("own", "documents"):
        vectors = getattr(data, part).copy()
        vectors[3] = -vectors[3]
        return replace(data, **{part: vectors})
    if part == "queries":
        return replace(data, queries=("castle", *data.queries[1:]))
    rows = list(getattr(data, part))
    rows[0], rows[1] = np.concatenate(rows[:2]), np.zeros(0, np.int64)  # the same, differently cut
    return replace(data, **{part: tuple(rows)})  # type: ignore[arg-type]


@pytest.mark.parametrize("part", ["queries", "own", "documents", "positives", "negatives"])
def test_data_that_changed_between_kill_and_resume_are_refused(
    part: str, data: AlignmentData, tmp_path: Path
) -> None:
    config = replace(QUICK, loss="align_nce", steps=2)
    path = tmp_path / "checkpoint.pt"
    align(tower(), data, config, checkpoint=path)
    copied = replace(data, own=data.own.copy(), documents=data.documents.copy())
    assert align(tower(), copied, config, checkpoint=path) == []  # finished, of the same data
    with pytest.raises(ArtifactError, match=rf"another run \(data\.{part}: .*to start anew"):
        align(tower(), edited(data, part), config, checkpoint=path)


def test_the_callers_identity_counts_too(data: AlignmentData, tmp_path: Path) -> None:
    config = replace(QUICK, steps=1)
    path = tmp_path / "checkpoint.pt"
    align(tower(), data, config, checkpoint=path, identity={"start": "a"})
    with pytest.raises(ArtifactError, match=r"another run \(start: 'a' → 'b'\)"):
        align(tower(), data, config, checkpoint=path, identity={"start": "b"})


def finite(module: torch.nn.Module) -> bool:
    return all(bool(torch.isfinite(value).all()) for value in module.state_dict().values())


def test_vectors_that_are_not_finite_end_the_run_before_they_spoil_the_tower(
    data: AlignmentData, tmp_path: Path
) -> None:
    own = data.own.copy()
    own[7, 3] = np.nan
    config = replace(QUICK, batch_size=1, checkpoint_every=1)
    order = [
        int(np.random.default_rng([config.seed, step]).permutation(len(data.queries))[0])
        for step in range(config.steps)
    ]
    taken = order.index(7)  # steps that go well
    assert taken > 0
    aligned = tower()
    path = tmp_path / "checkpoint.pt"
    with pytest.raises(ArtifactError) as caught:
        align(aligned, replace(data, own=own), config, checkpoint=path)
    said = str(caught.value)
    assert f"step {taken + 1} gave the loss nan" in said
    assert f'not finite for the queries 7 ("{data.queries[7][:40]}"): compute them anew' in said
    assert finite(aligned)
    saved = torch.load(path, weights_only=True)["state"]
    assert saved["step"] == taken
    assert all(torch.equal(v, saved["tower"][n]) for n, v in aligned.state_dict().items())
    # It can be trained on with vectors that are sound.
    align(aligned, data, replace(config, steps=2))
    assert finite(aligned)


class _Broken(torch.nn.Module):
    """Passes vectors on; the gradient, or some vectors, are no numbers."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = what

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.what == "gradient":  # the root's slope at 0 is infinite, its value is not
            return x + (x * 0).sqrt()
        gaps = torch.zeros_like(x)
        gaps[:2] = torch.inf
        return x + gaps


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (
            "gradient",
            r"the loss 0\.\d+ and a gradient of norm nan.*It took the queries .*lower lear",
        ),
        (
            "vectors",
            r"tower's own vectors are not finite for the queries \d+ \(.*\), \d+ \(.*leave",
        ),
    ],
)
def test_a_tower_that_gives_no_numbers_keeps_its_weights(
    what: str, message: str, data: AlignmentData
) -> None:
    aligned = tower()
    aligned.encoder.head.append(_Broken(what))  # type: ignore[union-attr]
    before = state_hash(aligned)
    with pytest.raises(ArtifactError, match=message) as caught:
        align(aligned, data, QUICK)
    assert ("and 27 more" in str(caught.value)) == (what == "gradient")  # of a batch of 32
    assert state_hash(aligned) == before


def test_a_linear_map_in_training_approaches_the_closed_form(data: AlignmentData) -> None:
    linear = WordAverage(word_vectors(), 64)
    config = AlignmentConfig(
        loss="align_mse", steps=400, batch_size=60, learning_rate=0.02, weight_decay=0.0
    )
    align(linear, data, config)
    features = linear.averages(linear.inputs(data.queries))
    ones = torch.ones(len(features), 1)
    aims = torch.from_numpy(data.documents[[found[0] for found in data.positives]])
    wide = torch.cat([features, ones], dim=1).double()
    weak = 1e-9 * len(wide) * torch.eye(wide.shape[1], dtype=wide.dtype)  # of least squares
    best = (wide @ torch.linalg.solve(wide.T @ wide + weak, wide.T @ aims.double())).float()
    with torch.no_grad():
        found = linear.raw(linear.inputs(data.queries), np.arange(len(data.queries)))
    assert (found - best).norm() < 0.02 * (best - best.mean(dim=0)).norm()
    assert (found - aims).norm() < 1.001 * (best - aims).norm()


def test_baselines_have_their_layers_and_unseen_words_give_a_constant(data: AlignmentData) -> None:
    dan = WordAverage.dan(word_vectors(), 64)
    assert [m.out_features for m in dan.head if isinstance(m, torch.nn.Linear)] == [64] * 4
    assert sum(isinstance(m, torch.nn.ReLU) for m in dan.head) == 3
    linear = WordAverage(word_vectors(), 64)
    assert len(linear.head) == 1
    features = linear.averages(linear.inputs(["unseen words", "castle"]))
    assert features[0].abs().max() == 0
    averages, unknown = word_vectors().averages(["unseen words", "castle"])
    np.testing.assert_allclose(features.numpy(), averages, rtol=1e-6)
    assert unknown == 1
    align(dan, data, replace(QUICK, steps=2))
    assert torch.equal(dan.table, torch.from_numpy(word_vectors().vectors))


def test_words_are_dropped_in_training_alone_and_never_all() -> None:
    dan = WordAverage(word_vectors(), 64, layers=4, word_dropout=0.3)
    text = dan.inputs([" ".join(WORDS)])[0]
    rng = np.random.default_rng(0)
    kept = [len(dan._kept(text, rng)) for _ in range(400)]
    assert np.mean(kept) == pytest.approx(0.7 * 27, abs=0.3)
    single = dan.inputs(["castle"])[0]
    assert all(len(dan._kept(single, rng)) == 1 for _ in range(50))
    assert len(dan._kept(text, None)) == 27
    assert np.array_equal(dan.encode(["castle sky"]), dan.encode(["castle sky"]))


def test_groups_of_one_query_are_put_together(tmp_path: Path) -> None:
    groups = [
        Group("1", ("castle", "a castle", "a king")),
        Group("2", ("castle", "norman castle", "a castle", "water")),
        Group("3", ("sky", "a king")),
    ]
    found = alignment_data(bert_teacher(), GroupList(groups, "triples"), tmp_path)
    assert found.queries == ("castle", "sky")
    assert len(found.documents) == 4
    assert [sorted(rows.tolist()) for rows in found.positives] == [[0, 2], [1]]
    # What is relevant is no negative, whoever said so.
    assert [sorted(rows.tolist()) for rows in found.negatives] == [[1, 3], []]
    expected = bert_teacher().encode(["a castle", "a king", "norman castle", "water"])
    np.testing.assert_allclose(found.documents, expected, atol=1e-6)


def test_negatives_are_mined_where_there_are_none(tmp_path: Path) -> None:
    pairs = GroupList(
        [Group(str(i), (t, f"the {t}")) for i, t in enumerate(sentences(20))], "pairs"
    )
    found = alignment_data(bert_teacher(), pairs, tmp_path, documents=sentences(30), nearest=3)
    assert len(found.documents) == 50
    scores = found.own @ found.documents.T
    for row, (good, bad) in enumerate(zip(found.positives, found.negatives, strict=True)):
        best = [int(c) for c in np.argsort(-scores[row], kind="stable") if c not in good][:3]
        assert bad.tolist() == best


def test_queries_alone_are_enough_for_the_first_stage_only(tmp_path: Path) -> None:
    queries = GroupList([Group(str(i), (t,)) for i, t in enumerate(sentences(20))], "queries")
    found = alignment_data(bert_teacher(), queries, tmp_path)
    losses = align(tower(), found, replace(QUICK, steps=20))
    assert losses[-1] < losses[0]
    with pytest.raises(InvalidInputError, match="expected pairs or triples"):
        align(tower(), found, replace(QUICK, loss="align_nce"))


def test_groups_without_a_text_are_left_out(tmp_path: Path) -> None:
    rows = [Group("a", ("how", "so", "never")), Group("b", ()), Group("c", ("why", "hence"))]
    found = alignment_data(bert_teacher(), GroupList(rows, "triples"), tmp_path)
    assert found.queries == ("how", "why")
    with pytest.raises(CorpusError, match="the 1 queries have no text"):
        alignment_data(bert_teacher(), GroupList([Group("a", ())], "queries"), tmp_path)


def test_what_cannot_be_aligned_is_refused(tmp_path: Path, data: AlignmentData) -> None:
    with pytest.raises(CorpusError, match="kind documents"):
        alignment_data(bert_teacher(), GroupList([Group("d", ("a", "b"))], "documents"), tmp_path)
    with pytest.raises(CorpusError, match="0 groups"):
        alignment_data(bert_teacher(), GroupList([], "triples"), tmp_path)
    with pytest.raises(InvalidInputError, match="has no head"):
        EncoderTower(bert_teacher())
    with pytest.raises(InvalidInputError, match="head, head_and_top, full"):
        tower("bottom")
    with pytest.raises(InvalidInputError, match="align_qd, align_nce"):
        AlignmentConfig(loss="l2")
