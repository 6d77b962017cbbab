"""The input options of ``pocketquery mine``, and the groups that they name."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias, get_args

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.indexing.options import names_engine
from pocketquery.sdk.plugins import load_plugin
from pocketquery.sdk.progress import progress
from pocketquery.server.corpus.groups import Group, GroupList, Kind, Source
from pocketquery.server.corpus.readers.plain_text import Unit
from pocketquery.server.corpus.readers.reading import ReadOptions, open_source, read_all
from pocketquery.server.corpus.readers.tables import Columns

__all__ = [
    "Mine",
    "add_inputs",
    "mined_groups",
    "named_groups",
    "named_input",
    "named_reading",
    "named_source",
    "unchanged",
]

Mine: TypeAlias = Callable[[Iterable[Group]], Iterable[Group]]

_INPUT_HELP: dict[Kind, str] = {
    "documents": "JSON Lines (title, text / sentences / paragraphs), a table, plain text, or a "
    "folder of text, Markdown, reStructuredText and HTML files",
    "sessions": "JSON Lines with turns: who said what",
    "pairs": "JSON Lines or a table: two texts that belong together",
    "triples": "JSON Lines or a table: query, passage, passages that do not answer it",
    "queries": "JSON Lines or a table: one text each",
}


def add_inputs(parser: argparse.ArgumentParser, *kinds: Kind) -> None:
    """Add the options that name texts of these kinds and say how raw files are read."""
    group: Any = parser.add_argument_group("texts (stores or raw files, plain, gzip or xz)")
    for kind in kinds:
        group.add_argument(
            f"--{kind}", nargs="+", default=[], metavar="PATH", help=_INPUT_HELP[kind]
        )
    add = group.add_argument
    add("--lang", default="", help="language of texts that do not say theirs, such as en")
    add("--columns", metavar="A,B", help="fields of tables and JSON Lines that hold the texts")
    add("--id-column", default="", metavar="NAME", help="beside --columns: the group's name")
    add("--lang-column", default="", metavar="NAME", help="beside --columns: the language")
    add("--where", metavar="NAME=VALUE", help="beside --columns: only rows with this value")
    if "documents" in kinds:
        add("--join-titles", action="store_true", help="neighbours of one title are one document")
        add("--sentence-lines", action="store_true", help="plain text has one sentence a line")
        units = get_args(Unit)
        add("--document-unit", choices=units, default="block", help="plain text: what is one")


def named_input(arguments: argparse.Namespace) -> tuple[Kind, list[str]]:
    """The one kind that was named, and its paths.

    Raises:
        InvalidInputError: none was named, or several.
    """
    known = [kind for kind in _INPUT_HELP if hasattr(arguments, kind)]
    named = [kind for kind in known if getattr(arguments, kind)]
    if len(named) != 1:
        options = ", ".join(f"--{kind}" for kind in known)
        found = " and ".join(f"--{kind}" for kind in named) or "no texts"
        raise InvalidInputError(f"found {found}; expected one of {options}")
    return named[0], getattr(arguments, named[0])


def named_groups(arguments: argparse.Namespace) -> tuple[Kind, Iterator[Group]]:
    """The kind that was named, and its groups, one in memory at a time."""
    kind, paths = named_input(arguments)
    return kind, progress(read_all(paths, kind, named_reading(arguments)), "read", kind)


def unchanged(groups: Iterable[Group]) -> Iterable[Group]:
    """The :data:`Mine` of a store."""
    return groups


@contextlib.contextmanager
def mined_groups(
    arguments: argparse.Namespace, output: Path, mine: Mine, made: Kind, settings: str
) -> Iterator[Iterable[Group]]:
    """Yield what ``mine`` makes of the groups that the command line names.

    With ``--engine``, packages/pocketquery-corpus mines shard by shard.

    Args:
        arguments: of :func:`add_inputs` and :func:`~pocketquery.sdk.indexing.options.add_engine`.
        output: what is written of them.
        mine: from groups to groups, one after the other; workers get it pickled.
        made: the kind that it makes.
        settings: what ``mine`` depends on: parts of other settings are made anew.

    Raises:
        InvalidInputError, CorpusError, ArtifactError, MissingExtraError: as the readers do, and
            the package.
    """
    if not names_engine(arguments):
        yield mine(named_groups(arguments)[1])
        return
    mined_shards = load_plugin("pocketquery.corpora", "mining", "./packages/pocketquery-corpus")
    with mined_shards(arguments, output, mine, made, settings) as groups:
        yield groups


def named_source(arguments: argparse.Namespace) -> Source:
    """The groups that were named, to be read in any order; raw files are held in memory."""
    kind, paths = named_input(arguments)
    if len(paths) == 1:
        return open_source(paths[0], kind, named_reading(arguments))
    return GroupList(list(named_groups(arguments)[1]), kind)


def named_reading(arguments: argparse.Namespace) -> ReadOptions:
    """How raw files are to be read."""
    return ReadOptions(
        lang=arguments.lang,
        columns=_columns(arguments),
        join_titles=getattr(arguments, "join_titles", False),
        document=getattr(arguments, "document_unit", "block"),
        sentence_lines=getattr(arguments, "sentence_lines", False),
    )


def _columns(arguments: argparse.Namespace) -> Columns | None:
    where = None
    if arguments.where:
        name, equals, value = arguments.where.partition("=")
        if not equals:
            raise InvalidInputError(f'--where is "{arguments.where}"; expected NAME=VALUE')
        where = {name: value}
    texts = tuple(filter(None, (arguments.columns or "").split(",")))
    if not (texts or where or arguments.id_column or arguments.lang_column):
        return None
    return Columns(texts, arguments.id_column, arguments.lang_column, where)
