"""Federated rounds over simulated devices: releases, a journal and a report in one folder.

One seed decides everything, and a simulation that is killed and started again goes on to the same
bits: the journal holds the round, each device's file what it keeps between rounds.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pocketquery.client.device import TrainingSetup
from pocketquery.client.offer_limits import OfferLimits
from pocketquery.client.store.stored_examples import distinct
from pocketquery.sdk.bundle.signature import Key, public_key_of
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.files import write_atomic
from pocketquery.sdk.index.index import open_index
from pocketquery.server.federation.orchestration.clock import VirtualClock
from pocketquery.server.federation.orchestration.driver import Publisher
from pocketquery.server.federation.orchestration.federation import run_rounds
from pocketquery.server.federation.releases.gate import Gate
from pocketquery.server.federation.releases.publishing import RegistryPublisher
from pocketquery.server.federation.rounds.options import FederationOptions
from pocketquery.server.federation.rounds.round_report import RoundReport
from pocketquery.server.federation.rounds.state import FederationState
from pocketquery.server.federation.simulation.devices import SimulatedDevices, random_faults
from pocketquery.server.federation.simulation.enrolment import (
    SimulatedEnrolment,
    simulated_environment,
)
from pocketquery.server.federation.simulation.files import SimulationFiles
from pocketquery.server.federation.simulation.local_grid import LocalGrid
from pocketquery.server.federation.simulation.users import SimulatedStore

__all__ = ["Simulation", "open_simulation", "simulate"]


@dataclass(frozen=True)
class Simulation:
    """An opened simulation.

    Attributes:
        files: what it reads.
        folder: what it writes.
        options: how many rounds, and how.
        devices: who takes part.
        publisher: gate and releases.
        first: the state before the first round.
        fault_share: of the devices that die, stay silent, or reply late or twice.
    """

    files: SimulationFiles
    folder: Path
    options: FederationOptions
    devices: SimulatedDevices
    publisher: Publisher
    first: FederationState
    fault_share: float

    @property
    def description(self) -> str:
        """A sentence for people."""
        kept = sum(len(store.kept) for store in self.devices.stores.values())
        wanted = self.options.settings.clients_per_round
        return (
            f"{len(self.devices)} simulated devices with {kept / len(self.devices):.0f} queries "
            f"each; {self.options.rounds} rounds of {wanted}"
        )


@contextlib.contextmanager
def open_simulation(
    files: SimulationFiles,
    folder: Path,
    options: FederationOptions,
    *,
    faults: float = 0.0,
    limits: OfferLimits | None = None,
    signing_key: Key | None = None,
    share: float = 1.0,
) -> Iterator[Simulation]:
    """Open a simulation, a new one or the one that ``folder`` holds.

    Args:
        files: what it reads.
        folder: gets everything; made where it is not there.
        options: how many rounds, and how.
        faults: share of the devices that die, stay silent, or reply late or twice.
        limits: what the devices accept of an offer; by default what real ones do.
        signing_key: of the releases; the devices require it then.
        share: of the devices that search with a new release at first, where there is a key.

    Raises:
        InvalidInputError: ``folder`` holds another simulation; something in ``files`` does not
            fit together; no device would accept the offers.
        ArtifactError: the bundle (which needs a training step) or the index cannot be used.
        CorpusError: a line of a file cannot be read.
    """
    random_faults(faults, options.seed)  # refuses what is no share before anything is read
    bundle = files.open_bundle()
    with open_index(files.index) as index:
        public_key = None if signing_key is None else public_key_of(signing_key)
        training_setup = TrainingSetup.of_bundle(bundle, index, public_key)
        users = files.read_users(index, training_setup.encoder)
        limits = limits or OfferLimits()
        _check_offers(options, users.stores, limits)
        gate = Gate(bundle, files.read_gate(index, training_setup.encoder, users))
        given = options.to_dict() | {"faults": faults}
        given["limits"] = None if limits == OfferLimits() else asdict(limits)
        del given["rounds"]  # more of them may follow
        if signing_key is not None:
            given["roll_out"] = share
        _claim(folder, {"files": files.fingerprints(), "options": given})
        enrolment = None
        if options.secure is not None:
            enrolment = SimulatedEnrolment(options.secure, options.seed, folder / "devices")
        yield Simulation(
            files=files,
            folder=folder,
            options=options,
            devices=SimulatedDevices(
                training_setup, users.stores, folder / "devices", options.seed, limits, enrolment
            ),
            publisher=RegistryPublisher(
                bundle, folder / "releases", gate, signing_key=signing_key, share=share
            ),
            first=FederationState.of_bundle(bundle),
            fault_share=faults,
        )


def simulate(
    simulation: Simulation, *, show: Callable[[RoundReport], None] = lambda report: None
) -> list[RoundReport]:
    """Run the rounds that are left, in this process; the reports of all of them.

    Args:
        simulation: an opened one.
        show: told of every change of the running round's report.
    """
    return run_rounds(
        simulation.folder,
        simulation.publisher,
        simulation.first,
        simulation.options,
        LocalGrid(
            simulation.devices,
            random_faults(simulation.fault_share, simulation.options.seed),
            keeps=simulation.options.settings.is_buffered,
        ),
        VirtualClock(),
        environment=simulated_environment(simulation.options.seed),
        show=show,
    )


def _check_offers(
    options: FederationOptions, stores: Mapping[str, SimulatedStore], limits: OfferLimits
) -> None:
    """See that a device is there that would not decline every offer."""
    most = 0
    for store in stores.values():  # of a million users, the first that would take part is enough
        if (found := len(distinct(store.kept))) > most:
            most = found
            reason = limits.refusal(options.local, options.settings.clip_norm, most)
            if reason is None:
                return
    raise InvalidInputError(
        f"every device declines these rounds: {reason}. So do real ones; see the device's own "
        "limits in docs/federation.md. --any-offer simulates devices that accept anything"
    )


def _claim(folder: Path, description: Mapping[str, Any]) -> None:
    """Make ``folder`` that of the simulation described, or see that it is."""
    path = folder / "simulation.json"
    folder.mkdir(parents=True, exist_ok=True)
    if not path.is_file():
        write_atomic(path, json.dumps(description, indent=1) + "\n")
        return
    try:
        found = json.loads(path.read_bytes())
    except ValueError:
        found = {}
    wanted = json.loads(json.dumps(description))
    if differing := list(_differing(found, wanted)):
        raise InvalidInputError(
            f"{folder} holds another simulation: {', '.join(differing)} differ from its "
            "simulation.json. Name another --output, or repeat what it was begun with"
        )


def _differing(found: Any, wanted: Any, name: str = "") -> Iterator[str]:
    """The names in ``wanted``, dotted, whose values ``found`` does not have."""
    if not isinstance(wanted, dict) or not isinstance(found, dict):
        if found != wanted:
            yield name or "everything"
        return
    for key, value in wanted.items():
        yield from _differing(found.get(key), value, f"{name}.{key}" if name else key)
