"""Triples for supervised training: a query, its passage, and passages that only look like it.

"A Contrastive Pre-training Approach to Learn Discriminative Autoencoder for Dense Retrieval", the
section on fine-tuning: negatives come from BM25 first; the model trained on those finds the next
ones, and so on (``pocketquery mine triples`` with the last model as ``--ranker``, then
``pocketquery pretrain --objective fine_tune``, again).
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

from pocketquery.sdk.errors import CorpusError, InvalidInputError
from pocketquery.sdk.index.documents import content
from pocketquery.sdk.settings.declaration import Option, Settings
from pocketquery.sdk.validation import SEED, whole
from pocketquery.server.corpus.groups import Group, Source
from pocketquery.server.corpus.mining.matching_text import matching_form
from pocketquery.server.corpus.mining.named_streams import named_seed
from pocketquery.server.corpus.mining.rankers import Ranker
from pocketquery.server.corpus.readers.collection import Collection

__all__ = ["NegativesConfig", "Question", "Questions", "mine_triples"]


@dataclass(frozen=True)
class Question:
    """A query and the rows of the passages that answer it.

    Attributes:
        id: the query's.
        text: the query.
        positives: rows of passages to train with.
        excluded: rows of other passages that may not be negatives.
        lang: language of the query.
    """

    id: str
    text: str
    positives: tuple[int, ...]
    excluded: frozenset[int] = frozenset()
    lang: str = ""


@dataclass(frozen=True)
class Questions:
    """Passages, and questions about them."""

    passages: tuple[str, ...]
    questions: tuple[Question, ...]

    @classmethod
    def of_collection(cls, collection: Collection) -> Questions:
        """A retrieval collection: every document judged above 0 is a positive."""
        rows = {document.id: row for row, document in enumerate(collection.documents)}
        questions = []
        for query in collection.queries:
            grades = collection.judgements[query.id]
            positives = tuple(rows[id] for id, grade in grades.items() if grade > 0)
            left_out = (id for one, id in collection.excluded if one == query.id)
            excluded = frozenset(rows[id] for id in left_out if id in rows)
            questions.append(Question(query.id, query.text, positives, excluded))
        return cls(tuple(content(document) for document in collection.documents), tuple(questions))

    @classmethod
    def of_pairs(cls, pairs: Source) -> Questions:
        """Pairs: the first text asks for the second; pairs of one id, and those that ask the same
        (in :func:`~pocketquery.server.corpus.mining.matching_text.matching_form`), answer each
        other's queries.

        Raises:
            CorpusError: no pair has two texts.
        """
        groups = [pair for pair in map(pairs.__getitem__, range(len(pairs))) if len(pair.texts) > 1]
        if not groups:
            raise CorpusError("no pair has two texts; expected a first text that asks for a second")
        families: dict[tuple[str, str], list[int]] = {}
        asked = [matching_form(pair.texts[0]) for pair in groups]
        for row, pair in enumerate(groups):
            for family in (("id", pair.id), ("asks", asked[row])):
                families.setdefault(family, []).append(row)
        questions = (
            Question(
                pair.id,
                pair.texts[0],
                (row,),
                frozenset(families["id", pair.id] + families["asks", asked[row]]),
                pair.lang,
            )
            for row, pair in enumerate(groups)
        )
        return cls(tuple(pair.texts[1] for pair in groups), tuple(questions))


@dataclass(frozen=True)
class NegativesConfig(Settings):
    """How negatives are chosen.

    The first passages of a ranking are passed over with ``skip``: in a collection with few
    judgements they are often answers that nobody has judged.
    """

    negatives: Annotated[int, whole(), "of a triple; fewer where fewer are found"] = 7
    depth: Annotated[int, whole(), "drawn from so many best passages of each ranker"] = 100
    skip: Annotated[int, whole(0), "first passages of a ranking that are passed over"] = 0
    seed: Annotated[int, SEED, Option(hidden=True)] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.depth <= self.skip:
            raise InvalidInputError(
                f"depth is {self.depth} and skip {self.skip}; expected a depth beyond the skip"
            )


def mine_triples(
    data: Questions, rankers: Sequence[Ranker], config: NegativesConfig | None = None
) -> Iterator[Group]:
    """A triple for each positive of each question; several rankers give negatives in turn.

    No negative is a passage that answers the question, has the text of one that does, or is the
    query itself. A question without any negative is left out.

    Yields:
        Groups of (query, positive, negatives...), with the question's id.

    Raises:
        InvalidInputError: no ranker.
    """
    if not rankers:
        raise InvalidInputError("no ranker is given; expected at least one to find negatives")
    config = config or NegativesConfig()
    texts = [question.text for question in data.questions]
    rankings = zip(*(ranker.rank(texts, config.depth) for ranker in rankers), strict=True)
    for question, ranked in zip(data.questions, rankings, strict=True):
        lists = [list(_allowed(data, question, rows[config.skip :].tolist())) for rows in ranked]
        for positive in question.positives:
            rng = random.Random(named_seed(f"{config.seed}/{question.id}/{positive}"))
            negatives = _in_turn([rng.sample(rows, len(rows)) for rows in lists], config.negatives)
            if negatives:
                chosen = (data.passages[row] for row in (positive, *negatives))
                yield Group(question.id, (question.text, *chosen), lang=question.lang)


def _allowed(data: Questions, question: Question, rows: Iterable[int]) -> Iterator[int]:
    """The rows that may be negatives of a question, one of each text."""
    seen = {matching_form(data.passages[row]) for row in question.positives}
    seen |= {"", matching_form(question.text)}
    for row in rows:
        form = matching_form(data.passages[row])
        if row not in question.excluded and form not in seen:
            seen.add(form)
            yield row


def _in_turn(lists: Sequence[Sequence[int]], count: int) -> list[int]:
    """The first ``count`` rows, one of each list in turn, none twice."""
    taken: dict[int, None] = {}
    for place in range(max(map(len, lists))):
        for rows in lists:
            if place < len(rows) and len(taken) < count:
                taken.setdefault(rows[place])
    return list(taken)
