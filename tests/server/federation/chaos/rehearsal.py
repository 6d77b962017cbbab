"""An operator's rounds, run as they would be, with some of the devices failing or lying.

Encoder, index, settings, journal, registry, messages and devices are the real ones; the grid is the
one of this process. Devices train once, before all runs, and send the same change in each; no gate
judges, for what is looked at is what gets into a release, not whether it helps.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from numpy.typing import NDArray

from pocketquery.client.device import Declined, TrainingSetup
from pocketquery.client.offer import Offer
from pocketquery.client.offer_limits import OfferLimits
from pocketquery.client.private.messages import Invitation, Stage
from pocketquery.client.private.transport import read_secure_reply, secure_records
from pocketquery.client.records import read_reply
from pocketquery.client.training.training import LocalResult, train_locally
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.files import make_folder
from pocketquery.sdk.index.index import open_index
from pocketquery.server.federation.orchestration.clock import VirtualClock
from pocketquery.server.federation.orchestration.exchange import Exchange
from pocketquery.server.federation.orchestration.federation import run_rounds
from pocketquery.server.federation.releases.publishing import RegistryPublisher
from pocketquery.server.federation.releases.registry import Registry
from pocketquery.server.federation.rounds.options import FederationOptions
from pocketquery.server.federation.rounds.round_report import RoundReport
from pocketquery.server.federation.rounds.state import FederationState
from pocketquery_simulation.devices import FIRST_NODE, SimulatedDevices
from pocketquery_simulation.enrolment import (
    SimulatedEnrolment,
    simulated_environment,
)
from pocketquery_simulation.files import SimulationFiles
from pocketquery_simulation.local_grid import Client, Fault, LocalGrid
from pocketquery_simulation.users import SimulatedStore
from tests.server.federation.chaos.lies import Lie, StageLie

__all__ = ["Harm", "Ran", "Rehearsal", "open_rehearsal"]


@dataclass(frozen=True)
class Harm:
    """What is wrong with some devices in one run.

    Attributes:
        nodes: which.
        fault: between them and the server, in the first round.
        stage: of a private round, in which the fault is; None: in every one of them.
        lie: what they send.
        factor: of the change that their training gives: -1000 turns it round and makes it as long
            as clipping lets it be, NaN is a training that diverged.
    """

    nodes: frozenset[int] = frozenset()
    fault: Fault = Fault.NONE
    stage: Stage | None = None
    lie: Lie | StageLie | None = None
    factor: float = 1.0

    def fault_of(self, node: int, group: str) -> Fault:
        """A :data:`~pocketquery_simulation.local_grid.FaultPlan`."""
        number, _, stage = group.partition(".")
        hit = node in self.nodes and number == "0"
        hit = hit and (not stage or self.stage is None or int(stage) == self.stage)
        return self.fault if hit else Fault.NONE


@dataclass(frozen=True)
class Ran:
    """What is left of a run.

    Attributes:
        reports: of its rounds.
        folder: journal, rows and registry.
        sent: by group of the message and node, what honest devices would have sent of it, or
            hostile ones did.
        invitations: of private rounds, by node.
    """

    reports: list[RoundReport]
    folder: Path
    sent: Mapping[tuple[str, int], bytes]
    invitations: Mapping[int, Invitation]

    @property
    def registry(self) -> Registry:
        """The releases it made."""
        return Registry.open(self.folder / "releases")


@dataclass(frozen=True)
class Rehearsal:
    """Rounds that can be run again and again.

    Attributes:
        bundle: what the devices have.
        training_setup: what they share.
        stores: the users' queries, by name.
        options: of the rounds.
        limits: what devices accept of an offer.
        trained: the results of training, by user; the devices of the others send means of it. None:
            a device trains whenever it is asked.
    """

    bundle: Bundle
    training_setup: TrainingSetup
    stores: Mapping[str, SimulatedStore]
    options: FederationOptions
    limits: OfferLimits
    trained: dict[str, LocalResult] | None = field(default_factory=dict)

    @property
    def first(self) -> FederationState:
        """The state before the first round."""
        return FederationState.of_bundle(self.bundle)

    @property
    def asked(self) -> int:
        """How many devices a round asks."""
        return min(self.options.settings.asked(), len(self.stores))

    def order(self, number: int) -> list[int]:
        """The nodes of a round in the order in which they are asked."""
        nodes = sorted(self.devices(Path()))
        exchange = Exchange(LocalGrid({}), VirtualClock(), seed=self.options.seed)
        return exchange.drawn(number, nodes, self.asked)

    def enrolment(self, folder: Path) -> SimulatedEnrolment | None:
        """Of private rounds, what makes devices take part."""
        if self.options.secure is None:
            return None
        return SimulatedEnrolment(self.options.secure, self.options.seed, folder)

    def name(self, node: int) -> str:
        """Whose device a node is."""
        return list(self.stores)[node - FIRST_NODE]

    def devices(self, folder: Path, harm: Harm | None = None) -> SimulatedDevices:
        """The devices, which keep what they keep in ``folder``."""
        harmed = {self.name(node): harm.factor for node in harm.nodes} if harm else {}

        def trains(name: str) -> Callable[..., LocalResult]:
            if self.trained is None:
                return train_locally
            result, factor = self._result(name), harmed.get(name, 1.0)
            return lambda *_, **__: replace(result, change=self.change_of(name, factor))

        return SimulatedDevices(
            self.training_setup,
            self.stores,
            folder,
            self.options.seed,
            self.limits,
            self.enrolment(folder),
            trains,
        )

    def run(self, folder: Path, harm: Harm, rounds: int = 1) -> Ran:
        """``rounds`` rounds in ``folder``, or what is left of them there."""
        devices = self.devices(folder / "devices", harm)
        sent: dict[tuple[str, int], bytes] = {}
        invitations: dict[int, Invitation] = {}
        clients = {node: _heard(node, devices[node], harm, sent, invitations) for node in devices}
        make_folder(folder)
        reports = run_rounds(
            folder,
            RegistryPublisher(self.bundle, folder / "releases", None),
            self.first,
            replace(self.options, rounds=rounds),
            LocalGrid(clients, harm.fault_of),
            VirtualClock(),
            environment=simulated_environment(self.options.seed),
        )
        return Ran(reports, folder, sent, invitations)

    def change_of(self, name: str, factor: float = 1.0) -> dict[str, NDArray[np.float32]]:
        """The change of the user's device, times ``factor``."""
        return {n: np.float32(factor) * v for n, v in self._result(name).change.items()}

    def train(self, folder: Path, many: int) -> None:
        """Have the first ``many`` devices of those that a round asks train, which takes as long as
        on real ones.

        Args:
            folder: gets what they keep.
            many: how many.

        Raises:
            InvalidInputError: a device declines.
        """
        settings, version = self.options.settings, self.first.version
        publisher = RegistryPublisher(self.bundle, folder / "releases", None)
        offer = Offer(0, publisher.release(version), self.options.local, settings.clip_norm)
        plain = replace(self, options=replace(self.options, secure=None), trained=None)
        for node in self.order(0)[:many]:
            training = plain.devices(folder).device(node - FIRST_NODE).train(offer)
            if isinstance(training, Declined):
                raise InvalidInputError(
                    f"a device declines these rounds: {training.reason}. So do real ones; see the "
                    "device's own limits in docs/devices.md. --any-offer simulates devices that "
                    "accept anything"
                )
            assert self.trained is not None
            self.trained[self.name(node)] = training.result

    def _result(self, name: str) -> LocalResult:
        """What training the device of this user gave; of one that did not train, a weighted mean of
        what the others learnt.
        """
        assert self.trained
        if name in self.trained:
            return self.trained[name]
        known = list(self.trained.values())
        rng = np.random.default_rng(list(name.encode()))
        shares = rng.dirichlet(np.ones(len(known))).astype(np.float32)
        change = {
            one: np.sum([w * r.change[one] for w, r in zip(shares, known, strict=True)], axis=0)
            for one in known[0].change
        }
        return replace(known[0], change=change)


@contextlib.contextmanager
def open_rehearsal(
    files: SimulationFiles,
    options: FederationOptions,
    *,
    limits: OfferLimits | None = None,
    training: int | None = None,
) -> Iterator[Rehearsal]:
    """Open what rounds are tried out with.

    Args:
        files: what a simulation reads; the gate's are not read.
        options: of the rounds.
        limits: what devices accept of an offer; by default what real ones do.
        training: how many devices train; None: all that a round asks.

    Raises:
        InvalidInputError: something does not fit together, or devices decline these rounds.
        ArtifactError: the bundle (which needs a training step) or the index cannot be used.
        CorpusError: a line of a file cannot be read.
    """
    bundle = files.open_bundle()
    with open_index(files.index) as index:
        training_setup = TrainingSetup.of_bundle(bundle, index)
        stores = files.read_users(index, training_setup.encoder).stores
        if len(stores) < options.settings.clients_per_round:
            raise InvalidInputError(
                f"found {len(stores)} users, but clients-per-round is "
                f"{options.settings.clients_per_round}; give more users, or ask fewer"
            )
        found = Rehearsal(bundle, training_setup, stores, options, limits or OfferLimits())
        with tempfile.TemporaryDirectory() as folder:
            found.train(Path(folder), found.asked if training is None else training)
        yield found


def _heard(
    node: int,
    client: Client,
    harm: Harm,
    sent: dict[tuple[str, int], bytes],
    invitations: dict[int, Invitation],
) -> Client:
    """``client``, whose replies are noted, and are lies where ``harm`` says so."""
    lie = harm.lie if node in harm.nodes else None

    def plain(message: Message) -> Message:
        reply = client(message)
        update = read_reply(reply).update
        if update is None:
            return reply
        if isinstance(lie, Lie):
            update = lie.tell(update, node)
            content = RecordDict({"update": ArrayRecord({"update": _array(update)})})
            content["figures"] = MetricRecord({"loss": 0.5})
            reply = Message(content, reply_to=message)
        sent[message.metadata.group_id, node] = update
        return reply

    def private(message: Message) -> Message:
        record = message.content.config_records["secure"]
        stage, body = Stage(int(str(record["stage"]))), record["body"]
        if stage is Stage.INVITE and isinstance(body, bytes):
            invitations[node] = Invitation.parse(body)
        reply = client(message)
        said = read_secure_reply(reply).body
        if said is None:
            return reply
        sent[message.metadata.group_id, node] = said
        if isinstance(lie, StageLie) and lie.stage is stage:
            told = lie.tell(said, invitations.get(node))
            reply = Message(secure_records(stage, told), reply_to=message)
        return reply

    return lambda message: (
        private(message) if "secure" in message.content.config_records else plain(message)
    )


def _array(update: bytes) -> Array:
    return Array(np.frombuffer(update, np.uint8))
