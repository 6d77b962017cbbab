"""The same simulation on Flower's own engine, Ray: many cores, or a cluster that shares the files.

A worker opens encoder, index and users once and then trains one device after another. Flower gives
its nodes new ids in every run, and replies come as workers finish, so other devices are drawn each
time and a seed does not give the same bits; a killed simulation still goes on with its round.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from pocketquery.client.app import handle
from pocketquery.client.device import TrainingSetup
from pocketquery.client.offer_limits import OfferLimits
from pocketquery.sdk.bundle.signature import Key
from pocketquery.sdk.errors import InvalidInputError, MissingExtraError
from pocketquery.sdk.index.index import open_index
from pocketquery.server.federation.orchestration.clock import SystemClock
from pocketquery.server.federation.orchestration.federation import run_rounds
from pocketquery.server.federation.rounds.round_report import RoundReport
from pocketquery.server.federation.simulation.devices import SimulatedDevices
from pocketquery.server.federation.simulation.files import SimulationFiles
from pocketquery.server.federation.simulation.simulation import Simulation

__all__ = ["simulate_with_ray"]

_ENVIRONMENT = {
    # Neither Flower nor Ray reports to anybody, unless somebody asks them to.
    "FLWR_TELEMETRY_ENABLED": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    # What Ray is going to do by default about GPUs, and warns of until then.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
_RESOURCES: dict[str, Any] = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}}


def simulate_with_ray(
    simulation: Simulation, *, show: Callable[[RoundReport], None] = lambda report: None
) -> list[RoundReport]:
    """Run the rounds that are left, one device a core; the reports of all of them.

    Args:
        simulation: an open simulation, without faults: those are the in-process grid's.
        show: told of every change of the running round's report.

    Raises:
        MissingExtraError: Ray is not installed.
        InvalidInputError: the simulation has faults, or private rounds.
    """
    if simulation.fault_share:
        raise InvalidInputError("faults are simulated by the local engine alone; leave them out")
    if simulation.options.secure is not None:
        raise InvalidInputError(
            "private rounds are simulated by the local engine alone: Ray's nodes get other ids in "
            "every run, and a round that goes on would not find its devices; leave out --engine"
        )
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    if importlib.util.find_spec("ray") is None:
        raise MissingExtraError.of("ray", "simulation")
    from flwr.simulation import run_simulation  # here: it brings Ray

    reports: list[RoundReport] = []
    server = ServerApp()

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        reports.extend(
            run_rounds(
                simulation.folder,
                simulation.publisher,
                simulation.first,
                simulation.options,
                grid,
                SystemClock(),
                show=show,
            )
        )

    client = _client_app(
        _absolute(simulation.files), simulation.devices.folder.absolute(), simulation
    )
    with _without_advice():
        run_simulation(server, client, len(simulation.devices), backend_config=_RESOURCES)
    return reports


@contextlib.contextmanager
def _without_advice() -> Iterator[None]:
    """Flower advises ``flwr run`` instead of its function, which our pin of flwr still has."""
    logger = logging.getLogger("flwr")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _client_app(files: SimulationFiles, folder: Path, simulation: Simulation) -> ClientApp:
    """The app that workers run; it takes along paths alone."""
    seed, limits = simulation.options.seed, simulation.devices.limits
    key = simulation.devices.training_setup.public_key
    client = ClientApp()

    @client.train()
    def train(message: Message, context: Context) -> Message:
        place = int(context.node_config["partition-id"])
        return handle(message, _devices(files, folder, seed, limits, key).device(place))

    return client


@functools.cache
def _devices(
    files: SimulationFiles, folder: Path, seed: int, limits: OfferLimits, public_key: Key | None
) -> SimulatedDevices:
    """What a worker needs; opened once in its life."""
    index = open_index(files.index)
    training_setup = TrainingSetup.of_bundle(files.open_bundle(), index, public_key)
    stores = files.read_users(index, training_setup.encoder).stores
    return SimulatedDevices(training_setup, stores, folder, seed, limits)


def _absolute(files: SimulationFiles) -> SimulationFiles:
    """Workers have working folders of their own."""
    given: dict[str, Any] = dict(vars(files))
    paths = {name: value.absolute() for name, value in given.items() if isinstance(value, Path)}
    return SimulationFiles(**given | paths)
