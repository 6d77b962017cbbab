"""``pocketquery mcp``: an index as tools of assistants on this machine.

Over stdin and stdout by the Model Context Protocol; nothing is written, and no port is opened. Each
call opens the index as it is then, so that what was updated meanwhile is searched.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pocketquery.sdk.commands import (
    Subparsers,
    add_bundle,
    add_command,
    add_index,
    add_index_public_key,
    add_public_key,
    chosen_public_key,
)
from pocketquery.sdk.errors import ArtifactNotFoundError, InvalidInputError, PocketQueryError
from pocketquery.sdk.index.documents import Document
from pocketquery.sdk.index.encoders import QueryEncoder
from pocketquery.sdk.index.index import Index, open_index
from pocketquery.sdk.index.search import Mode
from pocketquery.sdk.searching.command import unknown_field
from pocketquery.sdk.validation import check, whole

if TYPE_CHECKING:
    from mcp.server import MCPServer

__all__ = ["File", "Passage", "mcp", "mcp_server"]

_MOST_HITS, _MOST_FILES, _MOST_AROUND = 50, 1000, 20
_INSTRUCTIONS = """\
Search of the user's own documents, on the user's machine. Ask `search` with a question, or with
the words, names and identifiers that a text would have: both count. "quotes" ask for a phrase,
+word must be there, -word must not. Read more around a hit with `get`. Cite path and title."""


@dataclass(frozen=True)
class Passage:
    """A passage of a document. ``metadata`` has its title and, of a file, path and line."""

    id: str
    text: str
    metadata: dict[str, Any]
    score: float | None = None


@dataclass(frozen=True)
class File:
    """A file, or a document that is of none, and how many passages of it are in the index."""

    path: str
    title: str
    passages: int


def mcp(subparsers: Subparsers) -> None:
    """Add ``pocketquery mcp``."""
    parser = add_command(
        subparsers,
        "mcp",
        "Let assistants on this machine search an index, over stdin and stdout (MCP).",
        """\
examples:
  pocketquery mcp
  pocketquery mcp --index index --bundle bundle

Assistants start it by themselves; see docs/how-to/assistants.md for what to enter where.
""",
        _run,
    )
    add_served(parser)


def add_served(parser: argparse.ArgumentParser) -> None:
    """Add ``--index``, ``--bundle`` and their keys."""
    add_index(parser)
    add_bundle(parser)
    add_public_key(parser)
    add_index_public_key(parser)


def _run(options: argparse.Namespace) -> int:
    from pocketquery.sdk.indexing.default_index import bundle_for, searched_index
    from pocketquery.sdk.loading import load

    place = searched_index(options.index)
    encoder = load(bundle_for(place, options.bundle), public_key=chosen_public_key(options))
    with open_index(place, encoder=encoder, public_key=options.index_public_key):
        pass  # what is wrong with it is said now, where the user sees it
    mcp_server(place, encoder, public_key=options.index_public_key).run("stdio")
    return 0


def mcp_server(place: Path, encoder: QueryEncoder, *, public_key: Any = None) -> MCPServer:
    """The server with its tools ``search``, ``get`` and ``list``, for the index at ``place``.

    ::

        mcp_server(Path("index"), sdk.load()).run("stdio")
    """
    from mcp.server import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp.types import ToolAnnotations

    server = MCPServer(
        "pocketquery",
        version=version("pocketquery"),
        instructions=_INSTRUCTIONS,
        log_level="WARNING",
    )
    reading = ToolAnnotations(readOnlyHint=True, openWorldHint=False)

    @contextmanager
    def opened() -> Iterator[Index]:
        try:
            with open_index(place, encoder=encoder, public_key=public_key) as index:
                yield index
        except PocketQueryError as error:
            raise ToolError(str(error)) from error

    def search(
        query: str, k: int = 10, mode: Mode = "hybrid", filter: dict[str, Any] | None = None
    ) -> list[Passage]:
        """The best passages for a query, best first. `mode` is hybrid, dense (by meaning) or
        lexical (by words); `filter` holds conditions on the metadata: {"year": {"$gte": 2020}}."""
        with opened() as index:
            check("k", k, whole(1, _MOST_HITS))
            hits = index.search(query, k, filter=filter, mode=mode)
            if filter and not hits:
                for name, meant in index.unknown_fields(filter).items():
                    raise InvalidInputError(unknown_field(index, name, meant))
        return [Passage(hit.id, hit.text, dict(hit.metadata), hit.score) for hit in hits]

    def get(id: str, around: int = 1) -> list[Passage]:
        """A passage by its id, between so many passages before and after it in its file."""
        with opened() as index:
            check("around", around, whole(0, _MOST_AROUND))
            wanted = index.get(id)
            if wanted is None:
                raise ArtifactNotFoundError(f"no passage has the id {id!r}; search names ids")
            path = wanted.metadata.get("path")
            same = [one for one in index.documents() if path and one.metadata.get("path") == path]
        same = same or [wanted]
        at = next(row for row, one in enumerate(same) if one.id == id)
        return [
            Passage(one.id, one.text, dict(one.metadata))
            for one in same[max(0, at - around) : at + around + 1]
        ]

    def list_files(prefix: str = "", offset: int = 0, limit: int = 100) -> list[File]:
        """The files of the index whose paths begin with `prefix`, in the order of their paths."""
        with opened() as index:
            check("offset", offset, whole(0))
            check("limit", limit, whole(1, _MOST_FILES))
            files = sorted(_files(index), key=lambda file: file.path)
        return [file for file in files if file.path.startswith(prefix)][offset : offset + limit]

    for name, tool in (("search", search), ("get", get), ("list", list_files)):
        server.add_tool(tool, name=name, annotations=reading)
    return server


def _files(index: Index) -> list[File]:
    files: dict[str, File] = {}
    for document in index.documents():
        path = _path(document)
        before = files.get(path)
        title = before.title if before else _title(document) or path
        files[path] = File(path, title, (before.passages if before else 0) + 1)
    return list(files.values())


def _title(document: Document) -> str:
    """A passage's title without the headings that it ends with."""
    title, headings = str(document.metadata.get("title") or ""), document.metadata.get("headings")
    all_headings = list(map(str, headings)) if isinstance(headings, list) else []
    ends = (": " + ": ".join(all_headings[first:]) for first in range(len(all_headings)))
    return title.removesuffix(next(filter(title.endswith, ends), ""))


def _path(document: Document) -> str:
    path = document.metadata.get("path")
    return path if isinstance(path, str) else document.id
