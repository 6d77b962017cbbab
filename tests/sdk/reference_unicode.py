"""What the `tokenizers` library does to every code point, asked of the library itself.

``python tests/sdk/reference_unicode.py`` prints the tables of ``bert_normalizer.py`` anew.
"""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Callable, Iterator

from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

from tests.conformance.tables import ranges

CODE_POINTS = [*range(0xD800), *range(0xE000, 0x110000)]  # surrogates are no text
_LOWEST, _HIGHEST = "\u0334", "\u0345"  # marks of combining class 1 and 240


def _normalizer(**options: bool) -> normalizers.BertNormalizer:
    off = {"clean_text", "handle_chinese_chars", "strip_accents", "lowercase"}
    return normalizers.BertNormalizer(**dict.fromkeys(off, False) | options)


def _blocks() -> Iterator[list[int]]:
    """All code points, some thousands at a time: one call each would take a minute."""
    for first in range(0, len(CODE_POINTS), 4096):
        yield CODE_POINTS[first : first + 4096]


def _each(transform: Callable[[str], str]) -> dict[int, str]:
    """What becomes of each code point between two letters."""
    result: dict[int, str] = {}
    for block in _blocks():
        after = transform("".join(f"q{chr(point)}a" for point in block))
        result.update(zip(block, after[1:-1].split("aq"), strict=True))
    return result


def _pairs(mapping: dict[int, str]) -> str:
    return " ".join(f"{point:X}>{ord(after):X}" for point, after in sorted(mapping.items()))


def _reordered(marks: set[int], decomposed: set[int]) -> set[int]:
    """Code points that are, or contain, a mark that is not stripped and that NFD may move."""
    nfd = normalizers.NFD().normalize_str
    moved = {
        point
        for point in CODE_POINTS
        # Every Python we run on knows more marks than the library's NFD.
        if unicodedata.combining(chr(point))
        and point not in marks
        and (
            nfd(f"a{_HIGHEST}{chr(point)}") == f"a{chr(point)}{_HIGHEST}"
            or nfd(f"a{chr(point)}{_LOWEST}") == f"a{_LOWEST}{chr(point)}"
        )
    }
    return moved | {p for p in decomposed if moved.intersection(map(ord, nfd(chr(p))))}


def reference_tables() -> dict[str, str]:
    """The tables of ``sdk/tokenizers/bert_normalizer.py``, by name."""
    cleaned = _each(_normalizer(clean_text=True).normalize_str)
    stripped = _each(_normalizer(strip_accents=True).normalize_str)
    lowered = _each(_normalizer(lowercase=True).normalize_str)
    spaced = _each(_normalizer(handle_chinese_chars=True).normalize_str)
    marks = {point for point, after in stripped.items() if not after}
    decomposed = {point for point, after in stripped.items() if after not in ("", chr(point))}
    punctuation, space = _split_classes()
    return {
        "REMOVED": ranges(point for point, after in cleaned.items() if not after),
        "IDEOGRAPHS": ranges(point for point, after in spaced.items() if len(after) == 3),
        "MARKS": ranges(marks),
        "DECOMPOSED": ranges(decomposed),
        "REORDERED": ranges(_reordered(marks, decomposed)),
        "PUNCTUATION": ranges(punctuation),
        "WHITESPACE": ranges(space),
        "LOWERCASED": _pairs(
            {p: after for p, after in lowered.items() if after != chr(p) and _is_recent(p)}
        ),
    }


def word_characters() -> list[int]:
    """The characters beside which a token that is a ``single_word`` is not found."""
    tokenizer = Tokenizer(models.WordPiece({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.add_tokens([AddedToken("!!", single_word=True, normalized=False)])

    def starts(text: str) -> list[int]:
        encoding = tokenizer.encode(text)
        found = zip(encoding.ids, encoding.offsets, strict=True)
        return [start for number, (start, _) in found if number == 1]

    points = []
    for block in _blocks():
        alone = set(starts("".join(f"!!{chr(point)} " for point in block)))
        points += [point for i, point in enumerate(block) if 4 * i not in alone]
    return points


def _split_classes() -> tuple[list[int], list[int]]:
    """Punctuation, which becomes a word of its own, and white space, which vanishes."""
    split = pre_tokenizers.BertPreTokenizer().pre_tokenize_str
    punctuation: list[int] = []
    space: list[int] = []
    for block in _blocks():
        spans = {span for _, span in split("".join(f"a{chr(point)}b " for point in block))}
        for i, point in enumerate(block):
            if (4 * i, 4 * i + 3) not in spans:  # the two letters came apart
                alone = (4 * i + 1, 4 * i + 2) in spans
                (punctuation if alone else space).append(point)
    return punctuation, space


def _is_recent(point: int) -> bool:
    """Upper-case letters that came after Unicode 14, the version of the oldest Python we run on."""
    return (
        point in (0x1C89, *range(0xA7CB, 0xA7D0), *range(0xA7D2, 0xA7D6), 0xA7DA, 0xA7DC)
        or 0x10D50 <= point <= 0x10D65
        or 0x16EA0 <= point <= 0x16EB8
    )


if __name__ == "__main__":
    young = ranges(p for p in word_characters() if unicodedata.category(chr(p)) == "Cn")
    for name, table in {**reference_tables(), "WORD_CHARACTERS": young}.items():
        lines = textwrap.wrap(table, 92, break_on_hyphens=False)
        body = "".join(f'    "{line} "\n' for line in lines[:-1]) + f'    "{lines[-1]}"\n'
        print(f"{name} = (\n{body})")
