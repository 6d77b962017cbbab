"""Words replaced by synonyms, from a table: one the user has, or one made from a corpus.

No table comes with the library: WordNet and its kin are for one language each and larger than the
encoder. A model or a thesaurus of another kind is a plug-in, see
:class:`pocketquery.client.views.augmenters.Augmenter`.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pocketquery.client.views.augmenters import RuleAugmenter, check_share
from pocketquery.client.views.text_units import Units, cut, is_unspaced
from pocketquery.sdk.errors import CorpusError, InvalidInputError
from pocketquery.sdk.validation import check_text
from pocketquery_research.augmentation.rules.word_edges import bare, dressed

__all__ = ["SynonymTable", "Synonyms", "read_synonyms"]

SynonymTable = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Synonyms(RuleAugmenter):
    """Each word that the table has, replaced with probability ``rate`` by one of its synonyms.

    Words are looked up without regard to case and to punctuation around them; where scripts write
    no spaces, the longest entry counts. A capital first letter stays one. Heavy: a table mixes up
    the senses of a word.

    Attributes:
        table: synonyms by word; None: the file's.
        path: a file to read the table from, see :func:`read_synonyms`.
        rate: the share of the words found that is replaced.
        languages: the table's; None: it is used on whatever comes.

    Raises:
        InvalidInputError: ``rate`` is no share; both table and path are given, or neither; a
            word's synonyms are no list of texts.
    """

    table: SynonymTable | None = None
    path: Path | str | None = None
    rate: float = 0.3
    languages: frozenset[str] | None = None
    name = "synonym"

    def __post_init__(self) -> None:
        check_share(self.rate, "rate")
        if (self.table is None) == (self.path is None):
            found = "neither a table nor a path" if self.table is None else "a table and a path"
            raise InvalidInputError(f"found {found}, expected one to take synonyms from")
        for word, synonyms in (self.table or {}).items():
            if isinstance(synonyms, str) or not all(check_text(s).strip() for s in synonyms):
                raise InvalidInputError(
                    f"the synonyms of {word!r} are {synonyms!r}, expected a list of words"
                )

    @property
    def requires(self) -> tuple[str, ...]:
        """The file, where the table is in one."""
        return () if self.path is None else (str(self.path),)

    def available(self) -> tuple[bool, str]:
        """Whether the file is there."""
        if self.path is None or Path(self.path).is_file():
            return True, ""
        return False, f"the synonym file {self.path} is missing"

    def rewrite(self, text: str, rng: random.Random) -> str:
        """``text`` with synonyms in the place of some words."""
        units = cut(text)
        written, at = units.gaps[0], 0
        while at < len(units.texts):
            word, length = self._find(units, at)
            synonyms = self._entries.get(bare(word).casefold(), ())
            if synonyms and rng.random() < self.rate:
                word = dressed(word, rng.choice(synonyms))
            written += word + units.gaps[at + length]
            at += length
        return written

    def _find(self, units: Units, at: int) -> tuple[str, int]:
        """The longest entry that begins at the unit ``at``, or that unit; of how many units."""
        end = at + 1
        while end < len(units.texts) and end < at + self._longest and _adjoins(units, end):
            end += 1
        for stop in range(end, at + 1, -1):
            if (word := "".join(units.texts[at:stop])).casefold() in self._entries:
                return word, stop - at
        return units.texts[at], 1

    @functools.cached_property
    def _entries(self) -> dict[str, tuple[str, ...]]:
        table = read_synonyms(self.path) if self.path is not None else self.table or {}
        return {word.casefold(): tuple(synonyms) for word, synonyms in table.items()}

    @functools.cached_property
    def _longest(self) -> int:
        """Of the entries in scripts without spaces, in characters."""
        return max((len(word) for word in self._entries if is_unspaced(word[:1])), default=1)


def read_synonyms(path: Path | str) -> dict[str, tuple[str, ...]]:
    """A table from a UTF-8 file: a word and its synonyms in each line, separated by tabs.

    Blank lines and lines that begin with ``#`` are left out; of a word's lines, all count.

    Raises:
        CorpusError: the file cannot be read; names the line without a synonym.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CorpusError(f"{path} cannot be read as UTF-8 text: {error}") from error
    table: dict[str, tuple[str, ...]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        word, *synonyms = (field.strip() for field in line.split("\t"))
        if not word or not synonyms or not all(synonyms):
            raise CorpusError(
                f"{path}:{number}: found {line!r}, expected a word, a tab and its synonyms, each "
                "after a tab"
            )
        table[word] = table.get(word, ()) + tuple(synonyms)
    return table


def _adjoins(units: Units, at: int) -> bool:
    """Whether the unit ``at`` and the one before are of one run without spaces."""
    pair = units.texts[at - 1 : at + 1]
    return not units.gaps[at] and all(is_unspaced(unit[:1]) for unit in pair)
