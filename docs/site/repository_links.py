"""The site's links to files of the repository: each such file becomes a page of the site.

A page of docs/ links to code, READMEs and examples by a relative path, which is what a forge
follows. In the site those files lie under ``repository/``: Markdown as a page, text as a page with
its code, a folder as the list of its files, anything else as it is. So nothing links to a host, and
the same links hold in both places; mkdocs runs this as its hook.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
LANGUAGES = {".py": "python", ".js": "js", ".toml": "toml", ".sh": "sh", ".json": "json"}
LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)([^)\s#]+)(#[^)\s]*)?(?=\))")
FENCE = re.compile(r"^( *)(`{3,}|~{3,}).*?^\1\2 *$", re.MULTILINE | re.DOTALL)


class Link(NamedTuple):
    """One relative link of a page: the file or folder it means, and the anchor with its #."""

    target: Path
    anchor: str


def links(page: Path, text: str) -> Iterator[Link]:
    """The relative links of a Markdown page, outside of its blocks of code."""
    for match in LINK.finditer(FENCE.sub("", text)):
        yield Link(Path(os.path.normpath(page.parent / match[1])), match[2] or "")


def place(target: Path) -> str:
    """Where a file or folder of the repository lies in the site, as a source of mkdocs."""
    if target.is_relative_to(DOCS):
        return target.relative_to(DOCS).as_posix()
    inside = target.relative_to(ROOT).as_posix()
    if target.is_dir():
        return f"repository/{inside}/README.md"
    if target.suffix == ".md" or not is_text(target):
        return f"repository/{inside}"
    return f"repository/{inside}.md"


def is_text(path: Path) -> bool:
    """Whether a file can be shown as text."""
    try:
        path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return False
    return True


def page_of(target: Path) -> str:
    """The Markdown of a file's or folder's page."""
    if target.suffix == ".md":
        return target.read_text(encoding="utf-8")
    title = f"# {target.relative_to(ROOT).as_posix()}\n\n"
    if target.is_dir():
        readme = target / "README.md"
        if readme.is_file():
            return readme.read_text(encoding="utf-8")
        files = sorted(path for path in target.iterdir() if path.is_file() and is_text(path))
        return title + "".join(f"- [{path.name}]({path.name})\n" for path in files)
    language = LANGUAGES.get(target.suffix, "text")
    code = target.read_text(encoding="utf-8").rstrip("\n")
    return f"{title}````{language}\n{code}\n````\n"


def rewritten(text: str, page: Path, source: str) -> str:
    """The text of ``page`` with links as they lead from ``source``, its place in the site."""

    def moved(match: re.Match[str]) -> str:
        target = Path(os.path.normpath(page.parent / match[1]))
        if not target.exists():
            return match[1] + (match[2] or "")  # mkdocs says that it leads nowhere
        there = os.path.relpath(place(target), Path(source).parent).replace(os.sep, "/")
        return there + (match[2] or "")

    parts, end = [], 0
    for fence in FENCE.finditer(text):
        parts += [LINK.sub(moved, text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, LINK.sub(moved, text[end:])])


def reachable() -> dict[str, Path]:
    """All files outside of docs/ that pages link to, and those that these link to, by place."""
    found: dict[str, Path] = {}
    waiting = sorted(DOCS.rglob("*.md"))
    while waiting:
        page = waiting.pop()
        is_page = page.suffix == ".md" or page.is_dir()
        text = page_of(page) if is_page else ""
        start = page / "README.md" if page.is_dir() else page
        for link in links(start, text):
            if link.target.exists() and not link.target.is_relative_to(DOCS):
                if place(link.target) not in found:
                    waiting.append(link.target)
                found[place(link.target)] = link.target
    return found


def on_files(files: Any, config: Any) -> Any:
    """mkdocs: puts the linked files of the repository among those of the site."""
    from mkdocs.structure.files import File, InclusionLevel

    for source, path in reachable().items():
        inclusion = InclusionLevel.NOT_IN_NAV
        if source.endswith(".md"):
            file = File.generated(config, source, content=page_of(path), inclusion=inclusion)
        else:
            file = File.generated(config, source, abs_src_path=str(path), inclusion=inclusion)
        files.append(file)
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """mkdocs: the page's text with links as they are in the site."""
    source = page.file.src_uri
    path = reachable().get(source, DOCS / source)
    return rewritten(markdown, path / "README.md" if path.is_dir() else path, source)
