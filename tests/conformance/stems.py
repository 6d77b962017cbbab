"""Write conformance/words/stems.json.gz: words of every language and their stems, by Snowball.

The words are made of the endings and letters that the language's stemmer knows, so that each of its
rules is met.
"""

from __future__ import annotations

import gzip
import importlib
import json
import pkgutil
import random
from pathlib import Path

__all__ = ["TARGET", "main", "stems"]

TARGET = Path(__file__).parents[2] / "conformance" / "words" / "stems.json.gz"
_OTHERS = ["", "a", "yy", "'", "''s", "𝒳", "𝒳ing", "ab𝒳ies", "𝒳𝒴𝒳s"]  # of no language


def main() -> None:
    """Write the file."""
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(stems(60), ensure_ascii=False, separators=(",", ":"))
    TARGET.write_bytes(gzip.compress(text.encode(), mtime=0))


def stems(count: int) -> dict[str, list[list[str]]]:
    """So many pairs of a word and its stem, by language."""
    modules = [
        name
        for _, name, _ in pkgutil.iter_modules(importlib.import_module("snowballstemmer").__path__)
    ]
    languages = [name.removesuffix("_stemmer") for name in modules if name.endswith("_stemmer")]
    return {language: _pairs(language, count) for language in languages}


def _pairs(language: str, count: int) -> list[list[str]]:
    module = importlib.import_module(f"snowballstemmer.{language}_stemmer")
    name = "".join(part.capitalize() for part in language.split("_"))
    stemmer = getattr(module, f"{name}Stemmer")()
    fields = vars(type(stemmer))
    endings = [one.s for key in sorted(fields) if key.startswith("a_") for one in fields[key]]
    letters = sorted({*"".join(endings)}.union(*(fields[key] for key in fields if key[:2] == "g_")))
    draw = random.Random(language)
    words = dict.fromkeys(_OTHERS)
    while len(words) < count:
        first = "".join(draw.choices(letters, k=draw.randint(0, 7)))
        words[first + "".join(draw.choices(endings, k=draw.randint(1, 3)))] = None
    return [[word, stemmer.stemWord(word)] for word in words]


if __name__ == "__main__":
    main()
