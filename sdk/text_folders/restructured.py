"""Sections and paragraphs of plain text and of reStructuredText, as a reader sees them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from pocketquery.sdk.text_folders.outline import Line, Outline, items, relined, sphinx_anchor

__all__ = ["read_plain_text", "read_restructured"]

_RULE = re.compile(r"([!-/:-@\[-`{-~])\1{2,}\s*$")  # a line that underlines a heading
_MARKED = re.compile(
    r"(#{1,6})\s++((?:[^\s#]++|[\s#]++(?!$))*+)[\s#]*+$"
)  # a heading of plain text
_FENCE = re.compile(r"\s*(`{3,}(?=[^`]*$)|~{3,})")  # code between two of them
_LIST_ITEM = re.compile(r"\s*(?:[-*+•]|\(?\d{1,9}[.)]|#\.|\|)\s+")
_DIRECTIVE = re.compile(r"(\s*)\.\. ([\w:.+-]+)::(?:\s+(\S.*))?$")
_OPTION = re.compile(r"\s+:([^:`]+):(?:\s+(.*)|$)")  # of a directive
_FIELD = re.compile(r"(\s*):([^:`]+):(?:\s+(.*)|$)")
_SILENT_FIELDS = frozenset("orphan tocdepth nocomments nosearch".split())
_CODE = frozenset("code code-block sourcecode literalinclude parsed-literal highlight".split())
_UNSEEN = frozenset(  # directives whose content no reader sees, or sees elsewhere
    "toctree index meta raw include currentmodule module py:module py:currentmodule contents "
    "sectnum role default-role highlight target-notes".split()
)
_SAID = {
    "versionadded": "New in version",
    "versionchanged": "Changed in version",
    "deprecated": "Deprecated since version",
    "versionremoved": "Removed in version",
}
_INLINE: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(?<!`):[\w:+.-]+:`[~!]?([^`<]+?)\s*(?:<[^`<>]*>)?`"), r"\1"),
    (re.compile(r"(?<!`):[\w:+.-]+:`([^`]*)`"), r"\1"),
    (re.compile(r"(?<![`\w])`([^`<]+?)\s*(?:<[^`<>]*>)?`__?(?!\w)"), r"\1"),
    (re.compile(r"(?<![`\w])`([^`]+)`(?![`\w_])"), r"\1"),
    (re.compile(r"(?<![\w*\\])(\*{1,2})(?=[^\s*])(.{1,1000}?)(?<=[^\s*\\])\1(?![\w*])"), r"\2"),
    (re.compile(r"\[(#?\w*)\]_(?!\w)"), r"[\1]"),
    (re.compile(r"\|([^|\s][^|]*?)\|_{0,2}(?!\w)"), r"\1"),
    (re.compile(r"(?<=\w)__?(?=[\s.,;:!?)]|$)(?<![A-Z_]_)"), ""),
    (re.compile(r"\\([\\*`_|])"), r"\1"),
)
_LITERAL = re.compile(r"``(.{1,1000}?)``")
_LONGEST_MARKUP = 8_000  # characters of a paragraph


def read_plain_text(text: str) -> Outline:
    """The sections and paragraphs of plain text: its words to the letter, under headings that are
    underlined or begin with ``#``."""
    outline = Outline()
    blocks = _Blocks(outline, lambda word: word)
    fence = ""
    for number, line in enumerate(text.split("\n"), 1):
        opened = _FENCE.match(line)
        if fence:
            blocks.lines.append(Line(line, number))
            if line.strip().startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
                blocks.end_paragraph("\n")
        elif opened and not blocks.is_underline(line):
            blocks.end_paragraph()
            fence = opened[1]
            blocks.lines.append(Line(line, number))
        elif marked := _MARKED.match(line):
            blocks.end_paragraph()
            outline.head(len(marked[1]), marked[2], number)
        else:
            blocks.read(line, number)
    blocks.end_paragraph("\n" if fence else " ")
    return outline


def read_restructured(text: str) -> Outline:
    """The sections and paragraphs of reStructuredText."""
    outline = Outline(sphinx_anchor)
    blocks = _Blocks(outline, _plain)
    lines = text.split("\n")
    at, literal = 0, -1  # the indent of what a literal block is indented more than
    while at < len(lines):
        line, indent = lines[at], _indent(lines[at])
        if literal >= 0:
            stop = _below(lines, at, literal)
            code = [Line(lines[n], n + 1) for n in range(at, stop) if lines[n].strip()]
            margin = min((_indent(one.text) for one in code), default=0)
            outline.add([Line(one.text[margin:], one.number) for one in code], "\n")
            at, literal = stop, -1
        elif directive := _DIRECTIVE.match(line):
            blocks.end_paragraph()
            at, literal = _directive(lines, at, directive, blocks)
        elif re.match(r"\s*\.\.(?:\s+(?!\[)|$)", line):
            blocks.end_paragraph()
            at = _below(lines, at + 1, indent)
        elif (field := _FIELD.match(line)) and not blocks.lines:
            words = f"{field[2]}: {field[3]}" if field[3] else ""
            silent = field[2] in _SILENT_FIELDS
            blocks.read("" if silent else words, at + 1)
            at += 1
        else:
            if line.rstrip().endswith("::"):
                literal = indent
                line = line.rstrip()[:-1] if line.strip() != "::" else ""
            blocks.read(line.replace(".. [", "[", 1), at + 1)
            at += 1
            if literal >= 0 and at < len(lines) and lines[at].strip():
                literal = -1  # the paragraph goes on
            elif literal >= 0:
                blocks.end_paragraph()
    blocks.end_paragraph()
    return outline


def _directive(
    lines: Sequence[str], at: int, directive: re.Match[str], blocks: _Blocks
) -> tuple[int, int]:
    """Read a directive's first lines; where what is below it begins, and its indent where that is
    code."""
    indent, name, argument = len(directive[1]), directive[2], directive[3] or ""
    number, at, options = at + 1, at + 1, dict[str, str]()
    while at < len(lines) and (option := _OPTION.match(lines[at])) and _indent(lines[at]) > indent:
        options[option[1]] = option[2] or ""
        at += 1
    if name in _UNSEEN:
        return _below(lines, at, indent), -1
    if name in _CODE:
        return at, indent
    if name in ("image", "figure"):
        argument = options.get("alt", "")
    elif name in _SAID:
        argument = f"{_SAID[name]} {argument}"
    if argument:
        blocks.read(argument, number)
        while at < len(lines) and lines[at].strip() and _indent(lines[at]) > indent:
            blocks.read(lines[at], at + 1)
            at += 1
        blocks.end_paragraph()
    return at, -1


class _Blocks:
    """Collects lines as paragraphs, and finds headings that are underlined."""

    def __init__(self, outline: Outline, plain: Callable[[str], str]) -> None:
        self.lines = list[Line]()
        self._outline = outline
        self._plain = plain
        self._above = ""  # the rule over a heading
        self._levels = dict[str, int]()  # each new kind of rule is below the others

    def is_underline(self, line: str) -> bool:
        """Whether it makes the line above a heading."""
        above = self.lines[0].text.strip() if len(self.lines) == 1 else ""
        return bool(above and _RULE.match(line) and len(line.strip()) >= len(above) / 2)

    def read(self, line: str, number: int) -> None:
        """The next line."""
        if self.is_underline(line):
            heading = self.lines.pop()
            rule = self._above + line.strip()[0]
            level = self._levels.setdefault(rule, len(self._levels) + 1)
            self._outline.head(level, self._plain(heading.text.strip()), heading.number)
            self._above = ""
        elif _RULE.match(line):
            self.end_paragraph()
            self._above = line.strip()[0]
        elif line.strip():
            self.lines.append(Line(line, number))
        else:
            self.end_paragraph()
            self._above = ""

    def end_paragraph(self, glue: str = " ") -> None:
        """What was collected is a paragraph, or some items of a list."""
        for item in items(self.lines, _LIST_ITEM) if glue == " " else [self.lines]:
            lines = (
                item
                if glue == "\n"
                else [Line(" ".join(one.text.split()), one.number) for one in item]
            )
            joined = "\n".join(one.text for one in lines)
            if len(joined) < _LONGEST_MARKUP:
                lines = relined(self._plain(joined), lines)
            self._outline.add(lines, glue)
        self.lines.clear()


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _below(lines: Sequence[str], at: int, indent: int) -> int:
    """Where the lines end that are indented more."""
    while at < len(lines) and (not lines[at].strip() or _indent(lines[at]) > indent):
        at += 1
    return at


def _plain(text: str) -> str:
    """The text without markup; literals to the letter."""
    parts = _LITERAL.split(text)
    for index in range(0, len(parts), 2):
        for pattern, replacement in _INLINE:
            parts[index] = pattern.sub(replacement, parts[index])
    return "".join(parts)
