"""Does an encoder that its own index has taught find more of what people ask for?

    python benchmarks/adaptation.py [--bundle trainable] [--sets scifact cacm ...] [--data FOLDER]
    python benchmarks/adaptation.py --bundle demo/bundle --student demo/student [--rank teacher]
    python benchmarks/adaptation.py --bundle demo/bundle --adapter
    python benchmarks/adaptation.py --bundle sdk/default --student sdk/default

Each of eight collections (quality.py's, and three of questions that ask the same) is adapted to by
``pocketquery adapt``, or with ``--student`` by ``pocketquery adapt-student`` with the demo's
teacher and then ``export``, or with ``--adapter`` by ``pocketquery adapt-student --bundle``, which
makes a release; all with their defaults, which look at documents alone. A student that is the
bundle itself is read out of it. With ``--rank teacher`` the teacher's own ranking is taught in the
hybrid's place, plain distillation on the same texts, with ``hybrid`` the hybrid's alone, and by
default half of each; ``--steps``, ``--queries`` and ``--stretches`` are of the student's
adaptation, too. Then the collection's real queries are
asked before and after: nDCG@10 by meaning (dense) and by both (hybrid), as typed and with 8 % of
the letters mistyped, with 95 % intervals of a paired bootstrap over queries. ``elsewhere`` is the
same on the seven other collections, which were not adapted to, 400 queries of each as typed. With
``--interpolation`` the student's weights go that far from what they were to the trained ones (1);
several are measured after one training, the verdict is of the whole way, and the figures below are
those of the default, or else of the last. The bundle must be distilled from the demo's teacher, and
carry a training step (``pocketquery export --training-step``) unless a student is adapted; it is
then the student's own.

A collection that is done is kept in ``runs/adaptation``: killed and started again, the benchmark
goes on. Of all eight the figures are stored in docs/results/adaptation.json, by what was adapted.
The last line is one JSON object; the exit status is 1 where a figure is missed:

    dense, mean over the collections            interval above 0
    mistyped, dense, mean                       interval above 0
    hybrid, mean                                not below -0.005
    elsewhere, dense, mean                      not below -0.005
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from quality_sets import FORUMS, SETS, data_folder, read_set
from suite.results import figures_of, store

from pocketquery.client.adaptation.acceptance import AdaptationVerdict
from pocketquery.client.adaptation.adaptation import AdaptationConfig, adapt
from pocketquery.client.bootstrap import Interval, bootstrap_difference
from pocketquery.distill import (
    StudentAdaptationConfig,
    adapt_adapter,
    adapt_student,
    adapter_config,
    load_student,
)
from pocketquery.distill.adaptation.low_rank import low_rank_tensors
from pocketquery.distill.training import interpolate
from pocketquery.export.bundle.bundling import export_bundle
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.encoder import Encoder
from pocketquery.sdk.files import sha256_file, write_atomic
from pocketquery.sdk.index.index import Index, open_index
from pocketquery.sdk.index.search import Mode
from pocketquery.sdk.indexing.building import build_index
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
ALL = (*SETS, *FORUMS)
ELSEWHERE = CONDITIONS[::2]
MOST_ELSEWHERE = 400  # queries of each other collection


class Learnt(NamedTuple):
    """Encoders, how far each went, what decides whether it is kept, and what taught it."""

    encoders: dict[float, Encoder]
    verdict: AdaptationVerdict
    queries: int


def main() -> int:
    arguments = parse_arguments()
    data = data_folder(arguments.data)
    path = Path(arguments.bundle)
    bundle = Bundle.open(path)
    learn = functools.partial(teach_adapter, bundle, arguments.seed)
    arm = "adapter"
    if arguments.student or arguments.adapter:
        ways = tuple(arguments.interpolation)
        config = adapter_config() if arguments.adapter else StudentAdaptationConfig()
        config = replace(
            config,
            ranked_by=arguments.rank,
            interpolation=1.0,  # the ways are gone below
            largest_drift=2.0,  # so that the whole of it is known
            most_queries=arguments.queries,
            stretches=arguments.stretches,
            training=replace(config.training, steps=arguments.steps, seed=arguments.seed),
        )
        learn = functools.partial(teach_student, arguments.student, config, ways)
        if arguments.adapter:
            learn = functools.partial(
                teach_release, bundle, arguments.student or arguments.bundle, config, ways
            )
        given = (arguments.steps, arguments.queries, arguments.stretches, *ways)
        kind = "release" if arguments.adapter else "student"
        if arguments.student in (None, arguments.bundle):  # read out of it, whichever it is
            kind += f"-{bundle.manifest.name}"
        arm = "-".join([kind, arguments.rank, *map(str, given)])
    work = WORK / f"{sha256_file(path / 'encoder.onnx')[:12]}-{arguments.seed}-{arm}"
    work.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {}
    for name in arguments.sets:
        kept = work / f"{name}.json"
        if not kept.exists():
            found = measure(bundle, data, work, name, learn)
            write_atomic(kept, json.dumps(found) + "\n")
        results[name] = json.loads(kept.read_bytes())
        print_result(name, results[name])
    return report(arm, results)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    default = StudentAdaptationConfig()
    parser.add_argument("--bundle", default="trainable", help="with a training step")
    parser.add_argument("--student", help="adapt this student (default: the bundle's adapter)")
    parser.add_argument("--adapter", action="store_true", help="the adapter, as adapt-student does")
    parser.add_argument("--rank", choices=("hybrid", "teacher", "both"), default=default.ranked_by)
    parser.add_argument("--steps", type=int, default=default.training.steps)
    parser.add_argument("--queries", type=int, default=default.most_queries)
    parser.add_argument("--stretches", type=int, default=default.stretches)
    parser.add_argument("--interpolation", type=float, nargs="+", default=[default.interpolation])
    parser.add_argument("--sets", nargs="+", choices=ALL, default=list(ALL))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", help="default: POCKETQUERY_DATA, else data")
    return parser.parse_args()


def measure(
    bundle: Bundle, data: Path, work: Path, name: str, learn: Callable[[Index], Learnt]
) -> dict[str, Any]:
    """Scores before and after of one collection, and of the others, not adapted to."""
    encoder = Encoder.of_bundle(bundle)
    with open_collection(data, work.parent, name)[1] as index:
        begun = time.perf_counter()
        learnt = learn(index)
        seconds = time.perf_counter() - begun
    scores: dict[str, Any] = {"before": {}, **{str(way): {} for way in learnt.encoders}}
    for other in ALL:
        collection, index = open_collection(data, work.parent, other)
        conditions, step = CONDITIONS, 1
        if other != name:  # spread over all: queries of one article stand together
            conditions, step = ELSEWHERE, -(-len(collection.queries) // MOST_ELSEWHERE)
        with index:
            kept = work / f"before-{other}.json"
            if not kept.exists():
                asked = ask(encoder, collection, index, CONDITIONS, 1)
                write_atomic(kept, json.dumps(asked) + "\n")
            before = json.loads(kept.read_bytes())
            wanted = [named(*condition) for condition in conditions]
            scores["before"][other] = {one: before[one][::step] for one in wanted}
            for way, one in learnt.encoders.items():
                scores[str(way)][other] = ask(one, collection, index, conditions, step)
    return {
        "queries": learnt.queries,
        "seconds": round(seconds, 1),
        "verdict": learnt.verdict.to_dict(),
        "scores": scores,
    }


def teach_adapter(bundle: Bundle, seed: int, index: Index) -> Learnt:
    """What ``pocketquery adapt`` does."""
    encoder = Encoder.of_bundle(bundle)
    found = adapt(bundle, index, AdaptationConfig(seed=seed))
    encoder.swap_adapter({n: v.astype(np.float16) for n, v in found.adapter.items()})
    return Learnt({1.0: encoder}, found.verdict, found.queries)


def teach_student(
    folder: str, config: StudentAdaptationConfig, ways: Sequence[float], index: Index
) -> Learnt:
    """What ``pocketquery adapt-student`` and ``export`` do; kept whatever the verdict is."""
    student = load_student(folder)
    start = {name: value.clone() for name, value in student.state_dict().items()}
    texts = [document.text for document in itertools.islice(index.documents(), 512)]
    encoders: dict[float, Encoder] = {}
    with tempfile.TemporaryDirectory() as work:
        found = adapt_student(
            student, index, f"{work}/student", teacher=SentenceEncoder.load("demo"), config=config
        )
        trained = {name: value.clone() for name, value in student.state_dict().items()}
        for way in ways:
            student.load_state_dict(trained)
            interpolate(student, start, way)
            report = export_bundle(
                student,
                f"{work}/bundle-{way}",
                calibration_texts=[" ".join(text.split()[:12]) for text in texts],
                name="adapted",
                license="Apache-2.0",
            )
            encoders[way] = Encoder.of_bundle(Bundle.open(report.path))
    return Learnt(encoders, found.verdict, found.queries)


def teach_release(
    bundle: Bundle,
    folder: str,
    config: StudentAdaptationConfig,
    ways: Sequence[float],
    index: Index,
) -> Learnt:
    """What ``pocketquery adapt-student --bundle`` does; kept whatever the verdict is."""
    student = load_student(folder)
    start = {name: tensor.copy() for name, tensor in Encoder.of_bundle(bundle).adapter.items()}
    encoders: dict[float, Encoder] = {}
    with tempfile.TemporaryDirectory() as work:
        found = adapt_adapter(
            student,
            index,
            f"{work}/adapter.safetensors",
            bundle=bundle,
            teacher=SentenceEncoder.load("demo"),
            config=config,
        )
    trained = low_rank_tensors(student)
    for way in ways:
        encoders[way] = Encoder.of_bundle(bundle)
        encoders[way].swap_adapter(
            {
                name: (start[name] + way * (tensor - start[name])).astype(np.float16)
                for name, tensor in trained.items()
            }
        )
    return Learnt(encoders, found.verdict, found.queries)


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


def ask(
    encoder: Encoder,
    collection: Collection,
    index: Index,
    conditions: Sequence[tuple[Mode, float]],
    step: int,
) -> dict[str, list[float]]:
    """nDCG@10 of every ``step``-th query by condition."""
    excluded: dict[str, set[str]] = {}
    for name, document in collection.excluded:
        excluded.setdefault(name, set()).add(document)
    most = max(map(len, excluded.values()), default=0)
    queries = collection.queries[::step]
    scores = {}
    for mode, typos in conditions:
        texts = mistyped(queries, typos, 0)
        rankings = {}
        for query, text, vector in zip(queries, texts, encoder.encode_query(texts), strict=True):
            hits = [hit.id for hit in index.search(text, DEPTH + most, mode=mode, vector=vector)]
            out = excluded.get(query.id, set())
            rankings[query.id] = [one for one in hits if one not in out][:DEPTH]
        judged = {query.id: collection.judgements[query.id] for query in queries}
        found = score_rankings(judged, rankings)
        scores[named(mode, typos)] = found.per_query["ndcg@10"].tolist()
    return scores


def named(mode: Mode, typos: float) -> str:
    return f"{mode} {'mistyped' if typos else 'clean'}"


Pairs = list[tuple[NDArray[np.float64], NDArray[np.float64]]]


def pairs(results: dict[str, Any], way: str) -> dict[str, Pairs]:
    """By place and condition: (after, before) of each collection, or of each other one."""
    found: dict[str, Pairs] = {}
    for name, result in results.items():
        before, after = result["scores"]["before"], result["scores"][way]
        for other, conditions in before.items():
            place = "here" if other == name else "elsewhere"
            for condition, values in conditions.items():
                both = np.array(after[other][condition]), np.array(values)
                found.setdefault(f"{place} {condition}", []).append(both)
    return found


def print_result(name: str, result: dict[str, Any]) -> None:
    print(f"\n{name}: {result['seconds']:.0f} s, gate: ", end="")
    print("accepted" if result["verdict"]["accepted"] else result["verdict"]["reason"])
    for way in list(result["scores"])[1:]:
        for condition, found in pairs({name: result}, way).items():
            before = np.mean([one.mean() for _, one in found])
            gain = bootstrap_difference(found)
            print(f"  {way:5} {condition:22} {before:.4f} {shown(gain)}", flush=True)


def report(arm: str, results: dict[str, Any]) -> int:
    """The means over collections, the JSON line and the exit status; of all collections they are
    stored, beside what other arms found."""
    missed: dict[str, list[str]] = {}
    values: dict[str, Any] = {}
    print(f"\nmean over {len(results)} collections")
    for way in list(next(iter(results.values()))["scores"])[1:]:
        means = {name: bootstrap_difference(some) for name, some in pairs(results, way).items()}
        for name, gain in means.items():
            print(f"  {way:5} {name:25} {shown(gain)}")
        each = {name: pairs({name: result}, way) for name, result in results.items()}
        values[way] = {
            "mean": {name: rounded(gain) for name, gain in means.items()},
            **{
                name: {one: rounded(bootstrap_difference(some)) for one, some in found.items()}
                for name, found in each.items()
            },
        }
        missed[way] = [n for n in ("here dense clean", "here dense mistyped") if means[n].low <= 0]
        for name in ("here hybrid clean", "elsewhere dense clean"):
            if means[name].estimate < -TOLERANCE:
                missed[way].append(name)
    default = str(StudentAdaptationConfig().interpolation)
    deciding = default if default in missed else list(missed)[-1]
    accepted = [name for name, result in results.items() if result["verdict"]["accepted"]]
    found = {"accepted": accepted, "gains": values, "missed": missed[deciding]}
    if set(results) == set(ALL):
        arms = {**figures_of("adaptation").get("arms", {}), arm: found}
        store("adaptation", {"arms": arms, "missed": [a for a in arms if arms[a]["missed"]]})
    print(json.dumps({"sets": list(results), **found}))
    return 1 if missed[deciding] else 0


def rounded(gain: Interval) -> list[float]:
    return [round(value, 4) for value in (gain.estimate, gain.low, gain.high)]


def shown(gain: Interval) -> str:
    return f"{gain.estimate:+.4f} [{gain.low:+.4f}, {gain.high:+.4f}]"


if __name__ == "__main__":
    raise SystemExit(main())
