"""TSDAE: the decoder sees the vector and what it has said, and nothing else of the text."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AlbertConfig, AutoModel, RobertaPreLayerNormConfig

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.corpus.groups import Group
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.sentence_encoder import pool
from pocketquery.server.objectives import Batch, build_objective
from pocketquery.server.objectives.mlm import mlm_loss
from pocketquery.server.objectives.objective import tokenize
from pocketquery.server.objectives.shared.masking import IGNORED, special_mask
from pocketquery_research.objectives.tsdae import Tsdae, delete_tokens, next_tokens
from tests.tiny_models import WORDS, bert_teacher, electra_teacher, sentences, wordpiece_tokenizer

TEACHER = bert_teacher(layers=2, width=32, pooling="cls")
TEXTS = sentences(6)
TIES = ("emb", "full")


def objective(encoder: SentenceEncoder = TEACHER, **options: Any) -> Tsdae:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        built = build_objective("tsdae", encoder, options)
    assert isinstance(built, Tsdae)
    return built.eval()


def batch_of(built: Tsdae, texts: list[str] | None = None, seed: int = 0) -> Batch:
    return built.collate(texts or TEXTS, np.random.default_rng(seed))


def test_what_is_read_and_what_is_said_by_hand() -> None:
    ids = torch.tensor([[2, 7, 8, 3], [2, 9, 3, 0]])
    inputs, labels = next_tokens(ids, torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]]))
    assert inputs.tolist() == [[2, 7, 8], [2, 9, 3]]
    assert labels.tolist() == [[7, 8, 3], [9, 3, IGNORED]]


def test_the_encoder_reads_what_deletion_left_and_the_decoder_says_the_whole() -> None:
    built = objective()
    batch = batch_of(built)
    whole = built.tokenizer(TEXTS)["input_ids"]
    said = [[label for label in row if label != IGNORED] for row in batch["labels"].tolist()]
    assert said == [ids[1:] for ids in whole]
    assert int(batch["attention_mask"].sum()) < 0.75 * sum(map(len, whole))


@pytest.mark.parametrize("tie", TIES)
def test_the_decoder_sees_no_state_of_the_encoder_but_the_first(tie: str) -> None:
    built = objective(tie=tie)
    batch = batch_of(built)
    states = TEACHER.states(batch["input_ids"], batch["attention_mask"])
    vectors = pool(states, batch["attention_mask"], "cls")
    said = built.decoder(vectors, batch["decoder_ids"], TEACHER)
    loss, _ = mlm_loss(said, batch["labels"], built.head, TEACHER)
    (gradient,) = torch.autograd.grad(loss, states)
    assert (gradient[:, 0].abs().sum(dim=-1) > 0).all()
    assert float(gradient[:, 1:].abs().max()) == 0
    assert torch.equal(loss, built.loss(TEACHER, batch).total)


@pytest.mark.parametrize("tie", TIES)
def test_no_place_sees_what_comes_later(tie: str) -> None:
    built, embedded = objective(tie=tie), []
    ids = batch_of(built)["decoder_ids"]
    vectors = torch.randn(len(ids), 32, generator=torch.Generator().manual_seed(0))
    table = TEACHER.backbone.get_input_embeddings()
    hook = table.register_forward_hook(lambda _, __, output: embedded.append(output))
    said = built.decoder(vectors, ids, TEACHER)
    hook.remove()
    for place in range(ids.shape[1]):
        (gradient,) = torch.autograd.grad(
            said[:, place].square().sum(), embedded[0], retain_graph=True
        )
        seen = gradient.abs().sum(dim=(0, 2)) > 0
        assert seen.tolist() == [column <= place for column in range(ids.shape[1])]


@pytest.mark.parametrize("tie", TIES)
def test_every_place_sees_the_vector_of_its_own_text(tie: str) -> None:
    built = objective(tie=tie)
    ids = batch_of(built)["decoder_ids"]
    vectors = torch.randn(len(ids), 32, generator=torch.Generator().manual_seed(0)).requires_grad_()
    said = built.decoder(vectors, ids, TEACHER)
    for row in (0, 3):
        for place in (0, ids.shape[1] - 1):
            (gradient,) = torch.autograd.grad(
                said[row, place].square().sum(), vectors, retain_graph=True
            )
            assert (gradient.abs().sum(dim=1) > 0).nonzero().flatten().tolist() == [row]


def test_what_is_tied_is_not_trained_twice() -> None:
    shared = {id(parameter) for parameter in TEACHER.parameters()}
    for tie in TIES:
        assert not shared & {id(parameter) for parameter in objective(tie=tie).parameters()}
    counts = [sum(map(torch.numel, objective(tie=tie).decoder.parameters())) for tie in TIES]
    assert counts[1] < counts[0] / 3


def test_a_tied_decoder_without_its_vector_is_the_encoder_made_causal() -> None:
    built = objective(tie="full")
    with torch.no_grad():
        for parameter in built.decoder.get_submodule("outputs").parameters():
            parameter.zero_()
    ids = torch.tensor([[2, 40, 41, 42, 3]])
    said = built.decoder(torch.zeros(1, 32), ids, TEACHER)
    # One token sees itself alone, causal or not; a norm after a norm changes next to nothing.
    assert torch.allclose(said[:, 0], TEACHER.states(ids[:, :1], torch.ones(1, 1))[:, 0], atol=0.05)
    assert not torch.allclose(said[:, 1], TEACHER.states(ids, torch.ones(1, 5))[:, 1], atol=0.05)


def test_every_kind_of_encoder_has_a_decoder() -> None:
    tokenizer = wordpiece_tokenizer()
    size: dict[str, Any] = {"vocab_size": len(tokenizer), "hidden_size": 32, "num_hidden_layers": 2}
    size |= {"num_attention_heads": 2, "intermediate_size": 64, "max_position_embeddings": 64}
    shared, pre_norm = (
        SentenceEncoder(AutoModel.from_config(kind(**size)), tokenizer, max_length=48)
        for kind in (AlbertConfig, RobertaPreLayerNormConfig)
    )
    for encoder in (electra_teacher(), pre_norm, shared):
        for tie in TIES if encoder is not shared else TIES[:1]:
            built = objective(encoder, tie=tie)
            loss = built.loss(encoder, batch_of(built)).total
            assert torch.isfinite(loss)
            loss.backward()  # type: ignore[no-untyped-call]
            assert all(parameter.grad is not None for parameter in built.parameters())
    with pytest.raises(InvalidInputError, match="tie is full"):
        objective(shared, tie="full")


@pytest.mark.parametrize("tie", TIES)
def test_texts_are_written_again_from_their_vectors(tie: str) -> None:
    """Words are drawn without order, so that only the vector can tell them."""
    encoder = bert_teacher(layers=1, width=32)
    built, rng = objective(encoder, tie=tie, delete_rate=0.2, decoder_layers=1), random.Random(0)
    optimizer = torch.optim.AdamW([*encoder.parameters(), *built.parameters()], lr=3e-3)
    losses = []
    for step in range(150):
        texts = [rng.choice(WORDS) for _ in range(32)]
        loss = built.loss(encoder, batch_of(built, texts, step)).total
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    # A guess of 27 words and a sure end cost ln 27 / 2 = 1.65 a token.
    assert np.mean(losses[-10:]) < 0.8


def test_a_sentence_or_a_passage_is_drawn() -> None:
    group, rng = Group("d", ("a", " ", "b")), random.Random(0)
    assert {objective().draw(group, rng) for _ in range(30)} == {"a", "b"}
    assert objective(unit="passage").draw(group, rng) == "a b"
    assert objective(unit="passage").passages
    assert not objective().passages
    assert objective().draw(Group("d", (" ",)), rng) is None


def test_deleting_keeps_the_order_the_specials_and_at_least_one_token() -> None:
    ids = tokenize(TEACHER.tokenizer, sentences(40), 48)[0]
    left, mask = delete_tokens(ids, TEACHER.tokenizer, np.random.default_rng(0), rate=0.99)
    ordinary = (~special_mask(left, TEACHER.tokenizer)).sum(dim=1)
    assert (ordinary >= 1).all()
    assert (left[:, 0] == TEACHER.tokenizer.cls_token_id).all()
    assert torch.equal(mask, (left != TEACHER.tokenizer.pad_token_id).long())
