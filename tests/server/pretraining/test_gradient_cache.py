"""Gradient caching: the gradient of the whole batch, in the memory of a chunk."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.sentence_encoder import pool
from pocketquery.server.objectives.objective import tokenize
from pocketquery.server.objectives.primitives import info_nce
from pocketquery.server.pretraining.gradient_cache import CachedEncoder
from tests.server.pretraining.small_run import CONFIG, losses, make_encoder
from tests.tiny_models import bert_teacher, sentences


def batch_of(encoder: SentenceEncoder, count: int = 14) -> tuple[torch.Tensor, torch.Tensor]:
    texts = [" ".join(sentences(60)[i : i + 1 + i % 3]) for i in range(count)]
    return tokenize(encoder.tokenizer, texts, 48)


def gradients(encoder: SentenceEncoder, vectors: torch.Tensor) -> dict[str, torch.Tensor]:
    half = len(vectors) // 2
    info_nce(vectors[:half], vectors[half:], 0.1).backward()  # type: ignore[no-untyped-call]
    found = {n: p.grad.clone() for n, p in encoder.named_parameters() if p.grad is not None}
    encoder.zero_grad(set_to_none=True)
    return found


@pytest.mark.parametrize("rows", [1, 4, 14, 100])
def test_without_dropout_the_gradient_is_the_whole_batchs(rows: int) -> None:
    encoder = bert_teacher(layers=2, width=32)
    ids, mask = batch_of(encoder)
    whole = gradients(encoder, encoder.pooled(ids, mask))
    cached = gradients(encoder, CachedEncoder(encoder, rows).pooled(ids, mask))
    assert whole.keys() == cached.keys()
    for name, gradient in whole.items():
        torch.testing.assert_close(cached[name], gradient, rtol=1e-4, atol=1e-6)


def test_the_second_pass_drops_what_the_first_did() -> None:
    encoder = bert_teacher(layers=2, width=32)
    ids, mask = batch_of(encoder)
    cached = CachedEncoder(encoder, 4)
    cached.train()
    torch.manual_seed(5)
    twice = gradients(encoder, cached.pooled(ids, mask))
    torch.manual_seed(5)
    chunks = [
        pool(
            encoder.states(i[:, : m.sum(1).max()], m[:, : m.sum(1).max()]),
            m[:, : m.sum(1).max()],
            "mean",
        )
        for i, m in zip(ids.split(4), mask.split(4), strict=True)  # type: ignore[no-untyped-call]
    ]
    once = gradients(encoder, torch.cat(chunks))
    for name, gradient in once.items():
        assert torch.equal(twice[name], gradient)


def test_states_and_vectors_are_the_encoders() -> None:
    encoder = bert_teacher(layers=2, width=32)
    ids, mask = batch_of(encoder)
    cached = CachedEncoder(encoder, 5)
    torch.testing.assert_close(cached.states(ids, mask), encoder.states(ids, mask))
    torch.testing.assert_close(cached.pooled(ids, mask), encoder.pooled(ids, mask))
    torch.testing.assert_close(cached(ids, mask), encoder(ids, mask))
    assert {id(p) for p in cached.parameters()} == {id(p) for p in encoder.parameters()}


def test_what_is_held_for_the_backward_pass_does_not_grow_with_the_layers() -> None:
    encoder = bert_teacher(layers=4, width=32)
    ids, mask = batch_of(encoder, 32)

    def held(model: SentenceEncoder) -> int:
        sizes: dict[int, int] = {}

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            sizes[tensor.data_ptr()] = tensor.nbytes
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            model.pooled(ids, mask)
        return sum(sizes.values())

    assert held(CachedEncoder(encoder, 4)) < 0.05 * held(encoder)


def test_a_run_may_be_cached_and_is_resumed_all_the_same() -> None:
    cached = losses(replace(CONFIG, cache_rows=3))
    assert cached == losses(replace(CONFIG, cache_rows=3))
    assert cached[0] == pytest.approx(losses(replace(CONFIG, steps=1))[0], rel=0.2)  # dropout


def test_a_chunk_has_a_row_at_least() -> None:
    with pytest.raises(InvalidInputError, match="rows is 0"):
        CachedEncoder(make_encoder(), 0)
