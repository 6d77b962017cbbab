"""From text to terms, for indexing and for queries alike.

SQLite's FTS5 does the work: its ``unicode61`` tokenizer folds case and accents, its ``porter``
stems English, both in C and on every device that has Python. A private FTS5 table in memory takes
the texts and its ``fts5vocab`` gives the terms back; a user's text is only ever a value in a
column, never an FTS5 expression.

Three things are ours. Accents go in every script. Other combining marks belong to words (by
default FTS5 cuts Hindi or Thai words at their vowel signs). And in scripts that write no spaces,
where FTS5 would see a sentence as one word, each run of letters becomes its single characters and
its overlapping pairs: the usual character bigrams of CJK retrieval, with single ones so that a
query of one character finds.

The time is linear in the text. Canonical ordering, a step of NFKD and NFC, sorts each run of
combining marks in the square of its length, and words have no more than a few: of a longer run the
first 30 marks count, as in Unicode's Stream-Safe Text Format (UAX #15, section 13), which breaks
runs there.
"""

from __future__ import annotations

import re
import sqlite3
import threading
import unicodedata
import weakref
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.sqlite_file import check_sqlite

__all__ = ["UNSPACED", "Analyzer", "has_word", "spaced"]

# Thai, Lao, Myanmar, Khmer; Kana, Bopomofo, Han and its extensions (Hangul writes spaces).
UNSPACED = re.compile(
    "[\u0e00-\u0e4f\u0e80-\u0ecf\u0edc-\u0eff\u1000-\u103f\u1050-\u108f\u1780-\u17d3"
    "\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3041-\u3096\u3099-\u309a\u309d-\u309f"
    "\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\ua9e0-\ua9fe\uaa60-\uaa7f\uf900-\ufaff\U0001b000-\U0001b16f"
    "\U00020000-\U0003ffff]+"
)
"""A run of letters of scripts that write no spaces."""
_LETTER = re.compile(r"[^\W_]")
_ACCENTS = re.compile("[\u0300-\u036f]+")
_MOST_MARKS = 30
_EXCESS_MARKS = re.compile(f"(?<=1{{{_MOST_MARKS}}})1+")  # in a text of 0 and 1, see _Marks
_JOINER = "\u034f"  # a starter, but _ACCENTS drops it, and the marks on its sides meet
_TOKENIZER = "porter unicode61 remove_diacritics 2 categories ''L* N* Co Mn Mc''"


def has_word(text: str) -> bool:
    """Whether ``text`` has a letter or a digit, so that words can find it."""
    return _LETTER.search(text) is not None


def spaced(text: str) -> str:
    """``text`` without accents (in Greek and Cyrillic too, where FTS5 leaves them), compatible
    characters made one (NFKC), runs of unspaced scripts written as single characters and pairs.
    """
    if text.isascii():
        return text
    bare = _ACCENTS.sub("", unicodedata.normalize("NFKD", _stream_safe(text)))
    return UNSPACED.sub(lambda run: _pieces(run[0]), unicodedata.normalize("NFC", bare))


class _Marks(dict[int, str]):
    """A table for ``str.translate``: "1" for what canonical ordering may move, else "0"."""

    def __missing__(self, point: int) -> str:
        first = unicodedata.normalize("NFKD", chr(point))[0]
        mark = "1" if unicodedata.combining(first) or first == _JOINER else "0"
        if len(self) < 1 << 16:  # every script in use
            self[point] = mark
        return mark


_marks = _Marks()


def _stream_safe(text: str) -> str:
    """``text`` with the first 30 of each run of combining marks."""
    pieces, done = [], 0
    for run in _EXCESS_MARKS.finditer(text.translate(_marks)):
        pieces.append(text[done : run.start()])
        done = run.end()
    return "".join([*pieces, text[done:]]) if done else text


def _pieces(run: str) -> str:
    starts = [
        position  # a vowel sign or tone mark is part of its letter
        for position, character in enumerate(run)
        if not position or not unicodedata.category(character).startswith("M")
    ]
    characters = [run[start:stop] for start, stop in pairwise([*starts, len(run)])]
    pairs = [left + right for left, right in pairwise(characters)]
    return f" {' '.join(characters + pairs)} "


class Analyzer:
    """Terms of texts. Safe to use from threads, which take turns.

    Raises:
        PocketQueryError: this Python's SQLite cannot do it.
    """

    def __init__(self) -> None:
        check_sqlite()
        self._lock = threading.Lock()
        self._closed = False
        self._scratch = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        weakref.finalize(self, self._scratch.close)  # an index that cannot be opened is not closed
        self._scratch.execute(
            f"CREATE VIRTUAL TABLE texts USING fts5(text, content='', tokenize='{_TOKENIZER}')"
        )
        self._scratch.execute("CREATE VIRTUAL TABLE terms USING fts5vocab(texts, instance)")
        # FTS5 cuts a term at 32 KiB, if need be through a character.
        self._scratch.text_factory = lambda data: str(data, "utf-8", "ignore")

    def occurrences(self, texts: Sequence[str]) -> Counter[tuple[str, int]]:
        """How often each term occurs in each text, by (term, position of the text).

        Raises:
            InvalidInputError: the analyzer is closed.
        """
        with self._lock:
            if self._closed:
                raise InvalidInputError("the index was closed meanwhile; open it again")
            self._scratch.execute("BEGIN")
            try:
                self._scratch.executemany(
                    "INSERT INTO texts (rowid, text) VALUES (?, ?)",
                    ((row, spaced(text)) for row, text in enumerate(texts)),
                )
                return Counter(self._scratch.execute("SELECT term, doc FROM terms"))
            finally:
                self._scratch.execute("ROLLBACK")

    def terms(self, text: str) -> Counter[str]:
        """How often each term occurs in ``text``."""
        return Counter({term: n for (term, _), n in self.occurrences([text]).items()})

    def close(self) -> None:
        """Free the memory; the analyzer cannot be used afterwards."""
        with self._lock:
            self._closed = True
            self._scratch.close()
