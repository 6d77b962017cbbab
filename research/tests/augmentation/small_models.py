"""Small models of the kinds that augmenters use, made on the spot and saved into folders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    BertConfig,
    BertForMaskedLM,
    PegasusConfig,
    PegasusForConditionalGeneration,
    T5Config,
    T5ForConditionalGeneration,
)

from tests.tiny_models import wordpiece_tokenizer

SENTENCES = ["water of the river", "the castle rock", "teacher of drug trade", "king light sky"]
SPECIAL = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "decoder_start_token_id": 2}


def backwards(sentence: str) -> str:
    """The words of ``sentence``, last first."""
    return " ".join(reversed(sentence.split()))


def masked_language_model(folder: Path, steps: int = 0) -> Path:
    """A BERT with a masked-word head; taught that "the castle ?" ends in "rock" or "sky"."""
    tokenizer = wordpiece_tokenizer()
    torch.manual_seed(0)
    model: Any = BertForMaskedLM(
        BertConfig(
            vocab_size=len(tokenizer),
            hidden_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=64,
            max_position_embeddings=64,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
    )
    masked = tokenizer(["the castle [MASK]"] * 2, return_tensors="pt")
    labels = tokenizer(["the castle rock", "the castle sky"], return_tensors="pt")["input_ids"]
    labels = labels.masked_fill(masked["input_ids"] != tokenizer.mask_token_id, -100)
    _taught(model, steps, input_ids=masked["input_ids"], labels=labels)
    return _saved(model, tokenizer, folder)


def sequence_model(
    folder: Path, sources: Sequence[str] = (), targets: Sequence[str] = (), kind: str = "bart"
) -> Path:
    """A sequence-to-sequence model of a kind; it learns to write ``targets`` for ``sources``."""
    tokenizer = wordpiece_tokenizer()
    torch.manual_seed(0)
    model = _KINDS[kind](len(tokenizer))
    if sources:
        read = tokenizer(list(sources), padding=True, return_tensors="pt")
        labels = tokenizer(list(targets), padding=True, return_tensors="pt")["input_ids"][:, 1:]
        labels = labels.masked_fill(labels == 0, -100)
        _taught(
            model,
            120,
            input_ids=read["input_ids"],
            attention_mask=read["attention_mask"],
            labels=labels,
        )
    return _saved(model, tokenizer, folder)


def _bart(vocabulary: int) -> Any:
    options = {
        f"{side}_{what}": number
        for side in ("encoder", "decoder")
        for what, number in (("layers", 1), ("attention_heads", 2), ("ffn_dim", 64))
    }
    config = BartConfig(
        vocab_size=vocabulary,
        d_model=32,
        dropout=0.0,
        max_position_embeddings=64,
        forced_eos_token_id=None,
        **options,
        **SPECIAL,
    )
    return BartForConditionalGeneration(config)


def _pegasus(vocabulary: int) -> Any:
    config = PegasusConfig(
        vocab_size=vocabulary,
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_position_embeddings=64,
        forced_eos_token_id=None,
        **SPECIAL,
    )
    return PegasusForConditionalGeneration(config)


def _t5(vocabulary: int) -> Any:
    config = T5Config(
        vocab_size=vocabulary,
        d_model=32,
        d_kv=16,
        d_ff=64,
        num_layers=1,
        num_heads=2,
        dropout_rate=0.0,
        **SPECIAL,
    )
    return T5ForConditionalGeneration(config)


_KINDS = {"bart": _bart, "pegasus": _pegasus, "t5": _t5}


def _taught(model: Any, steps: int, **batch: torch.Tensor) -> None:
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(steps):
        loss = model(**batch).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def _saved(model: Any, tokenizer: Any, folder: Path) -> Path:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
