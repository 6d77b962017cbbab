"""What the server asks of a gateway: an offer for its devices, and how to sum their updates, or
that the round is a private one, in which it sums nothing and relays.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from pocketquery.client.offer import LARGEST_OFFER, Offer
from pocketquery.client.wire_format import WireFormat
from pocketquery.sdk.bundle.lineage import parse_lineage
from pocketquery.sdk.bundle.statement import Target
from pocketquery.sdk.errors import ArtifactError, CorruptArtifactError, InvalidInputError
from pocketquery.sdk.files import sha256_bytes
from pocketquery.sdk.validation import check_fields, number, whole
from pocketquery.server.federation.rounds.open_round import OpenRound
from pocketquery.server.federation.rounds.settings import RoundSettings
from pocketquery.server.private.secure_round import STAGES_LEFT
from pocketquery.server.private.settings import SecureSettings
from pocketquery_gateway.cohorts.cohort_sum import settings_digest, shares

__all__ = ["CohortOffer", "cohort_offers", "left_by", "seconds_to_answer"]

_RETURN_SHARE = 0.1  # of the deadline, left for the way back
_MOST_RETURN = 60.0

_FORMAT = WireFormat("pocketquery-cohort-offer", "the server's offer")


@dataclass(frozen=True)
class CohortOffer:
    """What the server asks of a gateway.

    Attributes:
        offer: what its devices are offered.
        settings: of the round; they name the seed that updates are dealt to shards by, which no
            device may know.
        asked: the most updates in its sum, from 1; of a private round, devices that are ready.
        wanted: once so many are there, it answers.
        seconds: after which it answers with what is there.
        secure: how the round is run as a private one; None: it is a plain one.
        bases: of a buffered round, the release that each remembered round before it offered; see
            :class:`FederationState`.
        left_release: the file of the release that a roll-out leaves to the other devices, which a
            gateway that is new has to serve too; empty where none runs. Not in the digest: no
            update is about it.

    Raises:
        InvalidInputError: a number out of its range, or bases where no update may begin from them.
    """

    offer: Offer
    settings: RoundSettings
    asked: int
    wanted: int
    seconds: float
    secure: SecureSettings | None = None
    bases: Mapping[int, str] = field(default_factory=dict)
    left_release: bytes = b""

    def __post_init__(self) -> None:
        check_fields(
            self,
            asked=whole(1, self.settings.asked()),
            wanted=whole(1, self.asked),
            seconds=number(above=0),
        )
        if self.settings.is_buffered and self.secure is not None:
            raise InvalidInputError(
                "found an offer of a private round that is buffered; masks cancel among devices "
                "that answer together, leave mode at synchronous"
            )
        rounds = range(self.offer.round) if self.settings.is_buffered else range(0)
        if unknown := [one for one in self.bases if one not in rounds]:
            raise InvalidInputError(
                f"found the bases of rounds {unknown}, expected rounds before {self.offer.round}, "
                "and none where rounds are synchronous"
            )

    @property
    def digest(self) -> str:
        """Hexadecimal SHA-256 of the offer and the round's settings. Not of this gateway's share: a
        server that was killed, and finds other gateways connected, asks for another one, and must
        get the sum that it may have already."""
        parts: list[object] = [self.offer.digest, settings_digest(self.settings)]
        if self.secure is not None:
            parts.append(self.secure.to_dict())
        if self.bases:  # they decide what an update counts
            parts.append(self._named_bases())
        return sha256_bytes(json.dumps(parts).encode())

    @property
    def at_once(self) -> int:
        """How many devices may train at once where rounds are buffered: this gateway's share."""
        return -(-self.settings.at_once() * self.asked // self.settings.asked())

    @property
    def lasts(self) -> float:
        """Seconds after which a private round is over for certain: no device reveals anything in
        it any more."""
        stages = 0.0 if self.secure is None else STAGES_LEFT * self.secure.stage_deadline
        return self.settings.deadline_seconds + stages

    def to_bytes(self) -> bytes:
        """One safetensors file, in Flower's messages, at the gateway's socket and in its journal;
        equal offers give equal bytes."""
        body = {
            "offer": self.offer.to_dict(),
            "settings": self.settings.to_dict(),
            "asked": self.asked,
            "wanted": self.wanted,
            "seconds": float(self.seconds),
            "secure": None if self.secure is None else self.secure.to_dict(),
            "bases": self._named_bases(),
        }
        files = {"release": self.offer.release, "left_release": self.left_release}
        tensors = {name: np.frombuffer(data, np.uint8) for name, data in files.items()}
        return _FORMAT.serialize(tensors, json.dumps(body))

    def _named_bases(self) -> dict[str, str]:
        """As JSON has them."""
        return {str(number): version for number, version in sorted(self.bases.items())}

    @classmethod
    def from_bytes(cls, data: bytes) -> CohortOffer:
        """What :meth:`to_bytes` wrote.

        Raises:
            CorruptArtifactError: it is something else.
            InvalidInputError: a setting is out of its range.
        """
        tensors, fields = _FORMAT.parse(data, most_bytes=LARGEST_OFFER)
        values = dict(fields.items())
        offer = Offer.of_fields(fields.child("offer"))
        try:
            secure = values["secure"]
            return cls(
                offer=offer.with_release(tensors["release"].tobytes()),
                settings=RoundSettings.from_dict(values["settings"]),
                asked=values["asked"],
                wanted=values["wanted"],
                seconds=values["seconds"],
                secure=None if secure is None else SecureSettings.from_dict(secure),
                bases={int(n): version for n, version in fields.texts("bases").items()},
                left_release=tensors["left_release"].tobytes(),
            )
        except InvalidInputError:
            raise
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise CorruptArtifactError(f"{_FORMAT.source}: {error!s:.200}") from error


def left_by(lineage: bytes) -> Target | None:
    """The release that a roll-out leaves to the other devices, by the newest statement; None where
    none runs, or the statements cannot be read."""
    try:
        rollout = parse_lineage(lineage)[-1].roll_out
    except ArtifactError:  # nobody signs; or devices will say what is wrong with it
        return None
    return None if rollout is None else rollout.rest


def cohort_offers(opened: OpenRound, offer: Offer, nodes: Sequence[int]) -> dict[int, CohortOffer]:
    """What each of the gateways ``nodes`` is asked: its share of the round. With fewer devices than
    gateways, some are asked nothing."""
    seconds = seconds_to_answer(opened.settings.deadline_seconds)
    most = shares(opened.asked, len(nodes))
    wanted = shares(min(opened.settings.clients_per_round, opened.asked), len(nodes))
    secure = None if opened.secure is None else opened.secure.settings
    bases = opened.state.bases if opened.settings.is_buffered else {}
    return {
        node: CohortOffer(offer, opened.settings, many, max(1, few), seconds, secure, bases)
        for node, many, few in zip(nodes, most, wanted, strict=True)
        if many
    }


def seconds_to_answer(seconds: float) -> float:
    """How long a gateway may wait for its devices, that its answer comes within ``seconds``."""
    return seconds - min(_MOST_RETURN, _RETURN_SHARE * seconds)
