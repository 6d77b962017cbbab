"""Strings of every kind, drawn by a seed, and small WordPiece tokenizers that can spell them."""

from __future__ import annotations

import json
import random
import unicodedata
from collections.abc import Iterator
from typing import Any

from tokenizers import normalizers, pre_tokenizers

SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

# First and last code point of blocks in many scripts, assigned and not.
_BLOCKS = (
    "21-7E 21-7E A1-FF 100-24F 250-2AF 2B0-2FF 300-36F 370-3FF 400-52F 531-58F 591-5F4 600-6FF "
    "700-74F 780-7BF 7C0-7FD 840-85E 870-8FF 900-97F 980-9FF A00-A7F A80-AFF B00-B7F B80-BFF "
    "C00-C7F C80-CFF D00-D7F D80-DFF E00-E7F E80-EFF F00-FFF 1000-109F 10A0-10FF 1100-11FF "
    "1200-139F 13A0-13FF 1400-167F 1680-169F 16A0-16FF 1700-177F 1780-17FF 1800-18AF 1900-194F "
    "1A00-1AFF 1B00-1BFF 1C00-1CFF 1D00-1DFF 1E00-1EFF 1F00-1FFF 2000-206F 2070-20FF 2100-218F "
    "2190-23FF 2460-24FF 2500-27BF 2980-2AFF 2C00-2DFF 2E00-2E7F 2E80-2FDF 3000-303F 3040-30FF "
    "3100-318F 3200-33FF 3400-3500 4E00-5300 9F00-9FFF A000-A0FF A490-A4FF A640-A69F A700-A7FF "
    "A800-A8FF A900-A9FF AA00-AAFF AB00-ABFF AC00-AD00 D700-D7FF E000-E100 F8F0-FAFF FB00-FB4F "
    "FB50-FC00 FE00-FEFF FF00-FFFF 10000-10100 10280-103FF 10400-104FF 10500-105FF 10900-10AFF "
    "10D00-10FFF 11000-111FF 11200-114FF 11580-116FF 11800-11AFF 11C00-11FFF 12000-12100 "
    "13000-13100 16800-16FFF 17000-17100 1B000-1B200 1BC00-1BCAF 1CF00-1D1FF 1D400-1D500 "
    "1D7C0-1DAAF 1DF00-1E02F 1E100-1E2FF 1E800-1E95F 1EE00-1EEFF 1F000-1F2FF 1F300-1F6FF "
    "1F780-1FAFF 20000-20080 2A6D0-2A760 2B730-2B830 2CEA0-2CF00 2EBF0-2EC80 2F800-2FA20 "
    "30000-30080 31340-313C0 E0000-E01EF F0000-F0080 10FF80-10FFFF"
)
_SYLLABLES = ["the", "ing", "er", "a", "on", "re", "in", "tion", "ed", "of", "sea", "who", "what"]
_SYLLABLES += ["un", "able", "first", "world", "won", "how", "19", "84"]
_SPACES = ["\t", "\n", "\r", "\x0b", "\x0c", "\x1c", "\x1f", "\x85", "\xa0", "\u1680", "\u2003"]
_SPACES += ["\u2028", "\u2029", "\u202f", "\u205f", "\u3000", "  ", " \n "]
_HIDDEN = ["\0", "\x01", "\x1b", "\x7f", "\x9f", "\xad", "\u180e", "\u200b", "\u200d", "\u200e"]
_HIDDEN += ["\u2060", "\ufeff", "\ufffd", "\ufff9", "\ufe0f", "\U000e0041", "\ue000", "\U0010ffff"]
_EMOJI = [
    "👩‍👩‍👧‍👦",
    "🏳️‍🌈",
    "👍🏽",
    "🇨🇭",
    "1️⃣",
    "🫠",
    "❤️",
    "🧑🏿‍🚀",
    "\U0001fae8",
    "🏴\U000e0067\U000e007f",
]
_ACCENTED = [*"éñüøőệẤİıΣςßẞÅﬁǆΐᾳйїЁが㍿한각ॐༀ𝅘𝅥ﷺⅧ½", "ẛ̣", "\u0958", "\u09dc", "שׁ"]
_LITERALS = [
    *SPECIALS,
    "[sep]",
    "[ SEP ]",
    "[SEP",
    "SEP]",
    "[[SEP]]",
    "[CLS][SEP]",
    "##ing",
    "[unused1]",
]


def _block_characters() -> list[list[str]]:
    spans = (block.split("-") for block in _BLOCKS.split())
    return [[chr(c) for c in range(int(a, 16), int(b, 16) + 1)] for a, b in spans]


def diverse_strings(count: int, seed: int) -> Iterator[str]:
    """Texts in every script, with emoji, accents, controls, odd spaces, literals and long words."""
    rng = random.Random(seed)
    blocks = _block_characters()
    for _ in range(count):
        script = rng.choice(blocks)  # most texts stay in one script
        yield "".join(_fragment(rng, script, blocks) for _ in range(rng.randint(1, 9)))


def _fragment(rng: random.Random, script: list[str], blocks: list[list[str]]) -> str:
    kind = rng.random()
    if kind < 0.25:
        word = "".join(rng.choices(_SYLLABLES, k=rng.randint(1, 3)))
        return rng.choice([word, word.upper(), word.title()]) + rng.choice(
            [" ", " ", "", "?", "'s "]
        )
    if kind < 0.55:
        return "".join(rng.choices(script, k=rng.randint(1, 7))) + rng.choice(["", " "])
    if kind < 0.65:
        return "".join(rng.choice(rng.choice(blocks)) for _ in range(rng.randint(1, 5)))
    if kind < 0.75:
        accented = "".join(rng.choices([*_ACCENTED, *_SYLLABLES], k=rng.randint(1, 5)))
        return unicodedata.normalize(rng.choice(["NFC", "NFD", "NFKC"]), accented)
    if kind < 0.80:
        marks = [
            chr(c) for c in (*range(0x300, 0x340), *range(0x8D4, 0x903), *range(0x1AB0, 0x1ACF))
        ]
        return rng.choice("aeéзक") + "".join(rng.choices(marks, k=rng.randint(1, 6)))
    if kind < 0.995:
        return rng.choice(rng.choice([_SPACES, _HIDDEN, _EMOJI, _LITERALS]))
    return rng.choice(["a", "ab", "é", "是", "क"]) * rng.randint(40, 130)


def rich_wordpiece(
    seed: int = 0,
    *,
    clean_text: bool = True,
    handle_chinese_chars: bool = True,
    strip_accents: bool | None = None,
    lowercase: bool = True,
    added_tokens: tuple[dict[str, Any], ...] = (),
) -> bytes:
    """A ``tokenizer.json`` that can spell most of what :func:`diverse_strings` yields."""
    options: dict[str, Any] = {
        "clean_text": clean_text,
        "handle_chinese_chars": handle_chinese_chars,
        "strip_accents": strip_accents,
        "lowercase": lowercase,
    }
    pieces = dict.fromkeys([*SPECIALS, *_pieces(random.Random(seed), options)])
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    added = [added_token(token, vocabulary[token], special=True) for token in SPECIALS]
    return wordpiece_json(vocabulary, options, [*added, *added_tokens])


def _pieces(rng: random.Random, options: dict[str, Any]) -> Iterator[str]:
    normalize = normalizers.BertNormalizer(**options).normalize_str
    split = pre_tokenizers.BertPreTokenizer().pre_tokenize_str
    characters = sorted({c for block in _block_characters() for c in block})
    rng.shuffle(characters)
    text = normalize(" ".join(characters[: len(characters) * 19 // 20]))  # a few are unknown
    for character in dict.fromkeys(c for word, _ in split(text) for c in word):
        yield character
        yield "##" + character
    for string in diverse_strings(1500, seed=rng.randrange(1 << 30)):
        for word, _ in split(normalize(string)):
            start = rng.randrange(len(word))
            piece = word[start : start + rng.randint(2, 5)]
            yield ("##" if start else "") + piece


def added_token(
    content: str, number: int, *, special: bool = False, **flags: bool
) -> dict[str, Any]:
    """An entry of ``added_tokens``."""
    off = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": number, "content": content, "special": special, **off, **flags}


def wordpiece_json(
    vocabulary: dict[str, int], options: dict[str, Any], added_tokens: list[dict[str, Any]]
) -> bytes:
    """A ``tokenizer.json`` as BERT's are, for this vocabulary."""
    cls, sep = vocabulary["[CLS]"], vocabulary["[SEP]"]
    template = [
        {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
        {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
    ]
    pair = [*template, {"Sequence": {"id": "B", "type_id": 1}}]
    document = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added_tokens,
        "normalizer": {"type": "BertNormalizer", **options},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": template,
            "pair": pair,
            "special_tokens": {
                "[CLS]": {"id": "[CLS]", "ids": [cls], "tokens": ["[CLS]"]},
                "[SEP]": {"id": "[SEP]", "ids": [sep], "tokens": ["[SEP]"]},
            },
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": vocabulary,
        },
    }
    return json.dumps(document, ensure_ascii=False).encode("utf-8")
