"""Simulated devices: the real device's code, with the queries of simulated users."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from flwr.app import Message

from pocketquery.client.app import handle
from pocketquery.client.device import Device, TrainingSetup
from pocketquery.client.offer_limits import OfferLimits
from pocketquery.client.policy import Policy
from pocketquery.client.private.messages import Stage
from pocketquery.client.private.transport import MESSAGE_TYPE, handle_secure
from pocketquery.client.round_memory import RoundMemory
from pocketquery.client.training.training import LocalResult, train_locally
from pocketquery.client.trusted_releases import TRUSTED_RELEASES, TrustedReleases
from pocketquery.sdk.errors import InvalidInputError
from pocketquery_simulation.enrolment import SimulatedEnrolment
from pocketquery_simulation.local_grid import Client, Fault, FaultPlan
from pocketquery_simulation.users import SimulatedStore

__all__ = ["FIRST_NODE", "SimulatedDevices", "random_faults"]

FIRST_NODE = 1
"""Node ids count from here, in the order of the users."""

_HARMS = (Fault.DIES, Fault.NEVER, Fault.LATE, Fault.TWICE)


@dataclass(frozen=True)
class SimulatedDevices(Mapping[int, Client]):
    """The devices of simulated users, by node id; each is made when it is asked.

    They share encoder, training step and index, which are alike on every device.

    Attributes:
        training_setup: what they share.
        stores: the users' queries, by name.
        folder: gets what each device keeps between rounds.
        seed: of their secrets, and so of their nonces and of all randomness in their training.
        limits: what they accept of an offer.
        enrolment: where rounds are private ones, what makes them take part.
        trains: what trains the device of the user with this name.

    Where the setup has a public key, each keeps in a file of its own which releases it trusts.
    """

    training_setup: TrainingSetup
    stores: Mapping[str, SimulatedStore]
    folder: Path
    seed: int
    limits: OfferLimits = field(default_factory=OfferLimits)
    enrolment: SimulatedEnrolment | None = None
    trains: Callable[[str], Callable[..., LocalResult]] = lambda name: train_locally

    def __getitem__(self, node: int) -> Client:
        if node not in range(FIRST_NODE, FIRST_NODE + len(self.stores)):
            raise KeyError(node)
        return lambda message: self._answer(message, node - FIRST_NODE)

    def __iter__(self) -> Iterator[int]:
        return iter(range(FIRST_NODE, FIRST_NODE + len(self.stores)))

    def __len__(self) -> int:
        return len(self.stores)

    def device(self, place: int) -> Device:
        """The device of the user in this place, from 0."""
        name = self.names[place]
        secret = hashlib.sha256(json.dumps([self.seed, name]).encode()).digest()
        memory = RoundMemory(self.folder / f"{place:06d}.safetensors", secret=secret)
        # Under no condition: no time runs out, so this machine's load changes no bit.
        policy = Policy.always()
        return Device(
            self.training_setup,
            self.stores[name],
            memory,
            policy=policy,
            readings=None,
            limits=self.limits,
            plain=self.enrolment is None,
            releases=self.releases(place),
            trains=self.trains(name),
        )

    def releases(self, place: int) -> TrustedReleases:
        """What the device of the user in this place trusts."""
        key = self.training_setup.public_key
        path = None if key is None else self.folder / f"{place:06d}.{TRUSTED_RELEASES}"
        secret = hashlib.sha256(json.dumps([self.seed, self.names[place], "releases"]).encode())
        return TrustedReleases(path, public_key=key, secret=secret.digest())

    def _answer(self, message: Message, place: int) -> Message:
        device = self.device(place)
        if message.metadata.message_type != MESSAGE_TYPE or self.enrolment is None:
            return handle(message, device)
        name = self.names[place]
        return handle_secure(message, self.enrolment.participant(device, name, place))

    @cached_property
    def names(self) -> Sequence[str]:
        """The users', by place."""
        return list(self.stores)


def random_faults(share: float, seed: int) -> FaultPlan:
    """A plan in which ``share`` of the devices die, stay silent, reply late or twice; in a private
    round, each of them in one of its stages.

    Raises:
        InvalidInputError: ``share`` is not from 0 to 1.
    """
    if not 0 <= share <= 1:
        raise InvalidInputError(f"the share of faults is {share}, expected a number from 0 to 1")

    def plan(node: int, group: str) -> Fault:
        number, _, stage = group.partition(".")
        rng = np.random.default_rng([seed, node, int(number)])
        if rng.random() >= share:
            return Fault.NONE
        fault = _HARMS[rng.integers(len(_HARMS))]
        return fault if not stage or int(stage) == rng.integers(1, 1 + len(Stage)) else Fault.NONE

    return plan
