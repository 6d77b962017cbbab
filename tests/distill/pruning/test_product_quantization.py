from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from pocketquery.distill import StudentConfig, TrainingConfig, distill
from pocketquery.distill.pruning.product_codes import product_codes
from pocketquery.distill.pruning.product_quantization import (
    ProductQuantizedEmbedding,
    expand_vocabulary,
    quantise_vocabulary,
)
from pocketquery.distill.quantization_noise import quantised_forward
from pocketquery.distill.student import StudentShape
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.modeling import SentenceEncoder, weights_fingerprint
from tests.tiny_models import bert_teacher, sentences


def with_rows(rows: int) -> SentenceEncoder:
    """A BERT whose table has ``rows`` randomly initialised rows."""
    encoder = bert_teacher(layers=1)
    table = nn.Embedding(rows, 64)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        nn.init.normal_(table.weight)
    encoder.backbone.set_input_embeddings(table)
    encoder.backbone.config.vocab_size = rows
    return encoder


def table_of(encoder: SentenceEncoder) -> torch.Tensor:
    weight: torch.Tensor = encoder.backbone.get_input_embeddings().weight.detach()
    return weight


def test_a_table_of_few_rows_is_kept_exactly() -> None:
    encoder = with_rows(200)
    before = table_of(encoder)
    quantise_vocabulary(encoder, sentences(50), 8, seed=0)
    assert isinstance(encoder.backbone.get_input_embeddings(), ProductQuantizedEmbedding)
    expand_vocabulary(encoder)
    torch.testing.assert_close(table_of(encoder), before)


def test_fewer_dimensions_a_byte_and_frequent_tokens_are_closer() -> None:
    errors = {}
    for size in (4, 16):
        encoder = with_rows(3000)
        before = table_of(encoder)
        texts = sentences(200)
        quantise_vocabulary(encoder, texts, size, seed=0)
        expand_vocabulary(encoder)
        error = (table_of(encoder) - before).square().sum(dim=1) / before.square().sum(dim=1)
        used = sorted({i for ids in encoder.tokenizer(texts)["input_ids"] for i in ids})
        errors[size] = float(error.mean())
        assert error[used].mean() < error.mean() / 2
    assert errors[4] < errors[16] / 2


def test_the_look_up_is_that_of_the_whole_table() -> None:
    encoder = with_rows(600)
    quantise_vocabulary(encoder, sentences(50), 4, seed=0)
    short = encoder.encode(sentences(20))
    with quantised_forward(encoder):
        rounded = encoder.encode(sentences(20))
    expand_vocabulary(encoder)
    np.testing.assert_allclose(encoder.encode(sentences(20)), short, atol=1e-6)
    with quantised_forward(encoder):
        np.testing.assert_allclose(encoder.encode(sentences(20)), rounded, atol=1e-6)


def test_a_distilled_student_is_made_of_codes_and_its_centroids_have_learnt(tmp_path: Path) -> None:
    config = TrainingConfig(steps=6, batch_size=16, max_length=32, quantised_share=0.5)
    report = distill(
        bert_teacher(),
        sentences(),
        tmp_path / "s",
        student=StudentConfig("2x64-pq16"),
        config=config,
    )
    student = SentenceEncoder.load(tmp_path / "s")
    assert student.backbone.config.vocabulary_subvector == 16
    table = table_of(student)
    codes, _ = product_codes(table.numpy(), 16)
    assert codes.shape == (len(student.tokenizer), 4)
    start = bert_teacher().backbone.get_input_embeddings().weight
    assert not torch.equal(table, start)
    # Every centroid is counted once, the codes are no parameters.
    assert report.parameters == sum(p.numel() for p in student.parameters()) - table.numel() + (
        4 * 256 * 16
    )


def test_the_same_seed_gives_the_same_table() -> None:
    def table() -> str:
        encoder = with_rows(600)
        quantise_vocabulary(encoder, sentences(50), 8, seed=5)
        return weights_fingerprint(encoder.backbone.get_input_embeddings().state_dict())

    assert table() == table()


def test_shapes_that_do_not_divide_are_refused() -> None:
    assert StudentShape.parse("2x384-pq8").subvector == 8
    assert StudentShape.parse("1x128x256-linear-pq4") == StudentShape(1, 128, "linear", 256, 4)
    with pytest.raises(InvalidInputError, match="384 dimensions are no multiple of 5"):
        StudentShape.parse("2x384-pq5")
    with pytest.raises(InvalidInputError, match="-pq8 where they are wanted"):
        StudentShape.parse("2x384-pq")


def test_many_tokens_find_the_rows_and_gradients_that_few_do() -> None:
    generator = torch.Generator().manual_seed(0)
    codes = torch.randint(256, (50, 3), generator=generator).to(torch.uint8)
    embedding = ProductQuantizedEmbedding(codes, torch.randn(3 * 256, 4, generator=generator))

    def both(ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        embedding.weight.grad = None
        rows = embedding(ids)
        rows.backward(torch.ones_like(rows) * ids[..., None])
        assert embedding.weight.grad is not None
        return rows.detach(), embedding.weight.grad

    ids = torch.randint(50, (10, 20), generator=generator)
    rows, gradient = both(ids)
    few = [both(part) for part in ids]  # 20 tokens of 50 rows: looked up one by one
    assert torch.equal(rows, torch.stack([found for found, _ in few]))
    torch.testing.assert_close(gradient, sum(one for _, one in few))
    other = ProductQuantizedEmbedding(codes.flip(0), embedding.weight.detach())
    embedding.load_state_dict(other.state_dict())  # its order is that of the codes it has now
    assert torch.equal(embedding(ids), other(ids))
    assert not torch.equal(embedding(ids), rows)
