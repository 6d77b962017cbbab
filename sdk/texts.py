"""What may be encoded: texts, checked before anything is computed.

A text is any ``str`` that UTF-8 can hold. Empty and blank texts are allowed (they have a vector,
that of the special tokens alone, as in sentence-transformers), so are NUL and control characters:
the tokenizer decides what they mean. A lone surrogate is half a character that was cut somewhere
upstream; replacing it silently would hide that, so it is an error that says where.
"""

from __future__ import annotations

from collections.abc import Sequence

from numpy import ndarray

from pocketquery.sdk.errors import InvalidInputError

__all__ = ["check_text", "check_texts"]


def check_text(text: object, where: str = "the text") -> str:
    """``text``, where it is a text that can be encoded.

    Args:
        text: what was given.
        where: how to call it in an error, say "sentences[3]".

    Raises:
        InvalidInputError: not a ``str``, or with a lone surrogate.
    """
    if not isinstance(text, str):
        hint = '; decode it first: data.decode("utf-8")' if isinstance(text, bytes) else ""
        raise InvalidInputError(f"{where} is a {type(text).__name__}, expected a str{hint}")
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InvalidInputError(
                f"{where} has the lone surrogate U+{ord(text[error.start]):04X} at position "
                f"{error.start}, which is half a character and no text; expected valid Unicode. "
                'Repair it where it was cut, or drop it: text.encode("utf-8", "ignore").decode()'
            ) from error
    return text


def check_texts(texts: object) -> list[str]:
    """``texts`` as a list, where it is a sequence of texts that can be encoded.

    Raises:
        InvalidInputError: not a sequence; or names the index of the first item that is not a text.
    """
    scalar = isinstance(texts, bytes) or (isinstance(texts, ndarray) and not texts.ndim)
    if scalar or not isinstance(texts, (Sequence, ndarray)):
        raise InvalidInputError(
            f"sentences is a {type(texts).__name__}, expected a str or a list of str"
        )
    return [check_text(text, f"sentences[{index}]") for index, text in enumerate(texts)]
