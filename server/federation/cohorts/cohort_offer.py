"""What the server asks of a gateway: an offer for its devices, and how to sum their updates, or
that the round is a private one, in which it sums nothing and relays.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pocketquery.client.device import Offer
from pocketquery.client.local_config import LocalConfig
from pocketquery.sdk.bundle.lineage import parse_lineage
from pocketquery.sdk.bundle.statement import Target
from pocketquery.sdk.errors import ArtifactError, CorruptArtifactError, InvalidInputError
from pocketquery.sdk.fields import Fields
from pocketquery.sdk.files import sha256_bytes
from pocketquery.sdk.validation import check_fields, number, whole
from pocketquery.server.federation.cohorts.cohort_sum import settings_digest, shares
from pocketquery.server.federation.rounds.open_round import OpenRound
from pocketquery.server.federation.rounds.settings import RoundSettings
from pocketquery.server.private.secure_round import STAGES_LEFT
from pocketquery.server.private.settings import SecureSettings

__all__ = ["CohortOffer", "cohort_offers", "left_by", "on_the_way_back", "read_bases"]

_RETURN_SHARE = 0.1  # of the deadline, left for the way back
_MOST_RETURN = 60.0

_LARGEST = 1 << 20
_SOURCE = "the server's offer"


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
        said: list[object] = [self.offer.digest, settings_digest(self.settings)]
        if self.secure is not None:
            said.append(self.secure.to_dict())
        if self.bases:  # they decide what an update counts
            said.append(self._named_bases())
        return sha256_bytes(json.dumps(said).encode())

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

    def to_json(self) -> bytes:
        """As the node hands it to the gateway's process."""
        offer, left = self.offer, base64.b64encode(self.left_release).decode()
        return json.dumps(
            {
                "round": offer.round,
                "release": base64.b64encode(offer.release).decode(),
                "lineage": base64.b64encode(offer.lineage).decode(),
                "local": json.dumps(offer.config.to_dict()),
                "clip_norm": offer.clip_norm,
                "largest_weight": offer.largest_weight,
                "compress": offer.compress,
                "settings": self.settings.to_dict(),
                "asked": self.asked,
                "wanted": self.wanted,
                "seconds": self.seconds,
                **({} if self.secure is None else {"secure": self.secure.to_dict()}),
                **({"bases": self._named_bases()} if self.bases else {}),
                **({"left_release": left} if left else {}),
            }
        ).encode()

    def _named_bases(self) -> dict[str, str]:
        """As JSON has them."""
        return {str(number): version for number, version in sorted(self.bases.items())}

    @classmethod
    def from_json(cls, data: bytes) -> CohortOffer:
        """What :meth:`to_json` wrote.

        Raises:
            CorruptArtifactError: it is something else.
            InvalidInputError: a setting is out of its range.
        """
        found = dict(Fields.of_json(data, _SOURCE, most_bytes=_LARGEST).items())
        try:
            offer = Offer(
                round=int(found["round"]),
                release=base64.b64decode(found["release"], validate=True),
                config=LocalConfig.from_json(found["local"]),
                clip_norm=float(found["clip_norm"]),
                largest_weight=float(found["largest_weight"]),
                compress=bool(found["compress"]),
                lineage=base64.b64decode(found["lineage"], validate=True),
            )
            settings = RoundSettings.from_dict(found["settings"])
            secure = SecureSettings.from_dict(found["secure"]) if "secure" in found else None
            numbers = (found["asked"], found["wanted"], found["seconds"])
            bases = read_bases(found.get("bases", {}))
            left = base64.b64decode(found.get("left_release", ""), validate=True)
            return cls(offer, settings, *numbers, secure, bases, left)
        except InvalidInputError:
            raise
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise CorruptArtifactError(f"{_SOURCE} cannot be read: {error!s:.200}") from error


def left_by(lineage: bytes) -> Target | None:
    """The release that a roll-out leaves to the other devices, by the newest statement; None where
    none runs, or the statements cannot be read."""
    try:
        rollout = parse_lineage(lineage)[-1].roll_out
    except ArtifactError:  # nobody signs; or devices will say what is wrong with it
        return None
    return None if rollout is None else rollout.rest


def read_bases(found: Mapping[str, Any]) -> dict[int, str]:
    """The bases in JSON values.

    Raises:
        AttributeError, TypeError, ValueError: they are none.
    """
    for version in found.values():
        if not isinstance(version, str):
            raise TypeError(f"found the release {version!r:.80}, expected a text")
    return {int(number): version for number, version in found.items()}


def cohort_offers(opened: OpenRound, offer: Offer, nodes: Sequence[int]) -> dict[int, CohortOffer]:
    """What each of the gateways ``nodes`` is asked: its share of the round. With fewer devices than
    gateways, some are asked nothing."""
    seconds = on_the_way_back(opened.settings.deadline_seconds)
    most = shares(opened.asked, len(nodes))
    wanted = shares(min(opened.settings.clients_per_round, opened.asked), len(nodes))
    secure = None if opened.secure is None else opened.secure.settings
    bases = opened.state.bases if opened.settings.is_buffered else {}
    return {
        node: CohortOffer(offer, opened.settings, many, max(1, few), seconds, secure, bases)
        for node, many, few in zip(nodes, most, wanted, strict=True)
        if many
    }


def on_the_way_back(seconds: float) -> float:
    """How long a gateway may wait for its devices, that its answer comes within ``seconds``."""
    return seconds - min(_MOST_RETURN, _RETURN_SHARE * seconds)
