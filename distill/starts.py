"""Where a student begins that is not cut out of its teacher's own layers."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from pocketquery.sdk.arrays import Floats
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.modeling import SentenceEncoder

__all__ = ["check_vocabulary", "fit_head", "with_vocabulary"]

_FITTED_TEXTS = 4096  # of the head's regression
_RIDGE = 1e-3  # of the states' mean square
_PROBED_TEXTS = 1000
_MOST_UNKNOWN, _MOST_STRANGE = 0.3, 0.8  # of the texts' tokens; the latter with single letters
_IDEOGRAPHS = re.compile("[\u2e80-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")  # kana, too
_SPECIALS = ("cls", "sep", "pad", "unk", "mask")


def with_vocabulary(start: SentenceEncoder, tokenizer: Any) -> SentenceEncoder:
    """``start`` over another vocabulary: a token begins as the mean of the rows of the tokens that
    its text had before.

    Source: Gee et al., "Fast Vocabulary Transfer for Language Model Compression" (2022).

    Args:
        start: only read.
        tokenizer: a Hugging Face fast tokenizer.

    Raises:
        InvalidInputError: ``start`` numbers positions from its padding's id, and the vocabulary has
            another.
    """
    old, table = start.tokenizer, start.backbone.get_input_embeddings().weight.detach()
    positions = start.backbone.embeddings.position_embeddings.padding_idx
    if positions is not None and tokenizer.pad_token_id != old.pad_token_id:
        raise InvalidInputError(
            f"the vocabulary's padding has the id {tokenizer.pad_token_id}, expected "
            f"{old.pad_token_id}: the start, a {start.backbone.config.model_type}, numbers "
            "positions from it"
        )
    known, mean = old.get_vocab(), table.mean(dim=0)
    same_marks = ("##s" in known) == ("##s" in tokenizer.get_vocab())
    roles = {getattr(tokenizer, f"{one}_token"): f"{one}_token_id" for one in _SPECIALS}
    rows = mean.repeat(len(tokenizer), 1)
    for token, number in tokenizer.get_vocab().items():
        if token in roles and (number_before := getattr(old, roles[token])) is not None:
            rows[number] = table[number_before]
        elif same_marks and token in known:
            rows[number] = table[known[token]]
        else:
            text = token.removeprefix("##").removeprefix("▁")
            ids = old(text, add_special_tokens=False)["input_ids"]
            rows[number] = table[ids].mean(dim=0) if ids else mean
    student = copy.deepcopy(start)
    student.tokenizer = tokenizer
    embedding = nn.Embedding(len(rows), rows.shape[1], padding_idx=tokenizer.pad_token_id)
    embedding.weight.data.copy_(rows)
    student.backbone.set_input_embeddings(embedding)
    config = student.backbone.config
    config.vocab_size = len(rows)
    if hasattr(config, "vocabulary_subvector"):  # the rows are no longer of few values
        del config.vocabulary_subvector
    for name in ("pad", "bos", "eos"):
        setattr(config, f"{name}_token_id", getattr(tokenizer, f"{name}_token_id"))
    return student


def fit_head(student: SentenceEncoder, texts: Sequence[str], vectors: Floats) -> None:
    """Let the linear head of an untrained student begin as the ridge regression from its pooled
    states to the teacher's vectors, in place.

    Args:
        student: with a head of one linear layer.
        texts: at most 4,096 of them are encoded.
        vectors: float32 (texts, dimension), the teacher's.
    """
    assert student.head is not None
    linear: Any = student.head[0]
    rows = np.linspace(0, len(texts) - 1, min(len(texts), _FITTED_TEXTS)).astype(int)
    prompt = student.prompts.get("query", "")
    pooled = list[torch.Tensor]()
    with torch.no_grad():
        for part in np.array_split(rows, -(-len(rows) // 64)):
            batch = student.tokenize([prompt + texts[row] for row in part])
            pooled.append(student.pooled(batch["input_ids"], batch["attention_mask"]).double())
        states = torch.cat(pooled)  # (rows, width)
        target = torch.from_numpy(vectors[rows]).double()
        centre, mean = states.mean(dim=0), target.mean(dim=0)
        states = states - centre
        square = states.T @ states
        strength = _RIDGE * square.diagonal().mean() + 1e-9  # of one text there is no square
        ridge = strength * torch.eye(len(square), dtype=torch.float64)
        weight = torch.linalg.solve(square + ridge, states.T @ (target - mean))  # (width, dim)
        linear.weight.copy_(weight.T)
        linear.bias.copy_(mean - centre @ weight)


def check_vocabulary(start: SentenceEncoder, texts: Sequence[str]) -> None:
    """Raise InvalidInputError where the vocabulary of ``start`` does not know the texts' words: as
    unknown tokens, or letter by letter, but for scripts that write words in one letter."""
    some = list(texts[:: -(-len(texts) // _PROBED_TEXTS)])
    ids = start.tokenizer(some, add_special_tokens=False, return_attention_mask=False)["input_ids"]
    unknown = start.tokenizer.unk_token_id
    flat = [number for one in ids for number in one]
    tokens = start.tokenizer.convert_ids_to_tokens(flat)
    letters = [token.removeprefix("##").removeprefix("▁") for token in tokens]
    missing = flat.count(unknown)
    single = sum(len(one) == 1 and one.isalpha() and not _IDEOGRAPHS.match(one) for one in letters)
    words = missing + sum(one.isalpha() for one in letters)
    if missing > _MOST_UNKNOWN * words or missing + single > _MOST_STRANGE * words:
        raise InvalidInputError(
            f"{(missing + single) / words:.0%} of the texts' tokens are unknown to the vocabulary "
            f"of {start.name}, or single letters; expected an encoder of their languages to start "
            "from, or a vocabulary of their own (pocketquery mine tokenizer)"
        )
