"""Whose change is in a sum? Attacks that know release, settings and the candidates' queries.

The attacker has trained each of 100 candidates itself, with other coins, and scores each against
what it sees: by the cosine of the centred vectors, or by least squares on the candidates' own
changes (which is whitening by their covariance). Exactly one candidate is in the sum; the other
members are users who are none of the candidates. In rounds with noise the attacker is given more:
the change of every other device, so that the candidate's change and the noise are all that is left.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

__all__ = ["Candidates", "Sight", "bounds", "identification", "membership", "of_sums"]

Doubles = NDArray[np.float64]

CANDIDATES = 100
REPEATS = 10
SAMPLES = 2_000
_RIDGES = (0.01, 0.1, 1.0)  # of the candidates' mean square; the attacker may take the best


@dataclass(frozen=True)
class Sight:
    """What the attacker sees of one arm, in inner products with the candidates' replicas.

    Attributes:
        users: the candidate that is in the sum, (trials,); -1 where none is.
        candidates: of each trial's repeat, user numbers (repeats, candidates).
        repeat: which repeat a trial belongs to, (trials,).
        products: <seen - expected, replica - mean>, (trials, candidates).
        gram: <replica - mean, replica - mean> of each repeat, (repeats, candidates, candidates).
    """

    users: NDArray[np.intp]
    candidates: NDArray[np.intp]
    repeat: NDArray[np.intp]
    products: Doubles
    gram: Doubles

    def scores(self) -> Iterator[tuple[str, Doubles]]:
        """By each attack, (trials, candidates); a candidate that is absent scores about N(0, 1)
        times a constant of the arm."""
        norms = np.sqrt(np.diagonal(self.gram, axis1=1, axis2=2))  # (repeats, candidates)
        yield "cosine", self.products / norms[self.repeat]
        # By what the other candidates' changes score against this one, as an attacker can tell.
        spreads = np.sqrt(np.square(self.gram).sum(axis=2) - norms**4)
        yield "standardised cosine", self.products / spreads[self.repeat]
        for ridge in _RIDGES:
            found = np.empty_like(self.products)
            for number, gram in enumerate(self.gram):
                here = self.repeat == number
                inverse = np.linalg.inv(gram + ridge * gram.trace() / len(gram) * np.eye(len(gram)))
                spread = np.sqrt(np.einsum("ij,jk,ki->i", inverse, gram, inverse))
                found[here] = self.products[here] @ inverse.T / spread
            yield f"whitened, ridge {ridge:g}", found


class Candidates:
    """Users' changes and their replicas, and who is a candidate in which repeat.

    Args:
        replicas: float32 (users, d), the attacker's.
        candidates: how many of the users are candidates in a repeat; the others are members.
        repeats: how often the users are divided.
    """

    def __init__(
        self, replicas: NDArray[np.float32], candidates: int = CANDIDATES, repeats: int = REPEATS
    ) -> None:
        rng = np.random.default_rng(3)
        orders = [rng.permutation(len(replicas)) for _ in range(repeats)]
        self.picked = np.array([order[:candidates] for order in orders])
        self.others = [order[candidates:] for order in orders]
        self._replicas = replicas
        self._gram = (replicas @ replicas.T).astype(np.float64)

    def sight(
        self,
        changes: NDArray[np.float32],
        trials: Sequence[tuple[int, int, Doubles, float]],
        noise: Callable[[int], NDArray[np.float32]] | None = None,
        *,
        centred: bool = True,
    ) -> Sight:
        """What is seen of sums of ``changes``.

        Args:
            changes: float32 (users, d), as they enter the sum.
            trials: repeat, the candidate in the sum or -1, the weight of each user's change in
                what is seen (users,), and how many changes the attacker expects in it.
            noise: by the trial's number, what else is in the sum, (d,).
            centred: whether the candidates' mean is taken off.
        """
        cross = (changes @ self._replicas.T).astype(np.float64)  # (users, users)
        products = []
        for number, (repeat, _, weights, expected) in enumerate(trials):
            picked = self.picked[repeat]
            seen = weights @ cross  # <seen, replica of each user>
            if noise is not None:
                seen = seen + (self._replicas @ noise(number)).astype(np.float64)
            if centred:  # both sides: the mean replica is what a change is expected to be
                mean = self._gram[picked].mean(axis=0)  # <mean, replica>
                seen = seen - expected * mean
                products.append(seen[picked] - seen[picked].mean())
            else:
                products.append(seen[picked])
        grams = np.array([self._gram[np.ix_(p, p)] for p in self.picked])
        if centred:
            grams = grams - grams.mean(1, keepdims=True) - grams.mean(2, keepdims=True)
            grams += np.array([self._gram[np.ix_(p, p)].mean() for p in self.picked])[:, None, None]
        return Sight(
            np.array([trial[1] for trial in trials]),
            self.picked,
            np.array([trial[0] for trial in trials]),
            np.array(products),
            grams,
        )


def of_sums(
    candidates: Candidates, size: int, rng: np.random.Generator, *, alone: bool = False
) -> tuple[list[tuple[int, int, Doubles, float]], list[tuple[int, int, Doubles, float]]]:
    """Trials with each candidate in a sum of ``size``, and as many with none of them.

    Members beyond the users there are come from a Gaussian of the other users' mean and
    covariance, which holds nothing of the candidates'.

    Args:
        candidates: who they are.
        size: of the sum.
        rng: draws the members.
        alone: every other device's change is known, and so taken off what is seen.
    """
    inside, outside = [], []
    for repeat, picked in enumerate(candidates.picked):
        others = candidates.others[repeat]
        users = len(picked) + len(others)
        for user in picked:
            weights, without = np.zeros(users), np.zeros(users)
            if not alone:
                weights += _members(others, users, size - 1, rng)
                without += _members(others, users, size, rng)
            weights[user] += 1
            inside.append((repeat, int(user), weights, 0.0 if alone else float(size)))
            outside.append((repeat, int(user), without, 0.0 if alone else float(size)))
    return inside, outside


def _members(others: NDArray[np.intp], users: int, count: int, rng: np.random.Generator) -> Doubles:
    """How often each user's change is in a sum of ``count`` others."""
    weights = np.zeros(users)
    drawn = rng.permutation(others)[:count]
    weights[drawn] = 1
    missing = count - len(drawn)
    if missing > 0:
        bend = rng.standard_normal(len(others)) * math.sqrt(missing / (len(others) - 1))
        weights[others] += missing / len(others) + bend - bend.mean()
    return weights


def identification(sight: Sight, seed: int = 0) -> dict[str, object]:
    """Top-1 and mean reciprocal rank of the better attack, with the interval of its top-1 over
    users (percentiles of a bootstrap that draws users)."""
    found = {}
    for name, scores in sight.scores():
        place = np.array(
            [int(np.flatnonzero(sight.candidates[r] == u)[0])
             for r, u in zip(sight.repeat, sight.users, strict=True)]
        )  # fmt: skip
        own = np.take_along_axis(scores, place[:, None], 1)
        ranks = 1 + (scores > own).sum(axis=1)
        found[name] = ranks
    best = max(found, key=lambda name: float((1 / found[name]).mean()))
    hits, users = (found[best] == 1).astype(np.float64), sight.users
    low, high = _interval(users, lambda drawn: hits[drawn].mean(), seed)
    return {
        "top1": round(float(hits.mean()), 4),
        "interval": [round(low, 4), round(high, 4)],
        "mrr": round(float((1 / found[best]).mean()), 4),
        "attack": best,
    }


def membership(inside: Sight, outside: Sight, seed: int = 0) -> dict[str, object]:
    """Area under the curve and true positives at 1 % false ones, of the better attack; in
    ``outside`` the same users are asked for who are not in the sum."""
    found = {}
    for (name, having), (_, lacking) in zip(inside.scores(), outside.scores(), strict=True):
        found[name] = _own(inside, having), _own(outside, lacking)
    best = max(found, key=lambda name: auc(*found[name]))
    having, lacking = found[best]
    users = inside.users

    def resampled(drawn: NDArray[np.intp]) -> float:
        return auc(having[drawn], lacking[drawn])

    low, high = _interval(users, resampled, seed, samples=500)
    limit = np.quantile(lacking, 0.99)
    return {
        "auc": round(auc(having, lacking), 4),
        "auc_interval": [round(low, 4), round(high, 4)],
        "tpr_at_1": round(float((having > limit).mean()), 4),
        "attack": best,
    }


def _own(sight: Sight, scores: Doubles) -> Doubles:
    columns = [
        int(np.flatnonzero(sight.candidates[r] == u)[0])
        for r, u in zip(sight.repeat, sight.users, strict=True)
    ]
    return scores[np.arange(len(scores)), columns]


def auc(having: Doubles, lacking: Doubles) -> float:
    """The chance that one of ``having`` is above one of ``lacking``."""
    order = np.argsort(np.concatenate([lacking, having]), kind="stable")
    ranks = np.empty(len(order))
    ranks[order] = np.arange(1, len(order) + 1)
    own = ranks[len(lacking) :].sum() - len(having) * (len(having) + 1) / 2
    return float(own / (len(having) * len(lacking)))


def _interval(
    users: NDArray[np.intp],
    figure: Callable[[NDArray[np.intp]], float],
    seed: int,
    samples: int = SAMPLES,
) -> tuple[float, float]:
    """Percentiles of ``figure`` of the trials of users drawn with replacement."""
    rng = np.random.default_rng(seed)
    names = np.unique(users)
    trials = [np.flatnonzero(users == name) for name in names]
    drawn = [
        figure(np.concatenate([trials[n] for n in rng.integers(len(names), size=len(names))]))
        for _ in range(samples)
    ]
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float(low), float(high)


def bounds(mu: float, candidates: int = CANDIDATES) -> dict[str, float]:
    """What no attack passes on a Gaussian mechanism whose sensitivity is ``mu`` deviations.

    Dong, Roth and Su, "Gaussian differential privacy": the trade-off of N(0, 1) against N(mu, 1).
    ``top1`` is of one among ``candidates`` whose changes are orthogonal and of full length.
    """
    normal = NormalDist()
    grid = np.linspace(-9, 9 + mu, 20_001)
    density = np.exp(-((grid - mu) ** 2) / 2) / math.sqrt(2 * math.pi)
    below = np.array([normal.cdf(float(x)) for x in grid]) ** (candidates - 1)
    return {
        "auc": round(normal.cdf(mu / math.sqrt(2)), 4),
        "advantage": round(2 * normal.cdf(mu / 2) - 1, 4),
        "tpr_at_1": round(normal.cdf(mu + normal.inv_cdf(0.01)), 4),
        "top1": round(float(np.trapezoid(density * below, grid)), 4),
    }
