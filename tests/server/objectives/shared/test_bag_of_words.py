"""Words from a vector: the decoder, its losses and figures, and how many texts have a token."""

from __future__ import annotations

import math

import pytest
import torch

from pocketquery.sdk.errors import CorpusError
from pocketquery.server.corpus.groups import Group, GroupList
from pocketquery.server.objectives.shared.bag_of_words import (
    BagDecoder,
    bag_f1,
    document_frequency,
    idf_weights,
    log_odds,
    multi_hot,
    rare_recall,
    reconstruction_loss,
)
from pocketquery.server.objectives.shared.masking import IGNORED
from tests.tiny_models import bert_teacher, electra_teacher, wordpiece_tokenizer


def drawn(rows: int = 3, pieces: int = 7) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(rows, pieces, generator=generator, dtype=torch.float64)
    return z, torch.rand(rows, pieces, generator=generator) < 0.4


def test_a_piece_is_present_once_however_often_it_occurs() -> None:
    ids = torch.tensor([[2, 4, 4, IGNORED], [IGNORED, IGNORED, IGNORED, 0]])
    assert multi_hot(ids, 5).int().tolist() == [[0, 0, 1, 0, 1], [1, 0, 0, 0, 0]]


def test_reconstruction_by_hand() -> None:
    z = torch.tensor([[0.0, 2.0, -1.0]])
    present = torch.tensor([[True, True, False]])
    s = [1 / (1 + math.exp(-x)) for x in (0.0, 2.0, -1.0)]
    by_hand = -math.log(s[0]) - math.log(s[1]) - math.log(1 - s[2])
    assert float(reconstruction_loss(z, present, "sum")) == pytest.approx(by_hand, abs=1e-6)
    assert float(reconstruction_loss(z, present, "mean")) == pytest.approx(by_hand / 3, abs=1e-6)
    assert float(reconstruction_loss(z, present)) == pytest.approx(by_hand / 2, abs=1e-6)


def test_its_gradient_is_the_probability_less_the_label() -> None:
    z, present = drawn()
    z.requires_grad_()
    reconstruction_loss(z, present, "sum").backward()  # type: ignore[no-untyped-call]
    expected = (z.detach().sigmoid() - present.double()) / len(z)
    assert z.grad is not None
    torch.testing.assert_close(z.grad, expected)
    printed = z.detach().clone().requires_grad_()
    log_s = torch.nn.functional.logsigmoid(printed)
    y = present.double()
    (-(y * log_s + (1 - y) * log_s).sum() / len(z)).backward()  # type: ignore[no-untyped-call]
    assert printed.grad is not None
    assert not torch.allclose(printed.grad, expected)
    assert (printed.grad < 0).all()  # it only ever wants more words


def test_the_size_of_a_sum_over_the_vocabulary() -> None:
    z, present = torch.zeros(2, 30_522), torch.zeros(2, 30_522, dtype=torch.bool)
    assert float(reconstruction_loss(z, present, "sum")) == pytest.approx(21_156, abs=1)
    assert float(reconstruction_loss(z, present, "mean")) == pytest.approx(math.log(2), abs=1e-6)


def test_a_text_without_pieces_has_a_finite_loss() -> None:
    z, _ = drawn()
    assert torch.isfinite(reconstruction_loss(z, torch.zeros(3, 7, dtype=torch.bool)))


def test_weights_multiply_the_terms_of_their_pieces() -> None:
    z, present = drawn()
    weights = torch.tensor([1.0, 0, 0, 0, 0, 0, 2.0], dtype=torch.float64)
    terms = torch.nn.functional.softplus(torch.where(present, -z, z))
    expected = (terms[:, 0] + 2 * terms[:, 6]).mean()
    torch.testing.assert_close(reconstruction_loss(z, present, "sum", weights), expected)


def test_figures_by_hand() -> None:
    z = torch.tensor([[3.0, 2.0, -1.0, -2.0, 1.0], [-1.0, -2.0, -3.0, 0.5, -4.0]])
    present = torch.tensor([[1, 0, 1, 0, 1], [0, 0, 0, 0, 0]], dtype=torch.bool)
    assert float(bag_f1(z, present)) == pytest.approx(2 * 2 / (4 + 3))
    counts = torch.tensor([9, 1, 2, 1, 5])
    # The first text's two rarest pieces are 2 (df 2) and 4 (df 5); its likeliest three 0, 1, 4.
    assert float(rare_recall(z, present, counts, rarest=2, among=3)) == pytest.approx(0.5)
    # All it has are looked for where it has fewer; texts without pieces do not count.
    assert float(rare_recall(z, present, counts, rarest=5, among=3)) == pytest.approx(2 / 3)
    assert float(rare_recall(z, present & False, counts)) == 0


def test_the_decoder_is_the_formula() -> None:
    encoder = bert_teacher()
    decoder = BagDecoder(encoder)
    h = torch.randn(4, encoder.hidden_size)
    x = torch.nn.functional.gelu(h @ decoder.dense.weight.T + decoder.dense.bias)
    x = (x - x.mean(dim=1, keepdim=True)) / (
        x.var(dim=1, unbiased=False, keepdim=True) + 1e-5
    ).sqrt()
    table = encoder.backbone.get_input_embeddings().weight
    torch.testing.assert_close(decoder(h, encoder), x @ table.T, rtol=1e-4, atol=1e-5)


def test_a_table_narrower_than_the_states_fits() -> None:
    encoder = electra_teacher()
    found = BagDecoder(encoder)(torch.randn(2, encoder.hidden_size), encoder)
    assert found.shape == (2, len(encoder.tokenizer))


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
