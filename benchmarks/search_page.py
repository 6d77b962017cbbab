"""Pages that search 10,000 documents: ours, transformers.js with our model, Orama, MiniSearch.

    (cd benchmarks/transformers_js && npm ci --ignore-scripts)
    python benchmarks/search_page.py --data FOLDER

The documents are four public collections put together, without some that no query is judged for.
Ours opens an index, hybrid and by words alone; transformers.js has the same encoder and the same
vectors beside the documents (float32, scanned in a plain loop); Orama and MiniSearch index the
documents in the page, as their READMEs show. Each page is visited by browsers that know nothing,
in turns, from the loopback, compressed alike. Printed are the time to the first result, bytes,
the time of a further query, and nDCG@10. No threshold: milliseconds are of the machine at hand.
``--store`` puts the figures into docs/results; ``--work`` keeps documents and vectors.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import transformers_js
from quality_sets import data_folder, read_set
from suite.results import store

from pocketquery import sdk
from pocketquery.sdk.index.documents import content
from pocketquery.server.evaluation.metrics import score_rankings

SETS = ("squad", "scifact", "cacm", "medline")
DOCUMENTS, MOST_QUERIES = 10_000, 200
AT_ONCE = 500


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--bundle", type=Path, default=transformers_js.ROOT / "sdk" / "default")
    parser.add_argument("--data", help="the folder with the public sets")
    parser.add_argument("--work", type=Path, default=transformers_js.ROOT / "build" / "search_page")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--chromium", default=os.environ.get("CHROMIUM", "/usr/bin/chromium"))
    parser.add_argument("--store", action="store_true", help="put the figures into docs/results")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    prepare(data_folder(options.data), options.work, options.bundle)
    found = transformers_js.visit(options.bundle, options.rounds, options.chromium, options.work)
    made = figures(options.work, found)
    if options.store:
        store("search_page", made)
    print(json.dumps(made))
    return 0


def prepare(data: Path, folder: Path, bundle: Path) -> None:
    """Write what the pages fetch, queries and judgements, where ``folder`` has none."""
    if (folder / "queries.json").exists():
        return
    documents: list[sdk.Document] = []
    queries: list[dict[str, Any]] = []
    for name in SETS:
        one = read_set(data, name)
        documents += [
            sdk.Document(
                f"{name}/{doc.id}", doc.text, {"title": str(doc.metadata.get("title", ""))}
            )
            for doc in one.documents
        ]
        asked = [query for query in one.queries if query.id in one.judgements]
        if len(asked) > MOST_QUERIES:
            asked = random.Random(0).sample(asked, MOST_QUERIES)
        for query in asked:
            grades = {f"{name}/{id}": grade for id, grade in one.judgements[query.id].items()}
            queries.append({"id": f"{name}/{query.id}", "text": query.text, "grades": grades})
    judged = {id for query in queries for id in query["grades"]}
    spare = [one.id for one in documents if one.id not in judged]
    left_out = set(random.Random(0).sample(spare, len(documents) - DOCUMENTS))
    documents = [one for one in documents if one.id not in left_out]
    encoder = sdk.load(bundle)
    parts = [
        encoder.encode_document([content(one) for one in documents[start : start + AT_ONCE]])
        for start in range(0, len(documents), AT_ONCE)
    ]
    vectors = np.concatenate(parts).astype(np.float32)
    with sdk.create_index(folder / "index", encoder=encoder) as builder:
        builder.add(documents, vectors)
    texts = [{"id": one.id, "title": one.metadata["title"], "text": one.text} for one in documents]
    (folder / "documents").mkdir(exist_ok=True)
    (folder / "documents" / "documents.json").write_text(json.dumps(texts), encoding="utf-8")
    (folder / "documents" / "vectors.f32").write_bytes(vectors.tobytes())
    (folder / "queries.json").write_text(json.dumps(queries), encoding="utf-8")


def figures(folder: Path, found: dict[str, Any]) -> dict[str, Any]:
    """Of each page: milliseconds to the first result and of a further query, bytes, nDCG@10.

    Prints them as a table.
    """
    print("| page | first result, ms | bytes | a further query, ms | nDCG@10 |")
    print("|---|---|---|---|---|")
    made = {}
    for name, page in found.items():
        answers = page["answers"]
        made[name] = {
            "first_ms": page["ms"],
            "bytes": page["bytes"],
            "further_ms": answers["ms"],
            "ndcg": _scores(folder, answers["found"]),
            "sent": page["sent"],
        }
        one = made[name]
        mean = one["ndcg"]["mean"]
        print(
            f"| {name} | {one['first_ms']:.0f} | {one['bytes']:,} | {one['further_ms']:.1f} | "
            f"{mean:.3f} |"
        )
    return made


def _scores(folder: Path, answers: dict[str, list[str]]) -> dict[str, float]:
    """nDCG@10 in each collection, and ``mean``, of the collections."""
    judgements: dict[str, dict[str, dict[str, int]]] = defaultdict(dict)
    for query in json.loads((folder / "queries.json").read_bytes()):
        judgements[query["id"].partition("/")[0]][query["id"]] = query["grades"]
    found = {
        name: score_rankings(judged, answers).means()["ndcg@10"]
        for name, judged in judgements.items()
    }
    return found | {"mean": sum(found.values()) / len(found)}


if __name__ == "__main__":
    sys.exit(main())
