"""Spans: their lengths, where they may lie, hiding them behind sentinels and reading them back."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives.shared.span_masking import (
    hide_spans,
    length_probabilities,
    place_spans,
    read_spans,
    sentinel_ids,
    span_budget,
    span_lengths,
)
from tests.server.objectives.filled_spans import fill_spans
from tests.tiny_models import bert_teacher, sentences, xlmr_teacher

HUMP = [0.11081, 0.16790, 0.25440, 0.16790, 0.11081, 0.07314, 0.04827, 0.03186, 0.02103, 0.01388]


def test_the_hump_and_its_mean() -> None:
    found = length_probabilities()
    assert found == pytest.approx(HUMP, abs=1e-5)
    assert float(found @ np.arange(1, 11)) == pytest.approx(3.79510, abs=5e-6)


def test_draws_follow_the_probabilities() -> None:
    """Chi-square of 100,000 draws: 9 degrees of freedom, 27.9 is the 0.999 quantile."""
    rng = np.random.default_rng(0)
    # From a budget this large only the truncated last span is off, and shuffling hides which.
    drawn = np.concatenate([span_lengths(380, length_probabilities(), rng) for _ in range(1000)])
    expected = np.array(HUMP) * len(drawn)
    seen = np.bincount(drawn, minlength=11)[1:]
    assert len(drawn) == pytest.approx(100_000, rel=0.01)
    assert float(((seen - expected) ** 2 / expected).sum()) < 27.9


@pytest.mark.parametrize("tokens", range(128))
def test_the_budget_is_met_by_spans_that_lie_apart(tokens: int) -> None:
    rng = np.random.default_rng(tokens)
    for rate in (0.15, 0.29, 0.5):
        budget = span_budget(tokens, rate)
        assert budget == (0 if tokens < 4 else max(1, round(rate * tokens)))
        spans = place_spans(tokens, span_lengths(budget, length_probabilities(), rng), rng)
        starts, lengths = spans.T
        assert lengths.sum() == budget
        assert (lengths > 0).all()
        assert (starts[1:] > (starts + lengths)[:-1]).all()  # one visible token at least
        assert not len(spans) or (starts[0] >= 0 and (starts + lengths)[-1] <= tokens)


def test_every_layout_is_equally_likely() -> None:
    """Spans of 1 and 2 among 6 tokens: 4 slots, 6 layouts; 5 df, 20.5 is the 0.999 quantile."""
    rng = np.random.default_rng(0)
    lengths = np.array([1, 2])
    seen = Counter(tuple(place_spans(6, lengths, rng)[:, 0].tolist()) for _ in range(12_000))
    assert set(seen) == {(0, 2), (0, 3), (0, 4), (1, 3), (1, 4), (2, 4)}
    assert sum((count - 2000) ** 2 / 2000 for count in seen.values()) < 20.5


def test_spans_are_merged_where_they_cannot_lie_apart() -> None:
    rng = np.random.default_rng(0)
    spans = place_spans(6, np.array([1, 1, 1, 2]), rng)  # one visible token, two slots
    assert spans[:, 1].sum() == 5
    assert sorted(spans[:, 1].tolist()) == [2, 3]
    assert place_spans(3, np.array([1, 1, 1]), rng).tolist() == [[0, 3]]


def test_the_truncated_span_is_not_always_the_last() -> None:
    rng = np.random.default_rng(0)
    only = np.zeros(10)
    only[2] = 1  # threes, so that a budget of 7 is 3, 3, 1
    first = [int(span_lengths(7, only, rng)[0]) for _ in range(300)]
    assert 0.23 < np.mean(np.array(first) == 1) < 0.43


SENTINELS = tuple(range(1000, 1040))


def test_a_sequence_by_hand() -> None:
    source, target = hide_spans([5, 6, 7, 8, 9], np.array([[1, 2], [4, 1]]), SENTINELS)
    assert source == [5, 1000, 8, 1001]
    assert target == [1000, 6, 7, 1001, 9, 1002]
    assert read_spans(target, SENTINELS) == [[6, 7], [9], []]


@given(
    ids=st.lists(st.integers(5, 99), min_size=4, max_size=80),
    share=st.floats(0.01, 0.9),
    seed=st.integers(0, 1000),
)
def test_source_and_target_together_are_the_text(ids: list[int], share: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    budget = min(max(1, round(share * len(ids))), 39)
    spans = place_spans(len(ids), span_lengths(budget, length_probabilities(), rng), rng)
    source, target = hide_spans(ids, spans, SENTINELS)
    assert len(source) == len(ids) - budget + len(spans)
    assert len(target) == budget + len(spans) + 1
    assert fill_spans(source, read_spans(target, SENTINELS), SENTINELS) == ids


def test_whatever_is_written_can_be_read() -> None:
    assert read_spans([], SENTINELS) == []
    assert read_spans([7, 1001, 8, 1000, 9, 1001, 6], SENTINELS) == [[9], [8, 6]]
    assert fill_spans([1, 1000, 2, 1001], [[9]], SENTINELS) == [1, 9, 2]


def test_missing_sentinels_are_added_and_change_no_vector() -> None:
    encoder, before = bert_teacher(), bert_teacher()
    rows = encoder.backbone.get_input_embeddings().num_embeddings
    ids = sentinel_ids(encoder, 4)
    assert ids == tuple(range(rows, rows + 4))
    assert encoder.backbone.get_input_embeddings().num_embeddings == rows + 4
    assert encoder.backbone.config.vocab_size == rows + 4
    assert encoder.tokenizer.convert_ids_to_tokens(list(ids))[0] == "<extra_id_0>"
    assert set(ids) <= set(encoder.tokenizer.all_special_ids)
    assert np.array_equal(encoder.encode(sentences(9)), before.encode(sentences(9)))
    assert sentinel_ids(encoder, 4) == ids  # and a second time they are there
    assert sentinel_ids(encoder, 2) == ids[:2]


def test_added_rows_are_distinct_and_the_same_every_time() -> None:
    tables = []
    for seed in (1, 2):
        encoder = bert_teacher()
        torch.manual_seed(seed)
        ids = sentinel_ids(encoder, 8)
        tables.append(encoder.backbone.get_input_embeddings().weight[list(ids)].detach())
    assert torch.equal(*tables)
    assert len(tables[0].unique(dim=0)) == 8
    assert 0.15 < tables[0].std() < 0.25  # the tiny model's initializer_range is 0.2


def test_sentinels_join_an_xlmr_vocabulary_and_its_saved_model(tmp_path: Path) -> None:
    encoder = xlmr_teacher(tmp_path / "tokenizer")
    before = encoder.encode(sentences(5))
    ids = sentinel_ids(encoder, 3)
    encoder.save(tmp_path / "model")
    loaded = SentenceEncoder.load(tmp_path / "model")
    assert np.array_equal(loaded.encode(sentences(5)), before)
    assert sentinel_ids(loaded, 3) == ids


def test_unused_rows_of_the_vocabulary_are_taken_first() -> None:
    encoder = SentenceEncoder.load("demo")
    rows = encoder.backbone.get_input_embeddings().num_embeddings
    ids = sentinel_ids(encoder, 10)
    assert encoder.tokenizer.convert_ids_to_tokens(list(ids))[0] == "[unused0]"
    assert encoder.backbone.get_input_embeddings().num_embeddings == rows == len(encoder.tokenizer)
    assert not set(encoder.tokenize(["[unused0] text"])["input_ids"].flatten().tolist()) & set(ids)
