"""Which files of a folder are read: their names, sizes and times, and what is left out.

Nothing is opened but ``.gitignore`` files, so a folder of a hundred thousand files is listed in
seconds, and a later listing tells which files changed.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pathspec import GitIgnoreSpec

from pocketquery.sdk.errors import ArtifactNotFoundError, InvalidInputError
from pocketquery.sdk.files import checked_path
from pocketquery.sdk.plain_files import open_plain

__all__ = ["SUFFIXES", "Listing", "Skipped", "TextFile", "list_files", "skipped_line"]

SUFFIXES = tuple(
    ".txt .text .md .markdown .mdx .rst .html .htm .xhtml .pdf .docx .pptx .odt .epub .ipynb .eml "
    ".csv .tsv ".split(" ")
)
"""Of the files that are read; without one it must look like text."""

_MOST_BYTES = 64 << 20  # of one file
_MOST_PATTERNS = 1 << 20  # bytes of a .gitignore
_IMAGES = frozenset(".png .jpg .jpeg .gif .svg .webp .ico .bmp .tif .tiff .avif .heic".split())
_FOLDERS = frozenset(
    "node_modules __pycache__ __MACOSX venv site-packages bower_components".split()
)
_PLURAL = re.compile(r"(?:(?<=image)|(?<=link)|(?<=file))s\b")
_STAR = "[^/]*"  # as pathspec writes it
_EXTRA = '"pocketquery[files]"'
_MOST_KINDS = 8  # that are counted in a line
_HIDDEN = frozenset(("Thumbs.db", "desktop.ini", "Icon\r"))


class TextFile(NamedTuple):
    """A file that can be read.

    Attributes:
        path: where it is.
        name: its path in the folder, with ``/``; the ``path`` of its passages.
        size: in bytes.
        mtime_ns: when it was last written, nanoseconds since 1970.
    """

    path: Path
    name: str
    size: int
    mtime_ns: int


class Skipped(NamedTuple):
    """A file or folder that is not read.

    Attributes:
        name: its path in the folder.
        kind: of the reason, to count by: "images", ".py", "too large".
        why: the reason, for people.
    """

    name: str
    kind: str
    why: str


@dataclass(frozen=True)
class Listing:
    """What a folder has.

    Attributes:
        root: the folder.
        files: those to be read, in the order of their names.
        skipped: those that are not; hidden ones are not named.
    """

    root: Path
    files: Sequence[TextFile]
    skipped: list[Skipped] = field(default_factory=list)

    def skipped_line(self) -> str:
        """One line that counts what is skipped by kind; empty where nothing is."""
        return skipped_line(self.skipped)


def skipped_line(skipped: Sequence[Skipped]) -> str:
    """ "skipped 214 files: 120 images, 80 .py, 14 too large"; empty where nothing is."""
    if not skipped:
        return ""
    kinds = Counter(one.kind for one in skipped).most_common()
    others = sum(count for _, count in kinds[_MOST_KINDS:])
    kinds = kinds[:_MOST_KINDS] + [("other", others)] * bool(others)
    counted = ", ".join(
        f"{count} {_PLURAL.sub('', kind, count=1) if count == 1 else kind}" for kind, count in kinds
    )
    line = f"skipped {len(skipped)} file{'s' if len(skipped) > 1 else ''}: {counted}"
    if any(_EXTRA in one.why for one in skipped):
        line += f"; pip install {_EXTRA} reads more of them"
    return line


def list_files(
    folder: Path | str, *, include: Iterable[str] = (), exclude: Iterable[str] = ()
) -> Listing:
    """List the files of a folder that can be read as text, without reading them. ::

        listing = list_files("notes", exclude=["drafts/"])
        print(len(listing.files), listing.skipped_line())

    Left out are hidden files and folders, ``node_modules``, virtual environments, what
    ``.gitignore`` files name (also those of the repository around the folder), and links that lead
    out of the folder. A link to a file inside is read where the file itself is not.

    Args:
        folder: the folder, or one file.
        include: patterns as in ``.gitignore``; only files that match one are listed, and of any
            suffix: ``*.py`` is read as plain text.
        exclude: patterns of files and folders to leave out.

    Raises:
        ArtifactNotFoundError: there is no such folder.
        InvalidInputError: a pattern that cannot be read; ``folder`` is no path.
    """
    root = checked_path(folder, "the folder of texts")
    if not root.exists():
        raise ArtifactNotFoundError(f"{root}: found nothing there, expected a folder of texts")
    walk = _Walk(root, _patterns(include, "include"), _patterns(exclude, "exclude"))
    if root.is_dir():
        walk.enter(str(root), _outer_ignores(root))
        walk.resolve_links()
    else:
        walk.add(os.path.realpath(root), root.name)
    walk.files.sort(key=lambda file: file.name.split("/"))
    walk.skipped.sort()
    return Listing(root, walk.files, walk.skipped)


class _Ignore(NamedTuple):
    """The patterns of one ``.gitignore``, and the path from its folder to the root."""

    spec: GitIgnoreSpec
    prefix: str
    depth: int  # characters of a name that are above the file's folder


class _Walk:
    def __init__(self, root: Path, include: GitIgnoreSpec | None, exclude: GitIgnoreSpec | None):
        self.files = list[TextFile]()
        self.skipped = list[Skipped]()
        self._root = os.path.realpath(root)
        self._include, self._exclude = include, exclude
        self._links = list[tuple[str, str]]()

    def enter(self, root: str, ignores: Sequence[_Ignore]) -> None:
        """List the folder ``root`` and those in it."""
        waiting = [(root, "", ignores)]
        while waiting:
            place, name, ignores = waiting.pop()
            try:
                entries = list(os.scandir(place))
            except OSError as error:
                self._skip(name or place, "unreadable", error.strerror or str(error))
                continue
            names = {entry.name for entry in entries}
            if name and "pyvenv.cfg" in names:
                self._skip(name, "virtual environment", "a virtual environment of Python")
                continue
            if ".gitignore" in names:
                ignores = [*ignores, *_read_ignores(place, "", len(name) + 1 if name else 0)]
            for entry in entries:
                below = f"{name}/{entry.name}" if name else entry.name
                if self._is_left_out(entry, below, ignores):
                    continue
                if entry.is_symlink():
                    self._links.append((entry.path, below))
                elif entry.is_dir():
                    waiting.append((entry.path, below, ignores))
                else:
                    self.add(entry.path, below)

    def _is_left_out(self, entry: os.DirEntry[str], name: str, ignores: Sequence[_Ignore]) -> bool:
        is_folder = entry.is_dir(follow_symlinks=False)
        if entry.name.startswith(".") or entry.name in _HIDDEN:
            return True
        if is_folder and entry.name in _FOLDERS:
            self._skip(name, entry.name, "a folder of programs")
        elif self._exclude is not None and self._exclude.match_file(name + "/" * is_folder):
            self._skip(name, "excluded", "excluded")
        elif _is_ignored(ignores, name + "/" * is_folder):
            self._skip(name, "ignored by .gitignore", "named by a .gitignore")
        else:
            return False
        return True

    def add(self, place: str, name: str) -> None:
        """Take up a file, or say why not."""
        suffix = Path(name).suffix.lower()
        if self._include is not None and not self._include.match_file(name):
            self._skip(name, "not included", "no pattern of include matches")
            return
        try:
            name.encode()
            status = Path(place).stat()
        except UnicodeEncodeError:  # the name of another system, and part of an id here
            self._skip(name, "with a name that is not UTF-8", "its name is not UTF-8; rename it")
        except OSError as error:
            self._skip(name, "unreadable", error.strerror or str(error))
        else:
            if not stat.S_ISREG(status.st_mode):
                self._skip(name, "no plain files", "no plain file")
            elif suffix in _IMAGES:
                self._skip(name, "images", "an image")
            elif suffix not in SUFFIXES and self._include is None:
                self._skip(
                    name,
                    suffix,
                    f"a {suffix} file; expected one of {', '.join(filter(None, SUFFIXES))}",
                )
            elif status.st_size > _MOST_BYTES:
                size, most = status.st_size / 1e6, _MOST_BYTES / 1e6
                self._skip(name, "too large", f"{size:.0f} MB; at most {most:.0f} are read")
            else:
                file = TextFile(Path(place), name, status.st_size, status.st_mtime_ns)
                self.files.append(file)

    def resolve_links(self) -> None:
        """Links to files inside are read where the file itself is not; others are skipped."""
        known = {os.path.realpath(file.path) for file in self.files}
        for place, name in self._links:
            target = os.path.realpath(place)
            if not Path(target).exists():
                self._skip(name, "broken links", "a link that leads nowhere")
            elif os.path.commonpath([target, self._root]) != self._root:
                self._skip(name, "links leading out", "a link that leads out of the folder")
            elif Path(target).is_dir():
                self._skip(name, "links to folders", "a link to a folder; name the folder itself")
            elif target not in known:
                known.add(target)
                self.add(target, name)

    def _skip(self, name: str, kind: str, why: str) -> None:
        self.skipped.append(Skipped(name, kind, why))


def _patterns(patterns: Iterable[str], option: str) -> GitIgnoreSpec | None:
    lines = [patterns] if isinstance(patterns, str) else list(patterns)
    try:
        return GitIgnoreSpec.from_lines(lines) if lines else None
    except (ValueError, TypeError, re.error) as error:
        raise InvalidInputError(
            f"{option} is {lines}, which cannot be read ({error}); expected patterns as in a "
            ".gitignore, *.md or drafts/"
        ) from error


def _is_ignored(ignores: Sequence[_Ignore], name: str) -> bool:
    """What the innermost ``.gitignore`` that has an opinion says."""
    for ignore in reversed(ignores):
        verdict = ignore.spec.check_file(ignore.prefix + name[ignore.depth :]).include
        if verdict is not None:
            return verdict
    return False


def _outer_ignores(root: Path) -> list[_Ignore]:
    """Of the folders between the root and the top of its repository."""
    real = Path(os.path.realpath(root))
    outer = list[Path]()
    for folder in (real, *real.parents):
        if folder != real:
            outer.append(folder)
        if (folder / ".git").exists():
            break
    else:
        return []
    ignores = [
        ignore
        for folder in reversed(outer)
        for ignore in _read_ignores(str(folder), f"{real.relative_to(folder).as_posix()}/", 0)
    ]
    return [] if _is_ignored(ignores, "") else ignores  # it is named all the same


def _read_ignores(place: str, prefix: str, depth: int) -> Iterator[_Ignore]:
    try:
        with open_plain(Path(place, ".gitignore")) as file:
            lines = file.read(_MOST_PATTERNS).decode(errors="replace").splitlines()
    except OSError:
        return
    patterns = list[Any]()
    for line in lines:
        with contextlib.suppress(ValueError, re.error):  # git passes over it, too
            patterns += map(_without_backtracking, GitIgnoreSpec.from_lines([line]).patterns)
    yield _Ignore(GitIgnoreSpec(patterns), prefix, depth)


def _without_backtracking(pattern: Any) -> Any:
    """Of several ``*`` in a name each takes as little as it can; the last alone has a choice."""
    first, *parts = pattern.regex.pattern.split(_STAR) if pattern.regex else [""]
    if len(parts) > 1 and not any(".+" in part or ".*" in part for part in parts[:-1]):
        shortest = "".join(f"(?>{_STAR}?{part})" for part in parts[:-1])
        pattern.regex = re.compile(f"{first}{shortest}{_STAR}{parts[-1]}")
    return pattern
