"""One device's part in rounds through a gateway: register, ask, answer, fetch the release.

What the device does with an offer is device.py's.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from pocketquery.client.device import Answering, Declined
from pocketquery.client.figures import figures_text
from pocketquery.client.gateway.messages import read_offer_message
from pocketquery.client.offer import Offer, UnusableOfferError
from pocketquery.client.trusted_releases import TrustedReleases
from pocketquery.sdk.bundle.adapter import LARGEST_RELEASE
from pocketquery.sdk.bundle.manifest import Manifest
from pocketquery.sdk.errors import CorruptArtifactError
from pocketquery.sdk.files import sha256_bytes, write_atomic
from pocketquery_join.connection import Answer, GatewayConnection
from pocketquery_join.outcome import Outcome, send
from pocketquery_join.private_rounds import (
    KeptRound,
    PrivateAnswering,
    PrivateRounds,
    StageMessage,
)

__all__ = ["RELEASE", "Outcome", "Participation"]

RELEASE = "adapter.safetensors"
"""The file of the release to search with, in a device's state folder."""

_PRIVATE = "a private round was offered, and this device is not enrolled for private rounds"

_SHA256 = re.compile("[0-9a-f]{64}")
_log = logging.getLogger(__name__)


class Participation:
    """A device at its gateway.

    Args:
        connection: to the gateway.
        state: the device's folder, which gets the release to search with.

    Attributes:
        private: the private rounds that it is in.
    """

    def __init__(self, connection: GatewayConnection, state: Path | str) -> None:
        self.private = PrivateRounds(connection)
        self._connection = connection
        self._state = Path(state)
        self._etag = ""  # of what the gateway last said of the release

    def challenge(self) -> bytes:
        """What an app's attestation is made over, with the device's key: see docs/gateway.md."""
        answer = self._connection.ask("POST", "/v1/challenge", signed=False)
        return answer.json("the gateway's challenge").text("challenge", 200).encode()

    def register(
        self, attestation: Mapping[str, Any] | None = None, challenge: bytes | None = None
    ) -> bool:
        """Register this device's key; whether it is new there. Again changes nothing.

        Raises:
            Refused: the gateway wants evidence, or has no room.
            CorruptArtifactError: what answers is no gateway.
            ArtifactError: it cannot be reached.
        """
        evidence: dict[str, Any] = {}
        if attestation is not None and challenge is not None:
            evidence = {"attestation": dict(attestation), "challenge": challenge.decode("ascii")}
        body = json.dumps(evidence).encode()
        headers = {"content-type": "application/json"}
        answer = self._connection.ask("PUT", "/v1/device", body, headers=headers)
        if dict(answer.json("the gateway's answer").items()).get("registered") is not True:
            raise CorruptArtifactError("the gateway does not say that this device is registered")
        return answer.status == 201

    def leave(self) -> None:
        """Have the gateway forget this device's key. Raises as :meth:`register`."""
        self._connection.ask("DELETE", "/v1/device")

    def ask(self) -> tuple[Offer | None, int]:
        """Whether there is an offer for this device, and in how many seconds asking again is of
        use.

        Raises:
            Refused: the device is not registered.
            UnusableOfferError: its settings are out of range; :meth:`decline` it.
            CorruptArtifactError: what came is not of this version.
            ArtifactError: the gateway cannot be reached.
        """
        return read_offer_message(self._connection.ask("GET", "/v1/offer").body)

    def reply(
        self,
        offered: Offer,
        device: Answering,
        participant: PrivateAnswering | None = None,
    ) -> Outcome:
        """Let ``device`` answer an offer, and send what it says; that of a private round
        ``participant``, the same device enrolled for them. Without one it is declined.

        Raises:
            Refused: the device has no upload left.
            CorruptArtifactError: the release that came was changed.
            ArtifactError: the gateway cannot be reached.
        """
        if offered.is_private and participant is None:
            return self.decline(offered.round, _PRIVATE)
        offer = offered.with_release(self._fetch(offered))
        if participant is not None and offer.is_private:
            return self.private.begin(offer.announcement, offer, participant)
        reply = device.answer(offer)
        if isinstance(reply, Declined):
            return self.decline(offer.round, reply.reason)
        figures = figures_text(reply.figures) if reply.figures else None
        path = f"/v1/rounds/{offer.round}/update"
        taken = Outcome("accepted")
        return send(
            self._connection, path, taken, reply.update, verdict="accepted", figures=figures
        )

    def decline(self, round_: int, reason: str) -> Outcome:
        """Tell the gateway that this device sends nothing, and not why. Raises as :meth:`reply`."""
        _log.info("round declined: %s", reason)
        path = f"/v1/rounds/{round_}/declined"
        return send(self._connection, path, Outcome("declined", reason))

    def take_part(
        self,
        opened: Callable[[], AbstractContextManager[tuple[Answering, PrivateAnswering | None]]],
        kept: KeptRound | None = None,
    ) -> Outcome:
        """One turn: answer what is to be answered in a private round that this device is in; in
        none, :meth:`ask`, and where there is an offer, :meth:`reply`. An offer that this device
        cannot train with is declined. Raises as both.

        Args:
            opened: opens the device, and where it is enrolled what takes part in private rounds;
                called only where there is something for it to do.
            kept: what the device keeps of a private round.
        """
        number = self.private.round
        message = self.private.next_message()
        if isinstance(message, StageMessage):
            with opened() as (_, participant):
                assert participant is not None
                return self.private.answer(message, participant)
        if message.what == "waiting":
            return message
        if kept is not None and number is not None:
            kept.give_up(number)
        try:
            offered, wait = self.ask()
            if offered is None:
                return Outcome("idle", retry_after=wait)
            with opened() as (device, participant):
                return self.reply(offered, device, participant)
        except UnusableOfferError as error:
            return self.decline(error.round, str(error))

    def is_current(self) -> bool:
        """Whether the gateway says of the release what it said when :meth:`refresh` last looked; a
        question of a few bytes. Raises as :meth:`refresh`, but for what the release itself is."""
        return self._current().status == 304

    def refresh(self, manifest: Manifest, releases: TrustedReleases) -> Path | None:
        """Fetch the release to search with, where it is another than the one that is here; its
        file, to put into the encoder, or None where nothing is new.

        Args:
            manifest: of the bundle.
            releases: what this device trusts.

        Raises:
            RollbackError, SignatureError, SpaceMismatchError: it is not one to trust.
            CorruptArtifactError: it was changed on the way.
            Refused: there is no release there yet.
            ArtifactError: the gateway cannot be reached.
        """
        self._etag = ""
        answer = self._current()
        announced = answer.json("the gateway's release")
        path, expected_sha256 = self._state / RELEASE, announced.text("sha256", 64)
        lineage = announced.base64("lineage") if "lineage" in announced else b""
        if lineage and releases.public_key is not None:
            releases.follow(lineage, manifest=manifest)
            # In a roll-out this device may be among those that keep the release before.
            target = releases.target(manifest)
            expected_sha256 = target.sha256 if target is not None else expected_sha256
        if path.is_file() and sha256_bytes(path.read_bytes()) == expected_sha256:
            self._etag = answer.etag
            return None
        data = self._release(expected_sha256)
        releases.release_for_search(data, lineage, manifest=manifest)
        write_atomic(path, data, mode=0o600)
        self._etag = answer.etag
        return path

    def _current(self) -> Answer:
        known = {"if-none-match": self._etag} if self._etag else {}
        return self._connection.ask("GET", "/v1/releases/current", signed=False, headers=known)

    def _fetch(self, offered: Offer) -> bytes:
        """The offered release: the one that is here, or the gateway's."""
        path = self._state / RELEASE
        if path.is_file():
            data = path.read_bytes()
            if sha256_bytes(data) == offered.release_sha256:
                return data
        return self._release(offered.release_sha256)

    def _release(self, sha256: str) -> bytes:
        if not _SHA256.fullmatch(sha256):
            raise CorruptArtifactError(
                f"a release is named {sha256!a:.80}, expected its SHA-256 in hexadecimal digits"
            )
        answer = self._connection.ask("GET", f"/v1/releases/{sha256}", signed=False)
        if len(answer.body) > LARGEST_RELEASE or sha256_bytes(answer.body) != sha256:
            raise CorruptArtifactError(
                f"the release {sha256[:16]} came as {len(answer.body)} bytes with another SHA-256; "
                "fetch it again"
            )
        return answer.body
