"""SEED: what the weak decoder sees, its loss by a slow twin, resuming, and that it learns."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
import torch

from pocketquery.server.objectives.shared.masking import IGNORED
from pocketquery_research.objectives.seed import Seed, SeedConfig, attention_span
from tests.tiny_models import bert_teacher, electra_teacher, sentences


def test_a_row_sees_position_zero_and_its_span() -> None:
    assert attention_span(5, 2).int().tolist() == [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [1, 1, 1, 0, 0],
        [1, 0, 1, 1, 0],
        [1, 0, 0, 1, 1],
    ]


def seen(
    layers: int, span: int, memory: Literal["position", "cross"], length: int = 9
) -> list[set[int]]:
    """For every position, the inputs that its output's gradient reaches."""
    encoder = bert_teacher()
    objective = Seed(encoder, SeedConfig(layers=layers, span=span, memory=memory)).eval()
    inputs = torch.randn(1, length, encoder.hidden_size, requires_grad=True)
    vectors = torch.randn(1, encoder.hidden_size)
    states = objective.decoder(inputs, vectors)
    found = []
    for position in range(length):
        weights = torch.randn(encoder.hidden_size)  # a layer norm's sum would have no gradient
        (gradient,) = torch.autograd.grad(states[0, position] @ weights, inputs, retain_graph=True)
        reached = gradient[0].abs().sum(dim=1) > 1e-7
        found.append(set(reached.nonzero().flatten().tolist()))
    return found


@pytest.mark.parametrize("span", [2, 3, 8])
def test_the_receptive_field_of_one_layer(span: int) -> None:
    expected = [{0, *range(max(0, i - span + 1), i + 1)} for i in range(9)]
    assert seen(1, span, "position") == expected


def test_the_receptive_field_of_three_layers() -> None:
    reach = 3 * (2 - 1) + 1  # L (k - 1) + 1 positions
    expected = [{0, *range(max(0, i - reach + 1), i + 1)} for i in range(9)]
    assert seen(3, 2, "position") == expected


@pytest.mark.parametrize("memory", ["position", "cross"])
def test_every_position_sees_the_vector_and_no_other_state(
    memory: Literal["position", "cross"],
) -> None:
    encoder = bert_teacher()
    objective = Seed(encoder, SeedConfig(layers=1, memory=memory)).eval()
    batch = objective.collate(sentences(2), np.random.default_rng(0))
    ids = batch["decoder_ids"]
    vectors = torch.randn(2, encoder.hidden_size, requires_grad=True)
    written = objective.decoder(objective.decoder.inputs(vectors, ids, encoder), vectors)
    for position in range(ids.shape[1]):
        weights = torch.randn(encoder.hidden_size)
        (reached,) = torch.autograd.grad(written[0, position] @ weights, vectors, retain_graph=True)
        assert reached[0].abs().sum() > 0
        assert reached[1].abs().sum() == 0  # the other text's vector


def test_the_decoder_writes_the_original_left_to_right() -> None:
    encoder = bert_teacher()
    objective = Seed(encoder)
    batch = objective.collate(["water sky", "the king of rock"], np.random.default_rng(0))
    cls, sep, pad = (
        encoder.tokenizer.convert_tokens_to_ids(t) for t in ("[CLS]", "[SEP]", "[PAD]")
    )
    water, sky = encoder.tokenizer.convert_tokens_to_ids(["water", "sky"])
    assert batch["decoder_ids"][0].tolist() == [cls, water, sky, sep, pad]
    assert batch["decoder_labels"][0].tolist() == [water, sky, sep, IGNORED, IGNORED]


@pytest.mark.parametrize("memory", ["position", "cross"])
def test_the_loss_is_the_slow_twins(memory: Literal["position", "cross"]) -> None:
    encoder = bert_teacher()
    objective = Seed(encoder, SeedConfig(memory=memory, mlm_weight=0.25, decoder_weight=2.0)).eval()
    batch = objective.collate(sentences(3), np.random.default_rng(0))
    with torch.no_grad():
        found = objective.loss(encoder, batch)
        vectors = encoder.pooled(batch["input_ids"], batch["attention_mask"])
        table = encoder.backbone.get_input_embeddings().weight
        terms = []
        for row, (ids, labels) in enumerate(
            zip(batch["decoder_ids"], batch["decoder_labels"], strict=True)
        ):
            length = int((labels != IGNORED).sum())  # without padding, one text at a time
            inputs = table[ids[:length]].clone()
            if memory == "position":
                inputs[0] = vectors[row]
            written = objective.decoder(inputs[None], vectors[row : row + 1])[0]
            log_p = objective.decoder.head(written, encoder).log_softmax(dim=-1)
            terms += [-float(log_p[i, labels[i]]) for i in range(length)]
    assert float(found.parts["decoder"]) == pytest.approx(sum(terms) / len(terms), rel=1e-4)
    weighted = 0.25 * found.parts["mlm"] + 2 * found.parts["decoder"]
    torch.testing.assert_close(found.total, weighted)


def test_the_decoders_loss_reaches_the_encoder_through_the_vector_alone() -> None:
    encoder = bert_teacher(pooling="cls")
    objective = Seed(encoder, SeedConfig(mlm_weight=0))
    batch = objective.collate(sentences(4), np.random.default_rng(0))
    states = encoder.states(batch["input_ids"], batch["attention_mask"]).detach().requires_grad_()
    inputs = objective.decoder.inputs(states[:, 0], batch["decoder_ids"], encoder)
    objective.decoder(inputs, states[:, 0]).square().sum().backward()
    assert states.grad is not None
    assert states.grad[:, 0].abs().sum() > 0
    assert states.grad[:, 1:].abs().sum() == 0


def test_a_table_narrower_than_the_states_fits() -> None:
    encoder = electra_teacher()
    objective = Seed(encoder, SeedConfig(layers=1))
    batch = objective.collate(sentences(4), np.random.default_rng(0))
    assert torch.isfinite(objective.loss(encoder, batch).total)
