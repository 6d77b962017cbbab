"""Retrieval quality of the int8 query encoder beside its teacher, BM25, hybrid and model2vec.

    python benchmarks/quality.py [--bundle FOLDER] [--data FOLDER]

Five collections (SQuAD's held-out articles, SciFact test, CACM, Cranfield, MEDLINE), queries as
they are and with 8 % of their letters mistyped (mean of three seeds). Figures are nDCG@10 with the
grade as gain; intervals are paired bootstraps over queries. The last line is one JSON object; the
exit status is 1 where a figure that must be reached is missed:

    mean retention (ours / teacher, mean over the sets), clean     at least 0.95
    ours, clean                                                    above model2vec on every set
    mean of hybrid, clean                                          above bm25's and the teacher's
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from quality_sets import SETS, data_folder, read_set
from rivals.environment import rivals_python

from pocketquery import sdk
from pocketquery.sdk.index.documents import content
from pocketquery.server.corpus import Collection
from pocketquery.server.evaluation import (
    DEPTH,
    Interval,
    Scores,
    bootstrap_ratio,
    encode_documents,
    evaluate,
    mistyped,
    rank_exactly,
    score_rankings,
    temporary_index,
)
from pocketquery.server.evaluation.ranking import without_excluded
from pocketquery.server.modeling import SentenceEncoder, resolve_model

METRIC = "ndcg@10"
TYPOS = 0.08
SEEDS = (1, 2, 3)
ROWS = ("teacher", "ours", "bm25", "hybrid", "model2vec")
LEAST_RETENTION = 0.95

REPOSITORY = Path(__file__).resolve().parents[1]
CACHE = REPOSITORY / "runs" / "document_vectors"

Table = dict[str, dict[str, Scores]]  # set -> row -> scores


def main() -> int:
    arguments = parse_arguments()
    data = data_folder(arguments.data)
    bundle = sdk.load(arguments.bundle)
    teacher = SentenceEncoder.load(arguments.teacher)
    collections = {name: read_set(data, name) for name in SETS}
    tables: dict[str, Table] = {"clean": {}, "typos": {}}
    rival = model2vec_scores(collections, arguments.teacher, teacher.space_id)
    for name, collection in collections.items():
        print(f"{name}: {len(collection.queries)} queries, {len(collection.documents)} documents")
        for condition, scores in our_scores(collection, bundle, teacher).items():
            tables[condition][name] = scores | {"model2vec": rival[condition][name]}
    for condition, table in tables.items():
        print_table(condition, table)
    return report(tables)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    reference = REPOSITORY / "benchmarks" / "reference" / "bundle"
    parser.add_argument("--bundle", default=str(reference), help="default: the reference student")
    parser.add_argument("--teacher", default="demo", help="model folder, Hub name, or demo")
    parser.add_argument("--data", help="default: POCKETQUERY_DATA, else data")
    return parser.parse_args()


def our_scores(
    collection: Collection, bundle: sdk.Encoder, teacher: SentenceEncoder
) -> dict[str, dict[str, Scores]]:
    """condition -> row -> scores on one collection."""
    vectors = encode_documents(
        teacher, collection.documents, cache=CACHE, show_progress_bar=sys.stderr.isatty()
    )
    with temporary_index(collection, bundle, vectors) as index:

        def run(typos: float, seed: int) -> dict[str, Scores]:
            result = evaluate(
                collection,
                bundle,
                teacher,
                document_vectors=vectors,
                index=index,
                typos=typos,
                seed=seed,
            )
            names = {"teacher": "teacher", "bundle": "ours", "bm25": "bm25", "hybrid": "hybrid"}
            return {row: result.scores[name] for name, row in names.items()}

        noisy = [run(TYPOS, seed) for seed in SEEDS]
        averaged = {row: Scores.average([scores[row] for scores in noisy]) for row in noisy[0]}
        return {"clean": run(0.0, 0), "typos": averaged}


def model2vec_scores(
    collections: Mapping[str, Collection], teacher: str, space_id: str, int8: int | None = None
) -> dict[str, dict[str, Scores]]:
    """condition -> set -> scores of model2vec, which encodes documents and queries itself.

    Args:
        collections: what is searched.
        teacher: that it is distilled from.
        space_id: the teacher's.
        int8: its dimensions, of a byte each; None: model2vec's own defaults.
    """
    with tempfile.TemporaryDirectory(prefix="pocketquery-") as folder:
        texts: dict[str, list[str]] = {}
        for name, collection in collections.items():
            texts[f"{name}-documents"] = [content(document) for document in collection.documents]
            texts[f"{name}-clean"] = mistyped(collection.queries, 0.0, 0)
            for seed in SEEDS:
                texts[f"{name}-{seed}"] = mistyped(collection.queries, TYPOS, seed)
        vectors = model2vec_vectors(texts, teacher, space_id, Path(folder), int8)
    clean, noisy = {}, {}
    for name, collection in collections.items():
        documents = vectors[f"{name}-documents"]
        clean[name] = symmetric_scores(collection, vectors[f"{name}-clean"], documents)
        runs = [symmetric_scores(collection, vectors[f"{name}-{s}"], documents) for s in SEEDS]
        noisy[name] = Scores.average(runs)
    return {"clean": clean, "typos": noisy}


def model2vec_vectors(
    texts: Mapping[str, list[str]],
    teacher: str,
    space_id: str,
    folder: Path,
    int8: int | None = None,
) -> dict[str, NDArray[np.float32]]:
    paths = {name: folder / f"{name}.json" for name in texts}
    for name, path in paths.items():
        path.write_text(json.dumps(texts[name]), encoding="utf-8")
    script = REPOSITORY / "benchmarks" / "rivals" / "model2vec_vectors.py"
    size = "" if int8 is None else f"-int8-{int8}"
    rival_model = REPOSITORY / ".rivals" / f"model2vec-{space_id}{size}"
    options = ["--teacher", str(resolve_model(teacher)), "--model", str(rival_model)]
    options += [] if int8 is None else ["--int8", str(int8), str(int8)]
    files = [str(path) for path in paths.values()]
    subprocess.run([str(rivals_python()), str(script), *options, *files], check=True)
    return {name: np.load(path.with_suffix(".npy")) for name, path in paths.items()}


def symmetric_scores(
    collection: Collection, queries: NDArray[np.float32], documents: NDArray[np.float32]
) -> Scores:
    ids = [document.id for document in collection.documents]
    rankings = {
        query.id: without_excluded(query.id, ranking, collection.excluded, DEPTH)
        for query, ranking in zip(
            collection.queries, rank_exactly(queries, documents, ids, 2 * DEPTH), strict=True
        )
    }
    return score_rankings(collection.judgements, rankings)


def mean(scores: Scores) -> float:
    return scores.means()[METRIC]


def set_mean(table: Table, row: str) -> float:
    return float(np.mean([mean(scores[row]) for scores in table.values()]))


def retention(tables: Sequence[Mapping[str, Scores]], over: str = "teacher") -> Interval:
    """Ours over another row with its interval, averaged over sets."""
    return bootstrap_ratio(
        [(scores["ours"].per_query[METRIC], scores[over].per_query[METRIC]) for scores in tables]
    )


def print_table(condition: str, table: Table) -> None:
    title = "clean queries" if condition == "clean" else f"{TYPOS:.0%} of letters mistyped"
    print(f"\n{title + ', nDCG@10':<28}" + "".join(f"{name:>12}" for name in (*table, "mean")))
    for row in ROWS:
        cells = [mean(scores[row]) for scores in table.values()] + [set_mean(table, row)]
        print(f"{row:<28}" + "".join(f"{cell:>12.4f}" for cell in cells))
    for name, scores in table.items():
        print(f"retention on {name:<10} {retention([scores])}")
    print(f"retention, mean         {retention(list(table.values()))}")


def report(tables: Mapping[str, Table]) -> int:
    clean = tables["clean"]
    kept, kept_noisy = (retention(list(tables[c].values())) for c in ("clean", "typos"))
    over_rival = {
        condition: {name: mean(s["ours"]) / mean(s["model2vec"]) for name, s in table.items()}
        for condition, table in tables.items()
    }
    hybrid = {row: set_mean(clean, "hybrid") / set_mean(clean, row) for row in ("bm25", "teacher")}
    missed = []
    if kept.estimate < LEAST_RETENTION:
        missed.append(f"mean retention {kept.estimate:.4f} < {LEAST_RETENTION}")
    missed += [
        f"ours is not above model2vec on {name} ({ratio:.4f})"
        for name, ratio in over_rival["clean"].items()
        if ratio <= 1
    ]
    missed += [
        f"hybrid is not above {row} on the mean ({ratio:.4f})"
        for row, ratio in hybrid.items()
        if ratio <= 1
    ]
    for miss in missed:
        print(f"MISSED: {miss}")
    figures = {
        "retention": round(kept.estimate, 4),
        "retention_interval": [round(kept.low, 4), round(kept.high, 4)],
        "retention_typos": round(kept_noisy.estimate, 4),
        "over_model2vec": {name: round(ratio, 4) for name, ratio in over_rival["clean"].items()},
        "over_model2vec_typos": {
            name: round(ratio, 4) for name, ratio in over_rival["typos"].items()
        },
        "hybrid_over_bm25": round(hybrid["bm25"], 4),
        "hybrid_over_teacher": round(hybrid["teacher"], 4),
        "missed": missed,
    }
    print(json.dumps(figures))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
