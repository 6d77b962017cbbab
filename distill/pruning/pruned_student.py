"""Giving a student a smaller vocabulary: its tokenizer and its embedding table change together."""

from __future__ import annotations

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
from pocketquery.server.modeling.device_tokenizer import device_tokenizer
from pocketquery.server.modeling.sentencepiece_tokenizer import xlm_roberta_tokenizer
from pocketquery.server.modeling.tokenizer_file import TokenizerFile, tokenizer_file

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
    file = vocabulary_source(student.tokenizer)
    pruned = prune_vocabulary(
        file.data,
        file.kind,
        texts,
        target_size=target_size,
        coverage=coverage,
        least_character=least_character,
    )
    table = student.backbone.get_input_embeddings()
    retained = torch.from_numpy(pruned.retained)
    rows = slice_embeddings(table.weight.detach(), retained.numpy())
    student.tokenizer = _tokenizer_from(student.tokenizer, file.kind, pruned.tokenizer_file)
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


def vocabulary_source(tokenizer: Any) -> TokenizerFile:
    """The file of a tokenizer's vocabulary.

    Raises:
        UnknownModelError: neither WordPiece nor sentencepiece, a sentencepiece tokenizer without
            its model file, or one that does not number its pieces as XLM-R does.
    """
    file = tokenizer_file(tokenizer)
    if file.options.get("layout") == "plain":
        raise UnknownModelError(
            f"the sentencepiece vocabulary of a {type(tokenizer).__name__} numbers its pieces in a "
            f"way of its own; supported is XLM-R's, with {_XLM_ROBERTA_SPECIALS}"
        )
    return file


def _tokenizer_from(old: Any, kind: str, source: bytes) -> Any:
    """A tokenizer of the kind and special tokens of ``old`` with another vocabulary."""
    options = {name: old.init_kwargs[name] for name in _NORMALISER if name in old.init_kwargs}
    options |= {"model_max_length": old.model_max_length, **old.special_tokens_map}
    if kind == "wordpiece":
        return type(old)(tokenizer_object=Tokenizer.from_str(source.decode()), **options)
    with tempfile.TemporaryDirectory(prefix="pocketquery-") as folder:
        path = Path(folder) / "tokenizer.model"
        path.write_bytes(source)
        return device_tokenizer(xlm_roberta_tokenizer(path, **options))
