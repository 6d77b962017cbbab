"""``pocketquery evaluate``."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pocketquery.sdk.commands import Parsed, add_command, add_public_key, chosen_public_key
from pocketquery.sdk.errors import InvalidInputError, MissingExtraError
from pocketquery.sdk.validation import SEED

if TYPE_CHECKING:
    from pocketquery.server.corpus import CollectionFiles

__all__ = ["evaluate"]

_EPILOG = """\
examples:
  pocketquery evaluate --bundle demo/bundle --dataset scifact/
  pocketquery evaluate --bundle demo/bundle --corpus corpus.jsonl.gz \\
      --queries queries.tsv.gz --qrels qrels.tsv.gz --json
  pocketquery evaluate --bundle demo/bundle --dataset scifact/ --typos 0.08 --seed 1
  pocketquery evaluate --teacher encoder --dataset scifact/          # an encoder alone

The documents are encoded by the teacher, the queries by the bundle. Rows: teacher (both sides,
float), bundle (int8, through the index), bm25, hybrid (bundle and bm25 as the index fuses them),
retention (bundle over teacher). Without --bundle the teacher is measured alone, and hybrid is its
own. Queries without a relevant document are left out and counted.
"""


def evaluate(subparsers: Any) -> None:
    """Add the sub-command to the shell's parsers."""
    parser = add_command(
        subparsers,
        "evaluate",
        "Measure how well a bundle finds documents, beside its teacher and BM25.",
        _EPILOG,
        _run,
    )
    add = parser.add_argument
    add("--bundle", help="the bundle to measure (folder or zip)")
    add_public_key(parser)
    add("--teacher", help="model folder, Hub name, or demo (default beside a bundle)")
    add("--dataset", metavar="FOLDER", help="a folder in BEIR's layout, instead of the next three")
    add("--split", help="which judgements of --dataset (default: test)")
    add("--corpus", metavar="FILE", help="corpus.jsonl: _id, title, text; plain, gzip or xz")
    add("--queries", metavar="FILE", help="queries as tsv (id, text) or jsonl; plain, gzip or xz")
    add("--qrels", metavar="FILE", help="judgements: query id, document id, grade")
    add("--exclude", metavar="FILE", help="pairs (query id, document id) to take out of rankings")
    add("--typos", type=float, default=0.0, metavar="RATE", help="share of letters mistyped")
    add("--seed", type=Parsed(SEED, int), default=0, help="of the typos and of ties (default: 0)")
    add("--cache", metavar="FOLDER", help="keep the teacher's document vectors here")
    add("--json", action="store_true", help="print one JSON object")


def _run(arguments: argparse.Namespace) -> int:
    # What is heavy is imported only where it is needed: the shell loads every command's module.
    from pocketquery import sdk
    from pocketquery.server.corpus import read_collection
    from pocketquery.server.evaluation import document_vectors, retrieval, table

    try:
        from pocketquery.server.modeling import SentenceEncoder
    except ImportError as error:
        raise MissingExtraError.of(error.name or "torch", "server") from error
    if not arguments.bundle and not arguments.teacher:
        raise InvalidInputError("nothing to measure; expected --bundle, --teacher or both")
    files = _files(arguments)
    bundle = None
    if arguments.bundle:
        bundle = sdk.load(arguments.bundle, public_key=chosen_public_key(arguments))
    collection = read_collection(files)
    teacher = SentenceEncoder.load(arguments.teacher or "demo")
    if bundle is not None:  # before the documents are encoded
        retrieval.check_space(bundle, teacher)
    vectors = document_vectors.encode_documents(
        teacher, collection.documents, cache=arguments.cache, show_progress_bar=True
    )
    result = retrieval.evaluate(
        collection,
        bundle,
        teacher,
        document_vectors=vectors,
        typos=arguments.typos,
        seed=arguments.seed,
    )
    _report_counts(collection)
    if arguments.json:
        kept = {"retention": result.retention()} if bundle is not None else {}
        print(json.dumps(result.means() | kept))
    else:
        print(table.evaluation_table(result))
    return 0


def _files(arguments: argparse.Namespace) -> CollectionFiles:
    from pocketquery.server.corpus import CollectionFiles, find_files

    parts = (arguments.corpus, arguments.queries, arguments.qrels)
    excluded = Path(arguments.exclude) if arguments.exclude else None
    if arguments.dataset and not any(parts):
        files = find_files(arguments.dataset, arguments.split or "test")
        return CollectionFiles(files.corpus, files.queries, files.judgements, excluded)
    if arguments.dataset or not all(parts):
        raise InvalidInputError(
            "which data to evaluate on is not clear; expected either --dataset FOLDER, or all of "
            "--corpus, --queries and --qrels"
        )
    if arguments.split is not None:
        raise InvalidInputError("--split is given without --dataset, whose judgements it chooses")
    corpus, queries, judgements = map(Path, parts)
    return CollectionFiles(corpus, queries, judgements, excluded)


def _report_counts(collection: Any) -> None:
    """Say on stderr what was measured and what was left out."""
    print(
        f"{len(collection.queries)} queries over {len(collection.documents)} documents; "
        f"{collection.queries_without_relevant} queries without a relevant document left out, "
        f"{collection.judgements_of_unknown_ids} judgements of unknown ids ignored",
        file=sys.stderr,
    )
