"""Write ``conformance/words/scripts.json.gz``: which texts have letters that languages do not use.

``ranges`` and ``written`` are the tables; ``cases`` are texts of people, and drawn ones of letters
of every script.
"""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

from pocketquery.sdk.languages import scripts

TARGET = Path(__file__).parents[2] / "conformance" / "words" / "scripts.json.gz"
_LANGUAGES = ("en", "de en vi", "ja", "ru sr", "zh-TW ko", "hi ar", "pt-BR", "nb")
_TEXTS = (
    "when does the train leave",
    "Łukasiewicz, Erdős und Dvořák",
    "Nguyễn",
    "Nguye\u0302\u0303n Trãi",
    "Wo regierte die Trần-Dynastie?",
    "когда поезд",
    "iPhone 15 купить",
    "Чайковский symphony no 5 in E minor, op. 64",
    "TNF-α inhibitors",
    "α",
    "東京 hotel",
    "NASUWT是什么？",
    "コーヒー",
    "한국어 검색",
    "मुझे चाय पसंद है",
    "mujhe chai pasand hai",
    "متى يغادر القطار",
    "🎉",
    "\U0005e123\u0378",
    "404",
    "",
    "\u3000 \x1c\x85",
    "ＦＵＬＬ ｗｉｄｔｈ",
    "word " * 20 + "слово " * 300,
)


def cases() -> dict[str, Any]:
    """The content of the file."""
    rng = random.Random(0)
    spans = [
        tuple(int(point, 16) for point in span.split("-"))
        for span in scripts.RANGES.split()
        if "-" in span
    ]
    drawn = [
        "".join(
            " " if rng.random() < 0.2 else chr(rng.randint(*rng.choice(spans)))
            for _ in range(rng.randrange(1, 24))
        )
        for _ in range(40)
    ]
    return {
        "ranges": scripts.RANGES,
        "written": scripts.WRITTEN,
        "cases": [
            [codes, text, scripts.has_unread_letters(text, tuple(codes.split()))]
            for codes in _LANGUAGES
            for text in [*_TEXTS, *drawn]
        ],
    }


def main() -> None:
    """Write the file."""
    TARGET.write_bytes(gzip.compress(json.dumps(cases()).encode(), 9, mtime=0))


if __name__ == "__main__":
    main()
