"""``pocketquery index``: a folder of texts becomes an index.

So does a corpus of many files, where a package that reads one is installed.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pocketquery.sdk.bundle.installed import installed_bundle
from pocketquery.sdk.commands import add_command, one_line, print_error
from pocketquery.sdk.errors import ArtifactNotFoundError, InvalidInputError
from pocketquery.sdk.files import real_path
from pocketquery.sdk.indexing.default_index import default_index, folder_of_own_index
from pocketquery.sdk.indexing.options import (
    add_encoder,
    add_engine,
    add_files,
    add_passages,
    chosen_encoder,
    names_engine,
    print_skipped,
    print_skipped_files,
)
from pocketquery.sdk.plugins import load_plugin

if TYPE_CHECKING:
    from pocketquery.sdk.index.updates import IndexSource
    from pocketquery.sdk.indexing.building import IndexReport
    from pocketquery.sdk.indexing.document_encoder import DocumentEncoder
    from pocketquery.sdk.text_folders.listing import Skipped

__all__ = ["CorpusNotes", "index"]

_EPILOG = """\
examples:
  pocketquery index ~/notes && pocketquery search "what did I plant in March"
  pocketquery index --update
  pocketquery index ~/notes --watch
  pocketquery index --documents notes/ --output index
  pocketquery index --documents notes/ --output index --teacher demo
  pocketquery index --corpus corpus.jsonl.gz --output index
  pocketquery index --corpus corpus.jsonl --teacher BAAI/bge-small-en-v1.5 --output index
  pocketquery index --corpus corpus.jsonl --bundle bundle --output index --json
  pocketquery index --corpus corpus.jsonl --output index --signing-key publisher.pem
  pocketquery index --corpus 'corpus/*.parquet' --engine ray --workers 8 --output index
  pocketquery index --encoded encoded --output index

Killed and run again with the same documents, it continues where it was. Without --output the index
of a folder is the one that pocketquery search finds by itself: $POCKETQUERY_INDEX, else
pocketquery/index in your data folder.
"""
_INSTALLED_TEACHERS = (None, "demo")
_SOURCES = ("folder", "documents", "corpus", "encoded")


class CorpusNotes:
    """What a user should know of the documents that were read.

    Attributes:
        skipped: path and reason of each file that was not read.
        files: of a folder, that were not read.
        lines: further lines for stderr.
    """

    def __init__(self) -> None:
        self.skipped: list[tuple[str, str]] = []
        self.files: list[Skipped] = []
        self.lines: list[str] = []

    def skip(self, path: object, why: str) -> None:
        """Note that a file was not read."""
        self.skipped.append((str(path), why))


def index(subparsers: Any) -> None:
    """Add ``pocketquery index`` to the shell's parsers."""
    parser = add_command(
        subparsers,
        "index",
        "Encode documents and build the index that devices search.",
        _EPILOG,
        _index,
    )
    add = parser.add_argument
    add("folder", nargs="?", metavar="FOLDER", help="the same as --documents")
    add("--documents", metavar="FOLDER", help="text, Markdown, HTML, PDF, Word and other files")
    add(
        "--corpus",
        nargs="+",
        metavar="PATH",
        help="JSON Lines (plain, gzip or xz) or Parquet: files, patterns, folders, fsspec URLs",
    )
    add("--encoded", metavar="FOLDER", help="what encode-corpus wrote")
    add("--output", metavar="FOLDER", help="the index; one there is replaced (default: see below)")
    add_files(parser)
    add(
        "--language",
        help="of the texts, by which words are stemmed: german, say, or none to keep words whole "
        "(default: found by the texts)",
    )
    add_passages(parser)
    add_encoder(parser)
    add_engine(parser)
    add("--signing-key", metavar="FILE", help="Ed25519 private key: PEM file or 64 hex digits")
    add(
        "--update",
        action="store_true",
        help="bring the index of a folder up to date: only files that changed are read, and what "
        "it was made with is remembered",
    )
    add("--watch", action="store_true", help="then follow the folder, until Ctrl-C (extra files)")
    add("--json", action="store_true", help="print one JSON object")


def _index(arguments: argparse.Namespace) -> int:
    notes = CorpusNotes()
    try:
        report = _build(arguments, notes)
    except KeyboardInterrupt:
        print("interrupted; run it again to continue", file=sys.stderr)
        raise
    finally:  # where nothing could be read, they say why
        _print_notes(arguments, notes)
    _print_report(arguments, report)
    if arguments.watch:
        _watch(arguments, report)
    return 0


def _print_notes(arguments: argparse.Namespace, notes: CorpusNotes) -> None:
    print_skipped(notes.skipped)
    print_skipped_files(notes.files, arguments.verbose)
    for line in notes.lines:
        print(line, file=sys.stderr)


def _print_report(arguments: argparse.Namespace, report: IndexReport) -> None:
    if arguments.json:
        print(json.dumps(dataclasses.asdict(report)), flush=True)
        return
    passages = "" if report.changes is None else f", {_counted(report.passages, 'passage')}"
    documents = _counted(report.documents, "document")
    print(f"{report.path}: {documents}{passages}, {report.bytes / 1e6:.1f} MB")
    if arguments.update:
        print(f"  changes    {report.changes}; {_counted(report.encoded, 'passage')} encoded")
    else:
        print(f"  space      {report.space_id}, {report.dimension} dimensions")
        stems = "kept whole" if report.language == "none" else f"stemmed as {report.language}"
        print(f"  words      {stems} (--language)")
        if report.encoded_by:
            print(f"  encoded    by the light encoder {report.encoded_by}")
    if report.resumed:
        kind = "document" if report.changes is None else "passage"
        print(f"  resumed    {_counted(report.resumed, kind)} encoded by an earlier run")
    rate = report.encoded / max(report.seconds, 1e-9)
    speed = f", {rate:,.0f} passages a second" if report.changes and not arguments.update else ""
    print(f"  time       {report.seconds:.1f} s{speed}", flush=True)
    if report.signature_key_id:
        print(f"  signed by  {report.signature_key_id}")


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"


def _watch(arguments: argparse.Namespace, report: IndexReport) -> None:
    """Follow the folder of the index that was just brought up to date."""
    from pocketquery.sdk.index.index import open_index
    from pocketquery.sdk.indexing.watching import watch_folder

    with open_index(report.path) as index:
        folder = index.source.folder if index.source else ""

    def update() -> None:
        notes = CorpusNotes()
        updated = _update(report.path, arguments, notes, folder)
        if updated.encoded or (updated.changes and any(dataclasses.astuple(updated.changes))):
            _print_report(arguments, updated)

    print(one_line(f"watching {folder}; Ctrl-C ends it"), file=sys.stderr)
    watch_folder(folder, report.path, update, lambda error: print_error(str(error)))
    print("stopped watching", file=sys.stderr)


def _build(arguments: argparse.Namespace, notes: CorpusNotes) -> IndexReport:
    sources = [name for name in _SOURCES if getattr(arguments, name) is not None]
    follows = arguments.update or arguments.watch
    if follows:
        _check_only_for_folders(arguments)
    if follows and not sources:
        _check_only_for_corpora(arguments)
        return _update(default_index(), arguments, notes, _own_folder(arguments))
    if len(sources) != 1:
        named = ", ".join("FOLDER" if name == "folder" else f"--{name}" for name in sources)
        raise InvalidInputError(
            f"found {named or 'no documents'}, expected one of FOLDER, --documents, --corpus and "
            "--encoded; for example: pocketquery index ~/notes"
        )
    if arguments.corpus is None:
        _check_only_for_corpora(arguments)
    if sources[0] in ("corpus", "encoded"):
        if arguments.output is None:
            raise InvalidInputError(f"--{sources[0]} is given without --output; name the index")
        index_corpus = load_plugin("pocketquery.corpora", "corpus", "shards")
        report: IndexReport = index_corpus(arguments, notes)
        return report
    return _index_folder(getattr(arguments, sources[0]), arguments, notes)


def _own_folder(arguments: argparse.Namespace) -> str:
    """The folder that the default index was built of.

    Any other index could be somebody else's, and name any folder of this user's.

    Raises:
        InvalidInputError: another index is named; says what it names, and what to type.
    """
    from pocketquery.sdk.index.index import open_index
    from pocketquery.sdk.indexing.folder_index import has_index

    option = "--update" if arguments.update else "--watch"
    place = arguments.output or default_index()
    if not has_index(place):
        raise ArtifactNotFoundError(
            f"there is no index at {place} to update; name the folder, and it is built: "
            f"pocketquery index FOLDER {option}. Or name another index with --output"
        )
    if arguments.output is None and (own := folder_of_own_index()) is not None:
        return own
    with open_index(place) as index:
        source = index.source
    named = shlex.quote(source.folder) if source else "FOLDER"
    output = f" --output {shlex.quote(arguments.output)}" if arguments.output else ""
    raise InvalidInputError(
        f"the index at {place} is of {source.folder if source else 'no folder'}, as it says "
        "itself; an index from elsewhere can name any folder, so name it yourself: "
        f"pocketquery index {named} {option}{output}"
    )


def _check_only_for_corpora(arguments: argparse.Namespace) -> None:
    if names_engine(arguments):
        raise InvalidInputError("--engine is given without --corpus, whose shards it encodes")
    if arguments.passages:
        raise InvalidInputError(
            "--passages is given without --corpus; folders of texts are cut into passages anyway, "
            "and encode-corpus has it, too"
        )


def _check_only_for_folders(arguments: argparse.Namespace) -> None:
    option = "--update" if arguments.update else "--watch"
    for name in ("corpus", "encoded", "signing_key"):
        if getattr(arguments, name) is not None:
            raise InvalidInputError(
                f"{option} is given with --{name.replace('_', '-')}; it is for the index of a "
                "folder of files, unsigned"
            )
    if arguments.watch:
        from pocketquery.sdk.indexing.watching import load_watchfiles

        load_watchfiles()  # before the work of building


def _index_folder(folder: str, arguments: argparse.Namespace, notes: CorpusNotes) -> IndexReport:
    from pocketquery.sdk.indexing.default_index import claim_default_index
    from pocketquery.sdk.indexing.folder_index import build_folder, has_index, source_of

    output = arguments.output
    if (arguments.update or arguments.watch) and has_index(output or default_index()):
        return _update(output or claim_default_index(folder), arguments, notes, folder)
    chosen = chosen_encoder(arguments)
    encoder = chosen.open()
    source = source_of(folder, arguments.include, arguments.exclude, encoder)
    return build_folder(
        replace(source, teacher=_lasting(chosen.teacher), bundle=_lasting(chosen.bundle)),
        claim_default_index(folder) if output is None else output,
        encoder,
        language=arguments.language,
        batch_size=arguments.batch_size,
        show_progress_bar=True,
        on_skipped=notes.files.append,
        signing_key=arguments.signing_key,
    )


def _update(
    place: Path | str, arguments: argparse.Namespace, notes: CorpusNotes, folder: str
) -> IndexReport:
    from pocketquery.sdk.indexing.folder_index import update_folder

    arguments.update = True  # with --watch, too: what is printed is what changed
    chosen = chosen_encoder(arguments)
    given = {
        "folder": str(real_path(folder)),
        "include": tuple(arguments.include),
        "exclude": tuple(arguments.exclude),
        "teacher": _lasting(chosen.teacher),
        "bundle": _lasting(chosen.bundle),
    }

    def open_encoder(source: IndexSource) -> DocumentEncoder:
        is_installed = {
            "teacher": source.teacher in _INSTALLED_TEACHERS,
            "bundle": source.bundle is None or installed_bundle(source.bundle) is not None,
        }
        for name, installed in is_installed.items():
            recorded = getattr(source, name)
            if not installed and recorded != given[name]:
                raise InvalidInputError(
                    f"the index at {place} names the {name} {recorded}; what an index names is not "
                    f"loaded unless it is installed, so name it yourself: --{name} "
                    f"{shlex.quote(recorded)}"
                )
        return replace(chosen, teacher=source.teacher, bundle=source.bundle).open()

    return update_folder(
        place,
        open_encoder,
        {name: value for name, value in given.items() if value},
        arguments.language,
        batch_size=arguments.batch_size,
        show_progress_bar=True,
        on_skipped=notes.files.append,
    )


def _lasting(name: str | None) -> str | None:
    """An encoder's path, so that it holds in other working folders; a name stays one."""
    is_path = name is not None and (os.sep in name or installed_bundle(name) is None)
    return str(Path(name).absolute()) if name and is_path and Path(name).exists() else name
