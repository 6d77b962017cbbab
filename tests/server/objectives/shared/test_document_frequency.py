"""Document frequencies: counted by hand, sampled evenly, and what is made of them."""

from __future__ import annotations

import math

import pytest
import torch

from pocketquery.sdk.errors import CorpusError
from pocketquery.server.corpus.groups import Group, GroupList
from pocketquery.server.objectives.shared.bag_of_words import (
    document_frequency,
    idf_weights,
    log_odds,
)
from tests.tiny_models import wordpiece_tokenizer

TOKENIZER = wordpiece_tokenizer()


def source(*texts: str) -> GroupList:
    return GroupList([Group(str(i), (text,)) for i, text in enumerate(texts)], "documents")


def count(corpus: GroupList, max_length: int = 32, most: int = 100) -> tuple[dict[str, int], int]:
    counts, texts = document_frequency(
        corpus, TOKENIZER, len(TOKENIZER) + 3, max_length=max_length, most=most
    )
    assert counts.shape == (len(TOKENIZER) + 3,)
    tokens = TOKENIZER.convert_ids_to_tokens(counts.nonzero().flatten().tolist())
    return dict(zip(tokens, counts[counts > 0].tolist(), strict=True)), texts


def test_a_text_counts_once_for_a_piece_and_specials_never() -> None:
    assert count(source("water water sky", "sky", "the sky")) == (
        {"water": 1, "sky": 3, "the": 1},
        3,
    )


def test_what_is_cut_off_is_not_counted_and_a_group_is_one_text() -> None:
    corpus = GroupList([Group("a", ("water", "sky leaf")), Group("b", ("leaf",))], "documents")
    assert count(corpus, max_length=4) == ({"water": 1, "sky": 1, "leaf": 1}, 2)


def test_a_large_corpus_is_looked_at_evenly() -> None:
    words = ["water", "water", "leaf", "leaf", "leaf", "sky"]
    assert count(source(*words), most=3) == ({"water": 1, "leaf": 1, "sky": 1}, 3)


def test_an_empty_corpus_is_refused() -> None:
    with pytest.raises(CorpusError, match="no groups"):
        count(source())


def test_log_odds_are_clamped() -> None:
    odds = log_odds(torch.tensor([0, 25, 50, 100]), 100)
    expected = torch.tensor([-9.0, math.log(1 / 3), 0.0, 2.0])
    torch.testing.assert_close(odds, expected)


def test_idf_weights_have_mean_one_and_fall_with_frequency() -> None:
    weights = idf_weights(torch.tensor([0, 1, 9]), 9)
    raw = torch.tensor([math.log(10) + 1, math.log(5) + 1, 1.0])
    torch.testing.assert_close(weights, raw / raw.mean())
