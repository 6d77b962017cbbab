"""A new encoder's first table: what is counted, what is made of it, and what stays as it was."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.cooccurrence import Cooccurrence, begin_with_cooccurrence
from pocketquery.server.modeling.presets import new_encoder
from pocketquery.server.objectives import Objective, build_objective
from tests.tiny_models import bert_teacher, sentences

TOKENIZER = bert_teacher().tokenizer


def begun(**options: object) -> tuple[SentenceEncoder, Objective[object], torch.Tensor]:
    """A new encoder that began with what co-occurs, its head, and its table as it was drawn."""
    encoder = new_encoder("nano", TOKENIZER, max_length=32, seed=0)
    drawn = encoder.backbone.get_input_embeddings().weight.detach().clone()
    objective = build_objective("mlm", encoder)
    begin_with_cooccurrence(encoder, [objective], sentences(60), **options)  # type: ignore[arg-type]
    return encoder, objective, drawn


@given(st.lists(st.lists(st.integers(0, 5), max_size=9), max_size=5), st.integers(1, 4))
def test_pairs_are_those_within_the_window_of_one_text(texts: list[list[int]], window: int) -> None:
    found = Cooccurrence(6, window)
    found.add(texts[:2])
    found.add(texts[2:])
    expected = np.zeros((6, 6))
    for text in texts:
        for first in range(len(text)):
            for second in range(first + 1, min(first + window + 1, len(text))):
                expected[text[first], text[second]] += 1
    assert np.array_equal(found._pairs.toarray(), expected)
    assert found.counts.tolist() == [sum(text.count(one) for text in texts) for one in range(6)]


def test_the_vectors_products_are_the_positive_information_by_hand() -> None:
    """With all dimensions the factorisation is exact."""
    found = Cooccurrence(3, window=1)
    found.add([[0, 1]] * 3 + [[0, 2]])
    pairs = np.array([[0, 3, 1], [3, 0, 0], [1, 0, 0]], dtype=float)
    each = pairs.sum(axis=1)
    smoothed = each**0.75 / (each**0.75).sum()
    with np.errstate(divide="ignore"):
        information = np.log(pairs / np.outer(each, smoothed))
    information = np.maximum(information, 0)
    vectors = found.vectors(3).astype(np.float64)
    rotation, values, _ = np.linalg.svd(information)
    expected = rotation * np.sqrt(values)
    expected /= np.linalg.norm(expected, axis=1).mean()
    assert np.allclose(vectors @ vectors.T, expected @ expected.T, atol=1e-5)


def test_words_of_one_company_come_to_lie_together() -> None:
    rng = np.random.default_rng(0)
    found = Cooccurrence(40)
    found.add([(rng.integers(0, 20, 12) + 20 * (row % 2)).tolist() for row in range(400)])
    vectors = found.vectors(8)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = vectors @ vectors.T
    assert cosines[:20, :20].mean() > cosines[:20, 20:].mean() + 0.3


def test_more_dimensions_than_tokens_are_zeros() -> None:
    found = Cooccurrence(3)
    found.add([[0, 1, 2]])
    assert found.vectors(7).shape == (3, 7)
    assert not found.vectors(7)[:, 3:].any()


def test_tokens_that_do_not_occur_keep_their_rows_and_the_head_knows_frequencies() -> None:
    encoder, objective, drawn = begun()
    counts = np.bincount(
        [
            one
            for text in sentences(60)
            for one in TOKENIZER(text, add_special_tokens=False).input_ids
        ],
        minlength=len(TOKENIZER),
    )
    table = encoder.backbone.get_input_embeddings().weight.detach()
    unseen = torch.from_numpy(counts == 0)
    assert unseen.any()
    assert torch.equal(table[unseen], drawn[unseen])
    assert float(table[~unseen].norm(dim=1).mean()) == pytest.approx(1, rel=0.02)
    bias = objective.get_parameter("head.bias").detach().exp()
    assert float(bias.sum()) == pytest.approx(1, rel=1e-4)
    most = int(counts.argmax())
    assert float(bias[most]) == pytest.approx((counts[most] + 0.5) / (counts + 0.5).sum(), rel=1e-4)


def test_it_is_below_the_unigram_entropy_soon_where_drawn_weights_are_not() -> None:
    """The purpose, in small: the same forty steps from either."""
    last = {}
    texts = sentences(60)
    for kind in ("drawn", "counted"):
        torch.manual_seed(0)
        encoder = new_encoder("nano", TOKENIZER, max_length=32, seed=0)
        objective = build_objective("mlm", encoder)
        if kind == "counted":
            begin_with_cooccurrence(encoder, [objective], texts)
        encoder.eval()
        batch = objective.collate(texts, np.random.default_rng(0))
        parameters = [*encoder.parameters(), *objective.parameters()]
        optimizer = torch.optim.Adam(parameters, lr=1e-3)
        for _ in range(40):
            optimizer.zero_grad()
            loss = objective.loss(encoder, batch).total
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        last[kind] = float(loss.detach())
    assert last["counted"] < last["drawn"] - 0.3


def test_what_was_found_is_kept_and_read_again(tmp_path: Path) -> None:
    kept = tmp_path / "work" / "table.safetensors"
    first, _, _ = begun(cache=kept)
    before = kept.read_bytes()
    again = new_encoder("nano", TOKENIZER, max_length=32, seed=0)
    assert begin_with_cooccurrence(again, [], ["other words"], cache=kept) > 100
    assert kept.read_bytes() == before
    tables = [one.backbone.get_input_embeddings().weight for one in (first, again)]
    assert torch.equal(*tables)


def test_a_kept_file_that_is_damaged_or_of_another_width(tmp_path: Path) -> None:
    kept = tmp_path / "table.safetensors"
    begun(cache=kept)
    whole = kept.read_bytes()
    kept.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CorruptArtifactError, match="is damaged"):
        begun(cache=kept)
    kept.write_bytes(whole)
    wider = new_encoder("tinybert4", TOKENIZER, max_length=32, seed=0)
    with pytest.raises(CorruptArtifactError, match=r"another vocabulary or width; delete it"):
        begin_with_cooccurrence(wider, [], sentences(4), cache=kept)
    assert kept.read_bytes() == whole


@pytest.mark.parametrize("texts", [[], [""], ["a"]])
def test_texts_without_words(texts: list[str]) -> None:
    encoder = new_encoder("nano", TOKENIZER, max_length=32, seed=0)
    with pytest.raises(InvalidInputError, match="no text to begin with has two tokens"):
        begin_with_cooccurrence(encoder, [], texts)


def test_a_smaller_vocabularys_biases_leave_added_tokens_alone() -> None:
    encoder = new_encoder("nano", TOKENIZER, max_length=32, seed=0)
    objective = build_objective("mlm", encoder)
    head = objective.get_submodule("head")
    head.bias = torch.nn.Parameter(torch.full((len(TOKENIZER) + 2,), 3.0))
    begin_with_cooccurrence(encoder, [objective], sentences(20))
    assert head.bias.detach()[-2:].tolist() == [3.0, 3.0]
    assert float(head.bias.detach()[:-2].max()) < math.log(1)
