"""XLM-R's kind of tokenizer from a sentencepiece model, those with byte pieces included."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from sentencepiece import SentencePieceProcessor
from tokenizers.models import Unigram
from transformers import XLMRobertaTokenizerFast

from pocketquery.sdk.errors import CorruptArtifactError
from pocketquery.sdk.tokenizers.sentencepiece_file import read_sentencepiece_file

__all__ = ["check_sentencepiece", "xlm_roberta_tokenizer"]

_BEFORE = (
    "<s>",
    "<pad>",
    "</s>",
    "<unk>",
)  # ids 0 to 3; the model's own <unk>, <s>, </s> fall away
_MODEL_SPECIALS = 3
_BYTE_PENALTY = (
    32  # a byte's piece is spelled with six characters, none less likely than the rarest piece
)


def xlm_roberta_tokenizer(model_file: Path | str, **options: Any) -> Any:
    """The fast tokenizer of a sentencepiece unigram model: ``<s>`` 0, ``<pad>`` 1, ``</s>`` 2,
    ``<unk>`` 3, pieces at their number in the model plus one, ``<mask>`` last.

    The library's own conversion leaves out the byte pieces' use: a character that the model does
    not know would be ``<unk>`` here and bytes on a device.

    Args:
        model_file: kept as the tokenizer's ``vocab_file``, which saving copies.
        options: of the tokenizer, such as ``model_max_length``.
    """
    check_sentencepiece(model_file)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The sentencepiece tokenizer that you are converting")
        tokenizer = XLMRobertaTokenizerFast(vocab_file=str(model_file), **options)
    model = SentencePieceProcessor(model_file=str(model_file))
    if any(model.is_byte(number) for number in range(model.get_piece_size())):
        pieces = _scored_pieces(model)
        tokenizer.backend_tokenizer.model = Unigram(pieces, unk_id=3, byte_fallback=True)
    return tokenizer


def check_sentencepiece(place: Path | str) -> None:
    """Look at sentencepiece models before a library that trusts them opens them.

    Args:
        place: a model, or a folder with a tokenizer: its models, where it has no tokenizer.json,
            which is what is opened there. Anything else, such as a name on the Hub, is passed over.

    Raises:
        CorruptArtifactError: as :func:`read_sentencepiece_file`; names the file.
    """
    place = Path(place)
    models = [place] if place.is_file() else sorted(place.glob("*.model"))
    for model in [] if (place / "tokenizer.json").exists() else models:
        try:
            read_sentencepiece_file(model.read_bytes())
        except CorruptArtifactError as error:
            raise CorruptArtifactError(f"{model}: {error}") from error


def _scored_pieces(model: SentencePieceProcessor) -> list[tuple[str, float]]:
    numbers = range(_MODEL_SPECIALS, model.get_piece_size())
    least = min(model.get_score(number) for number in numbers)
    # Sentencepiece never takes a byte's piece for its name in a text ("<0x41>"). Here it would, if
    # its score allowed it.
    scores = [_BYTE_PENALTY * least if model.is_byte(n) else model.get_score(n) for n in numbers]
    pieces = [model.id_to_piece(number) for number in numbers]
    specials = [(special, 0.0) for special in _BEFORE]
    return [*specials, *zip(pieces, scores, strict=True), ("<mask>", 0.0)]
