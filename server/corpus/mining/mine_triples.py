"""``pocketquery mine triples``."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.settings.command_line import add_options, read_options
from pocketquery.server.corpus.mining.hard_negatives import (
    NegativesConfig,
    Questions,
    mine_triples,
)
from pocketquery.server.corpus.mining.inputs import add_inputs, named_source
from pocketquery.server.corpus.mining.outputs import add_mode, add_output, write_store

if TYPE_CHECKING:
    from pocketquery.server.corpus.mining.rankers import Ranker

__all__ = ["add_triples"]

_EPILOG = """\
examples:
  pocketquery mine triples --dataset scifact/ --split train --output triples
  pocketquery pretrain --init base --triples triples --objective fine_tune --output first
  pocketquery mine triples --dataset scifact/ --split train --ranker first --output harder
  pocketquery mine triples --pairs pairs --ranker bm25 --ranker first --output mixed

Queries come with judgements (--dataset, or --corpus, --queries and --qrels), or as pairs whose
first text asks for the second. Negatives are drawn from what BM25 or a model ranks high and nobody
judged relevant; several rankers give them in turn.
"""


def add_triples(modes: Any) -> None:
    """Add the mode's parser."""
    parser = add_mode(modes, "triples", "queries with hard negatives", _EPILOG)
    add_inputs(parser, "pairs")
    add = parser.add_argument_group("queries with judgements").add_argument
    add("--dataset", metavar="FOLDER", help="in BEIR's layout, instead of the next three")
    add("--split", default="train", help="which judgements of --dataset (default: train)")
    add("--corpus", metavar="FILE", help="corpus.jsonl: _id, title, text; plain, gzip or xz")
    add("--queries", metavar="FILE", help="queries as tsv (id, text) or jsonl; plain, gzip or xz")
    add("--qrels", metavar="FILE", help="judgements: query id, document id, grade")
    add("--exclude", metavar="FILE", help="pairs (query id, document id) that are no negatives")
    negatives = parser.add_argument_group("negatives")
    add_options(negatives, NegativesConfig)
    add = negatives.add_argument
    add(
        "--ranker",
        action="append",
        metavar="WHAT",
        help="bm25 (default), or a model's folder or Hub name; may be repeated",
    )
    add("--device", metavar="NAME", default="cpu", help="torch device of the models (default: cpu)")
    add_output(parser, _triples)


def _triples(arguments: argparse.Namespace) -> int:
    from pocketquery.server.corpus.store_writer import check_store_replaceable

    output = Path(arguments.output)
    check_store_replaceable(output)
    config = replace(read_options(NegativesConfig, arguments), seed=arguments.seed)
    data = _questions(arguments)
    names = arguments.ranker or ["bm25"]
    rankers = [_ranker(name, data.passages, arguments.device) for name in names]
    return write_store(output, mine_triples(data, rankers, config), "triples", arguments)


def _questions(arguments: argparse.Namespace) -> Questions:
    from pocketquery.server.corpus.readers.collection import (
        CollectionFiles,
        find_files,
        read_collection,
    )

    files = (arguments.corpus, arguments.queries, arguments.qrels)
    named = [bool(arguments.pairs), bool(arguments.dataset), any(files)]
    if sum(named) != 1 or any(files) != all(files):
        raise InvalidInputError(
            "which queries to mine for is not clear; expected one of --pairs PATH, --dataset "
            "FOLDER, or all of --corpus, --queries and --qrels"
        )
    if arguments.pairs:
        if arguments.exclude:
            raise InvalidInputError(
                f"found --exclude {arguments.exclude} beside --pairs, whose texts have no ids; it "
                "is of queries with judgements: leave it out"
            )
        return Questions.of_pairs(named_source(arguments))
    if arguments.dataset:
        files_of_set = find_files(arguments.dataset, arguments.split)
    else:
        files_of_set = CollectionFiles(*map(Path, files))
    excluded = Path(arguments.exclude) if arguments.exclude else None
    return Questions.of_collection(read_collection(replace(files_of_set, excluded=excluded)))


def _ranker(name: str, passages: tuple[str, ...], device: str) -> Ranker:
    from pocketquery.server.corpus.mining.rankers import Bm25Ranker, DenseRanker

    if name == "bm25":
        return Bm25Ranker(passages)
    from pocketquery.server.modeling import SentenceEncoder

    model = SentenceEncoder.load(name, device=device)
    return DenseRanker(model.encode_query, model.encode_document, passages)
