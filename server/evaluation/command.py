"""``pocketquery evaluate``."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pocketquery.sdk.commands import chosen_public_key
from pocketquery.sdk.errors import InvalidInputError, MissingExtraError
from pocketquery.sdk.settings.command_line import add_settings_command
from pocketquery.sdk.settings.common import (
    AsJson,
    CorpusFile,
    JudgementsFile,
    PublicKey,
    QueriesFile,
    Seed,
)
from pocketquery.sdk.settings.declaration import Option, Settings
from pocketquery.sdk.validation import number

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
  pocketquery evaluate --teacher cpdae-encoder --words "who discovered oxygen"

The documents are encoded by the teacher, the queries by the bundle. Rows: teacher (both sides,
float), bundle (int8, through the index), bm25, hybrid (bundle and bm25 as the index fuses them),
retention (bundle over teacher). Without --bundle the teacher is measured alone, and hybrid is its
own. Queries without a relevant document are left out and counted.
"""


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(Settings):
    """What ``pocketquery evaluate`` takes."""

    bundle: Annotated[str | None, "the bundle to measure (folder or zip)"] = None
    public_key: PublicKey = None
    teacher: Annotated[
        str | None, "model folder, Hub name, demo (default beside a bundle) or multilingual"
    ] = None
    dataset: Annotated[
        str | None, "a folder in BEIR's layout, instead of the next three", Option("FOLDER")
    ] = None
    split: Annotated[str | None, "which judgements of --dataset (default: test)"] = None
    corpus: CorpusFile = None
    queries: QueriesFile = None
    qrels: JudgementsFile = None
    exclude: Annotated[
        str | None, "pairs (query id, document id) to take out of rankings", Option("FILE")
    ] = None
    typos: Annotated[float, number(0, 1), "share of letters mistyped", Option("RATE")] = 0.0
    seed: Seed = 0
    cache: Annotated[str | None, "keep the teacher's document vectors here", Option("FOLDER")] = (
        None
    )
    words: Annotated[
        tuple[str, ...],
        "instead of measuring: the words that the teacher's vector of a text predicts, where "
        '"pretrain --objective cpdae" made it; may be repeated',
        Option("TEXT", repeated=True),
    ] = ()
    json: AsJson = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.bundle and not self.teacher:
            raise InvalidInputError("nothing to measure; expected --bundle, --teacher or both")
        if self.words and (self.bundle or self.dataset or self.corpus or self.queries):
            raise InvalidInputError(
                "--words shows what a teacher predicts; expected --teacher alone"
            )


def evaluate(subparsers: Any) -> None:
    """Add the sub-command to the shell's parsers."""
    add_settings_command(
        subparsers,
        "evaluate",
        "Measure how well a bundle finds documents, beside its teacher and BM25.",
        _EPILOG,
        EvaluateOptions,
        _run,
    )


def _run(options: EvaluateOptions) -> int:
    # What is heavy is imported only where it is needed: the shell loads every command's module.
    from pocketquery import sdk
    from pocketquery.server.corpus import read_collection
    from pocketquery.server.evaluation import document_vectors, retrieval

    try:
        from pocketquery.server.modeling import SentenceEncoder
    except ImportError as error:
        raise MissingExtraError.of(error.name or "torch", "server") from error
    if options.words:
        return _show_words(options)
    files = _files(options)
    bundle = None
    if options.bundle:
        bundle = sdk.load(options.bundle, public_key=chosen_public_key(options))
    collection = read_collection(files)
    teacher = SentenceEncoder.load(options.teacher or "demo")
    if bundle is not None:  # before the documents are encoded
        retrieval.check_space(bundle, teacher)
    vectors = document_vectors.encode_documents(
        teacher, collection.documents, cache=options.cache, show_progress_bar=True
    )
    result = retrieval.evaluate(
        collection,
        bundle,
        teacher,
        document_vectors=vectors,
        typos=options.typos,
        seed=options.seed,
    )
    _report_counts(collection)
    if options.json:
        more = {"retention": result.retention()} if bundle is not None else {}
        print(json.dumps(result.means() | more))
    else:
        print(retrieval.evaluation_table(result))
    return 0


def _show_words(options: EvaluateOptions) -> int:
    from pocketquery.server.objectives import WordPredictor

    predictor = WordPredictor.load(options.teacher or "")
    predicted = {text: predictor.words(text) for text in options.words}
    if options.json:
        print(json.dumps({text: dict(words) for text, words in predicted.items()}))
        return 0
    for text, words in predicted.items():
        print(f"{text}\n  " + "  ".join(f"{word} {share:.3f}" for word, share in words))
    return 0


def _files(options: EvaluateOptions) -> CollectionFiles:
    from pocketquery.server.corpus import CollectionFiles, find_files

    parts = (options.corpus, options.queries, options.qrels)
    excluded = Path(options.exclude) if options.exclude else None
    if options.dataset and not any(parts):
        files = find_files(options.dataset, options.split or "test")
        return CollectionFiles(files.corpus, files.queries, files.judgements, excluded)
    if options.dataset or not all(parts):
        raise InvalidInputError(
            "which data to evaluate on is not clear; expected either --dataset FOLDER, or all of "
            "--corpus, --queries and --qrels"
        )
    if options.split is not None:
        raise InvalidInputError("--split is given without --dataset, whose judgements it chooses")
    corpus, queries, judgements = (Path(part) for part in parts if part)
    return CollectionFiles(corpus, queries, judgements, excluded)


def _report_counts(collection: Any) -> None:
    """Say on stderr what was measured and what was left out."""
    print(
        f"{len(collection.queries)} queries over {len(collection.documents)} documents; "
        f"{collection.queries_without_relevant} queries without a relevant document left out, "
        f"{collection.judgements_of_unknown_ids} judgements of unknown ids ignored",
        file=sys.stderr,
    )
