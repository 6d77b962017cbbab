"""Write conformance/tables/words.json: the characters of docs/formats/words.md.

Code points and ranges are hexadecimal (``"300-36F 483"``); pairs ``"41>61"`` replace one by the
other, or by several (``"DF>73+73"``).
"""

from __future__ import annotations

import json
import re
import unicodedata
from pathlib import Path

from pocketquery.sdk.words import characters, tokens

__all__ = ["TARGET", "main", "tables"]

TARGET = Path(__file__).parents[2] / "conformance" / "tables" / "words.json"
_POINTS = [*range(0xD800), *range(0xE000, 0x110000)]


def main() -> None:
    """Write the file."""
    TARGET.write_text(json.dumps(tables(), indent=1) + "\n", encoding="utf-8")


def tables() -> dict[str, str]:
    """Characters by what they are for; ``letters``, ``others`` and ``folded`` are beyond ASCII."""
    replaced = {point: characters._replaced[point] for point in _POINTS}
    shapes = {point: tokens._shapes[point] for point in _POINTS}
    digits = {p: one for p, one in replaced.items() if one and one in "0123456789" and p > 127}
    wide = [point for point in _POINTS if point > 127]
    return {
        "unicode": unicodedata.unidata_version,
        "letters": _ranges([p for p in wide if shapes[p] == "w" and chr(p).isalpha()]),
        "others": _ranges([p for p in wide if shapes[p] == "w" and not chr(p).isalpha()]),
        "unspaced": _ranges([p for p in wide if shapes[p] == "h"]),
        "unspaced_marks": _ranges(
            [p for p in wide if shapes[p] == "h" and unicodedata.category(chr(p))[0] == "M"]
        ),
        "hangul": _ranges([p for p in wide if shapes[p] == "k"]),
        "dropped": _ranges([p for p, one in replaced.items() if one is None]),
        "apostrophes": _ranges([p for p, one in replaced.items() if one == "'"]),
        "hyphens": _ranges([p for p, one in replaced.items() if one == "-"]),
        "digits": _pairs(digits),
        "alike": _pairs({ord(one): other for one, other in characters.ALIKE.items()}),
        "folded": _pairs({p: chr(p).casefold() for p in wide if chr(p).casefold() != chr(p)}),
        "emoji": _ranges([p for p in wide if re.match(tokens._BASE, chr(p))]),
    }


def _ranges(points: list[int]) -> str:
    spans: list[list[int]] = []
    for point in points:
        if spans and spans[-1][1] == point - 1:
            spans[-1][1] = point
        else:
            spans.append([point, point])
    return " ".join(f"{a:X}" if a == b else f"{a:X}-{b:X}" for a, b in spans)


def _pairs(pairs: dict[int, str]) -> str:
    return " ".join(
        f"{point:X}>{'+'.join(f'{ord(one):X}' for one in text)}" for point, text in pairs.items()
    )


if __name__ == "__main__":
    main()
