"""The command line that all studies share: run what is missing, print tables and verdicts.

The last line is one JSON object. A claim that does not hold is a result, not a failure: the exit
status is 0 wherever everything ran.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from study import Corpus, Study
from verdicts import Claim, gains, table

sys.path.append(str(Path(__file__).resolve().parents[1]))
from quality_sets import data_folder

__all__ = ["main"]


def main(
    name: str,
    corpora: Sequence[str],
    corpus: Callable[[str, Path], Corpus],
    claims: Callable[[str], list[Claim]],
    metric: Callable[[str], str],
    study_of: Callable[[str, Corpus], Study] = Study,
) -> int:
    """Run a study on its corpora.

    Args:
        name: of the study, in ``arms.toml``.
        corpora: names of all its corpora.
        corpus: makes one.
        claims: the claims that are decided on one.
        metric: by which arms are compared with ``start``, the warm start itself.
        study_of: makes the study of a name and a corpus.
    """
    parser = argparse.ArgumentParser(description=f"The claims of {name}, in small.")
    parser.add_argument("--corpora", nargs="+", choices=corpora, default=list(corpora))
    parser.add_argument("--arms", nargs="+", help="run these and decide nothing")
    parser.add_argument("--data", help="default: POCKETQUERY_DATA, else data")
    options = parser.parse_args()
    data = data_folder(options.data)
    found: dict[str, dict[str, object]] = {}
    for chosen in options.corpora:
        study = study_of(name, corpus(chosen, data))
        results = study.results(options.arms)
        metrics = list(dict.fromkeys(metric for scores in results.values() for metric in scores))
        print(f"\n{table(chosen, results, metrics)}\n")
        verdicts = {} if options.arms else {c: c.check(results) for c in claims(chosen)}
        for claim, verdict in verdicts.items():
            print(f"{claim.id} {'holds' if verdict.holds else 'does not hold'}: {claim.text}")
            print(f"    {verdict.evidence}")
        gained = gains(results, metric(chosen)) if "start" in results else {}
        for arm, (difference, p) in gained.items():
            print(f"{arm} - start, {metric(chosen)}: {difference:+.4f} (p {p:.4f})")
        found[chosen] = {
            "gains": {arm: [round(value, 4) for value in gain] for arm, gain in gained.items()},
            "means": {
                arm: {metric: round(float(np.mean(v)), 4) for metric, v in scores.items()}
                for arm, scores in results.items()
            },
            "claims": {claim.id: verdict.holds for claim, verdict in verdicts.items()},
        }
    print(json.dumps({name: found}))
    return 0
