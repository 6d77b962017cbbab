"""BERT's text normalisation and splitting into words, as the `tokenizers` library does them.

Every step but one looks at a single character, so the whole chain (clean, set ideographs apart,
decompose, strip accents, lower-case, split) is one ``str.translate`` whose table fills itself as
characters are met. The exception is canonical ordering, which moves a few rare marks past each
other: texts that hold one of those take the steps one by one.

The tables at the end say how the library classes Unicode's characters. It mixes several versions of
Unicode (marks and punctuation of about version 8, decomposition of 9, lower case of 17) and every
Python has yet another one in ``unicodedata``, so ids that are the same everywhere need the
library's own classes. ``tests/sdk/reference_unicode.py`` prints these hexadecimal code points and
ranges, and each run of the tests compares them with the library.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable
from functools import cache, cached_property, partial

__all__ = [
    "BertNormalizer",
    "CharacterClass",
    "DECOMPOSED",
    "IDEOGRAPHS",
    "LOWERCASED",
    "MARKS",
    "PUNCTUATION",
    "REMOVED",
    "REORDERED",
    "WHITESPACE",
    "WORD_CHARACTERS",
    "parse_pairs",
    "split_words",
]

# A printable ASCII text has no control characters, and what is neither alphanumeric nor a space in
# it is punctuation.
_ASCII_WORD = re.compile(r"[0-9A-Za-z]+|[^ ]")
_TABLE_LIMIT = 1 << 16  # characters remembered per table: every script in use, 6 MB at most


class _OrderMatters(Exception):
    """A character whose result depends on its neighbours."""


class _TranslationTable(dict[int, str]):
    """A table for ``str.translate`` that computes a character when it is first met."""

    def __init__(self, convert: Callable[[str], str]) -> None:
        super().__init__()
        self._convert = convert

    def __missing__(self, point: int) -> str:
        converted = self._convert(chr(point))
        if len(self) < _TABLE_LIMIT:
            self[point] = converted
        return converted


class BertNormalizer:
    """The normaliser of BERT's tokenizers (Devlin et al., 2019, as released with the models).

    Args:
        clean_text: drop control characters and make every white space a plain space.
        handle_chinese_chars: put spaces around ideographs, so that each is a word.
        strip_accents: drop accents after canonical decomposition; None means "if lowercase".
        lowercase: lower-case, character by character.

    Safe to share between threads.
    """

    def __init__(
        self,
        *,
        clean_text: bool = True,
        handle_chinese_chars: bool = True,
        strip_accents: bool | None = None,
        lowercase: bool = True,
    ) -> None:
        self._clean_text = clean_text
        self._handle_chinese_chars = handle_chinese_chars
        self._strip_accents = lowercase if strip_accents is None else strip_accents
        self._lowercase = lowercase
        self._normalized = _TranslationTable(self._normalize_character)
        self._spaced = _TranslationTable(lambda c: _space_out(self._normalize_character(c)))

    def __reduce__(self) -> tuple[Callable[[], BertNormalizer], tuple[()]]:
        options = self._clean_text, self._handle_chinese_chars, self._strip_accents, self._lowercase
        names = "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"
        return partial(BertNormalizer, **dict(zip(names, options, strict=True))), ()

    def normalize(self, text: str) -> str:
        """The normalised text."""
        try:
            return text.translate(self._normalized)
        except _OrderMatters:
            return self._normalize_in_order(text)

    def words(self, text: str) -> Iterable[str]:
        """The words and punctuation marks of the normalised text."""
        if text.isascii() and text.isprintable():
            return _ASCII_WORD.findall(text.lower() if self._lowercase else text)
        try:
            return filter(None, text.translate(self._spaced).split(" "))
        except _OrderMatters:
            return split_words(self._normalize_in_order(text))

    def _normalize_character(self, character: str) -> str:
        text = self._clean(character)
        if self._strip_accents:
            if character in REORDERED:
                raise _OrderMatters
            text = _strip_marks("".join(map(_decompose, text)))
        return self._lower(text)

    def _normalize_in_order(self, text: str) -> str:
        text = "".join(map(self._clean, text))
        return self._lower(_strip_marks(_order_marks("".join(map(_decompose, text)))))

    def _clean(self, character: str) -> str:
        if self._clean_text:
            if character in REMOVED:
                return ""
            if character in WHITESPACE:
                return " "
        if self._handle_chinese_chars and character in IDEOGRAPHS:
            return f" {character} "
        return character

    def _lower(self, text: str) -> str:
        # One by one: str.lower of a whole text makes a last sigma final, the library does not.
        return "".join(map(_lower_character, text)) if self._lowercase else text


def split_words(text: str) -> Iterable[str]:
    """Split at white space and around each punctuation mark (BERT's pre-tokenizer)."""
    return filter(None, text.translate(_spacing()).split(" "))


@cache
def _spacing() -> _TranslationTable:
    return _TranslationTable(_space_out)


@cache
def _young_letters() -> dict[str, str]:
    return parse_pairs(LOWERCASED)


def _space_out(text: str) -> str:
    """Plain spaces for white space and around punctuation, so that words can be split at them."""
    return "".join(f" {c} " if c in PUNCTUATION else " " if c in WHITESPACE else c for c in text)


def _decompose(character: str) -> str:
    return unicodedata.normalize("NFD", character) if character in DECOMPOSED else character


def _strip_marks(text: str) -> str:
    return "".join(c for c in text if c not in MARKS)


def _lower_character(character: str) -> str:
    return _young_letters().get(character) or character.lower()


def _combining_class(character: str) -> int:
    """The canonical combining class, 0 for marks younger than the library's tables."""
    if character in MARKS or character in REORDERED:
        return unicodedata.combining(character)
    return 0


def _order_marks(text: str) -> str:
    """Unicode's canonical ordering: each run of marks sorted, stably, by combining class."""
    ordered: list[str] = []
    run: list[str] = []
    for character in text:
        if _combining_class(character):
            run.append(character)
        else:
            ordered += sorted(run, key=_combining_class)
            ordered.append(character)
            run = []
    return "".join(ordered + sorted(run, key=_combining_class))


class CharacterClass:
    """A set of characters, written as ``"300-36F 483"`` and parsed when first asked."""

    def __init__(self, ranges: str) -> None:
        self.ranges = ranges

    @cached_property
    def _bounds(self) -> list[int]:
        bounds = []
        for span in self.ranges.split():
            first, _, last = span.partition("-")
            bounds += [int(first, 16), int(last or first, 16) + 1]
        return bounds

    def __contains__(self, character: str) -> bool:
        return bisect_right(self._bounds, ord(character)) % 2 == 1


def parse_pairs(pairs: str) -> dict[str, str]:
    """``"41>61 42>62"`` as ``{"A": "a", "B": "b"}``."""
    points = (pair.split(">") for pair in pairs.split())
    return {chr(int(before, 16)): chr(int(after, 16)) for before, after in points}


# Control, format and private-use characters, U+0000 and U+FFFD: dropped by clean_text.
REMOVED = CharacterClass(
    "0-8 B-C E-1F 7F-9F AD 600-605 61C 6DD 70F 180E 200B-200F 202A-202E 2060-2064 2066-206F "
    "E000-F8FF FEFF FFF9-FFFB FFFD 110BD 1BCA0-1BCA3 1D173-1D17A E0001 E0020-E007F F0000-FFFFD "
    "100000-10FFFD"
)
# Set apart by spaces by handle_chinese_chars.
IDEOGRAPHS = CharacterClass(
    "3400-4DBF 4E00-9FFF F900-FAFF 20000-2A6DF 2A700-2B81F 2B920-2CEAF 2F800-2FA1F"
)
# Non-spacing marks (and what decomposes into them): dropped by strip_accents.
MARKS = CharacterClass(
    "300-36F 483-487 591-5BD 5BF 5C1-5C2 5C4-5C5 5C7 610-61A 64B-65F 670 6D6-6DC 6DF-6E4 6E7-6E8 "
    "6EA-6ED 711 730-74A 7A6-7B0 7EB-7F3 816-819 81B-823 825-827 829-82D 859-85B 8E3-902 93A 93C "
    "941-948 94D 951-957 962-963 981 9BC 9C1-9C4 9CD 9E2-9E3 A01-A02 A3C A41-A42 A47-A48 A4B-A4D "
    "A51 A70-A71 A75 A81-A82 ABC AC1-AC5 AC7-AC8 ACD AE2-AE3 B01 B3C B3F B41-B44 B4D B56 B62-B63 "
    "B82 BC0 BCD C00 C3E-C40 C46-C48 C4A-C4D C55-C56 C62-C63 C81 CBC CBF CC6 CCC-CCD CE2-CE3 D01 "
    "D41-D44 D4D D62-D63 DCA DD2-DD4 DD6 E31 E34-E3A E47-E4E EB1 EB4-EB9 EBB-EBC EC8-ECD F18-F19 "
    "F35 F37 F39 F71-F7E F80-F84 F86-F87 F8D-F97 F99-FBC FC6 102D-1030 1032-1037 1039-103A "
    "103D-103E 1058-1059 105E-1060 1071-1074 1082 1085-1086 108D 109D 135D-135F 1712-1714 "
    "1732-1734 1752-1753 1772-1773 17B4-17B5 17B7-17BD 17C6 17C9-17D3 17DD 180B-180D 18A9 "
    "1920-1922 1927-1928 1932 1939-193B 1A17-1A18 1A1B 1A56 1A58-1A5E 1A60 1A62 1A65-1A6C "
    "1A73-1A7C 1A7F 1AB0-1ABD 1B00-1B03 1B34 1B36-1B3A 1B3C 1B42 1B6B-1B73 1B80-1B81 1BA2-1BA5 "
    "1BA8-1BA9 1BAB-1BAD 1BE6 1BE8-1BE9 1BED 1BEF-1BF1 1C2C-1C33 1C36-1C37 1CD0-1CD2 1CD4-1CE0 "
    "1CE2-1CE8 1CED 1CF4 1CF8-1CF9 1DC0-1DF5 1DFC-1DFF 20D0-20DC 20E1 20E5-20F0 2CEF-2CF1 2D7F "
    "2DE0-2DFF 302A-302D 3099-309A A66F A674-A67D A69E-A69F A6F0-A6F1 A802 A806 A80B A825-A826 "
    "A8C4 A8E0-A8F1 A926-A92D A947-A951 A980-A982 A9B3 A9B6-A9B9 A9BC A9E5 AA29-AA2E AA31-AA32 "
    "AA35-AA36 AA43 AA4C AA7C AAB0 AAB2-AAB4 AAB7-AAB8 AABE-AABF AAC1 AAEC-AAED AAF6 ABE5 ABE8 "
    "ABED FB1E FE00-FE0F FE20-FE2F 101FD 102E0 10376-1037A 10A01-10A03 10A05-10A06 10A0C-10A0F "
    "10A38-10A3A 10A3F 10AE5-10AE6 11001 11038-11046 1107F-11081 110B3-110B6 110B9-110BA "
    "11100-11102 11127-1112B 1112D-11134 11173 11180-11181 111B6-111BE 111CA-111CC 1122F-11231 "
    "11234 11236-11237 112DF 112E3-112EA 11300-11301 1133C 11340 11366-1136C 11370-11374 "
    "114B3-114B8 114BA 114BF-114C0 114C2-114C3 115B2-115B5 115BC-115BD 115BF-115C0 115DC-115DD "
    "11633-1163A 1163D 1163F-11640 116AB 116AD 116B0-116B5 116B7 1171D-1171F 11722-11725 "
    "11727-1172B 16AF0-16AF4 16B30-16B36 16F8F-16F92 1BC9D-1BC9E 1D167-1D169 1D17B-1D182 "
    "1D185-1D18B 1D1AA-1D1AD 1D242-1D244 1DA00-1DA36 1DA3B-1DA6C 1DA75 1DA84 1DA9B-1DA9F "
    "1DAA1-1DAAF 1E8D0-1E8D6 E0100-E01EF"
)
# Characters with a canonical decomposition; newer ones than these are left whole.
DECOMPOSED = CharacterClass(
    "C0-C5 C7-CF D1-D6 D9-DD E0-E5 E7-EF F1-F6 F9-FD FF-10F 112-125 128-130 134-137 139-13E "
    "143-148 14C-151 154-165 168-17E 1A0-1A1 1AF-1B0 1CD-1DC 1DE-1E3 1E6-1F0 1F4-1F5 1F8-21B "
    "21E-21F 226-233 374 37E 385-38A 38C 38E-390 3AA-3B0 3CA-3CE 3D3-3D4 400-401 403 407 40C-40E "
    "419 439 450-451 453 457 45C-45E 476-477 4C1-4C2 4D0-4D3 4D6-4D7 4DA-4DF 4E2-4E7 4EA-4F5 "
    "4F8-4F9 622-626 6C0 6C2 6D3 929 931 934 958-95F 9CB-9CC 9DC-9DD 9DF A33 A36 A59-A5B A5E B48 "
    "B4B-B4C B5C-B5D B94 BCA-BCC CC0 CC7-CC8 CCA-CCB D4A-D4C DDA DDC-DDE F43 F4D F52 F57 F5C F69 "
    "1026 1B06 1B08 1B0A 1B0C 1B0E 1B12 1B3B 1B3D 1B40-1B41 1B43 1E00-1E99 1E9B 1EA0-1EF9 "
    "1F00-1F15 1F18-1F1D 1F20-1F45 1F48-1F4D 1F50-1F57 1F59 1F5B 1F5D 1F5F-1F7D 1F80-1FB4 "
    "1FB6-1FBC 1FBE 1FC1-1FC4 1FC6-1FD3 1FD6-1FDB 1FDD-1FEF 1FF2-1FF4 1FF6-1FFD 2000-2001 2126 "
    "212A-212B 219A-219B 21AE 21CD-21CF 2204 2209 220C 2224 2226 2241 2244 2247 2249 2260 2262 "
    "226D-2271 2274-2275 2278-2279 2280-2281 2284-2285 2288-2289 22AC-22AF 22E0-22E3 22EA-22ED "
    "2329-232A 2ADC 304C 304E 3050 3052 3054 3056 3058 305A 305C 305E 3060 3062 3065 3067 3069 "
    "3070-3071 3073-3074 3076-3077 3079-307A 307C-307D 3094 309E 30AC 30AE 30B0 30B2 30B4 30B6 "
    "30B8 30BA 30BC 30BE 30C0 30C2 30C5 30C7 30C9 30D0-30D1 30D3-30D4 30D6-30D7 30D9-30DA "
    "30DC-30DD 30F4 30F7-30FA 30FE AC00-D7A3 F900-FA0D FA10 FA12 FA15-FA1E FA20 FA22 FA25-FA26 "
    "FA2A-FA6D FA70-FAD9 FB1D FB1F FB2A-FB36 FB38-FB3C FB3E FB40-FB41 FB43-FB44 FB46-FB4E 1109A "
    "1109C 110AB 1134B-1134C 114BB-114BC 114BE 115BA-115BB 1D15E-1D164 1D1BB-1D1C0 2F800-2FA1D"
)
# Marks that strip_accents leaves but canonical ordering may move, and what contains one.
REORDERED = CharacterClass(
    "8D4-8E1 1B44 1BAA 1BF2-1BF3 1DFB 302E-302F A953 A9C0 111C0 11235 1134D 11442 11446 116B6 "
    "11C3F 1D15E-1D166 1D16D-1D172 1D1BB-1D1C0 1E000-1E006 1E008-1E018 1E01B-1E021 1E023-1E024 "
    "1E026-1E02A 1E944-1E94A"
)
# Words of their own.
PUNCTUATION = CharacterClass(
    "21-2F 3A-40 5B-60 7B-7E A1 A7 AB B6-B7 BB BF 37E 387 55A-55F 589-58A 5BE 5C0 5C3 5C6 5F3-5F4 "
    "609-60A 60C-60D 61B 61E-61F 66A-66D 6D4 700-70D 7F7-7F9 830-83E 85E 964-965 970 AF0 DF4 E4F "
    "E5A-E5B F04-F12 F14 F3A-F3D F85 FD0-FD4 FD9-FDA 104A-104F 10FB 1360-1368 1400 166D-166E "
    "169B-169C 16EB-16ED 1735-1736 17D4-17D6 17D8-17DA 1800-180A 1944-1945 1A1E-1A1F 1AA0-1AA6 "
    "1AA8-1AAD 1B5A-1B60 1BFC-1BFF 1C3B-1C3F 1C7E-1C7F 1CC0-1CC7 1CD3 2010-2027 2030-2043 "
    "2045-2051 2053-205E 207D-207E 208D-208E 2308-230B 2329-232A 2768-2775 27C5-27C6 27E6-27EF "
    "2983-2998 29D8-29DB 29FC-29FD 2CF9-2CFC 2CFE-2CFF 2D70 2E00-2E2E 2E30-2E42 3001-3003 "
    "3008-3011 3014-301F 3030 303D 30A0 30FB A4FE-A4FF A60D-A60F A673 A67E A6F2-A6F7 A874-A877 "
    "A8CE-A8CF A8F8-A8FA A8FC A92E-A92F A95F A9C1-A9CD A9DE-A9DF AA5C-AA5F AADE-AADF AAF0-AAF1 "
    "ABEB FD3E-FD3F FE10-FE19 FE30-FE52 FE54-FE61 FE63 FE68 FE6A-FE6B FF01-FF03 FF05-FF0A "
    "FF0C-FF0F FF1A-FF1B FF1F-FF20 FF3B-FF3D FF3F FF5B FF5D FF5F-FF65 10100-10102 1039F 103D0 "
    "1056F 10857 1091F 1093F 10A50-10A58 10A7F 10AF0-10AF6 10B39-10B3F 10B99-10B9C 11047-1104D "
    "110BB-110BC 110BE-110C1 11140-11143 11174-11175 111C5-111C9 111CD 111DB 111DD-111DF "
    "11238-1123D 112A9 114C6 115C1-115D7 11641-11643 1173C-1173E 12470-12474 16A6E-16A6F 16AF5 "
    "16B37-16B3B 16B44 1BC9F 1DA87-1DA8B"
)
# What stands between words.
WHITESPACE = CharacterClass("9-D 20 85 A0 1680 2000-200A 2028-2029 202F 205F 3000")
# Characters of words younger than Unicode 14, which the oldest Python we run on has.
WORD_CHARACTERS = CharacterClass(
    "897 CF3 ECE 1C89-1C8A A7CB-A7CD A7DA-A7DC 105C0-105F3 10D40-10D65 10D69-10D6D 10D6F-10D85 "
    "10EC2-10EC4 10EFC-10EFF 1123F-11241 11380-11389 1138B 1138E 11390-113B5 113B7-113C0 113C2 "
    "113C5 113C7-113CA 113CC-113D3 113E1-113E2 116D0-116E3 11BC0-11BE0 11BF0-11BF9 11F00-11F10 "
    "11F12-11F3A 11F3E-11F42 11F50-11F5A 1342F 13440-13455 13460-143FA 16100-16139 16D40-16D6C "
    "16D70-16D79 18CFF 1B132 1B155 1CCF0-1CCF9 1DF25-1DF2A 1E030-1E06D 1E08F 1E4D0-1E4F9 "
    "1E5D0-1E5FA 2B739 2EBF0-2EE5D 31350-323AF"
)

# Lower case of letters younger than Unicode 14.
LOWERCASED = (
    "1C89>1C8A A7CB>264 A7CC>A7CD A7CE>A7CF A7D2>A7D3 A7D4>A7D5 A7DA>A7DB A7DC>19B 10D50>10D70 "
    "10D51>10D71 10D52>10D72 10D53>10D73 10D54>10D74 10D55>10D75 10D56>10D76 10D57>10D77 "
    "10D58>10D78 10D59>10D79 10D5A>10D7A 10D5B>10D7B 10D5C>10D7C 10D5D>10D7D 10D5E>10D7E "
    "10D5F>10D7F 10D60>10D80 10D61>10D81 10D62>10D82 10D63>10D83 10D64>10D84 10D65>10D85 "
    "16EA0>16EBB 16EA1>16EBC 16EA2>16EBD 16EA3>16EBE 16EA4>16EBF 16EA5>16EC0 16EA6>16EC1 "
    "16EA7>16EC2 16EA8>16EC3 16EA9>16EC4 16EAA>16EC5 16EAB>16EC6 16EAC>16EC7 16EAD>16EC8 "
    "16EAE>16EC9 16EAF>16ECA 16EB0>16ECB 16EB1>16ECC 16EB2>16ECD 16EB3>16ECE 16EB4>16ECF "
    "16EB5>16ED0 16EB6>16ED1 16EB7>16ED2 16EB8>16ED3"
)
