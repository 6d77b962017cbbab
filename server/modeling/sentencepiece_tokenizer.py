"""XLM-R's kind of tokenizer from a sentencepiece model, those with byte pieces included."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sentencepiece import SentencePieceProcessor
from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE, Unigram
from tokenizers.processors import TemplateProcessing
from transformers import XLMRobertaTokenizerFast

from pocketquery.sdk.errors import CorruptArtifactError
from pocketquery.sdk.tokenizers.sentencepiece_file import (
    CONTROL,
    USER_DEFINED,
    SentencePieceFile,
    read_sentencepiece_file,
)

__all__ = ["as_written", "check_sentencepiece", "xlm_roberta_tokenizer"]

_BEFORE = ("<s>", "<pad>", "</s>", "<unk>")  # ids 0 to 3
_MODEL_SPECIALS = 3  # its own <unk>, <s>, </s> fall away
# A byte's piece is spelled with six characters, none less likely than the rarest piece.
_BYTE_PENALTY = 32
_PARTS = ("model", "normalizer", "pre_tokenizer", "post_processor", "decoder")


def xlm_roberta_tokenizer(model_file: Path | str, **options: Any) -> Any:
    """The fast tokenizer of a sentencepiece model: ``<s>`` 0, ``<pad>`` 1, ``</s>`` 2, ``<unk>`` 3,
    pieces at their number in the model plus one, ``<mask>`` last.

    transformers' conversion leaves out the byte pieces' use: a character that the model does not
    know would be ``<unk>`` here and bytes on a device. That of its version 5 ignores the file.

    Args:
        model_file: kept as the tokenizer's ``vocab_file``, which saving copies.
        options: of the tokenizer, such as ``model_max_length``.
    """
    file = _read(Path(model_file))
    backend = Tokenizer(_cutting(file, SentencePieceProcessor(model_file=str(model_file))))
    for piece, kind in zip(file.pieces, file.types.tolist(), strict=True):
        if kind in (CONTROL, USER_DEFINED):
            token = AddedToken(piece, normalized=False, special=kind == CONTROL)
            backend.add_tokens([token])
    steps = [normalizers.Strip(left=False), normalizers.Replace(Regex(" {2,}"), "\u2581")]
    if file.charsmap:
        steps.insert(0, normalizers.Precompiled(file.charsmap))
    backend.normalizer = normalizers.Sequence(steps)
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    backend.post_processor = TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )
    # As in the released tokenizer.json files: looked for in the raw text.
    options["mask_token"] = AddedToken("<mask>", lstrip=True, normalized=False, special=True)
    return XLMRobertaTokenizerFast(tokenizer_object=backend, vocab_file=str(model_file), **options)


def as_written(tokenizer: Any, folder: Path | str) -> Any:
    """``tokenizer`` with all that its ``tokenizer.json`` says of a sentencepiece vocabulary.

    transformers 4 reads the whole file. 5 takes the pieces from it and makes the rest anew: texts
    with bytes or many blanks would get other ids, and other vectors under the same space id.

    Args:
        tokenizer: a fast one, loaded from ``folder``; its parts are replaced.
        folder: where it was saved. Where it has no tokenizer.json nothing changes.
    """
    path, backend = Path(folder) / "tokenizer.json", tokenizer.backend_tokenizer
    if isinstance(backend.model, Unigram) and path.is_file():
        written = Tokenizer.from_file(str(path))
        for part in _PARTS:
            setattr(backend, part, getattr(written, part))
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
        _read(model)


def _read(path: Path) -> SentencePieceFile:
    try:
        return read_sentencepiece_file(path.read_bytes())
    except CorruptArtifactError as error:
        raise CorruptArtifactError(f"{path}: {error}") from error


def _cutting(file: SentencePieceFile, model: SentencePieceProcessor) -> Unigram | BPE:
    """How texts are cut into the pieces."""
    numbers = range(_MODEL_SPECIALS, model.get_piece_size())
    least = min(model.get_score(number) for number in numbers)
    # Sentencepiece never takes a byte's piece for its name in a text ("<0x41>"). Here it would, if
    # its score allowed it.
    scores = [_BYTE_PENALTY * least if model.is_byte(n) else model.get_score(n) for n in numbers]
    has_bytes = any(model.is_byte(number) for number in numbers)
    specials = [(special, 0.0) for special in _BEFORE]
    pieces = [*specials, *zip(file.pieces[_MODEL_SPECIALS:], scores, strict=True), ("<mask>", 0.0)]
    if file.is_unigram:
        return Unigram(pieces, unk_id=3, byte_fallback=has_bytes)
    ids = {piece: number for number, (piece, _) in enumerate(pieces)}
    cuts = [
        (score, cut, len(piece) - cut, piece)
        for piece, score in pieces
        for cut in range(1, len(piece))
        if piece[:cut] in ids and piece[cut:] in ids
    ]
    merges = [(piece[:cut], piece[cut:]) for _, cut, _, piece in sorted(cuts, reverse=True)]
    return BPE(ids, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=has_bytes)
