"""``pocketquery vectors``: an index's vectors for servers that search by vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pocketquery.sdk.commands import print_json
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.plugins import load_plugin
from pocketquery.sdk.settings.command_line import add_settings_command
from pocketquery.sdk.settings.common import AsJson, IndexPublicKey
from pocketquery.sdk.settings.declaration import Option, Settings, as_json
from pocketquery_stores.sync import FOLDER

__all__ = ["vectors"]

_EPILOG = """\
examples:
  pocketquery vectors --index index --output vectors
  pocketquery vectors --index index --format faiss --output vectors --json
  pocketquery vectors --index index --to postgresql://search@db.example.org/search
  pocketquery vectors --index index --to service=search --table search.documents
  pocketquery vectors --index index --to https://qdrant.example.org:6333

With --to the documents, texts included, are kept in step with a table
of Postgres (pgvector), in one transaction, or with a collection of Qdrant (a URL of http or https):
what changed is written. A password belongs in PGPASSWORD or ~/.pgpass, a key of Qdrant in
QDRANT_API_KEY.
The space goes along: the query encoder that searches the index searches these. A query's vector
that is sent to a server tells it about what the query's text would: see docs/how-to/servers.md.
"""


@dataclass(frozen=True, kw_only=True)
class VectorsOptions(Settings):
    """What ``pocketquery vectors`` takes."""

    index: Annotated[str, "the index", Option("FOLDER")]
    output: Annotated[
        str | None, "of files; vectors there are replaced", Option("FOLDER", either="where")
    ] = None
    to: Annotated[str | None, "a URL, or libpq's words", Option("DATABASE", either="where")] = None
    format: Annotated[
        Literal["parquet", "faiss"] | None, "of the vectors' file (default: parquet)"
    ] = None
    table: Annotated[str | None, "beside --to: or collection (default: documents)"] = None
    vector_type: Annotated[
        Literal["halfvec", "vector"] | None, "beside --to: 2 bytes a value (default) or 4"
    ] = None
    index_public_key: IndexPublicKey = None
    json: AsJson = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.to is None and (self.table or self.vector_type):
            raise InvalidInputError("--table and --vector-type go with --to; leave them out")
        if self.to is not None and self.format:
            raise InvalidInputError(f"--format {self.format} goes with --output; leave it out")


def vectors(subparsers: Any) -> None:
    """Add ``pocketquery vectors`` to the shell's parsers."""
    add_settings_command(
        subparsers,
        "vectors",
        "Write an index's vectors for a server: Parquet, FAISS, Postgres, Qdrant.",
        _EPILOG,
        VectorsOptions,
        _vectors,
    )


def _vectors(options: VectorsOptions) -> int:
    report: Any
    if options.to is None:
        from pocketquery_stores.files import export_vectors

        report = export_vectors(
            options.index,
            options.output or "",
            format=options.format or "parquet",
            public_key=options.index_public_key,
        )
        line = f"{report.path}: {report.documents} vectors, {report.bytes / 1e6:.1f} MB"
    else:
        report = _synced(options, options.to)
        counts = f"{report.added} added, {report.changed} changed, {report.removed} removed"
        line = f"{report.table}: {report.documents} documents ({counts})"
    if options.json:
        print_json(as_json(report))
        return 0
    print(line)
    print(f"  space      {report.space_id}, {report.dimension} dimensions")
    return 0


def _synced(options: VectorsOptions, database: str) -> Any:
    """What the store that the address names, Postgres where it is no URL, reports."""
    scheme, is_url, _ = database.partition("://")
    store = scheme if is_url else "postgresql"
    extra = "qdrant" if store in ("http", "https") else "postgres"
    sync = load_plugin("pocketquery.vector_stores", store, f"{FOLDER}[{extra}]")
    return sync(
        options.index,
        database,
        table=options.table or "documents",
        vector_type=options.vector_type or "halfvec",
        public_key=options.index_public_key,
    )
