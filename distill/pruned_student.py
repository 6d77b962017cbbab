"""Giving a student a smaller vocabulary: its tokenizer and its embedding table change together."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import nn

from pocketquery.distill.vocabulary import prune_vocabulary, slice_embeddings
from pocketquery.sdk.errors import UnknownModelError
from pocketquery.server.modeling import SentenceEncoder

__all__ = ["prune_student", "vocabulary_source"]


def prune_student(
    student: SentenceEncoder,
    texts: Iterable[str],
    *,
    target_size: int | None = None,
    coverage: float = 0.999,
) -> dict[str, Any]:
    """Prune the vocabulary of ``student`` in place to the pieces that ``texts`` need.

    Args:
        student: an encoder with a WordPiece or sentencepiece (XLM-R layout) vocabulary.
        texts: the corpus whose pieces are kept.
        target_size: pieces to keep; None for the fewest that reach ``coverage``.
        coverage: share of the corpus's pieces that must be kept.

    Returns:
        The statistics of :class:`pocketquery.distill.vocabulary.PrunedVocabulary`.

    Raises:
        UnknownModelError: the vocabulary is of another kind.
    """
    kind, source = vocabulary_source(student.tokenizer)
    pruned = prune_vocabulary(source, kind, texts, target_size=target_size, coverage=coverage)
    table = student.backbone.get_input_embeddings()
    kept = torch.from_numpy(pruned.kept)
    rows = slice_embeddings(table.weight.detach(), kept.numpy())
    student.tokenizer = _tokenizer_from(student.tokenizer, kind, pruned.tokenizer_file)
    padding = student.tokenizer.pad_token_id
    smaller = nn.Embedding(rows.shape[0], rows.shape[1], padding_idx=padding)
    smaller.weight.data.copy_(rows)
    student.backbone.set_input_embeddings(smaller)
    config = student.backbone.config
    config.vocab_size = len(rows)
    for name in ("pad", "bos", "eos"):  # ids that moved
        if getattr(config, f"{name}_token_id", None) is not None:
            setattr(config, f"{name}_token_id", getattr(student.tokenizer, f"{name}_token_id"))
    return pruned.statistics


def vocabulary_source(tokenizer: Any) -> tuple[str, bytes]:
    """Kind (``"wordpiece"`` or ``"sentencepiece"``) and file content of a tokenizer's vocabulary.

    Raises:
        UnknownModelError: another kind, or a sentencepiece tokenizer without its model file.
    """
    backend = json.loads(tokenizer.backend_tokenizer.to_str())
    kind = backend["model"]["type"]
    if kind == "WordPiece":
        return "wordpiece", json.dumps(backend, ensure_ascii=False).encode()
    model_file = getattr(tokenizer, "vocab_file", None)
    if kind == "Unigram" and model_file and Path(model_file).exists():
        return "sentencepiece", Path(model_file).read_bytes()
    raise UnknownModelError(
        f"the tokenizer is of type {kind}; supported are WordPiece, and sentencepiece with its "
        ".model file beside the weights"
    )


def _tokenizer_from(old: Any, kind: str, source: bytes) -> Any:
    """A tokenizer of the class and special tokens of ``old`` with another vocabulary."""
    limits = {"model_max_length": old.model_max_length}
    if kind == "wordpiece":
        backend = Tokenizer.from_str(source.decode())
        return type(old)(tokenizer_object=backend, **old.special_tokens_map, **limits)
    # The converter reads a file; save_pretrained copies it, so it must outlive this call.
    path = Path(tempfile.mkdtemp(prefix="pocketquery-")) / "sentencepiece.bpe.model"
    path.write_bytes(source)
    return type(old)(vocab_file=str(path), **old.special_tokens_map, **limits)
