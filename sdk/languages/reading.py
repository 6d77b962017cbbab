"""Which language a text is in, and how much of what is indexed an encoder reads.

A language is told by the text's script and most common words, or by a detector: py3langid, of the
extra ``languages``; of four it was the most often right, and it needs numpy alone
(research/LOG.md).
"""

from __future__ import annotations

import sys
import unicodedata
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

from pocketquery.sdk.errors import PocketQueryWarning
from pocketquery.sdk.languages.scripts import MOST_READ, base_code, script_counts

__all__ = ["REMEDY", "ReadingTally", "language_of", "languages_of", "unread_query"]

REMEDY = (
    "an encoder of many languages: pip install ./packages/pocketquery-multilingual "
    "(docs/how-to/many-languages.md); index again with --bundle pocketquery-multilingual"
)

_OWN_SCRIPT = {"Grek": "el", "Armn": "hy", "Thai": "th", "Hang": "ko", "Kana": "ja", "Geor": "ka"}
_OWN_SCRIPT |= {"Beng": "bn", "Guru": "pa", "Gujr": "gu", "Orya": "or", "Taml": "ta", "Telu": "te"}
_OWN_SCRIPT |= {"Knda": "kn", "Mlym": "ml", "Sinh": "si", "Laoo": "lo", "Mymr": "my", "Hani": "zh"}
_OWN_SCRIPT |= {"Khmr": "km", "Ethi": "am"}
_LEAST_LETTERS = 12  # of a text whose language a detector is asked for
_LEAST_CERTAINTY = 0.5  # of the detector
_NOTABLE = 0.1  # of the letters of what is indexed
_NAMED = 4  # languages that a warning names
_LEAST_NAMED = 0.005  # of the letters


def language_of(text: str) -> str:
    """The code of the language of a text; empty where it cannot be told. ::

        language_of("Der Zug fährt um sieben.")  # "de"

    By its script and most common words; where py3langid is installed (extra ``languages``), by
    that. Of a text of two languages it is that of most of it. Reads the first 1,000 characters.
    """
    text = text[:MOST_READ]
    letters = sum(map(str.isalpha, text))
    if not letters:
        return ""
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
        scripts = script_counts(text)
        if 4 * scripts["Kana"] > scripts.total():
            return "ja"
        for script, count in scripts.most_common(1):
            if script in _OWN_SCRIPT and 2 * count > scripts.total():
                return _OWN_SCRIPT[script]
    detect = _detector()
    if detect is not None and letters >= _LEAST_LETTERS:
        return detect(text)
    from pocketquery.sdk.words.language import common_language

    return common_language(text)


def languages_of(texts: Sequence[str]) -> list[str]:
    """The codes of the languages of one file's passages; one that cannot be told has that of most
    of the file."""
    codes = [language_of(text) for text in texts]
    letters: Counter[str] = Counter()
    for code, text in zip(codes, texts, strict=True):
        letters[code] += len(text) if code else 0
    ((most, _),) = letters.most_common(1) or [("", 0)]
    return [code or most for code in codes]


@cache
def _detector() -> Callable[[str], str] | None:
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError:
        return None
    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)

    def detect(text: str) -> str:
        code, certainty = identifier.classify(text)
        if certainty < _LEAST_CERTAINTY:
            return ""
        return "no" if code in ("nb", "nn") else str(code)

    return detect


def unread_query(name: str, languages: Sequence[str]) -> str:
    """What to say of a query that an encoder does not read."""
    return (
        f"the encoder {name} does not read the query's letters (it reads "
        f"{', '.join(languages) or 'others'}), so its words alone are searched; {REMEDY}"
    )


class ReadingTally:
    """How much of what is indexed an encoder reads, counted in letters. ::

        tally = ReadingTally(encoder)
        tally.add([Document("zug", "Der Zug fährt um sieben.")])
        tally.warn("notes.index")

    Args:
        encoder: has ``reads``, ``languages`` and ``name``, as :class:`~pocketquery.sdk.Encoder`
            has; of another one nothing is counted.
        counted: what the message calls the documents' texts.
    """

    def __init__(self, encoder: object, counted: str = "the text") -> None:
        self._counted = counted
        self._name = str(getattr(encoder, "name", ""))
        self._languages: tuple[str, ...] = getattr(encoder, "languages", ())
        self._reads: Callable[[str], bool] | None = getattr(encoder, "reads", None)
        self._letters = 0
        self._unread: Counter[str] = Counter()

    def add(self, documents: Iterable[Any]) -> None:
        """Count documents that are encoded: their ``text``, in the language that their metadata
        names, or that it seems to be in."""
        if self._reads is None:
            return
        for document in documents:
            text = document.text[:MOST_READ]
            named = document.metadata.get("language")
            language = named if isinstance(named, str) and named else language_of(text)
            letters = sum(map(str.isalpha, text))
            self._letters += letters
            if not self._is_known(language) or not self._reads(text):
                self._unread[language] += letters

    def _is_known(self, language: str) -> bool:
        if not language or not self._languages or language in self._languages:
            return True
        return base_code(language) in map(base_code, self._languages)

    @property
    def message(self) -> str:
        """What to warn of; empty where the encoder reads over nine tenths."""
        unread = self._unread.total()
        if not unread or unread < _NOTABLE * self._letters:
            return ""
        shares = [
            f"{name or 'unknown'} {count / self._letters:.0%}"
            for name, count in self._unread.most_common(_NAMED)
            if count >= _LEAST_NAMED * self._letters
        ]
        more = ", ..." if len(self._unread) > _NAMED else ""
        reads = f"it reads {', '.join(self._languages)}" if self._languages else "unknown letters"
        return (
            f"{unread / self._letters:.0%} of {self._counted} is not in a language of the encoder "
            f"{self._name} ({', '.join(shares)}{more}; {reads}). Its words find it, its meaning "
            "hardly"
        )

    def warn(self, place: object) -> None:
        """Warn, once for each place, where the encoder does not read a tenth or more."""
        key = self._name, str(place)
        if self.message and key not in _warned:
            _warned.add(key)
            remedy = REMEDY[0].upper() + REMEDY[1:]
            message = f"{self.message}. {remedy}"
            warnings.warn(message, PocketQueryWarning, stacklevel=_level_of_caller())


def _level_of_caller() -> int:
    """How far up the first code is that is not ours: a warning is shown with its line."""
    frame, level = sys._getframe(1), 1
    while frame.f_back and frame.f_globals.get("__name__", "").startswith("pocketquery."):
        frame, level = frame.f_back, level + 1
    return level


_warned: set[tuple[str, str]] = set()
