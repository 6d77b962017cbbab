"""One call of sentencepiece's trainer, on texts from memory, to bytes in memory."""

from __future__ import annotations

import io
from collections.abc import Iterable
from itertools import chain
from typing import Any

from pocketquery.sdk.errors import CorpusError, InvalidInputError

__all__ = ["ASCII", "run_trainer"]

ASCII = "".join(map(chr, range(0x21, 0x7F)))
"""Characters that every vocabulary has: an address or a tag is spelled, whatever the corpus."""

_LONGEST = 1 << 20  # bytes; sentencepiece leaves longer texts out, from 4,192 unless told


def run_trainer(texts: Iterable[str], **options: Any) -> bytes:
    """A sentencepiece model, the same whenever texts and options are.

    Raises:
        InvalidInputError: fewer pieces than the text's characters, and bytes, need.
        CorpusError: no text.
    """
    from sentencepiece import SentencePieceTrainer

    texts = (text for text in texts if text.strip())
    first = next(iter(texts), None)
    if first is None:
        raise CorpusError("no text to train a vocabulary on; expected some sentences")
    written = io.BytesIO()
    try:
        SentencePieceTrainer.train(
            sentence_iterator=chain([first], texts),
            model_writer=written,
            hard_vocab_limit=False,
            max_sentence_length=_LONGEST,
            num_threads=1,  # sums of several threads depend on which was first
            minloglevel=2,
            **options,
        )
    except RuntimeError as error:
        raise InvalidInputError(
            f"no vocabulary of {options.get('vocab_size')} pieces can be trained "
            f"({' '.join(str(error).split())[:200]}); expected more pieces or a lower coverage"
        ) from error
    return written.getvalue()
