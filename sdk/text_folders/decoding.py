"""Bytes of a file to text, in the encodings that people's files have.

What a file says of itself is believed: a byte order mark, a ``<meta charset>``, a declaration of
XML. UTF-8 is told by its form. Among the others a guess that is wrong is worse than a file that is
skipped, so one is made only where the text looks like text.
"""

from __future__ import annotations

import codecs
import re
import unicodedata

from pocketquery.sdk.text_folders.outline import UnreadError

__all__ = ["decode"]

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16's, which it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_DECLARED = re.compile(
    rb"<meta[^>]+charset\s*=\s*[\"']?([\w-]+)|^\s*<\?xml[^>]+encoding=[\"']([\w-]+)"
    rb"|-\*-.*?coding:\s*([\w-]+)",
    re.IGNORECASE,
)
_HEAD = 2048  # bytes that a declaration is looked for in
_SAMPLE = 1 << 16  # bytes that a guess looks at
_LEAST_CONFIDENCE = 0.15  # of chardet; below it it was wrong for every second text
_WESTERN = (  # letters of languages that are written in cp1252, French to Dutch
    "àâæçéèêëîïôœùûüÿ",
    "äöüßé",
    "áéíóúüñ",
    "àáâãçéêíóôõúü",
    "àèéìíîòóùú",
    "åäöæøé",
    "áéèëêïíóöüú",
)
_SPACES = set("\n\r\t\f\v")
_CONTROLS = {chr(point) for point in range(32)} - _SPACES
_SIGNS = "\xa0«»‘’“”„‚–—…•·°§©®™€£²³½¼¾µ×±¿¡ªº"


def decode(data: bytes) -> str:
    """The text of a file.

    Raises:
        UnreadError: it is no text, or in an encoding that cannot be told.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _decoded(data, encoding)
    if b"\0" in data:
        return _decoded(data, _wide(data))
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        place = error.start
    if declared := _DECLARED.search(data[:_HEAD]):
        name = next(filter(None, declared.groups())).decode().lower()
        try:
            if not name.startswith("utf"):  # it would have been told by its form
                return data.decode("cp1252" if name in ("iso-8859-1", "latin1") else name)
        except (LookupError, ValueError):  # a declaration can be wrong
            pass
    if _is_western(data):
        return data.decode("cp1252")
    return _guessed(data, place)


def _decoded(data: bytes, encoding: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise UnreadError(
            "in an unknown encoding", f"not {encoding} at byte {error.start}; save it as UTF-8"
        ) from error


def _wide(data: bytes) -> str:
    """UTF-16 without a mark: the zero bytes of its spaces and line ends are on one side."""
    sample = data[: _SAMPLE & ~1]
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    for encoding, zeros, others in (("utf-16-le", odd, even), ("utf-16-be", even, odd)):
        if zeros > 20 * others and zeros > len(sample) // 50 and len(data) % 2 == 0:
            return encoding
    raise UnreadError("binary", "not text: it has zero bytes")


def _is_western(data: bytes) -> bool:
    """Whether it looks like cp1252 (or Latin-1): letters of one language, inside words, and signs
    outside of them."""
    try:
        text = data.decode("cp1252")
    except UnicodeDecodeError:
        return False
    if set(text[:_SAMPLE]) & _CONTROLS:
        return False
    foreign = {one for one in text.lower() if one > "\x7f"}
    letters = {one for one in foreign if one not in _SIGNS}
    many = sum(one > "\x7f" for one in text) > len(text) // 4
    sign_inside = re.search(rf"[^\W\d_][{_SIGNS.replace('’', '').replace('·', '')}][^\W\d_]", text)
    return not (many or sign_inside) and any(letters <= set(one) for one in _WESTERN)


def _guessed(data: bytes, place: int) -> str:
    kind, why = "in an unknown encoding", f"not UTF-8 at byte {place}; save it as UTF-8"
    try:
        import chardet
    except ImportError as error:
        raise UnreadError(
            kind, f'{why}, or pip install "pocketquery[files]", which can tell other encodings'
        ) from error
    guess = chardet.detect(data[:_SAMPLE])
    if guess["encoding"] and guess["confidence"] >= _LEAST_CONFIDENCE:
        try:
            text = data.decode(guess["encoding"])
        except (LookupError, ValueError):
            text = "\0"
        if not any(unicodedata.category(one) in ("Cc", "Cn", "Co") for one in set(text) - _SPACES):
            return text
    raise UnreadError(kind, f"{why}; its encoding cannot be told")
