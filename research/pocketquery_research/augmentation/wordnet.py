"""Words replaced by WordNet synonyms, read from a copy that the user has."""

from __future__ import annotations

import functools
import os
import random
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pocketquery.client.views.augmenters import RuleAugmenter, check_share
from pocketquery.client.views.text_units import cut
from pocketquery.sdk.errors import ArtifactNotFoundError, CorruptArtifactError
from pocketquery_research.augmentation.rules.stopwords import STOPWORDS
from pocketquery_research.augmentation.rules.word_edges import bare, dressed

__all__ = ["WordNet"]

_PARTS = ("noun", "verb", "adj", "adv")
_FILES = ("lexnames", *(f"{kind}.{part}" for part in _PARTS for kind in ("index", "data")))
_UNREADABLE = (OSError, ValueError, AssertionError, LookupError, StopIteration)
_EXCEPTIONS = tuple(f"{part}.exc" for part in _PARTS)


@dataclass(frozen=True)
class WordNet(RuleAugmenter):
    """Each word that WordNet has, replaced with probability ``rate`` by a synonym of any sense.

    Heavy, because the senses of a word are mixed up. English. Stop words stay: to WordNet, "a" is
    an ångström and "he" is helium.

    Attributes:
        path: folder of WordNet's database files, as in NLTK's package ``wordnet``.
        rate: share of the words found that is replaced.

    Raises:
        InvalidInputError: ``rate`` is no share.
    """

    path: str
    rate: float = 0.3
    name = "wordnet"
    languages = frozenset({"en"})

    def __post_init__(self) -> None:
        check_share(self.rate, "rate")

    @property
    def requires(self) -> tuple[str, ...]:
        """The folder."""
        return (self.path,)

    def available(self) -> tuple[bool, str]:
        """Whether the database is here."""
        missing = _missing_files(self.path)
        return not missing, missing

    def rewrite(self, text: str, rng: random.Random) -> str:
        """``text`` with synonyms in the place of some words."""
        units = cut(text)
        texts = list(units.texts)
        for place, unit in enumerate(texts):
            synonyms = self.synonyms(bare(unit))
            if synonyms and rng.random() < self.rate:
                texts[place] = dressed(unit, rng.choice(synonyms))
        return units.arranged(texts)

    def synonyms(self, word: str) -> tuple[str, ...]:
        """What shares a sense with ``word``, whichever form it stands in, in alphabetic order.

        Raises:
            ArtifactNotFoundError: the copy lacks files.
        """
        small = word.lower()
        if not small or small in STOPWORDS["en"]:
            return ()
        return _synonyms(self.path, os.getpid(), small)


@functools.lru_cache(maxsize=100_000)
def _synonyms(path: str, process: int, word: str) -> tuple[str, ...]:
    lemmas = {
        lemma.replace("_", " ")
        for synset in _reader(path, process).synsets(word)
        for lemma in synset.lemma_names()
    }
    return tuple(sorted(one for one in lemmas if one.casefold() != word))


@functools.lru_cache(maxsize=4)
def _reader(path: str, process: int) -> Any:
    """NLTK's reader, one a process: it keeps files open, and forks share where they are read."""
    if missing := _missing_files(path):
        raise ArtifactNotFoundError(missing)
    import nltk.data  # takes a while
    from nltk.corpus.reader import WordNetCorpusReader

    folder = str(Path(path).absolute())
    if folder not in nltk.data.path:  # NLTK reads only folders that somebody vouched for
        nltk.data.path.append(folder)

    class Reader(WordNetCorpusReader):  # type: ignore[misc]
        """The reader for English alone, which needs no second WordNet to compare versions with."""

        def map_wn(self, version: str = "wordnet") -> None:
            """Nothing: other languages' synsets are not mapped to these."""

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that other languages are absent is meant
            return Reader(folder, None)
    except _UNREADABLE as error:
        raise CorruptArtifactError(
            f"{path} cannot be read as WordNet ({error}); expected the database files of WordNet 3"
        ) from error


def _missing_files(path: str) -> str:
    missing = [name for name in (*_FILES, *_EXCEPTIONS) if not (Path(path) / name).is_file()]
    if len(missing) == len(_FILES) + len(_EXCEPTIONS):
        return f'there is no WordNet in "{path}"; give the folder of a copy, none is downloaded'
    names = ", ".join(missing)
    return f"the WordNet in {path} lacks {names}; NLTK's package has them" if missing else ""
