"""Write conformance/tables: how characters are classed, for implementations in any language.

Code points and ranges are hexadecimal (``"300-36F 483"``); pairs ``"41>61"`` replace one by the
other. ``wordpiece.json`` has the classes of BERT's tokenizers, ``common_words.json`` the common
words of each language.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable
from pathlib import Path

from pocketquery.sdk.tokenizers import bert_normalizer
from pocketquery.sdk.tokenizers.added_tokens import is_word_character
from pocketquery.sdk.words.common_words import MORE
from pocketquery.sdk.words.language import COMMON

__all__ = ["TARGET", "main", "tables"]

TARGET = Path(__file__).parents[2] / "conformance" / "tables"
_CLASSES = (
    "REMOVED", "WHITESPACE", "IDEOGRAPHS", "DECOMPOSED", "MARKS", "REORDERED", "PUNCTUATION",
)  # fmt: skip


def main() -> None:
    """Write everything anew."""
    TARGET.mkdir(parents=True, exist_ok=True)
    for name, text in tables().items():
        (TARGET / name).write_text(text, encoding="utf-8")


def tables() -> dict[str, str]:
    """The content of each file, by name."""
    wordpiece = {name.lower(): getattr(bert_normalizer, name).ranges for name in _CLASSES}
    points = [point for point in range(0x110000) if not 0xD800 <= point < 0xE000]
    wordpiece["word"] = ranges(point for point in points if is_word_character(chr(point)))
    wordpiece["lowercased"] = bert_normalizer.LOWERCASED
    version = {"unicode": unicodedata.unidata_version}
    common = {
        language: " ".join(sorted({*COMMON[language].split(), *MORE.get(language, "").split()}))
        for language in COMMON
    }
    return {"wordpiece.json": _text(version | wordpiece), "common_words.json": _text(common)}


def _is_mark(character: str) -> bool:
    return unicodedata.category(character).startswith("M")


def ranges(points: Iterable[int]) -> str:
    """Code points as ranges, in rising order."""
    spans: list[list[int]] = []
    for point in sorted(points):
        if spans and spans[-1][1] == point - 1:
            spans[-1][1] = point
        else:
            spans.append([point, point])
    return " ".join(f"{a:X}" if a == b else f"{a:X}-{b:X}" for a, b in spans)


def _text(values: dict[str, str]) -> str:
    return json.dumps(values, indent=1) + "\n"


if __name__ == "__main__":
    main()
