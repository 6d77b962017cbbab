"""Title and paragraphs of plain text, Markdown and reStructuredText."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pocketquery.sdk.text_folders.outline import Outline, Paragraph

__all__ = ["plain_text"]

_HEADING = re.compile(r"#{1,6}\s+(.*?)[\s#]*$")
_RULE = re.compile(r"(=|-|~|\^|\"|\*|#)\1{2,}\s*$")  # a line that underlines a heading
_FRONT_MATTER = re.compile(r"---\r?\n(.*?)^---\s*?$", re.DOTALL | re.MULTILINE)
_FENCE = re.compile(r"\s*(`{3,}(?=[^`]*$)|~{3,})")  # code between two of them
_COMMENT = re.compile(r" {0,3}<!--(?!.*-->)")  # Markdown's, that ends on a later line
_TAGS = re.compile(r"(?>\s|<!--.*?-->|</?[a-zA-Z][\w-]*(?:\s[^<>]*|/)?>)++$")  # and no text
_DIRECTIVE = re.compile(r"\.\. ([\w:.+-]+)::(?:\s+(\S.*))?$")  # reStructuredText's
_OPTION = re.compile(r"\s+:[^:`]+:(?:\s|$)")  # of a directive
_SILENT_FIELD = re.compile(r":(?:[^:`]+:|tocdepth:.*)\s*$")  # with no text for a reader
_TEXT_DIRECTIVES = frozenset(  # directives whose line alone says something to a reader
    "admonition attention caution centered danger deprecated error hint important note rubric "
    "seealso sidebar tip todo topic versionadded versionchanged versionremoved warning "
    "attribute class classmethod confval data decorator describe envvar exception function macro "
    "member method option property staticmethod type var".split()
)


def plain_text(text: str, suffix: str) -> tuple[str, list[Paragraph]]:
    """Title and paragraphs of plain text, Markdown or reStructuredText."""
    title, outline, markdown = "", Outline(), suffix in (".md", ".markdown")
    if front := _FRONT_MATTER.match(text):
        named = re.search(r"^title:\s*[\"']?(.+?)[\"']?\s*$", front[1], re.MULTILINE)
        title, text = (named[1] if named else ""), text[front.end() :]
    lines, fence, above = list[str](), "", ""  # above: the rule over a heading
    # Of underlined headings; Markdown's are fixed, elsewhere each new kind is below the others.
    levels = {"=": 1, "-": 2} if markdown else dict[str, int]()
    comment = False

    def end() -> None:
        if lines:
            outline.add(" ".join(" ".join(lines).split()))
            lines.clear()

    for line in _without_markup(text.splitlines()) if suffix == ".rst" else text.splitlines():
        opened = None if suffix == ".rst" else _FENCE.match(line)
        rule = _RULE.match(line)
        underlines = rule and len(lines) == 1 and len(line.strip()) >= len(lines[0].strip()) / 2
        if comment:
            _, ended, rest = line.partition("-->")
            comment = not ended
            lines.extend(rest.split())
        elif fence:
            lines.append(line)
            if line.strip().startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
                end()
        elif opened and not (underlines and not markdown):
            end()
            fence = opened[1]
            lines.append(line)
        elif rule and underlines:
            heading = lines.pop().strip()
            outline.head(levels.setdefault(above + rule[1], len(levels) + 1), heading)
            above = ""
        elif rule:
            end()
            above = rule[1]
        elif marked := _HEADING.match(line):
            end()
            level = len(line) - len(line.lstrip("#"))
            if marked[1]:
                outline.head(level, marked[1])
            else:
                outline.end(level)
        elif markdown and _COMMENT.match(line):
            end()
            comment = True
        elif line.strip() and not (markdown and _TAGS.match(line)):
            lines.append(line)
        else:
            end()
            above = ""
    end()
    outline.end()
    return title or outline.first_heading, outline.paragraphs


def _without_markup(lines: Sequence[str]) -> Iterator[str]:
    """The lines of reStructuredText, empty ones where a reader of the page sees nothing."""
    at = 0

    def skip(pattern: str | re.Pattern[str]) -> None:
        nonlocal at
        while at < len(lines) and re.match(pattern, lines[at]):
            at += 1

    while at < len(lines):
        line = lines[at]
        at += 1
        if directive := _DIRECTIVE.match(line):
            skip(_OPTION)
            below = next((lines[i] for i in range(at, len(lines)) if lines[i].strip()), "")
            name, argument = directive.groups()
            speaks = below[:1].isspace() or name in _TEXT_DIRECTIVES or ":" in name
            yield line if argument and speaks else ""
        elif line.startswith(".. ") and not line.startswith(".. ["):  # that is a footnote
            skip(r"\s+\S")
            yield ""
        else:
            yield "" if _SILENT_FIELD.match(line) else line
