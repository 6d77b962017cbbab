"""How much of what is indexed an encoder reads, and what to say of the rest."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Sequence

from pocketquery.sdk.errors import PocketQueryWarning
from pocketquery.sdk.languages.scripts import MOST_READ, base_code

__all__ = ["PACKAGE", "ReadingTally", "unread_query"]

PACKAGE = "pocketquery-multilingual"
"""The encoder of many languages, and what installs it."""

_NOTABLE = 0.1  # of the letters of what is indexed
_NAMED = 4  # languages that a warning names


def unread_query(name: str, languages: Sequence[str]) -> str:
    """What to say of a query that an encoder does not read."""
    return (
        f"the encoder {name} does not read the query's letters (it reads "
        f"{', '.join(languages) or 'others'}), so its words alone are searched; {PACKAGE} reads "
        "many languages (docs/how-to/many-languages.md)"
    )


class ReadingTally:
    """How much of what is indexed an encoder reads, counted in letters. ::

        tally = ReadingTally(encoder.name, encoder.languages, encoder.reads)
        tally.add(text, language_of(text))
        tally.warn()

    Args:
        name: of the encoder.
        languages: that it was made for; none where that is not known.
        reads: whether it reads a text.
    """

    def __init__(
        self, name: str, languages: Sequence[str], reads: Callable[[str], bool] | None
    ) -> None:
        self._name, self._languages, self._reads = name, tuple(languages), reads
        self._letters = 0
        self._unread: Counter[str] = Counter()

    def add(self, text: str, language: str) -> None:
        """Count a text.

        Args:
            text: what is encoded.
            language: its code; empty where that is not known.
        """
        if self._reads is None:
            return
        text = text[:MOST_READ]
        letters = sum(map(str.isalpha, text))
        self._letters += letters
        known = [base_code(one) for one in self._languages]
        is_other = language and known and base_code(language) not in known
        if is_other or not self._reads(text):
            self._unread[language] += letters

    @property
    def message(self) -> str:
        """What to warn of; empty where the encoder reads nearly all."""
        unread = self._unread.total()
        if not unread or unread < _NOTABLE * self._letters:
            return ""
        shares = [
            f"{name or 'unknown'} {count / self._letters:.0%}"
            for name, count in self._unread.most_common(_NAMED)
        ]
        more = ", ..." if len(self._unread) > _NAMED else ""
        reads = ", ".join(self._languages) or "other letters"
        return (
            f"{unread / self._letters:.0%} of the text is in languages that the encoder "
            f"{self._name} does not read ({', '.join(shares)}{more}; it reads {reads}). It is "
            f"found by its words alone, or badly by meaning. {PACKAGE} reads them: pip install "
            f"{PACKAGE}, then index again with --bundle {PACKAGE} (in Python "
            f'sdk.load("{PACKAGE}"))'
        )

    def warn(self) -> None:
        """Warn, once, where the encoder does not read a tenth of the letters or more."""
        if self.message:
            warnings.warn(self.message, PocketQueryWarning, stacklevel=2)
            self._unread.clear()
