"""Hiding spans behind sentinels, reading them back, and where the sentinels come from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives.shared.span_masking import (
    fill_spans,
    hide_spans,
    length_probabilities,
    place_spans,
    read_spans,
    sentinel_ids,
    span_lengths,
)
from tests.tiny_models import bert_teacher, sentences, xlmr_teacher

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


def test_unused_pieces_of_the_vocabulary_are_taken_first() -> None:
    encoder = SentenceEncoder.load("demo")
    rows = encoder.backbone.get_input_embeddings().num_embeddings
    ids = sentinel_ids(encoder, 10)
    assert encoder.tokenizer.convert_ids_to_tokens(list(ids))[0] == "[unused0]"
    assert encoder.backbone.get_input_embeddings().num_embeddings == rows == len(encoder.tokenizer)
    assert not set(encoder.tokenize(["[unused0] text"])["input_ids"].flatten().tolist()) & set(ids)
