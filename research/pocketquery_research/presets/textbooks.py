"""OpenStax's textbooks as plain paragraphs, from clones of their repositories.

    git clone --bare https://github.com/openstax/osbooks-microbiology
    python -m pocketquery_research.presets.textbooks osbooks-*.git --output DATA/openstax_textbooks

What a trade calls its things stands in its textbooks. Each clone is read at its newest commit under
CC BY 4.0: most books are under CC BY-NC-SA since 2026, which forbids what an Apache-2.0 encoder
allows; a clone that never was under CC BY is refused. The source is CNXML: paragraphs and the
glossary's definitions are kept, tables, lists, figures and formulas set apart are not. One JSON a
module: title, paragraphs (list of section, text), as ``enwiki_pages`` has them. :data:`BOOKS` names
those that the recipe's budgets with textbooks are meant for.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from pocketquery.sdk.errors import InvalidInputError
from pocketquery_research.presets.clones import FILE, git, write_pages

__all__ = ["BOOKS", "main", "paragraphs"]

BOOKS = {
    "american-government": "5c90dd7907db",
    "anatomy-physiology": "b0058a743bdd",
    "astronomy": "63157f370b09",
    "chemistry-bundle": "32c719622fbb",
    "college-algebra-bundle": "4922e46ebc04",
    "college-physics-bundle": "f98d7a792138",
    "college-success-bundle": "4c04b87eb275",
    "introduction-anthropology": "418eedd9bef2",
    "introduction-business": "78c9e7ad4e58",
    "introduction-philosophy": "d7bd4f0f5205",
    "introduction-python-programming": "d6d069bb2467",
    "introduction-sociology": "d35d5f3bdac4",
    "introductory-statistics-bundle": "50ec91749080",
    "microbiology": "ecf34dad129d",
    "nursing-external-bundle": "7876f90a3dbd",
    "physics": "ff78c7a8150f",
    "principles-economics-bundle": "cd31beb103ff",
    "psychology": "e061043bf2f9",
    "university-physics-bundle": "db44eb99e9aa",
    "us-history": "046331cfcea0",
}
"""``openstax/osbooks-<name>`` on GitHub, and the commit that was read."""

_LICENCE = b"Attribution 4.0 International"
_CNXML = "{http://cnx.rice.edu/cnxml}"
_MATHML = "{http://www.w3.org/1998/Math/MathML}math"
_SHORTEST = 80  # characters of a paragraph: below are captions and single steps of a solution
_APART = {
    f"{_CNXML}{name}" for name in ("table", "figure", "list", "equation", "media", "footnote")
}
_UNTITLED = ("", "introduction", "key terms", "summary", "review questions")


def main(arguments: list[str] | None = None) -> int:
    """The command line of the docstring."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("clones", type=Path, nargs="+", help="clones, bare or not")
    parser.add_argument("--output", type=Path, required=True, help=f"folder; gets {FILE}")
    options = parser.parse_args(arguments)
    pages = []
    try:
        for clone in options.clones:
            commit = _under_cc_by(clone)
            found = list(_modules(clone, commit))
            print(f"{clone}: {len(found)} modules at {commit[:12]}", flush=True)
            pages += found
    except InvalidInputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    write_pages(options.output, pages)
    return 0


def paragraphs(root: ElementTree.Element) -> Iterator[tuple[str, str]]:
    """``(section, text)`` of a module's paragraphs, in order, and then of its glossary.

    A definition's section is its term, and its text ``term: meaning``.
    """
    content = root.find(f"{_CNXML}content")
    if content is not None:
        yield from _of_section(content, "")
    for definition in root.iter(f"{_CNXML}definition"):
        term, meaning = definition.find(f"{_CNXML}term"), definition.find(f"{_CNXML}meaning")
        if term is not None and meaning is not None:
            name = _text(term)
            yield name, f"{name}: {_text(meaning)}"


def _of_section(element: ElementTree.Element, section: str) -> Iterator[tuple[str, str]]:
    for child in element:
        if child.tag == f"{_CNXML}para":
            text = _text(child)
            if len(text) >= _SHORTEST and text.endswith((".", "?", "!")):
                yield section, text
        elif child.tag == f"{_CNXML}title" and element.tag == f"{_CNXML}section":
            section = _text(child)
        elif child.tag not in _APART:
            yield from _of_section(child, section)


def _text(element: ElementTree.Element) -> str:
    """What is read aloud of it: without what is set apart, formulas without inner spaces."""

    def parts(one: ElementTree.Element) -> Iterator[str]:
        if one.tag == _MATHML:
            yield "".join("".join(one.itertext()).split())
        elif one.tag not in _APART:
            yield one.text or ""
            for child in one:
                yield from parts(child)
                yield child.tail or ""

    return " ".join("".join(parts(element)).split())


def _under_cc_by(clone: Path) -> str:
    """The newest commit whose LICENSE is CC BY 4.0.

    Raises:
        InvalidInputError: it is no clone, or there is none.
    """
    newest = "HEAD"
    for changed in git(clone, "log", "--format=%H", "HEAD", "--", "LICENSE").decode().split():
        if git(clone, "show", f"{changed}:LICENSE").startswith(_LICENCE):
            return git(clone, "rev-parse", newest).decode().strip()
        newest = f"{changed}^"
    raise InvalidInputError(f"{clone} was never under CC BY 4.0; expected a book that once was")


def _modules(clone: Path, commit: str) -> Iterator[dict[str, object]]:
    book = clone.name.removeprefix("osbooks-").removesuffix(".git").removesuffix("-bundle")
    listed = git(clone, "ls-tree", "-r", "--name-only", commit, "modules/").decode().splitlines()
    for name in listed:
        if not name.endswith("/index.cnxml"):
            continue
        cnxml = git(clone, "show", f"{commit}:{name}")
        try:
            root = ElementTree.fromstring(cnxml)
        except ElementTree.ParseError as error:
            raise InvalidInputError(
                f"{clone}: {name} at {commit} is no XML ({error}); expected CNXML"
            ) from error
        found = [{"section": section, "text": text} for section, text in paragraphs(root)]
        title = root.find(f"{_CNXML}title")
        named = "" if title is None else _text(title)
        if named.lower() in _UNTITLED:
            named = book.replace("-", " ")
        if found:
            yield {"title": named, "paragraphs": found}


if __name__ == "__main__":
    sys.exit(main())
