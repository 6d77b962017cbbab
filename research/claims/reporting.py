"""The command line that all studies share: run what is missing, print tables and verdicts.

The last line is one JSON object. A claim that does not hold is a result, not a failure: the exit
status is 0 wherever everything ran. No study runs before its start has passed its gate.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from estimates import print_estimate
from study import Corpus, Study, profiles
from verdicts import CLOSE, Claim, Results, decided, gains, table

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
from quality_sets import data_folder

__all__ = ["Definition", "main"]


@dataclass(frozen=True)
class Definition:
    """What a study's script adds to ``arms.toml``.

    Attributes:
        name: of the study, in ``arms.toml``.
        corpora: names of all its corpora.
        corpus: makes one.
        claims: the claims that are decided on one.
        metric: by which arms are compared with ``start``, the start itself.
        study: makes the study of a name, a corpus and a profile.
    """

    name: str
    corpora: Sequence[str]
    corpus: Callable[[str, Path], Corpus]
    claims: Callable[[str], list[Claim]]
    metric: Callable[[str], str]
    study: Callable[[str, Corpus, str], Study] = Study


def main(definition: Definition) -> int:
    """Run a study on its corpora."""
    name = definition.name
    parser = argparse.ArgumentParser(description=f"The claims of {name}, in small.")
    known = profiles(name)
    parser.add_argument(
        "--profile",
        choices=known,
        default=known[-1],
        help="whole: all that is declared; two_cores: a provisional version (default: %(default)s)",
    )
    parser.add_argument(
        "--corpora", nargs="+", choices=definition.corpora, help="default: the profile's"
    )
    parser.add_argument("--arms", nargs="+", help="run these and decide nothing")
    parser.add_argument("--seeds", nargs="+", type=int, help="run these and decide nothing")
    parser.add_argument(
        "--estimate", action="store_true", help="take a few steps of each arm, say what all cost"
    )
    parser.add_argument(
        "--publish",
        action="store_true",
        help="copy all scores so far to research/reference/claims, and decide nothing",
    )
    parser.add_argument(
        "--finished",
        action="store_true",
        help="train nothing, and decide of the arms that have been run from all their seeds",
    )
    parser.add_argument("--data", help="default: POCKETQUERY_DATA, else data")
    options = parser.parse_args()
    data = data_folder(options.data)
    found: dict[str, Any] = {}
    for chosen in options.corpora or Study.corpora_of(name, options.profile) or definition.corpora:
        study = definition.study(name, definition.corpus(chosen, data), options.profile)
        if options.estimate:
            found[chosen] = print_estimate(study)
            continue
        study.begin(trains=not (options.finished or options.publish))
        if options.publish:
            found[chosen] = str(study.publish())
            continue
        if options.arms or options.seeds:
            for seed, arm in study.runs(options.arms, options.seeds):
                study.run(arm, seed)
            continue
        claims, metric = definition.claims(chosen), definition.metric(chosen)
        found[chosen] = _decided(study, claims, metric, options.finished)
    print(json.dumps({name: found, "profile": options.profile}))
    return 0


def _decided(study: Study, claims: Sequence[Claim], metric: str, finished: bool) -> dict[str, Any]:
    """Run, print and return one corpus's results."""
    results = study.results(finished=True) if finished else _with_more_seeds(study, claims)
    metrics = list(dict.fromkeys(name for scores in results.values() for name in scores))
    print(f"\n{table(study.corpus.name, results, metrics)}\n")
    verdicts: dict[str, Any] = {}
    for claim in claims:
        whole, links, beside = decided(claim, results)
        print(f"{claim.id} {whole}: {claim.text}")
        for link in links:
            print(f"    {link}")
        for link in beside:
            print(f"    beside it, {link}")
        verdicts[claim.id] = {
            "verdict": whole,
            "links": [[link.text, link.verdict, link.evidence] for link in links],
            "beside": [[link.text, link.verdict, link.evidence] for link in beside],
        }
    gained = gains(results, metric) if "start" in results else {}
    for arm, difference in gained.items():
        print(f"{arm} - start, {metric}: {difference}")
    return {
        "start": study.start_said,
        "gains": {arm: [round(v, 4) for v in (e.mean, e.low, e.high)] for arm, e in gained.items()},
        "means": {
            arm: {metric: round(float(np.mean(v)), 4) for metric, v in scores.items()}
            for arm, scores in results.items()
        },
        "claims": verdicts,
    }


def _with_more_seeds(study: Study, claims: Sequence[Claim]) -> Results:
    """All arms' results; those that a claim finds close together get the further seeds as well."""
    results = study.results()
    close = {
        arm
        for claim in claims
        for link in decided(claim, results)[1]
        if link.difference is not None and abs(link.difference) < CLOSE
        for arm in link.arms
    }
    return study.results(more=close) if close else results
