"""From a device's queries to the batches of the training step.

What does not change from step to step is computed once: the shipped encoder's vectors, the nearest
documents, the documents that were shown. The views and the random documents are drawn for each.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from pocketquery.client.local_config import LocalConfig
from pocketquery.client.store.store import Example
from pocketquery.client.training.prototypes import PrototypeSource, open_vectors, with_random
from pocketquery.client.training.step import StepBatch
from pocketquery.client.training.step_description import StepDescription
from pocketquery.client.views.views import ViewPlan, make_views
from pocketquery.sdk.arrays import Floats, Integers, Rows
from pocketquery.sdk.encoder import Encoder
from pocketquery.sdk.errors import InvalidInputError

__all__ = ["Batches", "padded", "stream"]


_MOST_SHOWN = 50  # a list nobody scrolls to its end; bounds the memory of a batch
_PADDING = 0  # any id: the mask hides it


class Batches:
    """Batches over ``examples``: ``texts`` are the queries, ``anchors`` the shipped encoder's
    vectors of them, float32 (n, d); ``uses_opened`` says whether opened results count.

    Args:
        encoder: the shipped encoder.
        step: whose inputs the batches are.
        examples: the queries, at least one.
        source: the device's documents.
        config: the round's settings.
        plan: how views are made, say with a plug-in of the device; by default as ``config`` says.
        least_opened: with fewer examples whose opened result can be learnt from, none counts.

    Raises:
        InvalidInputError: a query that is no text; a plan for another number of views than the
            step takes; no document to compare with.
        SpaceMismatchError: the documents are of another space.
    """

    def __init__(
        self,
        encoder: Encoder,
        step: StepDescription,
        examples: Sequence[Example],
        source: PrototypeSource,
        config: LocalConfig,
        plan: ViewPlan | None = None,
        least_opened: int = 0,
    ) -> None:
        self._plan = plan or config.view_plan(step.views)
        if self._plan.views != step.views:
            raise InvalidInputError(
                f"the plan makes {self._plan.views} views, the training step takes {step.views}"
            )
        self._encoder = encoder
        self._step = step
        self._config = config
        self.objective = step.objective
        self.texts = [example.query for example in examples]
        self._prompt = _query_prompt(encoder)
        asked = config.opened_loss_weight > 0
        ids = {name for example in examples for name in _choices(example) if asked}
        self._documents = open_vectors(source, encoder.space_id, sorted(ids))
        choices = [_rows(example, self._documents.row_of) if asked else [] for example in examples]
        self.uses_opened = asked and sum(map(bool, choices)) >= least_opened
        self._choices = choices if self.uses_opened else [[] for _ in examples]
        self.anchors: Floats = encoder.encode_query(self.texts)
        self._nearest = self._documents.nearest(self.anchors, config.nearest_prototypes)

    def make(self, rows: Rows, rng: np.random.Generator, *, noisy: bool = True) -> StepBatch:
        """The batch of the examples ``rows``; without noise where ``noisy`` is False.

        Args:
            rows: (B,), which examples.
            rng: draws the views and the random documents.
            noisy: False makes every view the clean query.
        """
        typing = random.Random(int(rng.integers(2**63)))
        views = [self._views(self.texts[row], typing, noisy) for row in rows]
        by_view = [view for group in zip(*views, strict=True) for view in group]
        tokens = [self._encoder.tokenize(self._prompt + text) for text in by_view]
        online_ids, online_mask = padded(tokens)
        target_ids, target_mask = padded(tokens[: self._step.target_views * len(rows)])
        shown, shown_mask, weight = self._shown(rows)
        return StepBatch(
            online_ids=online_ids,
            online_mask=online_mask,
            target_ids=target_ids,
            target_mask=target_mask,
            anchor=self.anchors[rows],
            prototypes=self._prototypes(rows, rng),
            shown=shown,
            shown_mask=shown_mask,
            opened=np.zeros(len(rows), np.int64),
            opened_weight=weight,
        )

    def _views(self, text: str, rng: random.Random, noisy: bool) -> tuple[str, ...]:
        if not noisy:
            return (text,) * self._step.views
        return make_views(text, rng, self._plan)

    def _prototypes(self, rows: Rows, rng: np.random.Generator) -> Floats | None:
        if self._step.objective != "index_byol":
            return None
        count, size = self._config.random_prototypes, len(self._documents)
        return self._documents.vectors(with_random(self._nearest[rows], count, size, rng))

    def _shown(self, rows: Rows) -> tuple[Floats, Floats, Floats]:
        """Vectors (B, S, d) of what was shown, the opened one first; mask (B, S), weight (B,)."""
        choices = [self._choices[row] for row in rows]
        shape = len(rows), max(1, *map(len, choices))
        shown = np.zeros((*shape, self._step.dimension), np.float32)
        mask = np.zeros(shape, np.float32)
        for line, chosen in enumerate(choices):
            shown[line, : len(chosen)] = self._documents.vectors(np.array(chosen, np.intp))
            mask[line, : len(chosen)] = 1
        return shown, mask, (mask.sum(axis=1) > 1).astype(np.float32)


def padded(tokens: Sequence[Sequence[int]]) -> tuple[Integers, Integers]:
    """Ids and mask, int64 (n, length of the longest), padded at the end."""
    length = max(map(len, tokens))
    ids = np.full((len(tokens), length), _PADDING, np.int64)
    mask = np.zeros((len(tokens), length), np.int64)
    for line, text in enumerate(tokens):
        ids[line, : len(text)] = text
        mask[line, : len(text)] = 1
    return ids, mask


def stream(count: int, batch: int, steps: int, rng: np.random.Generator) -> Iterator[Rows]:
    """``steps`` batches of ``batch`` rows below ``count``: permutations, one after another.

    All of one size, also where it does not divide ``count``: a batch of one left over would have
    no statistics to normalise with.
    """
    total = steps * batch
    order = np.concatenate([rng.permutation(count) for _ in range(-(-total // count))])
    for start in range(0, total, batch):
        yield order[start : start + batch]


def _query_prompt(encoder: Encoder) -> str:
    """What ``Encoder.encode_query`` puts before a text."""
    prompts = encoder.manifest.prompts
    name = "query" if "query" in prompts else encoder.manifest.default_prompt_name
    return "" if name is None else prompts[name]


def _choices(example: Example) -> list[str]:
    """The opened document and the others that were shown, where both are known."""
    if example.opened is None or example.opened not in example.shown:
        return []
    others = dict.fromkeys(name for name in example.shown if name != example.opened)
    return [example.opened, *others][:_MOST_SHOWN]


def _rows(example: Example, row_of: Mapping[str, int]) -> list[int]:
    """Rows of :func:`_choices`; empty where the opened one is gone, or stands alone."""
    names = _choices(example)
    rows = [row_of.get(name) for name in names]
    if not rows or rows[0] is None:
        return []
    known = [row for row in rows if row is not None]
    return known if len(known) > 1 else []
