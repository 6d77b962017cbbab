"""A manual in many languages: its HTML pages as documents, dealt so that nothing is parallel.

Debian's packages ``libreoffice-help-*`` hold the same pages, under the same names, in each
language. A few pages are held out in all languages: there they are translations of one another.
Each other page is trained on in one language and calibrated with in another, so that no text is
ever seen together with its translation.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

from pocketquery.sdk.errors import ArtifactNotFoundError
from pocketquery.sdk.files import write_atomic

__all__ = ["Page", "Split", "deal", "read_manual", "read_page", "read_pages", "write_pages"]

_FOLDERS = {"en": "en-US", "zh": "zh-CN"}  # where a language's folder has another name
_BLOCKS = frozenset({"p", "h1", "h2", "h3", "h4", "h5", "h6"})
_VOID = frozenset({"br", "img", "input", "link", "meta", "hr", "col"})  # never closed
_LEAST = 3  # paragraphs of a page that counts


@dataclass(frozen=True)
class Page:
    """One page: its name, the same in all languages, its title and what stands below it."""

    name: str
    title: str
    paragraphs: tuple[str, ...]

    @property
    def size(self) -> int:
        """UTF-8 bytes of the text."""
        return sum(len(text.encode()) for text in (self.title, *self.paragraphs))


@dataclass(frozen=True)
class Split:
    """Names of pages.

    Attributes:
        held_out: there in every language, trained on in none.
        training: by language; no page is in two.
        unseen: by language those to calibrate with: trained on in another language, if at all, and
            in no two languages' either.
    """

    held_out: list[str]
    training: dict[str, list[str]]
    unseen: dict[str, list[str]]


class _PageText(HTMLParser):
    """Headings and paragraphs of the page's own part, without its list of related pages."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks: list[str] = []
        self._open: list[tuple[str, bool]] = []  # tags in the page's part, and whether hidden
        self._text: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if not self._open and given.get("id") != "DisplayArea":
            return
        if tag in _VOID:
            return
        hidden = given.get("class") in ("relatedtopics", "MAC")
        self._open.append((tag, hidden or (bool(self._open) and self._open[-1][1])))
        if tag in _BLOCKS:
            self._text = []

    def handle_endtag(self, tag: str) -> None:
        while self._open and tag in (name for name, _ in self._open):
            closed, hidden = self._open.pop()
            if closed in _BLOCKS and self._text is not None:
                text = " ".join("".join(self._text).split())
                if text and not hidden:
                    self.blocks.append(text)
                self._text = None
            if closed == tag:
                return

    def handle_data(self, data: str) -> None:
        if self._text is not None and self._open and not self._open[-1][1]:
            self._text.append(data)


def read_page(html: str, name: str = "") -> Page:
    """The page in a file's text; without a heading its title is empty."""
    parser = _PageText()
    parser.feed(html)
    parser.close()
    title, *paragraphs = parser.blocks or [""]
    return Page(name, title, tuple(dict.fromkeys(paragraphs)))


def read_manual(folder: Path, languages: Sequence[str]) -> dict[str, dict[str, Page]]:
    """language -> name -> page, English first; pages that hardly have text are left out.

    What a page has in common with the English one, word for word, is not translated yet: it is
    left out of the others. A paragraph that several pages have is kept on the first alone, and
    pages come in the order of their names' hashes, those to hold out first (see :func:`deal`).

    Raises:
        ArtifactNotFoundError: a language's folder is not there.
    """
    found: dict[str, dict[str, Page]] = {}
    english: dict[str, Page] = {}
    for language in ("en", *(other for other in languages if other != "en")):
        place = folder / _FOLDERS.get(language, language) / "text"
        if not place.is_dir():
            raise ArtifactNotFoundError(
                f"{place} is not there; expected the manual's pages in {language}: the package "
                f"libreoffice-help-{_FOLDERS.get(language, language).lower()}, unpacked"
            )
        pages = {
            name: read_page(path.read_text(encoding="utf-8"), name)
            for path in place.rglob("*.html")
            for name in [path.relative_to(place).with_suffix("").as_posix()]
        }
        if language == "en":
            english = pages
        else:
            pages = {name: _translated(page, english.get(name)) for name, page in pages.items()}
        found[language] = _without_repetitions(pages)
    return found


def deal(pages: Mapping[str, Mapping[str, Page]], held_out: int) -> Split:
    """Deal the pages to the languages, each to the one that has least text so far.

    Args:
        pages: language -> name -> page.
        held_out: pages to hold out, of those that are there in every language.
    """
    names = _in_order({name for own in pages.values() for name in own})
    everywhere = [name for name in names if all(name in own for own in pages.values())]
    kept = everywhere[:held_out]
    apart = set(kept)
    training, unseen = _Hands(pages), _Hands(pages)
    for name in names:
        if name in apart:
            continue
        there = [language for language in pages if name in pages[language]]
        learner = training.take(name, there)
        others = [language for language in there if language != learner]
        if others:
            unseen.take(name, others)
    return Split(kept, training.names, unseen.names)


class _Hands:
    """What each language was dealt so far."""

    def __init__(self, pages: Mapping[str, Mapping[str, Page]]) -> None:
        self._pages = pages
        self._sizes = dict.fromkeys(pages, 0)
        self.names: dict[str, list[str]] = {language: [] for language in pages}

    def take(self, name: str, languages: Sequence[str]) -> str:
        """Give a page to the language that has least; which one."""
        least = min(languages, key=self._sizes.__getitem__)
        self.names[least].append(name)
        self._sizes[least] += self._pages[least][name].size
        return least


def write_pages(pages: Iterable[Page], language: str, path: Path) -> None:
    """Write pages as the JSON Lines that ``pocketquery`` reads as documents."""
    rows = (
        {
            "_id": f"{language}/{page.name}",
            "lang": language,
            "title": page.title,
            "paragraphs": list(page.paragraphs),
            "text": "\n\n".join(page.paragraphs),
        }
        for page in pages
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def read_pages(path: Path) -> list[Page]:
    """What :func:`write_pages` wrote."""
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [
        Page(row["_id"].partition("/")[2], row["title"], tuple(row["paragraphs"])) for row in rows
    ]


def _translated(page: Page, english: Page | None) -> Page:
    same = set(english.paragraphs) if english else set()
    return Page(page.name, page.title, tuple(p for p in page.paragraphs if p not in same))


def _without_repetitions(pages: Mapping[str, Page]) -> dict[str, Page]:
    seen: set[str] = set()
    kept = {}
    for name in _in_order(pages):
        new = tuple(p for p in pages[name].paragraphs if p not in seen)
        seen.update(new)
        if pages[name].title and len(new) >= _LEAST:
            kept[name] = Page(name, pages[name].title, new)
    return kept


def _in_order(names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: hashlib.sha256(name.encode()).hexdigest())
