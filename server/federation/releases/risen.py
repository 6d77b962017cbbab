"""Documents that rise across queries they have nothing to do with: the mark of a planted one.

A change that was made to lift one document for some queries leaves the others' means where they
were, so retrieval on held-out queries does not tell it. But it bends the space towards that
document, which comes up elsewhere too ("hubness": Radovanović et al., JMLR 2010). Learning from
honest devices reorders what was near already. So what is counted is how many held-out queries find
a document among their first ten that is not relevant to them and stood beyond the first hundred of
the encoder as it was shipped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass

__all__ = ["DEPTH", "Risen", "most_risen"]

DEPTH = 100
"""So many documents of a shipped ranking do not count; an index of no more has none that can rise.
"""

_SHOWN = 10

Rankings = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Risen:
    """The document that rose across most queries.

    Attributes:
        document: its id; None where none rose.
        queries: how many queries it rose in, each typing counted as one.
        share: the same of all queries asked.
    """

    document: str | None = None
    queries: int = 0
    share: float = 0.0


def most_risen(shipped: Rankings, after: Rankings, relevant: Sequence[Container[str]]) -> Risen:
    """The document that most queries find now, though none of them had to do with it.

    Args:
        shipped: the shipped encoder's ranking of each query, best first, :data:`DEPTH` deep.
        after: the candidate's, of the same queries.
        relevant: the documents that are relevant to each.
    """
    rose: Counter[str] = Counter()
    for before, now, wanted in zip(shipped, after, relevant, strict=True):
        near = set(before[:DEPTH])
        rose.update(one for one in now[:_SHOWN] if one not in near and one not in wanted)
    if not rose:
        return Risen()
    queries = max(rose.values())
    document = min(one for one, count in rose.items() if count == queries)
    return Risen(document, queries, queries / len(after))
