"""CPDAE: targets, the frequency prior, its variants, what it watches, resuming, and learning."""

from __future__ import annotations

import copy
import math
import random
from typing import Any

import numpy as np
import pytest
import torch

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.corpus.groups import Group, GroupList
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives import Batch
from pocketquery.server.objectives.cpdae import Cpdae, CpdaeConfig
from pocketquery.server.objectives.shared.bag_of_words import document_frequency, log_odds
from pocketquery.server.objectives.shared.masking import IGNORED
from pocketquery.server.objectives.shared.span_masking import sentinel_ids
from tests.server.objectives.small_training import adam, train
from tests.tiny_models import bert_teacher, sentences, wordpiece_tokenizer

TOKENIZER = wordpiece_tokenizer()
SPECIALS = set(TOKENIZER.all_special_ids)


def corpus(count: int = 200) -> GroupList:
    groups = [Group(str(i), (text,)) for i, text in enumerate(sentences(count))]
    return GroupList(groups, "documents")


def ready(encoder: SentenceEncoder, **options: Any) -> Cpdae:
    objective = Cpdae(encoder, CpdaeConfig(**options))
    objective.prepare(corpus(), encoder.tokenizer)
    return objective


def batch_of(objective: Cpdae, texts: int = 8, seed: int = 0) -> Batch:
    return objective.collate(sentences(texts), np.random.default_rng(seed))


def test_targets_have_the_hidden_words_and_no_specials() -> None:
    objective = ready(bert_teacher(), mask_rate=0.5)
    batch = batch_of(objective)
    ids = TOKENIZER(sentences(8), padding=True, return_tensors="pt")["input_ids"].repeat(2, 1)
    targets = batch["targets"]
    for row in range(16):
        wanted = set(ids[row].tolist()) - SPECIALS
        assert set(targets[row].tolist()) - {IGNORED} == wanted
    hidden = (batch["labels"] != IGNORED) & (batch["input_ids"] != ids)
    assert hidden.any()
    assert (targets[hidden] != IGNORED).all()


def test_two_maskings_of_each_text_half_a_batch_apart() -> None:
    batch = batch_of(ready(bert_teacher()))
    assert not torch.equal(batch["labels"][:8], batch["labels"][8:])
    assert torch.equal(batch["targets"][:8], batch["targets"][8:])
    assert torch.equal(batch["attention_mask"][:8], batch["attention_mask"][8:])
    assert torch.equal(batch["same_text"], torch.eye(8, dtype=torch.bool).repeat(2, 2))


def test_the_decoder_starts_at_the_document_frequencies() -> None:
    encoder = bert_teacher(width=128)
    torch.nn.init.normal_(encoder.backbone.get_input_embeddings().weight, std=0.02)
    objective = ready(encoder)
    counts, texts = document_frequency(
        corpus(), TOKENIZER, len(TOKENIZER), max_length=48, most=1000
    )
    expected = log_odds(counts, texts).sigmoid()
    assert float(expected.max()) == pytest.approx(1 / (1 + math.exp(-2)), abs=1e-6)  # clamped
    h = torch.randn(64, 128)
    near = objective.decoder(h, encoder).sigmoid().detach()
    assert float((near - expected).abs().mean()) < 1e-2
    torch.nn.init.zeros_(encoder.backbone.get_input_embeddings().weight)
    exact = objective.decoder(h, encoder).sigmoid().detach()
    torch.testing.assert_close(exact, expected.expand_as(exact), rtol=0, atol=1e-6)


def test_tokens_that_were_added_since_change_neither_frequencies_nor_logits() -> None:
    encoder = bert_teacher()
    objective = Cpdae(encoder)
    expected = copy.deepcopy(objective)
    expected.prepare(corpus(), encoder.tokenizer)
    vectors = torch.randn(3, encoder.hidden_size)
    before = expected.decoder(vectors, encoder)
    sentinel_ids(encoder, 6)
    objective.prepare(corpus(), encoder.tokenizer)
    assert torch.equal(objective.counts, expected.counts)
    torch.testing.assert_close(objective.decoder(vectors, encoder), before)


def test_an_objective_that_has_its_frequencies_keeps_what_it_learned() -> None:
    encoder = bert_teacher()
    objective = ready(encoder)
    with torch.no_grad():
        objective.decoder.bias.add_(1)
    before = copy.deepcopy(objective.state_dict())
    objective.prepare(corpus(50), encoder.tokenizer)
    assert all(torch.equal(before[name], value) for name, value in objective.state_dict().items())


def test_without_its_frequencies_it_says_what_to_call() -> None:
    encoder = bert_teacher()
    objective = Cpdae(encoder)
    with pytest.raises(InvalidInputError, match="prepare"):
        objective.loss(encoder, batch_of(objective))


def test_the_total_is_the_weighted_sum_and_the_variants_differ_as_named() -> None:
    encoder = bert_teacher()
    totals = {}
    for variant in ("cpdae", "cpdae_wo_cl", "cpdae_idf_rec", "cpdae_r"):
        torch.manual_seed(3)
        objective = ready(encoder, variant=variant, contrast_weight=0.3)
        found = objective.loss(encoder, batch_of(objective))
        weighted = found.parts["reconstruction"] + found.parts["mlm"]
        if variant in ("cpdae", "cpdae_r"):
            weighted = weighted + 0.3 * found.parts["contrast"]
        else:
            assert "contrast" not in found.parts
        torch.testing.assert_close(found.total, weighted)
        totals[variant] = found
    same = totals["cpdae"].parts["reconstruction"]
    assert torch.equal(same, totals["cpdae_wo_cl"].parts["reconstruction"])
    assert not torch.equal(same, totals["cpdae_idf_rec"].parts["reconstruction"])
    assert not torch.isclose(totals["cpdae"].parts["contrast"], totals["cpdae_r"].parts["contrast"])


def test_the_contrast_is_in_its_range_and_reaches_the_encoder() -> None:
    encoder = bert_teacher()
    objective = ready(encoder)
    found = objective.loss(encoder, batch_of(objective))
    contrast = found.parts["contrast"]
    assert math.log(8) <= float(contrast.detach()) <= math.log(29)
    gap = torch.as_tensor(found.stats["gap"])
    torch.testing.assert_close(gap, math.log(15) - contrast.detach())
    contrast.backward()  # type: ignore[no-untyped-call]
    weight = encoder.backbone.encoder.layer[0].attention.self.query.weight
    assert weight.grad.abs().sum() > 0
    assert objective.mlm_head.dense.weight.grad is None


def test_by_default_the_contrast_is_felt_beside_the_reconstruction() -> None:
    shares = {}
    for options in ({}, {"rec_reduction": "sum"}, {"rec_reduction": "per_positive"}):
        encoder = bert_teacher(layers=2, width=32)
        objective = ready(encoder, **options)
        train(encoder, objective, adam(encoder, objective), range(20))
        pull = {}
        for name in ("contrast", "reconstruction"):
            encoder.zero_grad()
            found = objective.loss(encoder, batch_of(objective, 16))
            found.parts[name].backward()  # type: ignore[no-untyped-call]
            table = encoder.backbone.encoder.layer[0].attention.self.value.weight
            pull[name] = float(table.grad.norm())
        weight = objective.config.contrast_weight
        shares[options.get("rec_reduction", "default")] = (
            weight * pull["contrast"] / pull["reconstruction"]
        )
    assert shares["default"] > 0.05 > shares["per_positive"]
    assert shares["per_positive"] > shares["sum"]


def test_the_contrast_of_vectors_is_info_nce_over_all_other_views() -> None:
    encoder = bert_teacher()
    objective = ready(encoder, variant="cpdae_r")
    batch = batch_of(objective, 5)
    with torch.no_grad():
        h = encoder.pooled(batch["input_ids"], batch["attention_mask"])
        found = float(objective.loss(encoder, batch).parts["contrast"])
    unit = h / h.norm(dim=1, keepdim=True)
    rows = []
    for i in range(10):
        scores = [float(unit[i] @ unit[k]) / 0.1 for k in range(10) if k != i]
        own = float(unit[i] @ unit[(i + 5) % 10]) / 0.1
        rows.append(math.log(sum(map(math.exp, scores))) - own)
    assert found == pytest.approx(sum(rows) / 10, abs=1e-4)


def test_a_batch_of_one_text_repeated_has_no_negatives() -> None:
    encoder = bert_teacher()
    objective = ready(encoder)
    batch = objective.collate(["water of the sky"] * 4, np.random.default_rng(0))
    found = objective.loss(encoder, batch)
    assert float(found.parts["contrast"].detach()) == pytest.approx(0, abs=1e-6)
    assert torch.isfinite(found.total)


def test_figures_are_shares() -> None:
    encoder = bert_teacher()
    objective = ready(encoder)
    stats = objective.loss(encoder, batch_of(objective)).stats
    for name in ("mass_on_present", "common_mass", "rec_f1", "rare_recall", "mlm_accuracy"):
        assert 0 <= float(stats[name]) <= 1
    assert 0 <= float(stats["js_negative"]) <= math.log(2)


def test_the_prior_gains_nothing_over_itself() -> None:
    encoder = bert_teacher()
    objective = ready(encoder)
    torch.nn.init.zeros_(encoder.backbone.get_input_embeddings().weight)
    stats = objective.loss(encoder, batch_of(objective)).stats
    assert float(stats["rec_gain_over_prior"]) == pytest.approx(0, abs=1e-5)


@pytest.mark.slow
def test_the_loss_falls_and_the_vector_says_more_than_the_prior() -> None:
    encoder = bert_teacher(layers=2, width=32)
    objective = ready(encoder)
    losses = train(encoder, objective, adam(encoder, objective), range(600))
    assert np.mean(losses[-5:]) < 0.75 * np.mean(losses[:5])
    encoder.eval()
    with torch.no_grad():
        stats = objective.loss(encoder, batch_of(objective, 32)).stats
    assert float(stats["rec_gain_over_prior"]) > 0.005  # of .085 at the prior
    assert float(stats["gap"]) > 0.05


def test_texts_are_joined_and_empty_ones_left_out() -> None:
    objective = ready(bert_teacher())
    rng = random.Random(0)
    assert objective.draw(Group("a", ("water", "sky")), rng) == "water sky"
    assert objective.draw(Group("b", (" ", "")), rng) is None
