"""A Hugging Face tokenizer with the ids that a device computes.

sentencepiece and the fast tokenizer of one and the same model differ: on cuts that are equally
likely ("000" as 0|00 or 00|0), on what NFKC does to letters with marks (half-width katakana, Hangul
jamo), on pieces that a user defined. So all that takes part in what a device computes, a student in
training, evaluation, calibration and export, gets the device's ids. A teacher keeps those of its
own tokenizer: its vectors are what other libraries compute of the same folder.

Our WordPiece gives the ids of the fast tokenizer, and its tokenizers stay as they are.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import BatchEncoding

from pocketquery.sdk.tokenizers.sentencepiece_model import SentencePieceTokenizer
from pocketquery.server.modeling.tokenizer_file import MODEL_FILE, TokenizerFile, tokenizer_file

__all__ = ["DeviceTokenizer", "device_tokenizer"]

_ANY_LENGTH = 1 << 20
_OWN_ATTRIBUTES = ("hugging_face", "file", "_reader")


def device_tokenizer(tokenizer: Any) -> Any:
    """``tokenizer`` with a device's ids; itself where it gives them already. ::

        student.tokenizer = device_tokenizer(teacher.tokenizer)

    Args:
        tokenizer: a Hugging Face fast tokenizer.

    Raises:
        UnknownModelError, CorruptArtifactError: what ``tokenizer_file`` raises.
    """
    if isinstance(tokenizer, DeviceTokenizer):
        return tokenizer
    file = tokenizer_file(tokenizer)
    return DeviceTokenizer(tokenizer, file) if file.kind == "sentencepiece" else tokenizer


class DeviceTokenizer:
    """A Hugging Face tokenizer whose calls answer with the ids of a sentencepiece model.

    All else (names of ids, decoding, special tokens) is the Hugging Face tokenizer's.

    Args:
        hugging_face: the fast tokenizer.
        file: its sentencepiece model.
    """

    hugging_face: Any
    file: TokenizerFile
    _reader: SentencePieceTokenizer

    def __init__(self, hugging_face: Any, file: TokenizerFile) -> None:
        self.__setstate__((hugging_face, file))

    def __call__(
        self,
        text: str | Sequence[str],
        *,
        add_special_tokens: bool = True,
        padding: bool = False,
        truncation: bool = False,
        max_length: int | None = None,
        return_tensors: str | None = None,
        return_attention_mask: bool = True,
        return_special_tokens_mask: bool = False,
        return_token_type_ids: bool = False,
        verbose: bool = True,
    ) -> BatchEncoding:
        """Ids and attention mask of one text or several, as a Hugging Face tokenizer returns them.

        Args:
            text: one, or a list.
            add_special_tokens: put the model's own around each.
            padding: to the longest text, on the right.
            truncation: to ``max_length``, by default the tokenizer's; special tokens stay.
            max_length: ids of a text at most.
            return_tensors: ``"pt"`` for tensors, which need ``padding``; lists unless given.
            return_attention_mask: 1 for ids, 0 for padding.
            return_special_tokens_mask: 1 for special tokens and padding.
            return_token_type_ids: not used; there is one type.
            verbose: not used; nothing is printed.
        """
        before, after = (
            (self._reader.before, self._reader.after) if add_special_tokens else ([], [])
        )
        room = _ANY_LENGTH
        if truncation:
            room = max_length or int(self.hugging_face.model_max_length)
        room -= len(before) + len(after)
        texts = [text] if isinstance(text, str) else list(text)
        inner = [self._reader.encode_text(one)[:room] for one in texts]
        rows = [[*before, *ids, *after] for ids in inner]
        longest = max(map(len, rows), default=0) if padding else 0
        lacking = [max(longest - len(row), 0) for row in rows]
        columns = {"input_ids": self._padded(rows, lacking, self.hugging_face.pad_token_id)}
        if return_attention_mask:
            columns["attention_mask"] = self._padded([[1] * len(row) for row in rows], lacking, 0)
        if return_special_tokens_mask:
            marks = [[1] * len(before) + [0] * len(ids) + [1] * len(after) for ids in inner]
            columns["special_tokens_mask"] = self._padded(marks, lacking, 1)
        if isinstance(text, str) and return_tensors is None:
            return BatchEncoding({name: rows[0] for name, rows in columns.items()})
        return BatchEncoding(columns, tensor_type=return_tensors)

    def __len__(self) -> int:
        return len(self.hugging_face)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write the tokenizer's files, the sentencepiece model among them."""
        self.hugging_face.save_pretrained(folder)
        (Path(folder) / MODEL_FILE).write_bytes(self.file.data)

    @staticmethod
    def _padded(rows: list[list[int]], lacking: list[int], value: int) -> list[list[int]]:
        return [row + [value] * count for row, count in zip(rows, lacking, strict=True)]

    def __getattr__(self, name: str) -> Any:
        if name in _OWN_ATTRIBUTES or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.hugging_face, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN_ATTRIBUTES:
            super().__setattr__(name, value)
        else:
            setattr(self.hugging_face, name, value)

    def __copy__(self) -> DeviceTokenizer:
        other = object.__new__(DeviceTokenizer)
        other.__dict__.update(self.__dict__)  # the reader may be shared
        return other

    def __getstate__(self) -> tuple[Any, TokenizerFile]:
        return self.hugging_face, self.file

    def __setstate__(self, state: tuple[Any, TokenizerFile]) -> None:
        self.hugging_face, self.file = state
        reader = self.file.open(_ANY_LENGTH)
        assert isinstance(reader, SentencePieceTokenizer)
        self._reader = reader

    def __deepcopy__(self, memo: dict[int, Any]) -> DeviceTokenizer:
        other = copy.copy(self)
        other.hugging_face = copy.deepcopy(self.hugging_face, memo)
        return other
