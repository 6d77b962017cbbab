"""Do federated rounds make search better, and which local objective does it?

    python research/studies/federated_quality.py [--domains clinc squad irc] [--seeds 3]
        [--data FOLDER]

A teacher's index; a query encoder that learnt general queries only, once without and once with
typing noise (``plain``, ``noisy``); clients that each see a few topics. Every figure is nDCG@10 of
the exported int8 encoder with the adapter the rounds made, on test queries no client holds, clean
and with 8 % of the letters mistyped, in the clients' domain and on a general set. Intervals are
paired bootstraps over the test queries, each query's score being its mean over the seeds.

Every arm is run with the clients of ``clinc``; the other domains run the default, alone and with
opened results (``--all-arms`` runs everything everywhere).

A run (encoder, domain, arm, seed) is kept in ``runs/federated_quality`` when it is done: killed and
started again, the benchmark goes on with the next. The last line is one JSON object; the exit
status is 1 where a figure that must be reached is missed:

    index_byol, domain mistyped                 interval above 0, from both encoders
    index_byol, domain clean                    at least -0.002
    index_byol, general clean                   at least -0.003
    index_byol_opened, domain clean             interval above 0 (clinc, squad)
    compression                                 costs at most 0.002 (domain mistyped)
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
from federated_experiment.arms import ARMS, Bench, Run
from federated_experiment.domains import DOMAINS
from federated_experiment.encoders import NOISE
from numpy.typing import NDArray
from quality_sets import data_folder

from pocketquery.sdk.files import write_atomic
from pocketquery.server.evaluation import Interval, bootstrap_difference

WORK = Path(__file__).resolve().parents[2] / "runs" / "federated_quality"
CONDITIONS = ("domain", "domain_mistyped", "general", "general_mistyped")
LABELLED = ("clinc", "squad")
ABLATED = "clinc"  # where every arm is run
CONFIRMED = ("before", "index_byol", "index_byol_opened")  # what the other domains run


def main() -> int:
    arguments = parse_arguments()
    data = data_folder(arguments.data)
    results: dict[str, dict[str, dict[str, Interval]]] = {}
    seeds = range(1, arguments.seeds + 1)
    for encoder in arguments.encoders:
        for domain in arguments.domains:
            arms = (
                iter(["before", *arguments.arms])
                if arguments.arms
                else arms_of(domain, arguments.all_arms)
            )
            scores = gather(Bench(encoder, domain, data, WORK), arms, seeds)
            results[f"{encoder}/{domain}"] = compare(scores)
            print_table(f"{encoder} encoder, clients of {domain}", scores)
    return 0 if arguments.arms else report(results)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--encoders", nargs="+", choices=list(NOISE), default=list(NOISE))
    parser.add_argument("--domains", nargs="+", choices=DOMAINS, default=list(DOMAINS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--arms", nargs="+", choices=list(ARMS), help="beside before; decides nothing"
    )
    parser.add_argument("--all-arms", action="store_true", help="also outside of clinc")
    parser.add_argument("--data", help="default: POCKETQUERY_DATA, else data")
    return parser.parse_args()


def gather(
    bench: Bench, arms: Iterator[str], seeds: range
) -> dict[str, dict[str, NDArray[np.float64]]]:
    """arm -> condition -> score of each test query, averaged over the seeds."""
    scores = {}
    for arm in arms:
        runs = [kept(bench, arm, seed) for seed in (seeds if arm != "before" else range(1))]
        scores[arm] = {
            condition: np.mean([run[condition] for run in runs], axis=0) for condition in CONDITIONS
        }
    return scores


def arms_of(domain: str, every: bool) -> Iterator[str]:
    for name, arm in ARMS.items():
        possible = domain in LABELLED or not arm.opened
        if possible and (every or domain == ABLATED or name in CONFIRMED):
            yield name


def kept(bench: Bench, arm: str, seed: int) -> Run:
    """The run's scores, from its file where it was made before."""
    path = WORK / "results" / f"{bench.encoder_name}-{bench.domain_name}-{arm}-{seed}.json"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        run = bench.run(arm, seed)
        write_atomic(path, json.dumps({name: list(map(float, run[name])) for name in run}))
        means = " ".join(f"{name} {np.mean(run[name]):.4f}" for name in CONDITIONS)
        print(f"{bench.encoder_name} {bench.domain_name} {arm} seed {seed}: {means}", flush=True)
    loaded = json.loads(path.read_text(encoding="utf-8"))
    return {name: np.array(values) for name, values in loaded.items()}


def compare(
    scores: dict[str, dict[str, NDArray[np.float64]]],
) -> dict[str, dict[str, Interval]]:
    """arm -> condition -> its gain over ``before``."""
    return {
        arm: {
            condition: bootstrap_difference([(values[condition], scores["before"][condition])])
            for condition in CONDITIONS
        }
        for arm, values in scores.items()
        if arm != "before"
    }


def print_table(title: str, scores: dict[str, dict[str, NDArray[np.float64]]]) -> None:
    print(f"\n{title}, nDCG@10 and gain over before")
    gains = compare(scores)
    print(f"{'before':<26}" + "".join(f"{scores['before'][c].mean():>28.4f}" for c in CONDITIONS))
    for arm, found in gains.items():
        cells = [
            f"{100 * g.estimate:+.2f} [{100 * g.low:+.2f}, {100 * g.high:+.2f}]"
            for g in (found[condition] for condition in CONDITIONS)
        ]
        print(f"{arm:<26}" + "".join(f"{cell:>28}" for cell in cells))


def report(results: dict[str, dict[str, dict[str, Interval]]]) -> int:
    missed = [
        f"{name}: {problem}" for name, gains in results.items() for problem in problems(name, gains)
    ]
    for problem in missed:
        print(f"missed: {problem}")
    figures = {
        name: {
            arm: {c: [round(v, 5) for v in (g.estimate, g.low, g.high)] for c, g in found.items()}
            for arm, found in gains.items()
        }
        for name, gains in results.items()
    }
    print(json.dumps({"gains": figures, "missed": missed}))
    return 1 if missed else 0


def problems(name: str, gains: dict[str, dict[str, Interval]]) -> Iterator[str]:
    ours = gains["index_byol"]
    if ours["domain_mistyped"].low <= 0:
        yield f"domain, mistyped: {ours['domain_mistyped']}, expected an interval above 0"
    if ours["domain"].estimate < -0.002:
        yield f"domain, clean: {ours['domain']}, expected at least -0.002"
    if ours["general"].estimate < -0.003:
        yield f"general, clean: {ours['general']}, expected at least -0.003"
    opened = gains.get("index_byol_opened")
    if opened is not None and opened["domain"].low <= 0:
        yield f"opened, domain clean: {opened['domain']}, expected an interval above 0"
    if "index_byol_uncompressed" in gains:
        uncompressed = gains["index_byol_uncompressed"]["domain_mistyped"].estimate
        cost = uncompressed - ours["domain_mistyped"].estimate
        if cost > 0.002:
            yield f"compression costs {cost:.4f}, expected at most 0.002"


if __name__ == "__main__":
    raise SystemExit(main())
