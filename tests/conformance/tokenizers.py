"""Write conformance/tokenizer: a WordPiece vocabulary under many settings, with texts and ids.

A case replaces top-level fields of ``tokenizer`` by those in ``change``. ``ids`` are of all
``texts``.
"""

from __future__ import annotations

import gzip
import json
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pocketquery.sdk.tokenizers.tokenizer import open_tokenizer
from tests.sdk.diverse_text import SPECIALS, added_token, diverse_strings, wordpiece_json
from tests.sdk.javascript_expectations import well_formed

__all__ = ["TARGET", "main"]

TARGET = Path(__file__).parents[2] / "conformance" / "tokenizer" / "wordpiece.json.gz"
_FLAGS = ("single_word", "lstrip", "rstrip", "normalized")
_LITERALS = ("the", " É", "SEP", "ing ", "who what", "1984", "क", "🫠", "th")
_TEXTS = 160
_SIGMA = "ΟΔΥΣΣΕΥΣ İI ıß ẞ ǅ \u0345\u0591\u0323\u0301a \u302e\u0301b \u1b44\u0300"


def main() -> None:
    """Write everything anew."""
    texts = ["", " ", _SIGMA, "a" * 101, *well_formed(diverse_strings(_TEXTS, seed=31))]
    texts = [text for text in texts if len(text) < 400]
    vocabulary = {piece: number for number, piece in enumerate(_pieces(texts))}
    options: dict[str, Any] = {
        "clean_text": True,
        "handle_chinese_chars": True,
        "strip_accents": None,
        "lowercase": True,
    }
    special = [added_token(token, vocabulary[token], special=True) for token in SPECIALS]
    tokenizer = json.loads(wordpiece_json(vocabulary, options, special))
    cases = []
    for name, change, max_length in _changes(vocabulary, special, tokenizer):
        data = json.dumps(tokenizer | change).encode()
        opened = open_tokenizer("wordpiece", data, max_length)
        ids = [opened.encode(text) for text in texts]
        cases.append({"name": name, "change": change, "max_length": max_length, "ids": ids})
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    content = {"tokenizer": tokenizer, "texts": texts, "cases": cases}
    text = json.dumps(content, ensure_ascii=True, separators=(",", ":"))
    TARGET.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(len(texts), "texts,", len(cases), "cases,", TARGET.stat().st_size, "bytes")


def _pieces(texts: list[str]) -> list[str]:
    found = {character for text in texts for character in text}
    for form in ("NFD", "NFKC"):
        found |= set(unicodedata.normalize(form, "".join(sorted(found))))
    found |= {small for character in found for small in character.lower()}
    spelled = sorted(found)[::13]  # what is left out is unknown
    known = [one for one in sorted(found) if one not in spelled or one.isascii()]
    some = ["the", "##e", "th", "who", "##ing", "SEP", "19", "##84", "##the", "in", "##on"]
    return [*dict.fromkeys([*SPECIALS, *known, *(f"##{one}" for one in known), *some])]


def _changes(
    vocabulary: dict[str, int], special: list[Any], tokenizer: dict[str, Any]
) -> Iterator[tuple[str, dict[str, Any], int]]:
    normalizer = tokenizer["normalizer"]
    for number in range(16):
        changed = {
            "clean_text": bool(number & 1),
            "handle_chinese_chars": bool(number & 2),
            "strip_accents": None if number & 4 else bool(number & 1),
            "lowercase": bool(number & 8),
        }
        yield f"normalizer {number}", {"normalizer": normalizer | changed}, 128
    for number in range(8):
        tokens, free = list(special), len(vocabulary)
        for place, content in enumerate(_LITERALS):
            flags = {flag: bool((number + place) >> bit & 1) for bit, flag in enumerate(_FLAGS)}
            own = vocabulary.get(content, free)
            free = max(free, own + 1)
            tokens.append(added_token(content, own, **flags))
        yield f"literals {number}", {"added_tokens": tokens}, 128
    yield "short", {}, 8
    yield "short, from the left", {"truncation": {"direction": "Left", "max_length": 3}}, 8
    yield "nothing around", {"post_processor": None}, 128
    sides = {"cls": ["[CLS]", vocabulary["[CLS]"]], "sep": ["[SEP]", vocabulary["[SEP]"]]}
    yield "BertProcessing", {"post_processor": {"type": "BertProcessing", **sides}}, 128
    model = tokenizer["model"]
    yield "no prefix", {"model": model | {"continuing_subword_prefix": ""}}, 128
    yield "short words", {"model": model | {"max_input_chars_per_word": 4}}, 128


if __name__ == "__main__":
    main()
