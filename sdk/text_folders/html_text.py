"""Title and paragraphs of a page of HTML."""

from __future__ import annotations

from html.parser import HTMLParser

from pocketquery.sdk.text_folders.outline import Outline, Paragraph

__all__ = ["html_text"]

_BLOCKS = frozenset(
    "address article aside blockquote body br caption dd details div dl dt fieldset figcaption "
    "footer form h1 h2 h3 h4 h5 h6 header hr legend li main nav ol optgroup option p pre section "
    "summary table td th tr ul".split()
)
_HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
_SKIPPED_ELEMENTS = frozenset(("script", "style", "template", "noscript", "svg", "math"))


class _Text(HTMLParser):
    """Collects title, headings and the text of blocks."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.title = ""
        self.outline = Outline()
        self._words: list[str] = []
        self._unread = 0
        self._in_title = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _SKIPPED_ELEMENTS:
            self._unread += 1
        elif tag == "title" and not self._unread:  # an icon has one, too
            self._in_title = True
        elif tag in _BLOCKS:
            self.end()

    def handle_endtag(self, tag: str) -> None:
        if tag in _SKIPPED_ELEMENTS:
            self._unread = max(0, self._unread - 1)
        elif tag == "title":
            self._in_title = False
        elif tag in _HEADINGS:
            if heading := " ".join("".join(self._words).split()):
                self.outline.head(int(tag[1]), heading)
            self._words.clear()
        elif tag in _BLOCKS:
            self.end()

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title = " ".join((self.title + data).split())
        elif not self._unread:
            self._words.append(data)

    def parse_html_declaration(self, i: int) -> int:
        """As a browser does: an unknown ``<![`` is a comment, where HTMLParser fails."""
        if self.rawdata.startswith("<![", i):
            return self.parse_bogus_comment(i)
        return super().parse_html_declaration(i)

    def end(self) -> None:
        """Whatever was collected is a paragraph."""
        if text := " ".join("".join(self._words).split()):
            self.outline.add(text)
        self._words.clear()


def html_text(text: str) -> tuple[str, list[Paragraph]]:
    parser = _Text()
    parser.feed(text)
    parser.close()
    parser.end()
    parser.outline.end()
    return parser.title, parser.outline.paragraphs
