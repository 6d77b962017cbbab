"""Chunks: the vectors and the gradient of the whole batch, less padding, less memory."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives.objective import tokenize
from pocketquery.server.objectives.shared.losses import info_nce
from pocketquery.server.pretraining.chunked_encoder import ChunkedEncoder
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


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("rows", [1, 4, 14, 100])
def test_without_dropout_the_gradient_is_the_whole_batchs(rows: int, twice: bool) -> None:
    encoder = bert_teacher(layers=2, width=32)
    ids, mask = batch_of(encoder)
    whole = gradients(encoder, encoder.pooled(ids, mask))
    chunked = gradients(encoder, ChunkedEncoder(encoder, rows, twice=twice).pooled(ids, mask))
    assert whole.keys() == chunked.keys()
    for name, gradient in whole.items():
        torch.testing.assert_close(chunked[name], gradient, rtol=1e-4, atol=1e-6)


def test_the_second_pass_drops_what_the_first_did() -> None:
    encoder = bert_teacher(layers=2, width=32)
    ids, mask = batch_of(encoder)
    found = []
    for twice in (False, True):
        chunked = ChunkedEncoder(encoder, 4, twice=twice)
        chunked.train()
        torch.manual_seed(5)
        found.append(gradients(encoder, chunked.pooled(ids, mask)))
    for name, gradient in found[0].items():
        assert torch.equal(found[1][name], gradient)


@pytest.mark.parametrize("twice", [False, True])
def test_states_and_vectors_are_the_encoders(twice: bool) -> None:
    encoder = bert_teacher(layers=2, width=32)
    ids, mask = batch_of(encoder)
    chunked = ChunkedEncoder(encoder, 5, twice=twice)
    torch.testing.assert_close(chunked.states(ids, mask), encoder.states(ids, mask))
    torch.testing.assert_close(chunked.pooled(ids, mask), encoder.pooled(ids, mask))
    torch.testing.assert_close(chunked(ids, mask), encoder(ids, mask))
    assert {id(p) for p in chunked.parameters()} == {id(p) for p in encoder.parameters()}


def test_texts_of_like_length_are_encoded_together_and_not_padded_further() -> None:
    encoder = bert_teacher(layers=1, width=32)
    texts = ["water", sentences()[0], "rock", " ".join(sentences(4))]
    ids, mask = tokenize(encoder.tokenizer, texts, 48)
    shapes: list[tuple[int, ...]] = []
    chunked = ChunkedEncoder(encoder, 2)
    handle = encoder.backbone.register_forward_pre_hook(
        lambda module, arguments, options: shapes.append(tuple(options["input_ids"].shape)),
        with_kwargs=True,
    )
    torch.testing.assert_close(chunked.pooled(ids, mask), encoder.pooled(ids, mask))
    handle.remove()
    short, long = int(mask[0].sum()), int(mask[3].sum())
    assert shapes == [(2, short), (2, long), (4, long)]


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

    assert held(ChunkedEncoder(encoder, 4, twice=True)) < 0.05 * held(encoder)


def test_a_run_may_be_cached_and_is_repeated_all_the_same() -> None:
    cached = losses(replace(CONFIG, cache_rows=3))
    assert cached == losses(replace(CONFIG, cache_rows=3))
    assert cached[0] == pytest.approx(losses(replace(CONFIG, steps=1))[0], rel=0.2)  # dropout


def test_a_chunk_has_a_row_at_least() -> None:
    with pytest.raises(InvalidInputError, match="rows is 0"):
        ChunkedEncoder(make_encoder(), 0)
