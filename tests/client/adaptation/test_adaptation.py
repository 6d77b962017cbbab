"""An encoder taught by its index's own hybrid ranking, with a real bundle and a real index."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pocketquery.client.adaptation.acceptance import (
    CONDITIONS,
    Scores,
    judge,
    known_item_scores,
)
from pocketquery.client.adaptation.adaptation import AdaptationConfig, adapt
from pocketquery.client.adaptation.pseudo_queries import (
    LEAST_KEPT_ASIDE,
    pseudo_queries,
    sample,
    split_pseudo_queries,
)
from pocketquery.client.local_config import LocalConfig
from pocketquery.client.store.store import Example
from pocketquery.client.training.batches import Batches
from pocketquery.client.training.hybrid_teacher import HybridBatches, hybrid_rankings
from pocketquery.client.training.step import LocalStep
from pocketquery.sdk.bundle.adapter import read_adapter, write_adapter
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.cli import main
from pocketquery.sdk.encoder import Encoder
from pocketquery.sdk.errors import ArtifactError, InvalidInputError, SpaceMismatchError
from pocketquery.sdk.index.documents import Document
from pocketquery.sdk.index.index import Index, create_index, open_index
from tests.shell import Shell
from tests.synthetic_sentences import sentences
from tests.trainable_bundle import trainable_bundle

SMALL = AdaptationConfig(steps=4, batch_size=8, candidates=10, most_queries=150)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("adaptation")
    bundle = Bundle.open(trainable_bundle(folder / "bundle"))
    build(folder / "index", bundle, 150)
    return folder


@pytest.fixture(scope="module")
def bundle(folder: Path) -> Bundle:
    return Bundle.open(folder / "bundle")


@pytest.fixture
def index(folder: Path) -> Iterator[Index]:
    with open_index(folder / "index") as index:
        yield index


def build(
    path: Path,
    bundle: Bundle,
    count: int,
    space_id: str | None = None,
    title: str | None = None,
) -> None:
    encoder = Encoder.of_bundle(bundle)
    documents = [
        Document(str(number), f"{text}. {other}.", {"title": title or f"{text[:12]} notes"})
        for number, (text, other) in enumerate(
            zip(sentences(count), reversed(sentences(count)), strict=True)
        )
    ]
    space = space_id or bundle.manifest.space.id
    with create_index(path, space_id=space, dimension=encoder.dimension) as builder:
        builder.add(documents, encoder.encode([document.text for document in documents]))


@pytest.mark.slow
def test_the_seed_decides_every_bit(bundle: Bundle, index: Index) -> None:
    first, second = (adapt(bundle, index, SMALL) for _ in range(2))
    third = adapt(bundle, index, replace(SMALL, seed=1))
    assert all(np.array_equal(first.adapter[name], second.adapter[name]) for name in first.adapter)
    assert first.verdict == second.verdict
    assert any((first.adapter[name] != third.adapter[name]).any() for name in first.adapter)
    shipped = Encoder.of_bundle(bundle).adapter
    assert first.adapter.keys() == shipped.keys()
    assert len(first.losses) == SMALL.steps


def test_half_of_what_is_taught_may_be_meaning(bundle: Bundle, index: Index) -> None:
    asked = [document.text[:30] for document in index.documents()][:5]
    vectors = Encoder.of_bundle(bundle).encode_query(asked)
    words = hybrid_rankings(index, asked, vectors, 10, 0.1)
    both = hybrid_rankings(index, asked, vectors, 10, 0.1, temperature=0.05)
    for row, vector in enumerate(vectors):
        assert np.array_equal(words.ranked[row], both.ranked[row])
        cosines = words.documents.vectors(words.ranked[row]) @ vector
        expected = (words.shares[row] + softmax(cosines / 0.05)) / 2
        np.testing.assert_allclose(both.shares[row], expected, atol=1e-6)


def test_what_reads_like_an_operator_in_a_text_leaves_no_document_out(
    bundle: Bundle, index: Index
) -> None:
    asked = ['"no such phrase" -sugar', "-sugar"]
    vectors = Encoder.of_bundle(bundle).encode_query(asked)
    rankings = hybrid_rankings(index, asked, vectors, 10, 0.1)
    assert [len(rows) for rows in rankings.ranked] == [10, 10]


def test_more_stretches_of_a_document_teach_more(index: Index) -> None:
    options = {"most": 10_000, "most_kept_aside": 10_000, "least": 1, "seed": 0}
    few, many = (split_pseudo_queries(index, stretches=n, **options) for n in (2, 5))
    for one, other in zip(few, many, strict=True):  # both the taught and those kept aside
        # A title and two, a title and five, of short sentences that give some twice.
        assert 1.5 * len(one) < len(other) <= 2 * len(one)
    assert {query.source for query in few[0]} == {query.source for query in many[0]}


@pytest.mark.parametrize("most", [1, 30])
def test_few_queries_to_teach_leave_enough_to_judge_by(index: Index, most: int) -> None:
    taught, kept_aside = split_pseudo_queries(
        index, most=most, most_kept_aside=500, least=most, seed=0
    )
    assert len(taught) == most
    sources = {one.source for one in kept_aside}
    assert len(sources) >= LEAST_KEPT_ASIDE
    assert not {one.source for one in taught} & sources


def test_what_is_taught_does_not_judge(bundle: Bundle, tmp_path: Path) -> None:
    build(tmp_path / "index", bundle, 150, title="One handbook for all")
    with open_index(tmp_path / "index") as passages:
        taught, kept_aside = split_pseudo_queries(
            passages, most=1000, most_kept_aside=1000, least=1, seed=0
        )
    assert "One handbook for all" in {query.text for query in taught}
    assert not {query.text for query in taught} & {query.text for query in kept_aside}


def test_a_document_counts_once_however_many_queries_it_gives(bundle: Bundle, index: Index) -> None:
    encoder = Encoder.of_bundle(bundle)
    _, kept_aside = split_pseudo_queries(index, most=9, most_kept_aside=1000, least=1, seed=0)
    asked = sorted(kept_aside, key=lambda query: query.source)[:6]  # of two or three documents
    found = known_item_scores(encoder.encode_query, index, asked, typo_rate=0.1, seed=0)
    sources = list(dict.fromkeys(query.source for query in asked))
    for place, source in enumerate(sources):
        own = []
        for query in (one for one in asked if one.source == source):
            vector = encoder.encode_query(query.text)
            hits = index.search(query.text, 10, mode="dense", vector=vector)
            ids = [hit.id for hit in hits]
            own.append(1 / np.log2(2 + ids.index(source)) if source in ids else 0.0)
        assert found["dense", "clean"][place] == pytest.approx(np.mean(own))
    assert all(len(values) == len(sources) < len(asked) for values in found.values())


def test_the_encoder_comes_nearer_to_the_hybrid_ranking(bundle: Bundle, index: Index) -> None:
    config = replace(SMALL, steps=100, batch_size=32, learning_rate=1e-2, teacher_weight=5.0)
    encoder = Encoder.of_bundle(bundle)
    asked = [document.text[:30] for document in index.documents()]
    hits = [
        index.search(text, 10, mode="hybrid", vector=vector)
        for text, vector in zip(asked, encoder.encode_query(asked), strict=True)
    ]
    vectors = index.vectors(sorted({hit.id for found in hits for hit in found}))

    def divergence() -> float:
        """Mean KL of the encoder's softmax from the hybrid's, over the hybrid's first ten."""
        total = 0.0
        for found, vector in zip(hits, encoder.encode_query(asked), strict=True):
            wanted = softmax(np.array([hit.score for hit in found]) / 0.1)
            rows = np.array([vectors.row_of[hit.id] for hit in found])
            given = softmax(vectors.vectors(rows) @ vector / 0.05)
            total += float((wanted * np.log(wanted / given)).sum())
        return total / len(hits)

    before = divergence()
    encoder.swap_adapter(adapt(bundle, index, config).adapter)
    assert divergence() < 0.95 * before


def softmax(scores: NDArray[np.floating]) -> NDArray[np.float64]:
    raised: NDArray[np.float64] = np.exp(scores.astype(np.float64) - scores.max())
    raised /= raised.sum()
    return raised


def test_it_begins_from_a_given_adapter(bundle: Bundle, index: Index) -> None:
    once = adapt(bundle, index, SMALL)
    twice = adapt(bundle, index, SMALL, adapter=once.adapter)
    assert twice.verdict.before != once.verdict.before
    assert any((once.adapter[name] != twice.adapter[name]).any() for name in once.adapter)


def test_results_are_opened_as_the_hybrid_ranking_says(bundle: Bundle, index: Index) -> None:
    encoder, step = Encoder.of_bundle(bundle), LocalStep.open(bundle)
    texts = sentences(4)
    config = LocalConfig(
        batch_size=4, steps=1, hybrid_candidates=5, hybrid_sharpness=0.3, hybrid_mistyped=0.0
    )
    inner = Batches(encoder, step.description, [Example(t) for t in texts], index, config)
    taught = HybridBatches(inner, index, config)
    rng = np.random.default_rng(0)
    rows = np.arange(4)
    opened = Counter(int(taught.make(rows, rng).opened[0]) for _ in range(400))
    hits = index.search(texts[0], 5, mode="hybrid", vector=encoder.encode_query(texts[0]))
    raised = np.exp(np.array([hit.score for hit in hits]) / 0.3)
    wanted = 400 * raised / raised.sum()
    spread = np.sqrt(wanted * (1 - wanted / 400))
    assert all(abs(opened[place] - wanted[place]) < 5 * spread[place] + 1 for place in range(5))
    batch = taught.make(rows, rng)
    assert batch.shown.shape == (4, 10, encoder.dimension)
    vectors = index.vectors([hit.id for hit in hits])
    best = vectors.vectors(np.array([vectors.row_of[hit.id] for hit in hits]))
    np.testing.assert_array_equal(batch.shown[0, :5], best)


def test_a_stopped_adaptation_leaves_nothing(bundle: Bundle, index: Index) -> None:
    with pytest.raises(ArtifactError, match="nothing is kept: the battery is low"):
        adapt(bundle, index, SMALL, may_continue=lambda: "the battery is low")


def test_too_few_documents_are_refused(bundle: Bundle, tmp_path: Path) -> None:
    build(tmp_path / "index", bundle, 12)
    with (
        open_index(tmp_path / "index") as few,
        pytest.raises(InvalidInputError, match=r"the 12 documents of .* to judge by"),
    ):
        adapt(bundle, few, SMALL)


def test_an_index_of_another_space_is_refused(bundle: Bundle, tmp_path: Path) -> None:
    build(tmp_path / "index", bundle, 150, space_id="space-0")
    with open_index(tmp_path / "index") as other, pytest.raises(SpaceMismatchError):
        adapt(bundle, other, SMALL)


def scores(mean: float, count: int = 200, seed: int = 0) -> Scores:
    rng = np.random.default_rng(seed)
    return {name: np.clip(rng.normal(mean, 0.2, count), 0, 1) for name in CONDITIONS}


def test_more_found_by_meaning_is_kept() -> None:
    before = scores(0.4)
    after = {n: s + (0.05 if n[0] == "dense" else 0.0) for n, s in before.items()}
    assert judge(before, after, 0.02).accepted


@pytest.mark.parametrize("worse", CONDITIONS)
def test_less_found_in_any_way_is_refused(worse: tuple[str, str]) -> None:
    before = scores(0.4)
    after = {n: s + (-0.02 if n == worse else 0.05) for n, s in before.items()}
    verdict = judge(before, after, 0.02)
    assert not verdict.accepted
    assert f"less is found: {' '.join(worse)}" in verdict.reason


def test_nothing_shown_and_what_moves_everything_are_refused() -> None:
    before = scores(0.4)
    assert "not shown to find more" in judge(before, before, 0.02).reason
    after = {name: values + 0.1 for name, values in before.items()}
    assert "moved by 0.200" in judge(before, after, 0.2).reason


@given(
    st.text(max_size=300),
    st.one_of(st.none(), st.text(max_size=40)),
    st.integers(0, 9),
    st.integers(1, 8),
)
def test_pseudo_queries_are_cut_from_their_document(
    text: str, title: str | None, seed: int, stretches: int
) -> None:
    document = Document("a", text, {} if title is None else {"title": title})
    found = list(pseudo_queries(document, random.Random(seed), stretches))
    assert found == list(pseudo_queries(document, random.Random(seed), stretches))
    titled = bool(found) and found[0].text == (title or "").strip()
    assert len(found) <= stretches + titled
    assert len({query.text for query in found}) == len(found)
    for query in found:
        assert query.source == "a"
        assert query.text.strip()
        assert query.text in text or query.text == (title or "").strip()


def test_every_document_is_sampled_as_often_as_any_other() -> None:
    documents = [Document(str(number), "text") for number in range(20)]
    drawn = Counter(
        document.id
        for seed in range(1000)
        for document in sample(iter(documents), 5, random.Random(seed))
    )
    assert all(abs(drawn[str(number)] - 250) < 5 * np.sqrt(250 * 0.75) for number in range(20))
    assert sample(documents, 30, random.Random(0)) == documents


def test_the_command_writes_what_is_better_and_refuses_the_rest(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "adapted.safetensors"
    words = ["adapt", "--bundle", str(folder / "bundle"), "--index", str(folder / "index")]
    words += ["--output", str(output), "--steps", "3", "--batch-size", "8", "--json"]
    status = main(words)
    said = json.loads(capsys.readouterr().out)
    assert status == (0 if said["accepted"] else 1)
    assert output.exists() == said["accepted"]
    assert said["ndcg@10"].keys() == {" ".join(name) for name in CONDITIONS}
    if said["accepted"]:
        manifest = Bundle.open(folder / "bundle").manifest
        release = read_adapter(output, manifest=manifest)
        assert release.version == f"{manifest.encoder_version}-adapted"


def test_the_command_says_what_is_wrong(folder: Path, tmp_path: Path, shell: Shell) -> None:
    words = ["adapt", "--bundle", folder / "bundle", "--output", tmp_path / "x", "--index"]
    shell(*words, tmp_path / "none", code=2, says="none")
    for option in ("--steps", "--queries", "--threads"):
        message = f'argument {option}: found "0"'
        shell(*words, folder / "index", option, 0, code=2, says=message)


def test_what_could_not_be_written_is_refused_before_training(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> None:
    def trained(*given: Any, **named: Any) -> None:
        raise InvalidInputError("it trained")

    monkeypatch.setattr("pocketquery.client.adaptation.adaptation.adapt", trained)
    notes, key, output = tmp_path / "notes.txt", tmp_path / "key.pem", tmp_path / "a"
    notes.write_text("mine", encoding="utf-8")
    key.write_text("no key", encoding="utf-8")
    words = ["adapt", "--bundle", folder / "bundle", "--index", folder / "index", "--output"]
    shell(*words, notes, code=2, says="not an adapter release; it is left alone")
    assert notes.read_text(encoding="utf-8") == "mine"
    shell(*words, tmp_path / "none" / "a", code=2, says="is not a folder")
    shell(*words, output, "--signing-key", key, code=2, says="not a readable private key")
    bundle = Bundle.open(folder / "bundle")
    adapter = Encoder.of_bundle(bundle).adapter
    write_adapter(output, adapter, manifest=bundle.manifest, version="1")
    shell(*words, output, code=2, says="it trained")
    monkeypatch.setattr("pocketquery.sdk.bundle.adapter.LARGEST_RELEASE", 1000)
    shell(*words, tmp_path / "b", code=2, says="at most 1000 may travel")
