"""Checks of values that callers and files pass: one rule a field, one sentence where it is broken.

    @dataclass(frozen=True)
    class TrainingConfig:
        steps: int = 1000
        typo_share: float = 0.0

        def __post_init__(self) -> None:
            check_fields(self, steps=whole(), typo_share=number(0, 1))

A message reads ``steps is 0, expected a whole number from 1``. Rules check types, too: ``True`` is
no number, text is none either, and what is not finite is out of every range.

Texts are checked here, too. A text is any ``str`` that UTF-8 can hold. Empty and blank texts are
allowed, as in sentence-transformers, and so are NUL and control characters: the tokenizer decides
what they mean. A lone surrogate is half a character; replacing it silently would hide where it was
cut, so it is an error that names the position.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from pocketquery.sdk.errors import InvalidInputError, PocketQueryError

__all__ = [
    "SEED",
    "Rule",
    "check",
    "check_count",
    "check_fields",
    "nearest",
    "check_text",
    "check_texts",
    "number",
    "one_of",
    "optional",
    "plain",
    "whole",
]


class Rule(NamedTuple):
    """What a value must be.

    Attributes:
        holds: whether a value is that; never raises.
        expected: in words, to follow "expected".
        range: in few words, for a command's help; empty where the type says it all.
    """

    holds: Callable[[object], bool]
    expected: str
    range: str = ""


def whole(least: int = 1, most: int | None = None) -> Rule:
    """A whole number from ``least`` to ``most``; Python's and numpy's."""

    def holds(value: object) -> bool:
        count = _as_int(value)
        return count is not None and count >= least and (most is None or count <= most)

    words = f"from {least}" + ("" if most is None else f" to {most}")
    return Rule(holds, f"a whole number {words}", "" if (least, most) == (1, None) else words)


SEED = whole(0, 2**63 - 1)._replace(range="")
"""What Python's, numpy's and torch's generators all begin from."""


def number(
    least: float = -math.inf,
    most: float = math.inf,
    *,
    above: float | None = None,
    below: float | None = None,
) -> Rule:
    """A finite number from ``least`` to ``most``, both allowed; ``above`` and ``below`` are not."""

    def holds(value: object) -> bool:
        if isinstance(value, bool | str | bytes) or not hasattr(value, "__float__"):
            return False
        try:
            real = float(value)
        except (TypeError, ValueError, OverflowError):
            return False
        return (
            math.isfinite(real)
            and least <= real <= most
            and (above is None or real > above)
            and (below is None or real < below)
        )

    bounds = [
        *([f"above {above:g}"] if above is not None else []),
        *([f"from {least:g}"] if above is None and math.isfinite(least) else []),
        *([f"to {most:g}"] if math.isfinite(most) else []),
        *([f"to below {below:g}"] if below is not None else []),
    ]
    words = " ".join(bounds)
    return Rule(holds, f"a number {words}" if bounds else "a finite number", words)


def one_of(*choices: str) -> Rule:
    """One of ``choices``."""
    expected = f"one of {', '.join(choices)}"
    return Rule(lambda value: isinstance(value, str) and value in choices, expected)


def optional(rule: Rule) -> Rule:
    """None, or what ``rule`` says."""
    return rule._replace(
        holds=lambda value: value is None or rule.holds(value), expected=f"{rule.expected}, or None"
    )


def plain(rule: Rule) -> Rule:
    """A number as ``rule`` says, and Python's own: JSON is not written of numpy's."""
    return rule._replace(holds=lambda value: type(value) in (int, float) and rule.holds(value))


def check(
    name: str, value: object, rule: Rule, error: type[PocketQueryError] = InvalidInputError
) -> None:
    """Raise ``error``, which names the value ``name``, unless it is what ``rule`` says."""
    if not rule.holds(value):
        raise error(f"{name} is {_shown(value)}, expected {rule.expected}")


def check_fields(owner: object, /, **rules: Rule) -> None:
    """Check fields of ``owner``, each by its rule.

    Raises:
        InvalidInputError: a field is not what its rule says.
    """
    for name, rule in rules.items():
        check(name, getattr(owner, name), rule)


def check_count(value: object, name: str, *, most: int | None = None) -> int:
    """``value`` as an int, where it is a whole number from 1 to ``most``.

    Raises:
        InvalidInputError: it is not; calls it ``name``.
    """
    check(name, value, whole(1, most))
    return operator.index(value)  # type: ignore[arg-type]  # the rule has looked


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


def check_texts(texts: Any) -> list[str]:
    """``texts`` as a list, where it is a sequence of texts that can be encoded.

    Raises:
        InvalidInputError: not a sequence; or names the index of the first item that is not a text.
    """
    is_list = isinstance(texts, Sequence) and not isinstance(texts, bytes)
    if not (is_list or getattr(texts, "ndim", False)):  # an array of texts has dimensions
        raise InvalidInputError(
            f"sentences is a {type(texts).__name__}, expected a str or a list of str"
        )
    return [check_text(text, f"sentences[{index}]") for index, text in enumerate(texts)]


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The one of ``known`` that was probably meant."""
    from difflib import get_close_matches  # only whoever mistypes pays for it

    return next(iter(get_close_matches(word, list(known), 1)), None)


def _as_int(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]  # what it refuses is answered here
    except TypeError:
        return None


def _shown(value: object) -> str:
    """As it is, but short: values come from files, too, and Python prints no integer of a book."""
    try:
        text = repr(value)
    except ValueError:
        return "an integer of thousands of digits"
    return text if len(text) <= 200 else f"{text[:200]}…"
