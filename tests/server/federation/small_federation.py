"""A whole federation in a folder: a tiny bundle with a training step, an index, users, queries.

Everything is real; the encoder has one layer of width 64 and vectors of 48 dimensions.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pocketquery import sdk
from pocketquery.client.device import TrainingSetup
from pocketquery.client.offer_limits import OfferLimits
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.signature import public_key_of
from pocketquery.sdk.index.builder import create_index
from pocketquery.sdk.index.documents import Document
from pocketquery.server.federation.orchestration.clock import SystemClock, VirtualClock
from pocketquery.server.federation.orchestration.federation import run_rounds
from pocketquery.server.federation.releases.publishing import RegistryPublisher
from pocketquery.server.federation.rounds.options import FederationOptions
from pocketquery.server.federation.rounds.round_report import RoundReport
from pocketquery.server.federation.rounds.state import FederationState
from pocketquery_simulation.devices import SimulatedDevices
from pocketquery_simulation.enrolment import (
    SimulatedEnrolment,
    simulated_environment,
    with_enrolment,
)
from pocketquery_simulation.local_grid import FaultPlan, LocalGrid
from pocketquery_simulation.users import read_clients
from tests.synthetic_sentences import sentences
from tests.trainable_bundle import trainable_bundle

QUICK: dict[str, Any] = {
    "rounds": 2,
    "clients-per-round": 4,
    "over-selection": 1.5,
    "least-replies": 2,
    "steps": 2,
    "batch-size": 4,
}
"""Options of rounds that take a fraction of a second."""

USERS = 12


@dataclass(frozen=True)
class Files:
    """Where the parts of the federation lie."""

    folder: Path

    @property
    def bundle(self) -> Path:
        return self.folder / "bundle"

    @property
    def index(self) -> Path:
        return self.folder / "index"

    @property
    def clients(self) -> Path:
        return self.folder / "clients.jsonl"

    @property
    def queries(self) -> Path:
        return self.folder / "queries.tsv"

    @property
    def gate_queries(self) -> Path:
        return self.folder / "gate.tsv"

    @property
    def gate_qrels(self) -> Path:
        return self.folder / "qrels.tsv"


def write_federation(folder: Path, bundle: Path | None = None) -> Files:
    """Make ``folder`` a federation: 120 documents, 12 users of 6 queries, 40 judged queries.

    Args:
        folder: gets the files.
        bundle: of the devices; by default the stored one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = Files(folder)
    if bundle is None:
        trainable_bundle(files.bundle)
    else:
        shutil.copytree(bundle, files.bundle)
    texts = sentences(120)
    encoder = sdk.load(files.bundle)
    with create_index(files.index, space_id=encoder.space_id, dimension=48) as builder:
        documents = [Document(f"d{number}", text) for number, text in enumerate(texts)]
        builder.add(documents, encoder.encode(texts))
    users = [
        {"client": f"user-{number % USERS}", "query": text[: 12 + number % 9]}
        for number, text in enumerate(texts[: 6 * USERS])
    ]
    files.clients.write_text("".join(json.dumps(one) + "\n" for one in users))
    files.queries.write_text("".join(f"q{n}\t{text}\n" for n, text in enumerate(texts)))
    files.gate_queries.write_text("".join(f"g{n}\t{texts[n]}\n" for n in range(80, 120)))
    files.gate_qrels.write_text("".join(f"g{n}\td{n}\t1\n" for n in range(80, 120)))
    return files


@contextmanager
def opened(files: Files, work: Path, **options: Any) -> Iterator[Parts]:
    """The parts of a run of the federation in the folder ``work``, without a gate; with the option
    "signing-key", of one that signs."""
    given = {**QUICK, **options}
    signing_key = given.pop("signing-key", None)
    if given.get("secure") == "on":
        given = with_enrolment(given, given.get("seed", 0))
    bundle, chosen = Bundle.open(files.bundle), FederationOptions.of(given)
    work.mkdir(parents=True, exist_ok=True)
    with sdk.open_index(files.index) as index:
        public_key = None if signing_key is None else public_key_of(signing_key)
        training_setup = TrainingSetup.of_bundle(bundle, index, public_key)
        users = read_clients(files.clients)
        yield Parts(
            work,
            bundle,
            chosen,
            SimulatedDevices(
                training_setup,
                users,
                work / "devices",
                chosen.seed,
                OfferLimits.none(),
                enrolment_of(chosen, work / "devices"),
            ),
            RegistryPublisher(bundle, work / "releases", None, signing_key=signing_key),
        )


def enrolment_of(options: FederationOptions, folder: Path) -> SimulatedEnrolment | None:
    """What makes devices those of private rounds, where ``options`` are of some."""
    if options.secure is None:
        return None
    return SimulatedEnrolment(options.secure, options.seed, folder)


@dataclass(frozen=True)
class Parts:
    """What a run needs; see :func:`opened`."""

    work: Path
    bundle: Bundle
    options: FederationOptions
    devices: SimulatedDevices
    publisher: RegistryPublisher

    @property
    def first(self) -> FederationState:
        return FederationState.of_bundle(self.bundle)

    def run(
        self,
        faults: FaultPlan | None = None,
        *,
        grid: LocalGrid | None = None,
        clock: SystemClock | VirtualClock | None = None,
        rounds: int | None = None,
        show: Callable[[RoundReport], None] = lambda report: None,
    ) -> list[RoundReport]:
        """The rounds that are left, over the devices themselves or over ``grid``; all reports."""
        options = self.options if rounds is None else replace(self.options, rounds=rounds)
        buffered = options.settings.mode == "buffered"
        return run_rounds(
            self.work,
            self.publisher,
            self.first,
            options,
            grid or LocalGrid(self.devices, faults, keeps=buffered),
            clock or VirtualClock(),
            environment=simulated_environment(options.seed),
            show=show,
        )
