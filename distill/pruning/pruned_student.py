"""Giving a student a smaller vocabulary: its tokenizer and its embedding table change together."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import nn

from pocketquery.distill.pruning.vocabulary import prune_vocabulary, slice_embeddings
from pocketquery.sdk.errors import UnknownModelError
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.sentencepiece_tokenizer import xlm_roberta_tokenizer

__all__ = ["prune_student", "vocabulary_source"]

# Without these a BERT tokenizer sets its normaliser back to lower case, whatever its file says.
_NORMALISER = ("do_lower_case", "strip_accents", "tokenize_chinese_chars")
_XLM_ROBERTA_SPECIALS = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}


def prune_student(
    student: SentenceEncoder,
    texts: Iterable[str],
    *,
    target_size: int | None = None,
    coverage: float = 0.999,
    least_character: int = 0,
) -> dict[str, Any]:
    """Prune the vocabulary of ``student`` in place to the pieces that ``texts`` need.

    The position table is cut to the student's own maximum length, too.

    Args:
        student: an encoder with a WordPiece or sentencepiece (XLM-R layout) vocabulary.
        texts: the corpus whose pieces are kept.
        target_size: pieces to keep; None for the fewest that reach ``coverage``.
        coverage: share of the corpus's pieces that must be kept.
        least_character: how often ``texts`` must have a single character for it to stay.

    Returns:
        The statistics of :class:`pocketquery.distill.pruning.vocabulary.PrunedVocabulary`.

    Raises:
        UnknownModelError: the vocabulary is of another kind.
    """
    kind, source = vocabulary_source(student.tokenizer)
    pruned = prune_vocabulary(
        source,
        kind,
        texts,
        target_size=target_size,
        coverage=coverage,
        least_character=least_character,
    )
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
    _cut_positions(student)
    return pruned.statistics


def _cut_positions(student: SentenceEncoder) -> None:
    """Leave out the positions that no text of the student's maximum length reaches."""
    config = student.backbone.config
    embeddings = student.backbone.embeddings
    table = embeddings.position_embeddings
    # RoBERTa and its kin number positions from behind the padding's id.
    first = 0 if table.padding_idx is None else table.padding_idx + 1
    rows = min(student.max_length + first, table.num_embeddings)
    smaller = nn.Embedding(rows, table.embedding_dim, padding_idx=table.padding_idx)
    smaller.weight.data.copy_(table.weight.data[:rows])
    embeddings.position_embeddings = smaller
    for name in ("position_ids", "token_type_ids"):  # one number a position
        if hasattr(embeddings, name):
            numbers = getattr(embeddings, name)[:, :rows].contiguous()
            embeddings.register_buffer(name, numbers, persistent=False)
    config.max_position_embeddings = rows


def vocabulary_source(tokenizer: Any) -> tuple[str, bytes]:
    """Kind (``"wordpiece"`` or ``"sentencepiece"``) and file content of a tokenizer's vocabulary.

    Raises:
        UnknownModelError: another kind, a sentencepiece tokenizer without its model file, or one
            that does not number its pieces as XLM-R does.
    """
    backend = json.loads(tokenizer.backend_tokenizer.to_str())
    kind = backend["model"]["type"]
    if kind == "WordPiece":
        return "wordpiece", json.dumps(backend, ensure_ascii=False).encode()
    model_file = getattr(tokenizer, "vocab_file", None)
    if kind == "Unigram" and not _is_xlm_roberta(tokenizer):
        raise UnknownModelError(
            f"the sentencepiece vocabulary of a {type(tokenizer).__name__} numbers its pieces in a "
            f"way of its own; supported is XLM-R's, with {_XLM_ROBERTA_SPECIALS}"
        )
    if kind == "Unigram" and model_file and Path(model_file).exists():
        return "sentencepiece", Path(model_file).read_bytes()
    raise UnknownModelError(
        f"the tokenizer is of type {kind}; supported are WordPiece, and sentencepiece with its "
        ".model file beside the weights"
    )


def _is_xlm_roberta(tokenizer: Any) -> bool:
    return all(
        tokenizer.convert_tokens_to_ids(token) == number
        for token, number in _XLM_ROBERTA_SPECIALS.items()
    )


def _tokenizer_from(old: Any, kind: str, source: bytes) -> Any:
    """A tokenizer of the kind and special tokens of ``old`` with another vocabulary."""
    options = {name: old.init_kwargs[name] for name in _NORMALISER if name in old.init_kwargs}
    options |= {"model_max_length": old.model_max_length, **old.special_tokens_map}
    if kind == "wordpiece":
        return type(old)(tokenizer_object=Tokenizer.from_str(source.decode()), **options)
    # The converter reads a file and save_pretrained copies it: it must live as long as any copy
    # of the tokenizer may.
    folder = tempfile.mkdtemp(prefix="pocketquery-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder) / "sentencepiece.bpe.model"
    path.write_bytes(source)
    return xlm_roberta_tokenizer(path, **options)
