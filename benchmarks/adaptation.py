"""Does an encoder that its own index has taught find more of what people ask for?

    python benchmarks/adaptation.py [--bundle demo/bundle] [--sets scifact cacm ...] [--data FOLDER]

Each collection of quality.py is adapted to by ``pocketquery adapt`` with its defaults, which look
at documents alone; then its real queries, which nothing was chosen by, are asked before and after:
nDCG@10 by meaning (dense) and by both (hybrid), as typed and with 8 % of the letters mistyped, with
95 % intervals of a paired bootstrap over queries. ``elsewhere`` is the same on the next collection,
which was not adapted to. The bundle must carry a training step (``pocketquery export
--training-step``) and be distilled from the demo's teacher.

A collection that is done is kept in ``runs/adaptation``: killed and started again, the benchmark
goes on. The last line is one JSON object; the exit status is 1 where a figure is missed:

    dense, mean over the collections            interval above 0
    mistyped, dense, mean                       interval above 0
    hybrid, mean                                not below -0.005
    elsewhere, dense, mean                      not below -0.005
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from quality_sets import SETS, data_folder, read_set

from pocketquery.client.adaptation.adaptation import AdaptationConfig, adapt
from pocketquery.client.bootstrap import Interval, bootstrap_difference
from pocketquery.export.indexing import build_index
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.encoder import Encoder
from pocketquery.sdk.files import sha256_file, write_atomic
from pocketquery.sdk.index.index import Index, open_index
from pocketquery.sdk.index.query import Mode
from pocketquery.server.corpus import Collection
from pocketquery.server.evaluation import DEPTH, mistyped, score_rankings
from pocketquery.server.modeling import SentenceEncoder

WORK = Path(__file__).resolve().parents[1] / "runs" / "adaptation"
CONDITIONS: tuple[tuple[Mode, float], ...] = (
    ("dense", 0.0),
    ("dense", 0.08),
    ("hybrid", 0.0),
    ("hybrid", 0.08),
)
TOLERANCE = 0.005

Scores = dict[str, NDArray[np.float64]]


def main() -> int:
    arguments = parse_arguments()
    data = data_folder(arguments.data)
    path = Path(arguments.bundle)
    bundle = Bundle.open(path)
    config = AdaptationConfig(seed=arguments.seed)
    work = WORK / f"{sha256_file(path / 'encoder.onnx')[:12]}-{arguments.seed}"
    work.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {}
    for place, name in enumerate(arguments.sets):
        kept = work / f"{name}.json"
        if not kept.exists():
            other = arguments.sets[(place + 1) % len(arguments.sets)]
            found = measure(bundle, data, work.parent, name, other, config)
            write_atomic(kept, json.dumps(found) + "\n")
        results[name] = json.loads(kept.read_bytes())
        print_result(name, results[name])
    return report(results)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--bundle", default="demo/bundle", help="with a training step")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", help="default: POCKETQUERY_DATA, else data")
    return parser.parse_args()


def measure(
    bundle: Bundle, data: Path, work: Path, name: str, other: str, config: AdaptationConfig
) -> dict[str, Any]:
    """Scores before and after of one collection, and of another that was not adapted to."""
    encoder = Encoder.of_bundle(bundle)
    here, elsewhere = (open_collection(data, work, one) for one in (name, other))
    with here[1] as index, elsewhere[1]:
        before = {"here": ask(encoder, *here), "elsewhere": ask(encoder, *elsewhere)}
        begun = time.perf_counter()
        adapted = adapt(bundle, index, config)
        seconds = time.perf_counter() - begun
        encoder.swap_adapter({n: v.astype(np.float16) for n, v in adapted.adapter.items()})
        after = {"here": ask(encoder, *here), "elsewhere": ask(encoder, *elsewhere)}
    return {
        "documents": len(here[0].documents),
        "queries": adapted.queries,
        "seconds": round(seconds, 1),
        "elsewhere": other,
        "verdict": adapted.verdict.to_dict(),
        "before": before,
        "after": after,
    }


def open_collection(data: Path, work: Path, name: str) -> tuple[Collection, Index]:
    """A collection and its index, encoded by the teacher once."""
    collection = read_set(data, name)
    path = work / f"index-{name}"
    if not path.exists():
        teacher = SentenceEncoder.load("demo")
        # The index breaks ties by its rows, and collections are not always in a random order.
        order = np.random.default_rng(0).permutation(len(collection.documents))
        build_index(
            (collection.documents[row] for row in order),
            teacher.encode_document,
            path,
            space_id=teacher.space_id,
            dimension=teacher.dimension,
        )
    return collection, open_index(path)


def ask(encoder: Encoder, collection: Collection, index: Index) -> dict[str, list[float]]:
    """nDCG@10 of each query by condition."""
    excluded: dict[str, set[str]] = {}
    for name, document in collection.excluded:
        excluded.setdefault(name, set()).add(document)
    most = max(map(len, excluded.values()), default=0)
    scores = {}
    for mode, typos in CONDITIONS:
        texts = mistyped(collection.queries, typos, 0)
        rankings = {}
        for query, text, vector in zip(
            collection.queries, texts, encoder.encode_query(texts), strict=True
        ):
            hits = [hit.id for hit in index.search(text, DEPTH + most, mode=mode, vector=vector)]
            out = excluded.get(query.id, set())
            rankings[query.id] = [one for one in hits if one not in out][:DEPTH]
        found = score_rankings(collection.judgements, rankings)
        scores[f"{mode} {'mistyped' if typos else 'clean'}"] = found.per_query["ndcg@10"].tolist()
    return scores


def print_result(name: str, found: dict[str, Any]) -> None:
    print(f"\n{name}: {found['documents']} documents, {found['seconds']:.0f} s, gate: ", end="")
    print("accepted" if found["verdict"]["accepted"] else found["verdict"]["reason"])
    for where in ("here", "elsewhere"):
        label = "" if where == "here" else f" ({found['elsewhere']})"
        for condition, before in found["before"][where].items():
            after = found["after"][where][condition]
            gain = bootstrap_difference([(np.array(after), np.array(before))])
            print(
                f"  {where:9} {condition:15} {np.mean(before):.4f} -> {np.mean(after):.4f}  "
                f"{shown(gain)}{label}",
                flush=True,
            )


def report(results: dict[str, Any]) -> int:
    """The means over collections, the JSON line and the exit status."""
    means = {
        f"{where} {condition}": bootstrap_difference(
            [
                (
                    np.array(one["after"][where][condition]),
                    np.array(one["before"][where][condition]),
                )
                for one in results.values()
            ]
        )
        for where in ("here", "elsewhere")
        for condition in next(iter(results.values()))["before"]["here"]
    }
    print(f"\nmean over {len(results)} collections")
    for name, gain in means.items():
        print(f"  {name:25} {shown(gain)}")
    missed = [name for name in ("here dense clean", "here dense mistyped") if means[name].low <= 0]
    missed += [
        name
        for name in ("here hybrid clean", "elsewhere dense clean")
        if means[name].estimate < -TOLERANCE
    ]
    values = {n: [g.estimate, g.low, g.high] for n, g in means.items()}
    print(json.dumps({"sets": list(results), "gains": values, "missed": missed}))
    return 1 if missed else 0


def shown(gain: Interval) -> str:
    return f"{gain.estimate:+.4f} [{gain.low:+.4f}, {gain.high:+.4f}]"


if __name__ == "__main__":
    raise SystemExit(main())
