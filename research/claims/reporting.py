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

from pocketquery.server.corpus.groups import GroupList

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
from quality_sets import data_folder

__all__ = ["Definition", "main"]


@dataclass(frozen=True)
class Definition:
    """What a study's script adds to ``arms.toml``.

    Attributes:
        name: of the study, in ``arms.toml``.
        corpus_name: names its corpus in tables and files.
        corpus: reads it from the folder of the public sets.
        claims: the claims that it decides.
        metric: by which arms are compared with ``start``, the start itself.
        study: makes the study of a name, a corpus and a profile.
    """

    name: str
    corpus_name: str
    corpus: Callable[[Path], Corpus]
    claims: Callable[[], list[Claim]]
    metric: str
    study: Callable[[str, Corpus, str], Study] = Study

    def stored(self, profile: str) -> Study:
        """The study without its texts, to read published scores by."""
        nothing = Corpus(self.corpus_name, GroupList([], "documents"), {}, lambda trained: {})
        return self.study(self.name, nothing, profile)


def main(definition: Definition) -> int:
    """Run a study, or decide from what is stored."""
    name = definition.name
    parser = argparse.ArgumentParser(description=f"The claims of {name}, in small.")
    known = profiles(name)
    parser.add_argument(
        "--profile",
        choices=known,
        default=known[-1],
        help="whole: all that is declared; two_cores: the version that was run (default: "
        "%(default)s)",
    )
    parser.add_argument("--arms", nargs="+", help="run these and decide nothing")
    parser.add_argument("--seeds", nargs="+", type=int, help="run these and decide nothing")
    parser.add_argument(
        "--estimate", action="store_true", help="take a few steps of each arm, say what all cost"
    )
    parser.add_argument(
        "--finished",
        action="store_true",
        help="train nothing and read no texts: decide from the scores that are stored",
    )
    parser.add_argument("--data", help="default: POCKETQUERY_DATA, else data")
    options = parser.parse_args()
    found: dict[str, Any]
    if options.finished:
        study = definition.stored(options.profile)
        study.begin_stored()
        found = _decided(study, definition, finished=True)
    else:
        corpus = definition.corpus(data_folder(options.data))
        study = definition.study(name, corpus, options.profile)
        if options.estimate:
            found = print_estimate(study)
        else:
            study.begin()
            if options.arms or options.seeds:
                for seed, arm in study.runs(options.arms, options.seeds):
                    study.run(arm, seed)
                found = {}
            else:
                found = _decided(study, definition, finished=False)
            study.publish()
    print(json.dumps({name: found, "profile": options.profile}))
    return 0


def _decided(study: Study, definition: Definition, *, finished: bool) -> dict[str, Any]:
    """Run, print and return the results."""
    claims, metric = definition.claims(), definition.metric
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
