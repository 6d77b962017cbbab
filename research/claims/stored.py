"""The 25 claims, decided from the scores in ``research/reference/claims``, without texts."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from reporting import Definition
from verdicts import FAILS, HOLDS, Link, Results, decided

__all__ = ["PROFILE", "STUDIES", "Decision", "decisions", "definition", "results_of"]

PROFILE = "two_cores"
STUDIES = ("auto_mlm", "query_bert", "alignment", "cpdae", "ccp", "gur")
"""In the order of their claims."""


@dataclass(frozen=True)
class Decision:
    """One claim.

    Attributes:
        id: O1 to O25.
        text: the claim in words.
        study: that asks it.
        verdict: by its main figure: "holds", "does not hold", "undecided" or "not run".
        links: by the same.
        others: of its other figures name -> verdict.
    """

    id: str
    text: str
    study: str
    verdict: str
    links: Sequence[Link]
    others: dict[str, str]

    @property
    def is_decided(self) -> bool:
        return self.verdict in (HOLDS, FAILS)


def definition(study: str) -> Definition:
    """The study of a name, from its script."""
    found: Definition = importlib.import_module(study).STUDY
    return found


def results_of(study: str) -> Results:
    """The stored scores of a study's arms; none where its start or rate is not there."""
    stored = definition(study).stored(PROFILE)
    try:
        stored.begin_stored()
    except SystemExit:
        return {}
    return stored.results(finished=True)


def decisions(asked: Collection[str] | None = None) -> Iterator[Decision]:
    """The claims in their order.

    Args:
        asked: these alone, by their main figure alone; None: all, by every figure.
    """
    for study in STUDIES:
        claims = [(*claim.id.partition(", ")[::2], claim) for claim in definition(study).claims()]
        if asked is not None:
            claims = [one for one in claims if one[0] in asked]
        found: dict[str, Decision] = {}
        results = results_of(study) if claims else {}
        for name, figure, claim in claims:
            if name not in found:
                verdict, links, _ = decided(claim, results)
                found[name] = Decision(name, claim.text, study, verdict, links, {})
            elif asked is None:
                found[name].others[figure] = decided(claim, results)[0]
        yield from found.values()
