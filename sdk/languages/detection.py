"""Which language a text is in: by its script and most common words, or by a detector.

The detector is py3langid, of the extra ``languages``: of six it was the most often right, and it
needs numpy alone (research/LOG.md).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from functools import cache

from pocketquery.sdk.languages.scripts import MOST_READ, base_code, script_counts

__all__ = ["language_of"]

_OWN_SCRIPT = {"Grek": "el", "Armn": "hy", "Thai": "th", "Hang": "ko", "Kana": "ja", "Geor": "ka"}
_OWN_SCRIPT |= {"Beng": "bn", "Guru": "pa", "Gujr": "gu", "Orya": "or", "Taml": "ta", "Telu": "te"}
_OWN_SCRIPT |= {"Knda": "kn", "Mlym": "ml", "Sinh": "si", "Laoo": "lo", "Mymr": "my", "Hani": "zh"}
_OWN_SCRIPT |= {"Khmr": "km", "Ethi": "am", "Viet": "vi"}
_LEAST_LETTERS = 12  # of a text whose language a detector is asked for
_LEAST_CERTAINTY = 0.5  # of the detector


def language_of(text: str) -> str:
    """The code of the language of a text; empty where it cannot be told. ::

        language_of("Der Zug fährt um sieben.")  # "de"

    By its script and most common words; where py3langid is installed (extra ``languages``), by
    that. Of a text of two languages it is that of most of it. Reads the first 1,000 characters.
    """
    text = unicodedata.normalize("NFC", text[:MOST_READ])
    scripts = script_counts(text)
    if not scripts:
        return ""
    if 4 * scripts["Kana"] > scripts.total():
        return "ja"
    script, count = scripts.most_common(1)[0]
    if script in _OWN_SCRIPT and 2 * count > scripts.total():
        return _OWN_SCRIPT[script]
    detect = _detector()
    if detect is not None and scripts.total() >= _LEAST_LETTERS:
        return detect(text)
    from pocketquery.sdk.words.language import common_language

    return common_language(text)


@cache
def _detector() -> Callable[[str], str] | None:
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError:
        return None
    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)

    def detect(text: str) -> str:
        code, certainty = identifier.classify(text)
        return base_code(code) if certainty >= _LEAST_CERTAINTY else ""

    return detect
