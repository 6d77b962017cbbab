"""Sections and paragraphs of Markdown, as a reader of the page sees them.

Also of what people write in it: Obsidian's links and embeds, GitHub's notes, templates of Jekyll,
Hugo and MDN, containers of VitePress, imports and components of MDX. Code stays to the letter.
"""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Callable

from pocketquery.sdk.text_folders.front_matter import front_matter
from pocketquery.sdk.text_folders.outline import Line, Outline, github_anchor, items, relined

__all__ = ["read_markdown"]

_CLOSED = r"[ \t]++(?!#*+[ \t]*+$)"  # blanks before more of a heading than the signs that close it
_HEADING = re.compile(
    rf" {{0,3}}(#{{1,6}})(?:{_CLOSED}((?:[^ \t]++|{_CLOSED})*+))?(?:[ \t]++#++)?[ \t]*+$"
)
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*$")
_RULE = re.compile(r" {0,3}([-*_])[ \t]*(?:\1[ \t]*){2,}$")
_FENCE = re.compile(r"\s*(?:>\s*)*(`{3,}(?=[^`]*$)|~{3,})")  # code between two of them
_COMMENT = re.compile(r" {0,3}(<!--(?!.*-->)|%%(?!.*%%))")  # that ends on a later line
_IMAGE = r"!\[[^\]]*\]\([^)]*\)"
_SILENT_LINE = re.compile(
    r"\s*+(?:"
    r"\[[^\]^]+\]:\s*\S+(?:\s+[\"'(].*)?"  # where a reference leads
    r"|:{3,}\s*+\w*+\s*+(?:\{.*\})?"  # the end of a container
    r"|\[\[?_?TOC_?\]?\]"
    rf"|(?:{_IMAGE}\s*+|\[{_IMAGE}\]\([^)]*\)\s*+){{2,}}|\[{_IMAGE}\]\([^)]*\)"  # badges
    r"|(?:\{\{[^{}]*\}\}\s*+|\{%[^{}]*%\}\s*+)+"  # templates
    r"|\|?\s*+:?-+:?\s*+(?:\|\s*+:?-+:?\s*+)+\|?"  # the rule of a table
    r"|\{:.*\}"  # classes of the paragraph above
    r")\s*$"
)
_MODULE = re.compile(r"(?:import|export)\s.*(?:from\s+)?['\"{(;=]")  # of MDX
_SCRIPT = re.compile(r" {0,3}<(script|style)\b(?!.*</\1>)", re.IGNORECASE)
_LIST_ITEM = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])\s+")
_ITEM = re.compile(rf"{_LIST_ITEM.pattern}|\s*\|")  # or a row of a table
_QUOTE = re.compile(r"^\s{0,3}(?:>\s?)+(?:\[!\w[\w-]*\][-+]?)?")
_CONTAINER = re.compile(r"^\s*:{3,}\s*\w[\w-]*\s*")
_CODE_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.{1,1000}?)(?<!`)\1(?!`)")
_FORMULA = re.compile(r"\$\$.{1,1000}?\$\$|\$(?=\S)[^$\n]{1,300}(?<=\S)\$(?!\d)", re.DOTALL)
_ANCHOR = re.compile(r"(?<!\s)\s*+\{#([^\s{}]+)[^{}]*\}")

_TAG = re.compile(
    r"</?(?:a|abbr|article|aside|audio|b|blockquote|br|button|caption|center|cite|code|col|dd|del|"
    r"details|dfn|div|dl|dt|em|figcaption|figure|font|footer|form|h[1-6]|header|hr|i|iframe|input|"
    r"ins|kbd|label|li|main|mark|nav|ol|option|p|picture|pre|q|s|samp|section|select|small|source|"
    r"span|strike|strong|style|script|sub|summary|sup|svg|path|table|tbody|td|template|tfoot|th|"
    r"thead|time|tr|tt|u|ul|var|video|wbr|[a-zA-Z]+-[\w-]+)(?:\s[^<>]*)?/?>",
    re.IGNORECASE,
)
_IMAGE_TAG = re.compile(
    r"<img\b[^<>]*?(?:\balt\s*=\s*(?:\"([^\"]*)\"|'([^']*)')[^<>]*)?/?>", re.IGNORECASE
)
_COMPONENT = re.compile(r"</?[A-Z][\w.]*(?:\s[^<>]*)?/?>")  # of MDX and Vue


def _wiki(match: re.Match[str]) -> str:
    """What Obsidian shows of ``[[page#heading|words]]``."""
    page, _, heading = match[1].partition("#")
    return match[2] or " > ".join(filter(None, (page, heading.lstrip("^"))))


def _embedded(match: re.Match[str]) -> str:
    """An embedded note's name; of a picture there is nothing to read."""
    return "" if re.search(r"\.\w{2,5}(?:#|$)", match[1]) else " " + match[1].replace("#", " > ")


def _alternative(match: re.Match[str]) -> str:
    """Of a picture."""
    return match[1] or match[2] or ""


def _macro(match: re.Match[str]) -> str:
    """MDN's ``{{jsxref("Array.map", "map()")}}`` shows its second argument, else the first."""
    second = match[4] or "#"
    return match[2] if second.startswith("#") else second


_INLINE: tuple[
    tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...
] = (  # from the outermost to the innermost; none looks further than 1,000 characters
    (re.compile(r"<!--.{0,1000}?-->|%%.{0,1000}?%%", re.DOTALL), ""),
    (
        re.compile(r"\{%.{0,1000}?%\}|\{\{[<%].{0,1000}?[>%]\}\}|\{\{[^{}'\"]*[.|(][^{}'\"]*\}\}"),
        "",
    ),
    (
        re.compile(
            r"\{\{\w+\(\s*(?>(['\"])(.{0,1000}?)\1)(?:\s*+,\s*+(?>(['\"])(.{1,1000}?)\3))?+[^{}]*+\}\}"
        ),
        _macro,
    ),
    (re.compile(r"(?<=\S)\{\{\w+\}\}"), ""),
    (re.compile(r"\s?!\[\[([^\[\]|]*+)(?:\|[^\[\]]*+)?\]\]"), _embedded),
    (re.compile(r"\[\[([^\[\]|]*)(?:\\?\|([^\[\]]*+))?\]\]"), _wiki),
    (re.compile(r"!\[([^\[\]]*+)\](?:\([^()]*(?:\([^()]*\)[^()]*)*\)|\[[^\]]*\])"), r"\1"),
    (
        re.compile(
            r"(?<!\\)\[([^\[\]]+)\](?:\([^()\s]*(?:\([^()]*\)[^()\s]*)*(?:\s+[^()]*)?\)|\[[^\]]*\])"
        ),
        r"\1",
    ),
    (re.compile(r"\[\^[^\[\]\s]++\]:?"), ""),
    (re.compile(r"<((?:https?|ftp|mailto):[^<>\s]+|[\w.+-]+@[\w.-]+)>"), r"\1"),
    (_IMAGE_TAG, _alternative),
    (_TAG, ""),
    (re.compile(r"\{[:#][^{}]*\}"), ""),
    (
        re.compile(
            r"(?<![\w*\\])(\*{1,3})(?=[^\s*])(.{1,1000}?)(?<=[^\s*\\])\1(?![\w*])", re.DOTALL
        ),
        r"\2",
    ),
    (re.compile(r"(?<![\w*\\])\*\*(?=[^\s*])(.{1,1000}?)(?<=[^\s*\\])\*\*", re.DOTALL), r"\1"),
    (re.compile(r"(?<![\w\\])_(?=[^\s_])([^_]+?)(?<=[^\s_\\])_(?!\w)"), r"\1"),
    (re.compile(r"(?<![\w\\])__(?=[^\s_])([^_]*\s[^_]*)(?<=[^\s_\\])__(?!\w)"), r"\1"),
    (re.compile(r"(~~|==)(?=\S)(.{1,1000}?)(?<=\S)\1", re.DOTALL), r"\2"),
    (
        re.compile(r"(?:^|\s++)\^(?=\S*[a-zA-Z])[a-zA-Z0-9-]{2,}+[ \t]*+$"),
        "",
    ),  # the paragraph's name in Obsidian
)
_LONGEST_MARKUP = 8_000  # characters of a paragraph
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")


def read_markdown(
    text: str, *, is_mdx: bool = False, outline: Outline | None = None, has_lines: bool = True
) -> Outline:
    """The sections and paragraphs of a Markdown file.

    Args:
        text: of the file, with ``\\n`` at the ends of lines.
        is_mdx: leave out imports, exports and tags of components.
        outline: to continue, with the text of another cell of a notebook.
        has_lines: whether lines of the text are the file's.
    """
    outline = outline or Outline(github_anchor)
    fields, start = front_matter(text) if not outline.paragraphs else ({}, 0)
    outline.fields = {**outline.fields, **fields}
    if not outline.title and isinstance(title := outline.fields.get("title"), (str, int, float)):
        outline.title = plain_inline(str(title))
    reader = _Reader(outline, is_mdx)
    first = text.count("\n", 0, start) + 1
    for number, line in enumerate(text[start:].split("\n"), first):
        reader.read(line, number if has_lines else 0)
    reader.end_paragraph()
    return outline


class _Reader:
    """Line by line."""

    def __init__(self, outline: Outline, is_mdx: bool) -> None:
        self._outline = outline
        self._is_mdx = is_mdx
        self._lines = list[Line]()
        self._fence = ""
        self._end = ""  # what ends a comment or script
        self._is_code = False
        self._in_list = False

    def read(self, line: str, number: int) -> None:
        """The next line."""
        if self._fence:
            bare = _strip_quote(line).strip()
            if bare.startswith(self._fence) and not bare.strip(self._fence[0]):
                self._fence = ""
                self.end_paragraph()
            else:
                self._lines.append(Line(line, number))
        elif self._end:
            _, end, rest = line.partition(self._end)
            self._end = "" if end else self._end
            if rest.strip():
                self.read(rest, number)
        elif opened := _FENCE.match(line):
            self.end_paragraph()
            self._fence, self._is_code = opened[1], True
        elif self._lines and (under := _UNDERLINE.match(line)) and self._is_heading(under[1]):
            heading = " ".join(one.text.strip() for one in self._lines)
            start, self._lines = self._lines[0].number, []
            self._head(1 if under[1][0] == "=" else 2, heading, start)
        elif marked := _HEADING.match(line):
            self.end_paragraph()
            self._head(len(marked[1]), marked[2] or "", number)
        elif hidden := _COMMENT.match(line):
            self.end_paragraph()
            self._end = "-->" if hidden[1].startswith("<") else "%%"
        elif script := _SCRIPT.match(line):
            self.end_paragraph()
            self._end = f"</{script[1]}>"
        elif not line.strip() or _RULE.match(line) or _SILENT_LINE.match(line):
            self.end_paragraph()
        elif self._is_mdx and not self._lines and _MODULE.match(line):
            pass
        else:
            self._lines.append(Line(_CONTAINER.sub("", _strip_quote(line)), number))

    def _is_heading(self, rule: str) -> bool:
        last = self._lines[-1].text
        is_text = not _LIST_ITEM.match(last) and "|" not in last
        return is_text and len(self._lines) <= 3 and (rule[0] == "=" or len(rule) > 1)

    def _head(self, level: int, heading: str, number: int) -> None:
        self._in_list = False
        anchor = _ANCHOR.search(heading)
        words = plain_inline(_ANCHOR.sub("", heading), is_mdx=self._is_mdx)
        self._outline.head(level, " ".join(words.split()), number, anchor[1] if anchor else "")

    def end_paragraph(self) -> None:
        """What was collected is a paragraph, or code."""
        is_indented = all(line.text.startswith(("    ", "\t")) for line in self._lines)
        if self._is_code:
            self._outline.add(self._lines, "\n")
        elif self._lines and is_indented and not self._in_list:
            code = textwrap.dedent("\n".join(line.text for line in self._lines))
            self._outline.add(relined(code, self._lines), "\n")
        elif self._lines:
            is_item = _LIST_ITEM.match(self._lines[0].text) is not None
            self._in_list = is_item or (self._in_list and self._lines[0].text[:1].isspace())
            for item in items(self._lines, _ITEM):
                self._outline.add(_plain(item, self._is_mdx))
        self._lines, self._is_code = [], False


def _strip_quote(line: str) -> str:
    return _QUOTE.sub("", line, count=1)


def _plain(lines: list[Line], is_mdx: bool) -> list[Line]:
    """The lines without markup. Markup can begin on one line and end on the next."""
    joined = "\n".join(line.text.strip() for line in lines)
    if len(joined) > _LONGEST_MARKUP:  # data, say; the patterns below would take long
        return [Line(line.text.strip(), line.number) for line in lines]
    plain = plain_inline(joined, is_mdx=is_mdx)
    return relined("\n".join(" ".join(line.split()) for line in plain.split("\n")), lines)


def _code(span: re.Match[str]) -> str:
    """What is between backticks; a space at both ends sets it off from them."""
    return span[2][1:-1] if re.match(r" .*[^ ].* $", span[2]) else span[2]


def plain_inline(text: str, *, is_mdx: bool = False) -> str:
    """Text of a paragraph without Markdown's signs; code between backticks to the letter."""
    if len(text) > _LONGEST_MARKUP:
        return text
    spans = list[str]()

    def keep(letters: str) -> str:
        spans.append(letters)
        return f"\0{len(spans) - 1}\0"

    text = _CODE_SPAN.sub(lambda match: keep(_code(match)), text.replace("\0", ""))
    text = _FORMULA.sub(lambda match: keep(match[0]), text)
    for pattern, replacement in _INLINE:
        text = pattern.sub(replacement, text)
    if is_mdx:
        text = _COMPONENT.sub("", text)
    if text.lstrip().startswith("|"):
        text = re.sub(r"\s*(?<!\\)\|\s*", " | ", text).strip(" |")
    text = html.unescape(_ESCAPED.sub(r"\1", text))
    for _ in range(2):  # a formula can hold code
        text = re.sub("\0(\\d+)\0", lambda match: spans[int(match[1])], text)
    return text
