"""The files of a folder as an index remembers them: which must be read, and their new states."""

from __future__ import annotations

import hashlib
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from pocketquery.sdk.files import real_path
from pocketquery.sdk.index.documents import Document
from pocketquery.sdk.index.updates import FileState, IndexSource
from pocketquery.sdk.indexing.building import FileChanges
from pocketquery.sdk.indexing.document_encoder import DocumentEncoder
from pocketquery.sdk.languages.reading import languages_of
from pocketquery.sdk.plain_files import any_closed, open_plain
from pocketquery.sdk.text_folders.listing import Skipped, TextFile, list_files
from pocketquery.sdk.text_folders.outline import UnreadError
from pocketquery.sdk.text_folders.text_folder import read_file

__all__ = ["FolderReader", "OnSkipped", "count_changes"]

OnSkipped: TypeAlias = Callable[[Skipped], object]

_TOO_RECENT_NS = 2 * 10**9  # a file system may give two writes within this the same time
_TRANSIENT = ("unreadable", "changing")  # what the index has of such a file stays


class FolderReader:
    """Reads files of a folder, and notes the state of each.

    Attributes:
        listing: what the folder has.
        private: whether others cannot read all its files, so that their names are not for them.
        states: of the files that were read, or only touched, by name.
        unread: names of files that could not be read just now.
    """

    def __init__(self, source: IndexSource, path: Path | str, on_skipped: OnSkipped | None) -> None:
        self._listed_ns = time.time_ns()
        exclude = (*source.exclude, *_own_place(Path(source.folder), path))
        self.listing = list_files(source.folder, include=source.include, exclude=exclude)
        self.private = any_closed([file.path for file in self.listing.files])
        self.states: dict[str, FileState] = {}
        self.unread: set[str] = set()
        self._on_skipped = on_skipped or (lambda _: None)
        for one in self.listing.skipped:
            self._skip(one)

    def is_changed(self, file: TextFile, known: Mapping[str, FileState]) -> bool:
        """Whether the file must be read: its size or time, and its hash, are not as they were."""
        state = known.get(file.name)
        if state is None:
            return True
        if (state.size, state.mtime_ns) == (file.size, file.mtime_ns):
            if not state.ids:
                self._skip(Skipped(file.name, "without text", "no text when it was read last"))
            return False
        try:
            sha256 = _sha256(file)
        except OSError:  # reading says why
            return True
        if sha256 != state.sha256:
            return True
        self._note(file, sha256, state.ids)
        return False

    def read(self, file: TextFile, encoder: DocumentEncoder) -> list[Document]:
        """The passages of the file; none where it cannot be read."""
        documents = list[Document]()
        try:
            sha256 = _sha256(file)
            documents = read_file(file, tokens=encoder.count_tokens, most=encoder.max_length - 1)
        except OSError as error:
            self._skip(Skipped(file.name, _TRANSIENT[0], error.strerror or str(error)))
            return []
        except UnreadError as error:
            self._skip(Skipped(file.name, error.kind, str(error)))
            lacks_package = isinstance(error.__cause__, ImportError)
            if lacks_package:  # the next update tries again
                self.unread.add(file.name)
            if lacks_package or error.kind in _TRANSIENT:
                return []
        self._note(file, sha256, tuple(document.id for document in documents))
        return _with_languages(documents)

    def may_be_there(self, name: str) -> bool:
        """Whether a file that is not listed is one that could not be looked at just now."""
        above = [name, *(str(one) for one in Path(name).parents)]
        return any(one in self.unread for one in above)

    def _note(self, file: TextFile, sha256: str, ids: tuple[str, ...]) -> None:
        is_old = file.mtime_ns < self._listed_ns - _TOO_RECENT_NS
        self.states[file.name] = FileState(file.size, file.mtime_ns * is_old, sha256, ids)

    def _skip(self, one: Skipped) -> None:
        if one.kind in _TRANSIENT:
            self.unread.add(one.name)
        self._on_skipped(one)


def _with_languages(documents: Sequence[Document]) -> list[Document]:
    """Passages with the field ``language``: that of front matter, else its ``lang``, else as it
    is found."""
    codes = languages_of([document.text for document in documents])
    named = [
        document.metadata.get("lang", code) for document, code in zip(documents, codes, strict=True)
    ]
    return [
        replace(document, metadata={**document.metadata, "language": code})
        if code and "language" not in document.metadata
        else document
        for document, code in zip(documents, named, strict=True)
    ]


def count_changes(
    known: Mapping[str, FileState], states: Mapping[str, FileState], gone: Iterable[str]
) -> FileChanges:
    """What became of the files.

    Args:
        known: the states that the index has, by name.
        states: those that are new or different.
        gone: names of files that are no longer there.
    """
    gone_hashes = Counter(known[name].sha256 for name in gone if known[name].ids)
    moved = added = changed = emptied = 0
    for name, state in states.items():
        before = known[name].ids if name in known else ()
        if state.ids and not before:
            is_moved = gone_hashes[state.sha256] > 0
            gone_hashes[state.sha256] -= is_moved
            moved, added = moved + is_moved, added + (not is_moved)
        elif before and not state.ids:
            emptied += 1
        elif before:
            changed += state.sha256 != known[name].sha256
    return FileChanges(added, changed, moved, gone_hashes.total() + emptied)


def _sha256(file: TextFile) -> str:
    with open_plain(file.path) as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _own_place(folder: Path, path: Path | str) -> tuple[str, ...]:
    """A pattern for the index itself, where it is in the folder."""
    place = real_path(path)
    if folder not in place.parents:
        return ()
    return ("/" + re.sub(r"([][*?!#\\ ])", r"\\\1", place.relative_to(folder).as_posix()),)
