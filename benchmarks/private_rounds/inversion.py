"""Which words and queries was a change computed from? The attacker knows other users' data.

Four attacks on the words, of which the best is reported:

* ``greedy``: a dictionary of what each of 5,000 words alone would change; words are added one by
  one, each time the one that explains most of what is left, given how frequent it is.
* ``shadow``: logistic regression, learnt on half of the users and tried on the others, from how
  frequent a word is with all other users, how frequent with those whose changes are alike, and how
  the word's own change lies to what is seen, tensor by tensor.
* ``alike``: the words of the users whose changes are alike, which tells the topic and no more.
* ``row space``: gradients of ``down`` in the first layer lie in the span of the tokens' states
  there, which the attacker can compute for every word (Petrov et al., "DAGER", NeurIPS 2024; for
  adapters Chen et al., 2026).

Queries are ranked by how well what each alone would change agrees with what is seen, among the
user's own, others on the same topics, and 500 of other users. Beside all of it stands what is found
without seeing anything: the words that are most frequent with the other users.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from private_rounds.changes import Fleet
from private_rounds.directions import Dictionary, RowSpace, Words, unit_rows

from pocketquery.sdk.arrays import Floats

__all__ = ["Inversion", "query_scores"]

Doubles = NDArray[np.float64]

_PRIORS = (0.0, 0.003, 0.01, 0.03, 0.1)  # what greedy addition pays for a rare word
_STEPS = 12  # of Newton's method
_ALIKE = 2  # the feature that tells how frequent a word is with users whose changes are alike
_LITTLE = 0.1  # of the others' frequency, where that says little


class Inversion:
    """The attacks on a set of users' changes.

    Args:
        fleet: whose changes they are.
        words: of all users, of whom these are the first.
        dictionary: of the same words.
        changes: float32 (users, d).
        only_up: whether the attacker sees ``up`` alone.
    """

    def __init__(
        self,
        fleet: Fleet,
        words: Words,
        dictionary: Dictionary,
        changes: Floats,
        rows: RowSpace,
        *,
        only_up: bool,
    ) -> None:
        self._fleet, self._words, self._rows, self._only_up = fleet, words, rows, only_up
        seen = fleet.is_up if only_up else np.ones(fleet.release.size, bool)
        self._dictionary = dictionary.rows(only_up)
        self._gram = dictionary.gram(only_up)
        self._changes = changes[:, seen] - changes[:, seen].mean(axis=0)
        self._alike = unit_rows(self._changes) @ unit_rows(self._changes).T
        self._whole = changes
        self._blocks = [block[seen] for block in _blocks(fleet) if (block & seen).any()]
        users = len(changes)
        order = np.random.default_rng(5).permutation(users)
        self._folds = [(order[: users // 2], order[users // 2 :])]
        self._folds.append((self._folds[0][1], self._folds[0][0]))

    def attacks(self) -> dict[str, NDArray[np.intp]]:
        """By attack, the words named of each user: (users, count), the surest first."""
        users, count = len(self._changes), self.count
        found = {
            name: np.zeros((users, count), np.intp)
            for name in ("frequency", "alike", "shadow", "greedy")
        }
        if not self._only_up:
            found["row space"] = np.zeros((users, count), np.intp)
        cosines = unit_rows(self._changes) @ self._dictionary.T  # (users, words)
        aligned = self._aligned()
        rowed = [np.zeros(len(self._words.words))] * users
        if not self._only_up:
            rowed = [self._rows.scores(change) for change in self._whole]
        for train, test in self._folds:
            weights = self._learnt(train, aligned, rowed)
            price = max(_PRIORS, key=lambda p: self._greedy_score(train[:20], cosines, p))
            for user in test:
                prior = self._prior(user)
                found["frequency"][user] = np.argsort(-prior, kind="stable")[:count]
                features = self._features(user, aligned, rowed)
                alike = features[:, _ALIKE] + _LITTLE * prior
                found["alike"][user] = np.argsort(-alike, kind="stable")[:count]
                logits = features @ weights
                found["shadow"][user] = np.argsort(-logits, kind="stable")[:count]
                found["greedy"][user] = _greedy(cosines[user], self._gram, prior, price, count)
                if not self._only_up:
                    found["row space"][user] = np.argsort(-rowed[user], kind="stable")[:count]
        return found

    @cached_property
    def count(self) -> int:
        """How many words an attack names: as many as users use, in the median."""
        return int(np.median((self._used > 0).sum(axis=1)))

    @property
    def _used(self) -> NDArray[np.int64]:
        """(users, words), of the users whose changes are seen."""
        return self._words.used[: len(self._changes)]

    def figures(self, named: NDArray[np.intp]) -> tuple[Doubles, Doubles]:
        """Token F1 over distinct words and ROUGE-1 recall over all words, (users,) each."""
        used = self._used
        hits = np.take_along_axis(used > 0, named, 1).sum(axis=1)
        distinct = (used > 0).sum(axis=1)
        f1 = 2 * hits / (named.shape[1] + distinct)
        total = self._words.total[: len(used)]
        return f1, np.take_along_axis(used, named, 1).sum(axis=1) / total

    def _prior(self, user: int) -> Doubles:
        """How likely the user has a word, from all others; (words,), log-odds."""
        others = np.delete(self._words.used, user, axis=0) > 0
        share = (others.sum(axis=0) + 0.1) / (len(others) + 0.2)
        return np.asarray(np.log(share / (1 - share)), np.float64)

    def _aligned(self) -> list[Doubles]:
        """By tensor, the cosines of the users' changes with the words', (users, words)."""
        return [
            _standardised(
                unit_rows(self._changes[:, block]) @ unit_rows(self._dictionary[:, block]).T
            )
            for block in self._blocks
        ]

    def _features(
        self,
        user: int,
        aligned: list[Doubles],
        rowed: list[Doubles],
    ) -> Doubles:
        """(words, features), the first of which is 1."""
        prior, used = self._prior(user), np.delete(self._used, user, axis=0) > 0
        alike = np.delete(self._alike[user], user)
        weight = np.exp(12 * (alike - alike.max()))
        near = (weight @ used) / weight.sum()
        columns = [np.ones_like(prior), prior, np.log(near + 0.01)]
        columns += [values[user] for values in aligned]
        columns.append(_standardised(rowed[user][None])[0])
        return np.stack(columns, axis=1).astype(np.float64)

    def _learnt(
        self,
        train: NDArray[np.intp],
        aligned: list[Doubles],
        rowed: list[Doubles],
    ) -> Doubles:
        features = np.concatenate([self._features(user, aligned, rowed) for user in train])
        target = (self._used[train] > 0).ravel().astype(np.float64)
        return _logistic(features, target)

    def _greedy_score(
        self,
        users: NDArray[np.intp],
        cosines: Floats,
        price: float,
    ) -> float:
        named = np.array(
            [_greedy(cosines[u], self._gram, self._prior(u), price, self.count) for u in users]
        )
        hits = np.take_along_axis(self._used[users] > 0, named, 1)
        return float(hits.mean())


def query_scores(
    fleet: Fleet, changes: Floats, directions: Sequence[Floats], own: int, *, only_up: bool
) -> list[Doubles]:
    """For each user the log-odds that a query is its own, (queries,), surest highest.

    Learnt on every other user from how the query's direction lies to the change, tensor by tensor.

    Args:
        fleet: whose changes they are.
        changes: float32 (users, d), centred.
        directions: of each user's candidate queries, float32 (queries, d), its own first.
        own: how many are its own.
        only_up: whether the attacker sees ``up`` alone.
    """
    blocks = [b for b in _blocks(fleet) if not only_up or (b & fleet.is_up).any()]
    columns = []
    for change, found in zip(changes, directions, strict=True):
        values = [
            _standardised(unit_rows(change[None, block]) @ unit_rows(found[:, block]).T)[0]
            for block in blocks
        ]
        columns.append(np.stack([np.ones(len(found)), *values], axis=1))
    scores = []
    for user, features in enumerate(columns):
        rest = [c for other, c in enumerate(columns) if other != user]
        target = np.concatenate([np.arange(len(c)) < own for c in rest]).astype(np.float64)
        scores.append(features @ _logistic(np.concatenate(rest), target))
    return scores


def _logistic(features: Doubles, target: Doubles) -> Doubles:
    """Logistic regression by Newton's method with a small ridge."""
    weights = np.zeros(features.shape[1])
    for _ in range(_STEPS):
        chance = 1 / (1 + np.exp(-np.clip(features @ weights, -30, 30)))
        curve = (features * (chance * (1 - chance))[:, None]).T @ features + np.eye(len(weights))
        weights += np.linalg.solve(curve, features.T @ (target - chance) - weights)
    return weights


def _greedy(
    cosines: Floats, gram: Floats, prior: Doubles, price: float, count: int
) -> NDArray[np.intp]:
    """Matching pursuit: the word that explains most of the rest, ``count`` times."""
    left, bonus = cosines.astype(np.float64), price * prior
    free = np.ones(len(left), bool)
    chosen = np.empty(count, np.intp)
    for number in range(count):
        best = int(np.argmax(np.where(free, left + bonus, -np.inf)))
        chosen[number], free[best] = best, False
        left = left - max(left[best], 0.0) * gram[best]
    return chosen


def _blocks(fleet: Fleet) -> list[NDArray[np.bool_]]:
    """Which values belong to each tensor."""
    found, start = [], 0
    adapter: Mapping[str, Floats] = fleet.state.adapter
    for name in sorted(adapter):
        block = np.zeros(fleet.release.size, bool)
        block[start : start + adapter[name].size] = True
        start += adapter[name].size
        found.append(block)
    return found


def _standardised(values: NDArray[np.floating]) -> Doubles:
    centred = values - values.mean(axis=1, keepdims=True)
    return np.asarray(centred / np.maximum(values.std(axis=1, keepdims=True), 1e-12), np.float64)
