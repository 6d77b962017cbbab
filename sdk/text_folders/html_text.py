"""Sections and paragraphs of a page of HTML."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from pocketquery.sdk.text_folders.outline import Line, Outline

__all__ = ["read_html"]

_BLOCKS = frozenset(
    "address article aside blockquote body br caption dd details div dl dt fieldset figcaption "
    "footer form h1 h2 h3 h4 h5 h6 header hr legend li main nav ol optgroup option p pre section "
    "summary table td th tr ul".split()
)
_HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
_SKIPPED = frozenset("script style template noscript svg math nav dialog".split())
_AROUND = frozenset(("header", "footer", "aside"))  # of a page; those of an article are read
_MAIN = frozenset(("main", "article"))
_UNCLOSED = frozenset("p li dt dd tr td th option".split())
_SKIPPED_CLASSES = frozenset(  # and ids
    "breadcrumb breadcrumbs footer menu nav navbar navigation related sidebar sphinxsidebar "
    "toc".split()
)
_SKIPPED_ROLES = frozenset("navigation search banner contentinfo complementary dialog".split())
_PERMALINKS = frozenset("headerlink anchor anchor-link anchorjs-link header-anchor".split())
_VOID = frozenset("area base br col embed hr img input link meta source track wbr".split())
_MOST_OPEN = 1_000  # elements, among which the one is looked for that ends
_LONGEST_REST = 10_000  # characters of a tag that does not end, each "<" in which is tried anew
_UNENDED = re.compile(r"<[a-zA-Z!/?]")


class _Text(HTMLParser):
    """Collects title, headings and the text of blocks."""

    def __init__(self, outline: Outline, has_lines: bool) -> None:
        super().__init__(convert_charrefs=True)
        self.outline = outline
        self._has_lines = has_lines
        self._words: list[tuple[str, int]] = []  # and the line that each begins on
        self.title = list[str]()
        self._skipped = list[str]()  # elements that are open, the first of which is not read
        self._anchor = ""
        self._in_title = self._in_pre = self._in_main = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if self._skipped:
            if tag not in _VOID:
                self._skipped.append(tag)
        elif tag not in _VOID and _is_skipped(tag, values, self._in_main):
            if tag in _BLOCKS:
                self.end()
            self._skipped.append(tag)
        elif tag == "title":  # an icon has one, too
            self._in_title = True
        elif tag == "meta":
            name = values.get("name", values.get("property", "")).lower()
            if name.removeprefix("og:") == "description":
                self.outline.fields = {"description": values.get("content", "")}
        elif tag == "img":
            self._words.append((f" {values.get('alt', '')} ", self._number()))
        elif tag in _BLOCKS:
            self.end()
            self._in_pre = self._in_pre or tag == "pre"
        self._in_main = self._in_main or tag in _MAIN or values.get("role") == "main"
        is_section = tag in ("section", "a") or "section" in values.get("class", "").split()
        if not self._skipped and (tag in _HEADINGS or is_section):
            named = values.get("name", "") if tag == "a" else ""
            self._anchor = values.get("id") or named or self._anchor

    def handle_endtag(self, tag: str) -> None:
        if self._skipped:
            if tag in self._skipped[-_MOST_OPEN:]:  # with those in it that were not closed
                while self._skipped.pop() != tag:
                    pass
        elif tag == "title":
            self._in_title = False
        elif tag in _MAIN:
            self.end()
            self._in_main = False
        elif tag in _HEADINGS:
            heading = " ".join("".join(text for text, _ in self._words).split())
            self.outline.head(int(tag[1]), heading, self._number(), self._anchor)
            self._words.clear()
            self._anchor = ""
        elif tag in _BLOCKS:
            self.end()
            self._in_pre = self._in_pre and tag != "pre"

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title.append(data)
        elif not self._skipped:
            self._words.append((data, self._number()))

    def parse_html_declaration(self, i: int) -> int:
        """As a browser does: an unknown ``<![`` is a comment, where HTMLParser fails."""
        if self.rawdata.startswith("<![", i):
            return self.parse_bogus_comment(i)
        return super().parse_html_declaration(i)

    def _number(self) -> int:
        return self.getpos()[0] if self._has_lines else 0

    def end(self) -> None:
        """Whatever was collected is a paragraph."""
        lines = [line for line in self._lines() if line.text.strip()]
        if lines:
            self._anchor = ""
        if self._in_pre:
            self.outline.add(lines, "\n")
        else:
            self.outline.add([Line(" ".join(text.split()), number) for text, number in lines])
        self._words.clear()

    def _lines(self) -> list[Line]:
        lines = list[tuple[list[str], int]]()
        for words, number in self._words:
            for n, text in enumerate(words.split("\n")):
                if n or not lines:
                    lines.append(([], number and number + n))
                lines[-1][0].append(text)
        return [Line("".join(texts), number) for texts, number in lines]


def _is_skipped(tag: str, values: dict[str, str], in_main: bool) -> bool:
    if tag in _UNCLOSED:  # its end may be missing, and what follows would be lost
        return False
    classes = {*values.get("class", "").lower().split(), values.get("id", "").lower()}
    return (
        tag in _SKIPPED
        or (tag in _AROUND and not in_main)
        or values.get("role", "") in _SKIPPED_ROLES
        or "hidden" in values
        or values.get("aria-hidden") == "true"
        or (tag == "a" and bool(classes & _PERMALINKS))
        or (tag in ("div", "ul") and bool(classes & _SKIPPED_CLASSES))
    )


def read_html(text: str, outline: Outline | None = None, *, has_lines: bool = True) -> Outline:
    """The sections and paragraphs of a page, without its navigation.

    Args:
        text: of the page.
        outline: to continue, with another page of a book.
        has_lines: whether lines of the text are the file's.
    """
    parser = _Text(outline or Outline(), has_lines)
    parser.feed(text)
    if len(parser.rawdata) > _LONGEST_REST and _UNENDED.match(parser.rawdata):
        parser.feed("-->")
    parser.close()
    parser.end()
    outline = parser.outline
    outline.end()
    top = outline.title_section()
    # A site's name is behind the page's own in <title>, and not in <h1>.
    title = " ".join("".join(parser.title).split())
    outline.title = top.heading if top and top.heading in title else title
    return outline
