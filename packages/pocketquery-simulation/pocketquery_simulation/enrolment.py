"""Enrolment of simulated devices: an authority, keys and certificates that one seed decides."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pocketquery.client.device import Device
from pocketquery.client.private.keys import AgreementKey, Certificate, sign_certificate
from pocketquery.client.private.ledger import Ledger
from pocketquery.client.private.participant import Participant
from pocketquery.client.private.rules import DeviceRules
from pocketquery.client.private.state_file import StateFile
from pocketquery.sdk.bundle.signature import public_key_of
from pocketquery.server.private.secure_round import Environment, SeededSource
from pocketquery.server.private.settings import SecureSettings

__all__ = ["SimulatedEnrolment", "simulated_environment", "with_enrolment"]

_NOW = 1_800_000_000.0  # Unix seconds of all simulations: expiries are in what masks derive from
_EXPIRY = 2_000_000_000


@dataclass(frozen=True)
class SimulatedEnrolment:
    """What makes simulated devices those of private rounds.

    Attributes:
        settings: of the rounds; a simulated device insists on what they offer, a real one on what
            its owner set.
        seed: of the authority and of the devices' keys.
        folder: gets where each device stands in a round, and its ledger.
    """

    settings: SecureSettings
    seed: int
    folder: Path

    def participant(self, device: Device, name: str, place: int) -> Participant:
        """``device``, of the user ``name`` in this place, in private rounds."""
        key, certificate = self.enrolled(name)
        return Participant(
            device,
            key,
            certificate,
            self.settings.enrolment,
            rules=self.rules(),
            state=StateFile(self.folder / f"{place:06d}.secure.safetensors"),
            ledger=Ledger(self.folder / f"{place:06d}.privacy.json"),
            clock=lambda: _NOW,
            draw_secret=lambda beta: self.round_secret(name, beta),
        )

    def enrolled(self, name: str) -> tuple[AgreementKey, Certificate]:
        """The key of the device of the user ``name``, and the authority's word for it."""
        key = AgreementKey(_secret(self.seed, "device", name))
        authority = _secret(self.seed, "authority", "")
        return key, sign_certificate(authority, self.settings.federation_id, key.public, _EXPIRY)

    def round_secret(self, name: str, beta: bytes) -> bytes:
        """What the device of the user ``name`` draws for the round of a binding's digest."""
        return hashlib.sha256(_secret(self.seed, "rounds", name) + beta).digest()

    def rules(self) -> DeviceRules:
        """What each of the devices insists on."""
        s = self.settings
        return DeviceRules(
            least=s.least,
            least_noisy=s.least,
            largest_group=s.largest_group,
            neighbours=s.neighbours,
            rest=s.rest,
            privacy="any",
            noise_least=min(DeviceRules().noise_least, s.noise_multiplier),
            participations=s.participations,
            epsilon=s.epsilon,
            delta=s.delta,
        )


def simulated_environment(seed: int) -> Environment:
    """Random bytes and the time of day of a simulation."""
    return Environment(SeededSource(seed), lambda: _NOW)


def with_enrolment(given: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """The options ``given`` with a simulation's authority, and a federation where none is named."""
    authority = public_key_of(_secret(seed, "authority", "")).hex()
    federation = given.get("federation") or f"simulation {seed}"
    return {**given, "federation": federation, "enrolment": authority}


def _secret(seed: int, kind: str, name: str) -> bytes:
    return hashlib.sha256(json.dumps(["enrolment", seed, kind, name]).encode()).digest()
