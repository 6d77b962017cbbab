"""From a candidate to a release: judged by the gate, recorded in the registry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pocketquery.sdk.bundle.adapter import parse_adapter
from pocketquery.sdk.bundle.adapter_tensors import tensors_sha256
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.signature import Key
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.validation import check, number
from pocketquery.server.federation.releases.gate import Gate
from pocketquery.server.federation.releases.registry import Registry
from pocketquery.server.federation.rounds.parts import Decision
from pocketquery.server.federation.rounds.state import FederationState

__all__ = ["RegistryPublisher"]


class RegistryPublisher:
    """Publishes to the registry in ``folder``, made with the bundle's own adapter where it is new.

    Args:
        bundle: what the devices have.
        folder: of the registry.
        gate: judges candidates; None releases them unjudged.
        signing_key: an Ed25519 private key that releases are signed with, and the statements of
            what is in force.
        share: of the devices that search with a new release at first, from 0 to 1; with a key.

    Raises:
        SpaceMismatchError, CorruptArtifactError: the registry is of another bundle.
        InvalidInputError: the registry has had a signing key and none is given, or none is given
            for a share of the devices.
        SignatureError: its next statement cannot be signed by the key.
    """

    def __init__(
        self,
        bundle: Bundle,
        folder: Path,
        gate: Gate | None,
        *,
        signing_key: Key | None = None,
        share: float = 1.0,
    ) -> None:
        check("share", share, number(0, 1))
        if share < 1 and signing_key is None:
            raise InvalidInputError(
                f"new releases are to begin with a share of {share:g} of the devices and there is "
                "no signing key; what devices are told of it is signed: give one"
            )
        self._manifest = bundle.manifest
        self._gate = gate
        self._signing_key = signing_key
        self._share = share
        self.registry = Registry.of_bundle(folder, bundle, signing_key=signing_key)
        self.registry.check_key(signing_key)  # before rounds are run for nothing

    def in_force(self, state: FederationState) -> FederationState:
        """``state``, or where somebody rolled back, the state that release begins anew."""
        version = self.registry.current().version
        if version == state.version:
            return state
        tensors = parse_adapter(self.registry.read(version)).tensors
        adapter = dict(tensors)
        # What began from a release that was taken back does not count.
        return replace(state.without_moments(), version=version, adapter=adapter, bases={})

    def release(self, version: str) -> bytes:
        """The file of a release."""
        return self.registry.read(version)

    def lineage(self) -> bytes:
        """The registry's statements; empty where it has no key."""
        return self.registry.lineage()

    def decide(
        self,
        state: FederationState,
        candidate: FederationState,
        privacy: Mapping[str, Any] | None = None,
    ) -> Decision:
        """Judge and record; again, after a kill, with the same outcome and no second record. The
        report carries what the candidate has cost in ``privacy``.

        Where somebody put another release in force while the round ran, an older one or a newer one
        that had been rolled back, there is nothing left to compare with.
        """
        current = self.registry.current()
        if current.version != state.version:
            digest = parse_adapter(self.registry.read(current.version)).tensors_sha256
            if current.parent == state.version and digest == tensors_sha256(candidate.adapter):
                # Published before a kill; judged again, by other settings, it might be refused now.
                return Decision(True, current.version, current.report)
            reason = f"release {state.version} was rolled back to {current.version} meanwhile"
            return Decision(False, current.version, None, skipped=reason)
        report = None
        if self._gate is not None:
            verdict = self._gate.judge(self.registry.read(state.version), candidate.adapter)
            report = replace(verdict, privacy=privacy)
        try:
            recorded = self.registry.publish(
                candidate.adapter,
                report,
                manifest=self._manifest,
                parent=state.version,
                signing_key=self._signing_key,
                share=self._share,
            )
        except InvalidInputError:
            if self.registry.current().version == state.version:
                raise
            return self.decide(state, candidate, privacy)  # another came while the gate judged
        if recorded.accepted and not recorded.in_force:  # published before a kill, and taken back
            in_force = self.registry.current().version
            reason = f"release {recorded.version} was rolled back to {in_force} meanwhile"
            return Decision(False, in_force, None, skipped=reason)
        described = None if report is None else report.to_dict()
        version = recorded.version if recorded.accepted else state.version
        return Decision(recorded.accepted, version, described)
