"""An index of a folder: built of all its files, then brought up to date with those that changed.

The index remembers the folder, how it was read, and size, time and hash of every file. An update
lists the folder, reads the files whose size or time differ and whose hash does, and changes the
index in one transaction: killed at any moment, it leaves the old index or the new one. A passage
whose text is that of one that goes takes over its vector, so a file that moved is not encoded.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pocketquery.sdk.arrays import NDArray
from pocketquery.sdk.errors import CorpusError, InvalidInputError, SpaceMismatchError
from pocketquery.sdk.files import checked_path, real_path
from pocketquery.sdk.folders import held_for_building, present_folder
from pocketquery.sdk.index.database import get_meta, language_of
from pocketquery.sdk.index.documents import Document
from pocketquery.sdk.index.index import Index, open_index
from pocketquery.sdk.index.info import INFO, read_info
from pocketquery.sdk.index.updates import (
    Changes,
    IndexSource,
    change_index,
    read_files,
    record_files,
)
from pocketquery.sdk.indexing.building import (
    Encoding,
    FileChanges,
    IndexReport,
    build_index_of_rows,
    folder_bytes,
)
from pocketquery.sdk.indexing.document_encoder import DocumentEncoder
from pocketquery.sdk.indexing.folder_reader import FolderReader, OnSkipped, count_changes
from pocketquery.sdk.languages.reading import ReadingTally
from pocketquery.sdk.lazy import log
from pocketquery.sdk.plain_files import close_to_others, is_closed
from pocketquery.sdk.progress import Progress
from pocketquery.sdk.text_folders.listing import SUFFIXES, TextFile
from pocketquery.sdk.validation import check_text
from pocketquery.sdk.words.stemming import check_language

if TYPE_CHECKING:
    from pocketquery.sdk.bundle.signature import Key
    from pocketquery.sdk.encoder import Encoder

__all__ = [
    "FileProgress",
    "build_folder",
    "has_index",
    "index_folder",
    "source_of",
    "update_folder",
]

_READING = 3  # the version of the rules by which files become passages
_MOST_DELETED = 0.2  # of the rows; with more, the index is compacted
_MOST_SEGMENTS = 50  # beyond those of a new index; likewise
_ROWS_A_SEGMENT = 512


def index_folder(
    folder: Path | str,
    path: Path | str,
    *,
    encoder: Encoder | None = None,
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    language: str | None = None,
    rebuild: bool = False,
    show_progress_bar: bool = False,
    on_skipped: OnSkipped | None = None,
) -> IndexReport:
    """Index the files of ``folder`` at ``path``, or bring the index there up to date. ::

        report = sdk.index_folder("notes", "notes.index")
        print(report.documents, report.passages, report.changes)

    Files that did not change are not read again, files that moved are not encoded again, and those
    that are gone leave the index. Killed at any moment, the index is the old or the new one.

    Args:
        folder: the folder, or one file.
        path: the index.
        encoder: makes the vectors; None: the one that ``sdk.encode`` uses.
        include: only files that match one of these patterns, as in a ``.gitignore``.
        exclude: no files and folders that match one of these.
        language: of the texts, "german", say, or "none" to keep words whole; None: it is found.
        rebuild: build the index anew, whatever is there.
        show_progress_bar: documents, passages, rates and time left, on stderr.
        on_skipped: called with each file or folder that is not read.

    Raises:
        ArtifactNotFoundError: there is no such folder. An index that is there stays.
        CorpusError: it has no file with text; likewise.
        InvalidInputError: the index is of another folder, other patterns or another encoder; says
            what differs.
        ArtifactError: the disk is full, or another process changes the index.
    """
    from pocketquery.sdk.loading import default_encoder

    opened = DocumentEncoder.of(encoder or default_encoder())
    source = source_of(folder, include, exclude, opened)
    if rebuild or not has_index(path):
        return build_folder(
            source,
            path,
            opened,
            language=language,
            show_progress_bar=show_progress_bar,
            on_skipped=on_skipped,
        )
    return update_folder(
        path,
        lambda _: opened,
        {"folder": source.folder, "include": source.include, "exclude": source.exclude},
        language,
        show_progress_bar=show_progress_bar,
        on_skipped=on_skipped,
    )


def source_of(
    folder: Path | str,
    include: Iterable[str],
    exclude: Iterable[str],
    encoder: DocumentEncoder,
) -> IndexSource:
    """What an index of ``folder`` remembers."""
    place = str(real_path(checked_path(folder, "the folder of texts")))
    return IndexSource(
        check_text(place, "the folder's name"),
        _as_tuple(include),
        _as_tuple(exclude),
        encoder.digest,
        reading=_READING,
    )


def has_index(path: Path | str) -> bool:
    """Whether there is an index at ``path``."""
    return (present_folder(checked_path(path, "the index")) / INFO).exists()


def build_folder(
    source: IndexSource,
    path: Path | str,
    encoder: DocumentEncoder,
    *,
    language: str | None = None,
    batch_size: int = 64,
    show_progress_bar: bool = False,
    on_skipped: OnSkipped | None = None,
    signing_key: Key | None = None,
) -> IndexReport:
    """Build the index of a folder anew. Arguments and errors as :func:`index_folder`."""
    reader = FolderReader(source, path, on_skipped)
    files = reader.listing.files
    bar = FileProgress(len(files)) if show_progress_bar else None

    def passages(file: TextFile) -> list[Document]:
        documents = reader.read(file, encoder)
        if bar:
            bar.will_encode(len(documents))
        return documents

    documents = chain.from_iterable(map(passages, files))
    if (first := next(documents, None)) is None:
        raise CorpusError(_no_text(source.folder))
    first = replace(first, private=first.private or reader.private)
    with Encoding(encoder.encode, batch_size, encoder.threads) as encoding:
        report = build_index_of_rows(
            ((document, None) for document in chain([first], documents)),
            lambda chunk, _, done: encoding.begin(chunk, done),
            path,
            bar,
            space_id=encoder.space_id,
            dimension=encoder.dimension,
            encoded_by=encoder.name,
            encoder_digest=encoder.digest,
            signing_key=signing_key,
            language=language,
            finish=lambda builder: builder.record(source, reader.states),
            tally=ReadingTally(encoder),
        )
    count = sum(bool(state.ids) for state in reader.states.values())
    log("info", "indexed %s: %d documents, %d passages", path, count, report.passages)
    return replace(report, documents=count, changes=FileChanges(added=count))


def update_folder(
    path: Path | str,
    open_encoder: Callable[[IndexSource], DocumentEncoder],
    expected: Mapping[str, object] | None = None,
    language: str | None = None,
    *,
    batch_size: int = 64,
    show_progress_bar: bool = False,
    on_skipped: OnSkipped | None = None,
) -> IndexReport:
    """Bring the index of a folder up to date.

    Args:
        path: the index.
        open_encoder: opens the encoder that the index was made with, where a file must be read.
        expected: what the index must have been made of, by the names of :class:`IndexSource`.
        language: that it must be in; None: any.
        batch_size: texts a call of the encoder.
        show_progress_bar: as for :func:`index_folder`.
        on_skipped: likewise.

    Raises:
        PocketQueryError: as :func:`index_folder`; or the index was made of no folder.
    """
    start = time.perf_counter()
    place = checked_path(path, "the index")
    with open_index(place, writable=True) as index, held_for_building(place):
        with index.reading() as (connection, _):
            known = read_files(connection)
            present_language = language_of(connection)
            encoded_by = get_meta(connection, "encoded_by", "")
        if language:
            _check_made(index, "language", present_language, check_language(language))
        source = _checked_source(index, expected or {})
        reader = FolderReader(source, path, on_skipped)
        files = {file.name: file for file in reader.listing.files}
        if not files and any(state.ids for state in known.values()):
            raise CorpusError(
                f"{_no_text(source.folder)}. The index at {path} stays as it was; is a disk or "
                "network folder missing? To begin anew, remove the index"
            )
        changed = [file for file in files.values() if reader.is_changed(file, known)]
        encoder = None
        if changed:
            encoder = _checked_encoder(index, source, open_encoder(source), encoded_by)
        documents, tally = list[Document](), ReadingTally(encoder, "the new text")
        for file in changed:
            assert encoder is not None
            documents += reader.read(file, encoder)
        tally.add(documents)
        tally.warn(place)
        gone = [name for name in known if name not in files and not reader.may_be_there(name)]
        stale = [name for name in (*(file.name for file in changed), *gone) if name in known]
        remove = [one for name in stale if name not in reader.unread for one in known[name].ids]

        def encode(some: list[Document]) -> NDArray[Any]:
            assert encoder is not None
            with (
                Progress(len(some), "update", "passages", show=show_progress_bar) as bar,
                Encoding(encoder.encode, batch_size, encoder.threads) as encoding,
            ):
                return encoding.begin(some, bar.update)()

        if reader.private and not is_closed(place):
            close_to_others(place)
        changes = Changes()
        if reader.states or gone:
            changes = change_index(
                index,
                documents,
                encode,
                remove=remove,
                record=lambda connection: record_files(connection, reader.states, gone),
            )
            _compact_if_due(index)
        passages = len(index)
    present = known | reader.states
    for name in gone:
        del present[name]
    counted = count_changes(known, reader.states, gone)
    log("info", "updated %s: %s, %d passages encoded", path, counted, changes.encoded)
    return IndexReport(
        path=str(path),
        documents=sum(bool(state.ids) for state in present.values()),
        passages=passages,
        resumed=0,
        space_id=index.space_id,
        dimension=index.dimension,
        bytes=folder_bytes(path),
        seconds=time.perf_counter() - start,
        encoded_by=encoded_by,
        language=read_info(place).language,
        encoded=changes.encoded,
        changes=counted,
    )


class FileProgress(Progress):
    """Of a folder: how many documents are done, and how many passages of them."""

    def __init__(self, files: int) -> None:
        super().__init__(files, "index", "documents")
        self._ends = [0]  # after each file: the passages of it and those before
        self._passages = self._resumed = 0

    def will_encode(self, passages: int) -> None:
        """The next file has so many passages."""
        self._ends.append(self._ends[-1] + passages)

    def resume(self, done: int) -> None:
        """So many passages are of an earlier run."""
        self._passages = self._resumed = done
        super().resume(self._files_done())

    def update(self, count: int = 1) -> None:
        """So many more passages are done."""
        self._passages += count
        rate = self.speed(self._passages - self._resumed)
        self.note(f"{self._passages:,} passages, {rate}")
        super().update(self._files_done() - self.done)

    def _seconds_left(self, seconds: float) -> float | None:
        """By passages: the files not read yet have as many each as those that were."""
        done, read = self._passages - self._resumed, len(self._ends) - 1
        if not done or not read:
            return None
        passages = self._ends[-1] * (self.total or read) / read
        return (passages - self._passages) * seconds / done

    def _files_done(self) -> int:
        return bisect_right(self._ends, self._passages) - 1


def _checked_source(index: Index, expected: Mapping[str, object]) -> IndexSource:
    source = index.source
    if source is None:
        raise InvalidInputError(
            f"the index at {index.path} was not made of a folder, so there is nothing to update it "
            "from; build it again with: pocketquery index FOLDER --output INDEX"
        )
    for name, value in {"reading": _READING, **expected}.items():
        _check_made(index, name, getattr(source, name), value)
    return source


def _check_made(index: Index, name: str, known: object, wanted: object) -> None:
    """Raise where the index was made otherwise than it is to be updated."""
    if wanted == known:
        return
    what = {
        "folder": f"of the folder {known}, not of {wanted}",
        "reading": f"by version {known} of the rules that cut files, this is {_READING}",
        "bundle": f"with {known or 'the built-in encoder'}, not with {wanted or 'it'}",
    }.get(name, f"with {name} {_shown(known)}, not with {_shown(wanted)}")
    raise InvalidInputError(
        f"the index at {index.path} was made {what}. Build it again (without --update; in "
        "Python: rebuild=True), or name another index"
    )


def _checked_encoder(
    index: Index, source: IndexSource, encoder: DocumentEncoder, encoded_by: str
) -> DocumentEncoder:
    if encoder.space_id != index.space_id:
        raise SpaceMismatchError.between(
            f"the index {index.path}", index.space_id, "the encoder", encoder.space_id
        )
    if encoder.digest != source.encoder:
        raise InvalidInputError(
            f"the index at {index.path} was encoded by {encoded_by or 'another encoder'}, "
            f"and this is another one, {encoder.name or 'a teacher'}. Pass the encoder it was made "
            "with, or build it again (without --update; in Python: rebuild=True)"
        )
    return encoder


def _compact_if_due(index: Index) -> None:
    with index.reading() as (connection, snapshot):
        rows = len(snapshot.vectors)
        ((segments,),) = connection.execute("SELECT count(*) FROM segments")
    is_sparse = rows - len(index) > _MOST_DELETED * rows
    if is_sparse or segments > rows // _ROWS_A_SEGMENT + _MOST_SEGMENTS:
        index.compact()


def _no_text(folder: str) -> str:
    return (
        f"{folder}: found no file with text; expected files that end in "
        f"{', '.join(filter(None, SUFFIXES))}. JSON Lines and Parquet are for --corpus"
    )


def _as_tuple(patterns: Iterable[str]) -> tuple[str, ...]:
    return (patterns,) if isinstance(patterns, str) else tuple(patterns)


def _shown(value: object) -> str:
    return " ".join(map(str, value)) or "none" if isinstance(value, tuple) else str(value)
