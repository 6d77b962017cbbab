"""``pocketquery vectors``: an index's vectors for servers that search by vectors."""

from __future__ import annotations

import argparse
import dataclasses
from typing import TYPE_CHECKING, Any

from pocketquery.sdk.commands import add_command, add_index_public_key, print_json
from pocketquery.sdk.errors import InvalidInputError

if TYPE_CHECKING:
    from pocketquery.export.postgres import VectorType

__all__ = ["vectors"]


def vectors(subparsers: Any) -> None:
    """Add ``pocketquery vectors`` to the shell's parsers."""
    parser = add_command(
        subparsers,
        "vectors",
        "Write an index's vectors for a server: Parquet, FAISS, Postgres, Qdrant.",
        """\
examples:
  pocketquery vectors --index index --output vectors
  pocketquery vectors --index index --format faiss --output vectors --json
  pocketquery vectors --index index --to postgresql://search@db.example.org/search
  pocketquery vectors --index index --to service=search --table search.documents
  pocketquery vectors --index index --to https://qdrant.example.org:6333

With --to the documents, texts included, are kept in step with a table of Postgres (pgvector; extra
postgres), in one transaction, or with a collection of Qdrant (a URL of http or https; extra
qdrant): what changed is written. A password belongs in PGPASSWORD or ~/.pgpass, a key of Qdrant in
QDRANT_API_KEY.
The space goes along: the query encoder that searches the index searches these. A query's vector
that is sent to a server tells it about what the query's text would: see docs/how-to/servers.md.
""",
        _vectors,
    )
    parser.add_argument("--index", required=True, metavar="FOLDER", help="the index")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--output", metavar="FOLDER", help="of files; vectors there are replaced")
    where.add_argument("--to", metavar="DATABASE", help="a URL, or libpq's words")
    parser.add_argument(
        "--format",
        choices=("parquet", "faiss"),
        help="of the vectors' file (default: parquet)",
    )
    parser.add_argument("--table", help="beside --to: or collection (default: documents)")
    parser.add_argument(
        "--vector-type",
        choices=("halfvec", "vector"),
        help="beside --to: 2 bytes a value (default) or 4",
    )
    add_index_public_key(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _vectors(options: argparse.Namespace) -> int:
    if options.to is not None:
        return _sync(options)
    if options.table or options.vector_type:
        raise InvalidInputError("--table and --vector-type go with --to; leave them out")
    from pocketquery.export.vectors import export_vectors

    report = export_vectors(
        options.index,
        options.output,
        format=options.format or "parquet",
        public_key=options.index_public_key,
    )
    if options.json:
        print_json(dataclasses.asdict(report))
        return 0
    print(f"{report.path}: {report.documents} vectors, {report.bytes / 1e6:.1f} MB")
    print(f"  space      {report.space_id}, {report.dimension} dimensions")
    return 0


def _sync(options: argparse.Namespace) -> int:
    if options.format:
        raise InvalidInputError(f"--format {options.format} goes with --output; leave it out")
    table = options.table or "documents"
    vector_type: VectorType = options.vector_type or "halfvec"
    if options.to.startswith(("http://", "https://")):
        from pocketquery.export.qdrant import sync_qdrant

        report = sync_qdrant(
            options.index,
            options.to,
            collection=table,
            datatype="float16" if vector_type == "halfvec" else "float32",
            public_key=options.index_public_key,
        )
    else:
        from pocketquery.export.postgres import sync_postgres

        report = sync_postgres(
            options.index,
            options.to,
            table=table,
            vector_type=vector_type,
            public_key=options.index_public_key,
        )
    if options.json:
        print_json(dataclasses.asdict(report))
        return 0
    counts = f"{report.added} added, {report.changed} changed, {report.removed} removed"
    print(f"{report.table}: {report.documents} documents ({counts})")
    print(f"  space      {report.space_id}, {report.dimension} dimensions")
    return 0
