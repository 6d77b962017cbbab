"""Rounds on Ray in a process of their own, for Ray leaves processes running until its own ends.

python -m tests.server.federation.ray_rounds FILES OUTPUT
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pocketquery.client.offer_limits import OfferLimits
from pocketquery.sdk.errors import ArtifactError, MissingExtraError
from pocketquery.server.federation.rounds.options import FederationOptions
from pocketquery.server.federation.rounds.round_report import RoundReport
from pocketquery.server.federation.simulation.files import SimulationFiles
from pocketquery.server.federation.simulation.ray import simulate_with_ray
from pocketquery.server.federation.simulation.simulation import open_simulation
from tests.server.federation.small_federation import QUICK


def main(files: Path, output: Path) -> None:
    """Print the results of rounds whose disk is full, and of rounds that go on after that."""
    os.chdir(files)  # paths are relative, and workers have other working folders
    read = SimulationFiles(
        Path("bundle"), Path("index"), queries=Path("queries.tsv"), users=8, queries_each=6
    )
    limits = OfferLimits.none()
    with open_simulation(read, output, FederationOptions.of(QUICK), limits=limits) as simulation:
        try:
            simulate_with_ray(simulation, show=_full_disk)
        except (ArtifactError, MissingExtraError) as error:
            print(error)
            if isinstance(error, MissingExtraError):
                return
        print([(row.round, row.accepted) for row in simulate_with_ray(simulation)])


def _full_disk(row: RoundReport) -> None:
    raise ArtifactError("the disk is full")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
