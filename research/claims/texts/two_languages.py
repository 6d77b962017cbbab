"""CCP's two languages: a manual's pages in English and German, dealt so that nothing is parallel.

The manual is LibreOffice's help, as Debian packages it: ``apt-get download libreoffice-help-en-us
libreoffice-help-de``, ``dpkg-deb -x`` each, and ``POCKETQUERY_MANUAL`` names the folder
``usr/share/libreoffice/help``. Each page is trained on in one language alone, and calibrated with
in the other. Of pages that are held out in both, the paragraphs are the test: where a page has as
many in either language, they are taken for translations of each other, in their order.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pocketquery.server.corpus import split_sentences
from pocketquery.server.corpus.groups import Group, GroupList

sys.path.append(str(Path(__file__).resolve().parents[2] / "studies"))
from language_journey.manual import Page, deal, read_manual

__all__ = ["LANGUAGES", "TwoLanguages", "two_languages"]

LANGUAGES = ("en", "de")
_FOLDER = "POCKETQUERY_MANUAL"
_HELD_OUT = 300  # pages
_LEAST_WORDS = 4  # of a paragraph that is tested
_MOST_LONGER = (
    2.0  # a pair in which one side has more than so many times the other's letters is none
)


@dataclass(frozen=True)
class TwoLanguages:
    """What is trained on, fitted on and tested.

    Attributes:
        documents: of both languages, from disjoint pages.
        unseen: by language sentences of pages that were trained on in the other one alone.
        pairs: (English, German) paragraphs of pages that training and calibration do not have.
    """

    documents: GroupList
    unseen: dict[str, list[str]]
    pairs: list[tuple[str, str]]


def two_languages() -> TwoLanguages:
    """Read the manual that ``POCKETQUERY_MANUAL`` names.

    Raises:
        SystemExit: it names none.
        ArtifactNotFoundError: a language is missing there.
    """
    folder = os.environ.get(_FOLDER, "")
    if not Path(folder).is_dir() or not folder:
        raise SystemExit(
            f'{_FOLDER} is "{folder}", which is no folder; expected LibreOffice\'s help in English '
            "and German. Next: unpack Debian's libreoffice-help-en-us and libreoffice-help-de and "
            "name their folder usr/share/libreoffice/help"
        )
    pages = read_manual(Path(folder), LANGUAGES)
    split = deal(pages, _HELD_OUT)
    groups = [
        Group(f"{language}/{name}", (page.title, *_sentences(page)), (), language, title=True)
        for language in LANGUAGES
        for name in split.training[language]
        for page in [pages[language][name]]
    ]
    unseen = {
        language: [text for name in split.unseen[language] for text in _sentences(own[name])]
        for language, own in pages.items()
    }
    pairs = [pair for name in split.held_out for pair in _pairs(pages, name)]
    return TwoLanguages(GroupList(groups, "documents"), unseen, list(dict.fromkeys(pairs)))


def _sentences(page: Page) -> list[str]:
    return [sentence for text in page.paragraphs for sentence in split_sentences(text)]


def _pairs(pages: Mapping[str, Mapping[str, Page]], name: str) -> Iterable[tuple[str, str]]:
    """The page's paragraphs that are long enough and not of very different lengths."""
    english, german = (pages[language][name].paragraphs for language in LANGUAGES)
    if len(english) != len(german):
        return
    for left, right in zip(english, german, strict=True):
        shorter, longer = sorted((len(left), len(right)))
        words = min(len(left.split()), len(right.split()))
        if words >= _LEAST_WORDS and longer <= _MOST_LONGER * shorter:
            yield left, right
