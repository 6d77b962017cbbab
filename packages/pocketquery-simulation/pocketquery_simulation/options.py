"""What ``pocketquery simulate`` takes beside the options of rounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pocketquery.sdk.settings.common import AsJson, Share
from pocketquery.sdk.settings.declaration import Option, Settings
from pocketquery_simulation.files import SimulationFiles

__all__ = ["SimulateOptions"]


@dataclass(frozen=True, kw_only=True)
class SimulateOptions(Settings):
    """Files, devices and the place of the result."""

    files: SimulationFiles
    any_offer: Annotated[
        bool, "devices accept what real ones decline: few steps, few queries, no clipping"
    ] = False
    faults: Annotated[Share, "of devices that die, lag or repeat"] = 0.0
    signing_key: Annotated[
        str | None, "Ed25519 private key of the releases: PEM or 64 digits", Option("FILE")
    ] = None
    roll_out: Annotated[
        Share, "of the devices that search with a new release at first; needs --signing-key"
    ] = 1.0
    output: Annotated[str, "what it makes", Option("FOLDER")] = "simulation"
    json: AsJson = False
