"""Federated rounds over simulated devices: releases, a journal and a report in one folder.

One seed decides everything, and a simulation that is killed and started again goes on to the same
bits: the journal holds the round, each device's file what it keeps between rounds.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pocketquery.client.device import TrainingSetup
from pocketquery.client.offer_limits import OfferLimits
from pocketquery.client.store.stored_examples import distinct
from pocketquery.sdk.bundle.signature import Key, public_key_of
from pocketquery.sdk.errors import ArtifactError, InvalidInputError
from pocketquery.sdk.files import make_folder, remove_file, write_atomic
from pocketquery.sdk.index.index import open_index
from pocketquery.server.federation.orchestration.clock import VirtualClock
from pocketquery.server.federation.orchestration.federation import JOURNAL, run_rounds
from pocketquery.server.federation.orchestration.journal import Journal
from pocketquery.server.federation.releases.gate import Gate
from pocketquery.server.federation.releases.publishing import RegistryPublisher
from pocketquery.server.federation.rounds.options import FederationOptions
from pocketquery.server.federation.rounds.parts import Publisher
from pocketquery.server.federation.rounds.round_report import RoundReport
from pocketquery.server.federation.rounds.state import FederationState
from pocketquery_simulation.devices import SimulatedDevices, random_faults
from pocketquery_simulation.enrolment import (
    SimulatedEnrolment,
    simulated_environment,
)
from pocketquery_simulation.files import SimulationFiles
from pocketquery_simulation.local_grid import LocalGrid
from pocketquery_simulation.users import SimulatedStore

__all__ = ["Simulation", "open_simulation", "run_simulation"]

_DESCRIPTION = "simulation.json"
_SAID_BY_THE_REGISTRY = "options.roll_out"  # where it is missing, a signing key is


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
        queries = sum(len(store.kept) for store in self.devices.stores.values())
        wanted = self.options.settings.clients_per_round
        return (
            f"{len(self.devices)} simulated devices with {queries / len(self.devices):.0f} queries "
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

    Where a new one ends in an error before its first round begins, ``folder`` is as empty as before
    and free for another.

    Args:
        files: what it reads.
        folder: gets everything; made where it is not there, and else empty or a simulation's.
        options: how many rounds, and how.
        faults: share of the devices that die, stay silent, or reply late or twice.
        limits: what the devices accept of an offer; by default what real ones do.
        signing_key: of the releases; the devices require it then.
        share: of the devices that search with a new release at first, where there is a key.

    Raises:
        InvalidInputError: ``folder`` holds another simulation, or something else; something in
            ``files`` does not fit together; no device would accept the offers.
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
        with _claimed(folder, {"files": files.fingerprints(), "options": given}):
            enrolment = None
            if options.secure is not None:
                enrolment = SimulatedEnrolment(options.secure, options.seed, folder / "devices")
            yield Simulation(
                files=files,
                folder=folder,
                options=options,
                devices=SimulatedDevices(
                    training_setup,
                    users.stores,
                    folder / "devices",
                    options.seed,
                    limits,
                    enrolment,
                ),
                publisher=RegistryPublisher(
                    bundle, folder / "releases", gate, signing_key=signing_key, share=share
                ),
                first=FederationState.of_bundle(bundle),
                fault_share=faults,
            )


def run_simulation(
    simulation: Simulation, *, show: Callable[[RoundReport], None] = lambda report: None
) -> list[RoundReport]:
    """Run the rounds that are left, in this process; the reports of all of them.

    Args:
        simulation: an open simulation.
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
        if (count := len(distinct(store.kept))) > most:
            most = count
            reason = limits.refusal(options.local, options.settings.clip_norm, most)
            if reason is None:
                return
    raise InvalidInputError(
        f"every device declines these rounds: {reason}. So do real ones; see the device's own "
        "limits in docs/devices.md. --any-offer simulates devices that accept anything"
    )


@contextlib.contextmanager
def _claimed(folder: Path, description: Mapping[str, Any]) -> Iterator[None]:
    """Make ``folder`` that of the simulation described, or see that it is; what an error leaves of
    a new one that began no round is removed.
    """
    path = folder / _DESCRIPTION
    if path.is_file():
        _check_same(path, description)
        yield
        return
    _check_empty(folder)
    make_folder(folder)
    write_atomic(path, json.dumps(description, indent=1) + "\n")
    try:
        yield
    except BaseException:
        if not _has_begun(folder):  # nothing in it but what was made here
            for name in ("releases", "devices"):
                shutil.rmtree(folder / name, ignore_errors=True)
            for file in folder.glob(f"{JOURNAL}*"):
                file.unlink(missing_ok=True)
            remove_file(path)
        raise


def _check_empty(folder: Path) -> None:
    """Rounds in it, a page or a table would be gone on with, or replaced. What a killed
    :func:`write_atomic` left begins with a dot.
    """
    if not folder.exists():
        return
    if not folder.is_dir():
        raise InvalidInputError(f"{folder} is no folder, expected one; name another --output")
    if names := sorted(one.name for one in folder.iterdir() if not one.name.startswith(".")):
        some = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
        raise InvalidInputError(
            f"{folder} is not a simulation's: found {some} and no {_DESCRIPTION}, expected an "
            "empty folder or none; it is left alone. Name another --output"
        )


def _check_same(path: Path, description: Mapping[str, Any]) -> None:
    try:
        stored = json.loads(path.read_bytes())
    except ValueError:
        stored = {}
    wanted = json.loads(json.dumps(description))
    if differing := list(_differing(stored, wanted)):
        raise InvalidInputError(
            f"{path.parent} holds another simulation: {', '.join(differing)} differ from its "
            f"{_DESCRIPTION}. Name another --output, or repeat what it was begun with"
        )


def _differing(stored: Any, wanted: Any, name: str = "") -> Iterator[str]:
    """The names, dotted, whose values are not the same in both; one that is missing is None."""
    if not isinstance(wanted, dict) or not isinstance(stored, dict):
        if stored != wanted:
            yield name or "everything"
        return
    for key in wanted | stored:
        inner = f"{name}.{key}" if name else key
        if key in wanted or inner != _SAID_BY_THE_REGISTRY:
            yield from _differing(stored.get(key), wanted.get(key), inner)


def _has_begun(folder: Path) -> bool:
    """Whether there is a round in the journal, over or not, or one that cannot be read."""
    if not (folder / JOURNAL).is_file():
        return False
    try:
        with Journal.open(folder / JOURNAL) as journal:
            return journal.open_round is not None or bool(journal.reports())
    except ArtifactError:
        return True
