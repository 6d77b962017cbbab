"""From a candidate to a release: judged by the gate, recorded in the registry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pocketquery.sdk.bundle.adapter import parse_adapter
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.signature import Key
from pocketquery.server.federation.releases.gate import Gate
from pocketquery.server.federation.releases.registry import Registry
from pocketquery.server.federation.rounds.driver import Decision
from pocketquery.server.federation.rounds.state import FederationState

__all__ = ["RegistryPublisher"]


class RegistryPublisher:
    """Publishes to the registry in ``folder``, made with the bundle's own adapter where it is new.

    Args:
        bundle: what the devices have.
        folder: of the registry.
        gate: judges candidates; None releases them unjudged.
        signing_key: an Ed25519 private key that releases are signed with.

    Raises:
        SpaceMismatchError, CorruptArtifactError: the registry is of another bundle.
    """

    def __init__(
        self, bundle: Bundle, folder: Path, gate: Gate | None, *, signing_key: Key | None = None
    ) -> None:
        self._manifest = bundle.manifest
        self._gate = gate
        self._signing_key = signing_key
        self.registry = Registry.of_bundle(folder, bundle, signing_key=signing_key)

    def in_force(self, state: FederationState) -> FederationState:
        """``state``, or where somebody rolled back, the state that release begins anew."""
        version = self.registry.current().version
        if version == state.version:
            return state
        tensors = parse_adapter(self.registry.read(version)).tensors
        return replace(state.without_moments(), version=version, adapter=dict(tensors))

    def release(self, version: str) -> bytes:
        """The file of a release."""
        return self.registry.read(version)

    def decide(
        self,
        state: FederationState,
        candidate: FederationState,
        privacy: Mapping[str, Any] | None = None,
    ) -> Decision:
        """Judge and record; again, after a kill, with the same outcome and no second record. The
        report carries what the candidate has cost in ``privacy``.

        Where somebody rolled back while the round ran, there is nothing left to compare with.
        """
        current = self.registry.current()
        if state.version not in (current.version, current.parent):
            said = f"release {state.version} was rolled back to {current.version} meanwhile"
            return Decision(False, current.version, None, skipped=said)
        report = None
        if self._gate is not None:
            found = self._gate.judge(self.registry.read(state.version), candidate.adapter)
            report = replace(found, privacy=privacy)
        recorded = self.registry.publish(
            candidate.adapter,
            report,
            manifest=self._manifest,
            parent=state.version,
            signing_key=self._signing_key,
        )
        described = None if report is None else report.to_dict()
        version = recorded.version if recorded.accepted else state.version
        return Decision(recorded.accepted, version, described)
