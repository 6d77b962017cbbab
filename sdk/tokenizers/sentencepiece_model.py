"""Sentencepiece models (``tokenizer.model``), in the id layouts that encoders use.

``plain``: ids as the model numbers its pieces, with its own beginning and end ids around a text.

``xlm-roberta``: the layout of XLM-R and its relatives, ``<s>`` 0, ``<pad>`` 1, ``</s>`` 2,
``<unk>`` 3, then every piece at its number in the model plus one, ``<mask>`` last. Literals such as
"</s>" in a text become their ids, as in `transformers`' XLMRobertaTokenizerFast.
"""

from __future__ import annotations

from collections.abc import Iterable

from sentencepiece import SentencePieceProcessor

from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError
from pocketquery.sdk.tokenizers.added_tokens import AddedToken, AddedTokens
from pocketquery.sdk.tokenizers.sentencepiece_file import read_sentencepiece_file

__all__ = ["SentencePieceTokenizer"]

LAYOUTS = ("xlm-roberta", "plain")
_XLM_ROBERTA_SPECIALS = ("<s>", "<pad>", "</s>", "<unk>")
_FIRST_PIECE = 3  # in the file of an XLM-R model: <unk>, <s>, </s>, pieces


class SentencePieceTokenizer:
    """Text to ids through the `sentencepiece` package. Safe to share between threads.

    Args:
        data: the bytes of a sentencepiece model.
        max_length: ids per text at most, special tokens among them.
        layout: ``"xlm-roberta"`` or ``"plain"``.
        known_pieces: pieces of the model numbered from here on become ``<unk>`` (a vocabulary that
            was pruned without changing how texts are cut); None knows all.

    Attributes:
        before, after: ids put around every text.
        vocabulary_size: rows the embedding table needs.
        unknown_id: the id of what cannot be spelled.

    Raises:
        CorruptArtifactError: ``data`` is no sentencepiece model, or not one for this layout.
        InvalidInputError: unknown ``layout``, ``known_pieces`` the model does not have, or
            ``max_length`` with no room for one piece.
    """

    def __init__(
        self,
        data: bytes,
        max_length: int,
        layout: str = "xlm-roberta",
        *,
        known_pieces: int | None = None,
    ) -> None:
        if layout not in LAYOUTS:
            raise InvalidInputError(f"found the layout {layout!r}, expected one of {LAYOUTS}")
        self._processor = _open(data)
        self._model_pieces = int(self._processor.get_piece_size())
        self._known = _checked_known_pieces(known_pieces, self._model_pieces)
        if layout == "xlm-roberta":
            self._set_xlm_roberta()
        else:
            self._set_plain()
        self._room = max_length - len(self.before) - len(self.after)
        if self._room < 1:
            raise InvalidInputError(
                f"max_length is {max_length}, expected at least {max_length - self._room + 1}: "
                "the special tokens and one piece"
            )

    def _set_xlm_roberta(self) -> None:
        specials = (self._processor.unk_id(), self._processor.bos_id(), self._processor.eos_id())
        if specials != (0, 1, 2):
            raise CorruptArtifactError(
                f"tokenizer.model: found <unk>, <s>, </s> at {specials}, expected them at "
                '(0, 1, 2) for the layout "xlm-roberta"; the layout "plain" takes any model'
            )
        self.unknown_id = 3
        self._shift, self._model_unknown = 1, 0
        self.before, self.after = [0], [2]
        self.vocabulary_size = self._known + 2
        mask = AddedToken("<mask>", self.vocabulary_size - 1, lstrip=True)
        self._literals = AddedTokens(
            [*(AddedToken(token, i) for i, token in enumerate(_XLM_ROBERTA_SPECIALS)), mask]
        )

    def _set_plain(self) -> None:
        self._model_unknown = self.unknown_id = int(self._processor.unk_id())
        self._shift = 0
        begin, end = int(self._processor.bos_id()), int(self._processor.eos_id())
        self.before = [begin] if begin >= 0 else []
        self.after = [end] if end >= 0 else []
        self.vocabulary_size = self._known
        self._literals = AddedTokens([])

    def encode(self, text: str) -> list[int]:
        """The ids of ``text``, special tokens added, cut to ``max_length``."""
        return self.before + self.encode_text(text)[: self._room] + self.after

    def encode_text(self, text: str) -> list[int]:
        """The ids of ``text`` alone: no special tokens around it, not cut.

        Raises:
            InvalidInputError: the text has lone surrogates, which UTF-8 cannot hold.
        """
        ids: list[int] = []
        for part in self._literals.split(text):
            if isinstance(part, int):
                ids.append(part)
            else:
                ids += map(self._id, self.model_ids(part))
        return ids

    def model_ids(self, text: str) -> list[int]:
        """The numbers, in the model's own file, of the pieces of ``text``."""
        try:
            ids: list[int] = self._processor.encode(text)
        except (RuntimeError, TypeError) as error:  # which of them depends on its version
            raise InvalidInputError(
                f"sentencepiece cannot read the text {text[:40]!r} ({str(error)[:80]}); remove "
                "what is not a Unicode character (lone surrogates)"
            ) from error
        return ids

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """The pieces with these ids.

        Raises:
            InvalidInputError: an id is not in the vocabulary.
        """
        return [self._token(number) for number in ids]

    def _id(self, model_id: int) -> int:
        if model_id == self._model_unknown or model_id >= self._known:
            return self.unknown_id
        return model_id + self._shift

    def _token(self, number: int) -> str:
        if not 0 <= number < self.vocabulary_size:
            raise InvalidInputError(
                f"found the id {number}, expected 0 to {self.vocabulary_size - 1}"
            )
        if self._shift and number <= _FIRST_PIECE:
            return _XLM_ROBERTA_SPECIALS[number]
        if self._shift and number == self.vocabulary_size - 1:
            return "<mask>"
        return str(self._processor.id_to_piece(number - self._shift))


def _open(data: bytes) -> SentencePieceProcessor:
    """What of the model was checked, in the library."""
    model = read_sentencepiece_file(data).model
    try:
        return SentencePieceProcessor(model_proto=model)
    except RuntimeError as error:
        raise CorruptArtifactError(
            f"tokenizer.model: sentencepiece cannot open it ({error}); use the file the encoder "
            "was trained with, unchanged"
        ) from error


def _checked_known_pieces(known: int | None, pieces: int) -> int:
    if known is None:
        return pieces
    if isinstance(known, bool) or not isinstance(known, int) or not _FIRST_PIECE < known <= pieces:
        raise InvalidInputError(
            f"known_pieces is {known!r}, expected a whole number from {_FIRST_PIECE + 1} to the "
            f"model's {pieces} pieces"
        )
    return known
