"""The one file a device needs to tokenise as the student does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pocketquery.sdk.bundle.manifest import TokenizerSpec
from pocketquery.sdk.errors import UnknownModelError
from pocketquery.sdk.tokenizers.sentencepiece_model import SentencePieceTokenizer
from pocketquery.sdk.tokenizers.tokenizer import Tokenizer, open_tokenizer

__all__ = ["MODEL_FILE", "TokenizerFile", "save_tokenizer", "tokenizer_file"]

MODEL_FILE = "sentencepiece.bpe.model"
"""The name by which XLM-R's tokenizer finds its sentencepiece model."""

_CONFIG = "tokenizer_config.json"
# Classes of transformers 5: 4 does not know the first, and 5 makes the second of its pieces alone.
_AS_WRITTEN = ("TokenizersBackend", "XLMRobertaTokenizer")

_SENTENCEPIECE_NAMES = ("tokenizer.model", MODEL_FILE, "spiece.model")
_XLM_ROBERTA_SPECIALS = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}
_ANY_LENGTH = 1 << 20
_ADDED_BY_LAYOUT = 2  # ids an XLM-R vocabulary has beyond its sentencepiece model's


@dataclass(frozen=True)
class TokenizerFile:
    """A bundle's tokenizer: its entry in the manifest and the bytes of its file."""

    kind: str
    file: str
    data: bytes
    options: Mapping[str, object] = field(default_factory=dict)

    @property
    def spec(self) -> TokenizerSpec:
        """The manifest's entry."""
        return TokenizerSpec(self.kind, self.file, self.options)

    def open(self, max_length: int) -> Tokenizer:
        """The tokenizer as the device opens it."""
        return open_tokenizer(self.kind, self.data, max_length, self.options)


def save_tokenizer(tokenizer: Any, folder: Path) -> None:
    """Write a tokenizer's files, its sentencepiece model among them, for transformers 4 and 5.

    Args:
        tokenizer: a Hugging Face fast tokenizer, or a device's own.
        folder: an existing one.
    """
    tokenizer.save_pretrained(folder)
    if not any(folder.glob("*.model")) and (data := _sentencepiece_model(tokenizer)) is not None:
        (folder / MODEL_FILE).write_bytes(data)
    config = json.loads((folder / _CONFIG).read_bytes())
    if config["tokenizer_class"] in _AS_WRITTEN:
        config["tokenizer_class"] = "PreTrainedTokenizerFast"
    if isinstance(config.get("extra_special_tokens"), list):  # their name in transformers 5
        config["additional_special_tokens"] = config.pop("extra_special_tokens")
    text = json.dumps(config, indent=2, sort_keys=True, ensure_ascii=False)
    (folder / _CONFIG).write_text(text + "\n", encoding="utf-8")


def tokenizer_file(tokenizer: Any) -> TokenizerFile:
    """The file for a Hugging Face fast tokenizer, or a device's own.

    Raises:
        UnknownModelError: neither WordPiece nor sentencepiece, its sentencepiece model is gone, or
            is not the one that numbers its pieces.
        CorruptArtifactError: the sentencepiece model is damaged.
    """
    file = getattr(tokenizer, "file", None)  # a DeviceTokenizer's
    if isinstance(file, TokenizerFile):
        return file
    content = json.loads(tokenizer.backend_tokenizer.to_str())
    kind = content["model"]["type"]
    if kind == "WordPiece":
        # Padding and truncation are what the last call asked for, not the vocabulary's.
        content |= {"padding": None, "truncation": None}
        text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
        return TokenizerFile("wordpiece", "tokenizer.json", text.encode("utf-8"))
    data = _sentencepiece_model(tokenizer)
    if data is not None and kind in ("Unigram", "BPE"):
        options = _checked_options(tokenizer, data)
        return TokenizerFile("sentencepiece", "tokenizer.model", data, options)
    if kind == "Unigram":
        raise UnknownModelError(
            "the tokenizer has a sentencepiece vocabulary, but its model file is not there; "
            f"expected one of {', '.join(_SENTENCEPIECE_NAMES)} in {tokenizer.name_or_path}. Copy "
            "it from where the tokenizer comes from"
        )
    raise UnknownModelError(
        f"the tokenizer is a {kind} one; a device reads WordPiece (BERT) and sentencepiece "
        "(XLM-R). Distil into a student with one of these vocabularies"
    )


def _sentencepiece_model(tokenizer: Any) -> bytes | None:
    folder = Path(str(tokenizer.name_or_path))
    named = [Path(file) for file in [getattr(tokenizer, "vocab_file", None)] if file]
    for path in [*named, *(folder / name for name in _SENTENCEPIECE_NAMES)]:
        if path.suffix == ".model" and path.is_file():
            return path.read_bytes()
    return None


def _checked_options(tokenizer: Any, data: bytes) -> dict[str, object]:
    """The options of a model that numbers its pieces as the tokenizer does: the rows of the table
    are told by these numbers."""
    ids = {token: tokenizer.convert_tokens_to_ids(token) for token in _XLM_ROBERTA_SPECIALS}
    layout = "xlm-roberta" if ids == _XLM_ROBERTA_SPECIALS else "plain"
    device = SentencePieceTokenizer(data, _ANY_LENGTH, layout)
    options: dict[str, object] = {"layout": layout}
    count = device.vocabulary_size
    if layout == "xlm-roberta":
        count = min(count, len(tokenizer)) - 1  # <mask> is last
        known = len(tokenizer) - _ADDED_BY_LAYOUT
        # A vocabulary pruned without changing the model: its later pieces have no row in the table.
        if known < device.vocabulary_size - _ADDED_BY_LAYOUT:
            options["known_pieces"] = known
    expected = tokenizer.convert_ids_to_tokens(list(range(count)))
    for number, (one, other) in enumerate(zip(expected, device.tokens(range(count)), strict=True)):
        if one != other:
            raise UnknownModelError(
                f"the sentencepiece vocabulary of a {type(tokenizer).__name__} numbers its pieces "
                f"in a way of its own (the id {number} is {one!r}, by its model file {other!r}); "
                f"expected XLM-R's numbers, with {_XLM_ROBERTA_SPECIALS}, or the model file's"
            )
    return options
