"""Encoders made from nothing: their shapes, their options, and that nothing depends on padding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.modeling import PRESETS, SentenceEncoder, new_encoder
from tests.tiny_models import sentences, wordpiece_tokenizer, xlmr_teacher

OPTIONS: list[dict[str, Any]] = [
    {},
    {"pooling": "cls"},
    {"pooling": "eos"},
]


@pytest.fixture(scope="module", params=["wordpiece", "xlm-roberta"])
def tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    if request.param == "wordpiece":
        return wordpiece_tokenizer()
    return xlmr_teacher(tmp_path_factory.mktemp("xlmr")).tokenizer


@pytest.mark.parametrize("preset", PRESETS)
def test_the_shape_is_the_presets(preset: str) -> None:
    shape = PRESETS[preset]
    encoder = new_encoder(preset, wordpiece_tokenizer(), max_length=16)
    config = encoder.backbone.config
    assert encoder.hidden_size == encoder.dimension == shape.width
    assert len(encoder.backbone.encoder.layer) == shape.layers
    assert (config.num_attention_heads, config.intermediate_size) == (shape.heads, shape.inner)
    assert (config.hidden_act, config.hidden_dropout_prob) == ("gelu", 0.1)
    assert encoder.max_length == 16


def test_parameters_by_hand() -> None:
    """nano: tables of V, 16 and 1 rows, a norm; twice 4 (d, d), 2 (d, 512) and 2 norms."""
    tokenizer = wordpiece_tokenizer()
    layer = 4 * (128 * 128 + 128) + 2 * 128 * 512 + 512 + 128 + 2 * 256
    embeddings = (len(tokenizer) + 16 + 1) * 128 + 256
    assert parameters(new_encoder("nano", tokenizer, max_length=16)) == embeddings + 2 * layer


def parameters(encoder: SentenceEncoder) -> int:
    return sum(tensor.numel() for tensor in encoder.parameters())


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_padding_and_company_do_not_change_a_vector(
    tokenizer: Any, options: dict[str, Any]
) -> None:
    encoder = new_encoder("nano", tokenizer, max_length=32, **options)
    ids = encoder.tokenize(["castle of the king"])["input_ids"]
    wide = nn.functional.pad(ids, (0, 7), value=tokenizer.pad_token_id)
    with torch.inference_mode():
        plain = encoder(ids, torch.ones_like(ids))
        padded = encoder(wide, (torch.arange(wide.shape[1]) < ids.shape[1]).long()[None])
    torch.testing.assert_close(plain, padded, atol=1e-6, rtol=0)
    texts = sentences(6)
    alone = np.concatenate([encoder.encode([text]) for text in texts])
    np.testing.assert_allclose(encoder.encode(texts), alone, atol=1e-5)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_text_of_full_length_fits_and_the_encoder_comes_back(
    tokenizer: Any, options: dict[str, Any], tmp_path: Path
) -> None:
    encoder = new_encoder("nano", tokenizer, max_length=12, **options)
    texts = ["water oxygen norman castle geology " * 9, *sentences(4)]
    assert encoder.tokenize(texts)["input_ids"].shape[1] == 12
    encoder.save(tmp_path / "m")
    again = SentenceEncoder.load(tmp_path / "m")
    assert again.space_id == encoder.space_id
    assert again.pooling == encoder.pooling
    np.testing.assert_array_equal(again.encode(texts), encoder.encode(texts))


def test_the_seed_alone_decides_the_weights() -> None:
    one = new_encoder("nano", wordpiece_tokenizer(), seed=3)
    torch.rand(1)
    again = new_encoder("nano", wordpiece_tokenizer(), seed=3)
    other = new_encoder("nano", wordpiece_tokenizer(), seed=4)
    assert one.space_id == again.space_id != other.space_id


def test_the_generator_of_the_caller_is_left_alone() -> None:
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    new_encoder("nano", wordpiece_tokenizer())
    assert torch.equal(before, torch.random.get_rng_state())


def test_every_parameter_takes_part(tokenizer: Any) -> None:
    for options in OPTIONS:
        encoder = new_encoder("nano", tokenizer, max_length=12, **options)
        batch = encoder.tokenize(sentences(4))
        states = encoder.states(batch["input_ids"], batch["attention_mask"])
        (states * torch.randn(states.shape)).sum().backward()  # type: ignore[no-untyped-call]
        idle = [name for name, tensor in encoder.named_parameters() if tensor.grad is None]
        assert idle == []


@pytest.mark.parametrize(
    ("preset", "options", "found"),
    [
        ("huge", {}, 'unknown preset "huge"; expected one of nano, mini'),
        ("nano", {"max_length": 3}, "max_length is 3"),
        ("nano", {"pooling": "max"}, 'pooling is "max"'),
    ],
)
def test_what_cannot_be_made(preset: str, options: dict[str, Any], found: str) -> None:
    with pytest.raises(InvalidInputError, match=found):
        new_encoder(preset, wordpiece_tokenizer(), **options)


def test_a_tokenizer_without_padding() -> None:
    tokenizer = wordpiece_tokenizer()
    tokenizer.pad_token = None
    with pytest.raises(InvalidInputError, match="no padding or no mask token"):
        new_encoder("nano", tokenizer)
