"""What is trained for the attacks: users' changes under each offer, replicas, directions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from private_rounds.changes import Bank, Fleet, User
from private_rounds.directions import Directions

from pocketquery.client.local_config import LocalConfig
from pocketquery.client.offer_limits import OfferLimits
from pocketquery.sdk.arrays import Floats

__all__ = [
    "DISTRACTORS",
    "HYBRID",
    "LIMIT",
    "LIMITED_TARGETS",
    "LIMITS",
    "LIMIT_SUM",
    "ONE_STEP",
    "QUERY_USERS",
    "Attacker",
]

LIMITS = OfferLimits()
ONE_STEP = LocalConfig(steps=1)
LIMIT = LocalConfig(
    steps=LIMITS.least_steps,
    batch_size=LIMITS.least_batch,
    learning_rate=LIMITS.largest_learning_rate,
)
LIMIT_SUM = LocalConfig(
    steps=LIMITS.least_steps,
    batch_size=LIMITS.least_batch,
    learning_rate=LIMITS.largest_learning_rate,
    epsilon=1.0,
)
HYBRID = LocalConfig(hybrid_loss_weight=1.0)
LIMITED_TARGETS = 40  # of the 100 candidates of the limit's arms and of the hybrid ranking's
QUERY_USERS = 20
DISTRACTORS = 500
_SEED = 0


class Attacker:
    """Everything that is trained for the attacks, each once."""

    def __init__(self, fleet: Fleet, users: Sequence[User]) -> None:
        self.fleet, self.users = fleet, users
        self._bank = Bank(fleet)
        self._more = Bank(fleet, "privacy_attacks")

    @cached_property
    def changes(self) -> Floats:
        """Of every user, float32 (users, d)."""
        return np.array([self._bank.user(self.users, place) for place in range(len(self.users))])

    @cached_property
    def replicas(self) -> Floats:
        """The attacker's own, float32 (users, d)."""
        return np.array([self._bank.user(self.users, n, 1) for n in range(len(self.users))])

    def at_limit(self, name: str, config: LocalConfig, count: int, replica: int = 0) -> Floats:
        """Changes of the first users under an offer at the device's limits."""
        refused = LIMITS.refusal(config, LIMITS.largest_clip, LIMITS.least_queries)
        if refused:
            raise SystemExit(f"the offer {name} is not within the limits any more: {refused}")
        return self._trained(name, config, count, replica, LIMITS.least_queries)

    def hybrid(self, count: int, replica: int = 0) -> Floats:
        """Changes of the first users in rounds where the index's hybrid ranking teaches."""
        return self._trained("hybrid", HYBRID, count, replica)

    def _trained(
        self, name: str, config: LocalConfig, count: int, replica: int, queries: int | None = None
    ) -> Floats:
        """Changes of the first users, of their first ``queries``, float32 (count, d)."""
        return np.array(
            [
                self._more.trained(
                    f"{name}-{user.name}-{replica}",
                    user.queries[:queries],
                    2 * place + replica,
                    config,
                )
                for place, user in enumerate(self.users[:count])
            ]
        )

    def one_step(self, count: int) -> Floats:
        """Changes of one step on 16 queries each, from a release one average round on, where
        ``up`` is not zero any more and the gradient reaches ``down``."""
        found = []
        for place, user in enumerate(self.users[:count]):
            name = f"one-step-{user.name}"
            if name not in self._more:
                change = self.fleet.change(
                    user.queries[: ONE_STEP.batch_size],
                    place,
                    config=ONE_STEP,
                    adapter=self.fleet.moved(self.replicas.mean(axis=0)),
                )
                self._more.put(name, change)
            found.append(self._more.get(name))
        return np.array(found)

    @cached_property
    def directions(self) -> Directions:
        """Of texts alone."""
        return Directions(self.fleet, self.replicas.mean(axis=0), self._more)

    @cached_property
    def hybrid_directions(self) -> Directions:
        """Of texts alone in rounds where the index's hybrid ranking teaches."""
        mean = self.hybrid(len(self.users) // 2, 1).mean(axis=0)
        return Directions(self.fleet, mean, self._more, HYBRID, "hybrid-")

    def query_directions(self, directions: Directions) -> list[Floats]:
        """Of the first users' candidate queries: the user's own, others, and 500 of all users."""
        rng = np.random.default_rng(_SEED)
        rest = [query for user in self.users[QUERY_USERS:] for query in user.queries]
        distractors = [rest[n] for n in rng.permutation(len(rest))[:DISTRACTORS]]
        common = directions.of("queries-others", distractors)
        found = []
        for user in self.users[:QUERY_USERS]:
            own = directions.of(f"queries-{user.name}", [*user.queries, *user.others])
            found.append(np.concatenate([own, common]))
        return found
