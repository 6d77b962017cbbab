"""A WordPiece vocabulary, as BERT reads it, from raw text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.corpus.sentencepiece_training import ASCII, run_trainer

__all__ = ["wordpiece_tokenizer"]

_SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_WORD_BEGINS = "\u2581"


def wordpiece_tokenizer(
    texts: Iterable[str], size: int, *, coverage: float, lowercase: bool, max_length: int
) -> Any:
    """BERT's fast tokenizer with a vocabulary of at most ``size`` ids.

    The pieces are merges of frequent neighbours, as those of the trainer in `tokenizers`; here
    sentencepiece makes them, since that trainer's result changes from run to run.

    Args:
        texts: read once.
        size: specials included.
        coverage: share of the characters that get pieces.
        lowercase: fold case and accents.
        max_length: what the tokenizer states.

    Raises:
        InvalidInputError: ``size`` is too small for the text's characters.
        CorpusError: no text.
    """
    from transformers import BertTokenizerFast

    backend = _backend([*_SPECIALS], lowercase)
    model = run_trainer(
        _words(texts, backend),
        vocab_size=size,
        model_type="bpe",
        character_coverage=coverage,
        normalization_rule_name="identity",
        split_by_unicode_script=False,
        split_by_number=False,
    )
    return BertTokenizerFast(
        tokenizer_object=_backend(_vocabulary(model, size, lowercase), lowercase),
        do_lower_case=lowercase,
        model_max_length=max_length,
    )


def _backend(pieces: list[str], lowercase: bool) -> Any:
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    numbers = {piece: number for number, piece in enumerate(pieces)}
    backend = Tokenizer(models.WordPiece(numbers, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return backend


def _words(texts: Iterable[str], backend: Any) -> Iterator[str]:
    """The texts as BERT cuts them into words, with blanks between."""
    for text in texts:
        words = backend.pre_tokenizer.pre_tokenize_str(backend.normalizer.normalize_str(text))
        yield " ".join(word for word, _ in words)


def _vocabulary(model: bytes, size: int, lowercase: bool) -> list[str]:
    """Specials, every character both as a word's beginning and inside, then the merges by rank."""
    from sentencepiece import SentencePieceProcessor

    processor = SentencePieceProcessor(model_proto=model)
    numbers = range(processor.get_piece_size())
    pieces = [processor.id_to_piece(n) for n in numbers if not processor.is_control(n)]
    pieces = [piece for piece in pieces if piece not in ("<unk>", _WORD_BEGINS)]
    # Those of ASCII are added here: the trainer ends the process over a character never seen.
    characters = [*(ASCII.lower() if lowercase else ASCII), *(p for p in pieces if len(p) == 1)]
    merges = [piece for piece in pieces if len(piece) > 1]
    both = [form for character in characters for form in (character, "##" + character)]
    spelled = list(dict.fromkeys([*_SPECIALS, *both]))
    if len(spelled) > size:
        raise InvalidInputError(
            f"no vocabulary of {size} pieces can be trained: its specials and characters alone are "
            f"{len(spelled)}; expected at least so many, or a lower coverage"
        )
    written = [p[1:] if p.startswith(_WORD_BEGINS) else "##" + p for p in merges]
    return list(dict.fromkeys([*spelled, *written]))[:size]
