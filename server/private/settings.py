"""How private rounds are run: the graph, the groups, the stages' deadline, and the noise.

The settings are a server's wishes. What protects a device it enforces itself, by limits of its own
(client/private/rules.py); here is refused what no device would accept, or what could not work.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, get_args

from pocketquery.client.local_config import LocalConfig
from pocketquery.client.private.binding import NoiseMode
from pocketquery.client.private.encoding import value_range
from pocketquery.client.private.keys import federation_id
from pocketquery.client.private.noise import counted_on
from pocketquery.client.private.rules import SURVIVING_PERCENT, DeviceRules
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.validation import Rule, check_fields, number, one_of, whole

if TYPE_CHECKING:
    from pocketquery.server.private.budget import Season

__all__ = ["LEAST_COHORT", "LEAST_GROUPS", "SecureSettings"]

LEAST_COHORT = 100  # below it noise on devices leaves nothing to learn
LEAST_GROUPS = 5  # of fewer means, one hostile group is not told from the others
_KEY = re.compile(r"[0-9a-f]{64}")
_SEASON = re.compile(r"[!-~]{1,64}")


@dataclass(frozen=True)
class SecureSettings:
    """The settings of rounds in which the server learns sums over groups of devices alone.

    Attributes:
        federation: a name, or an id of 32 hexadecimal digits: what the devices' certificates are
            signed for.
        enrolment: the public key of the authority that signed them, 64 hexadecimal digits; not
            the server's own. A certificate of another's would spoil its neighbours' round.
        neighbours: of a device, in the ring that masks are dealt along; a group of fewer is
            complete.
        least: devices in a group; with fewer that are ready, the round is skipped. It gives way to
            100 where noise is added.
        largest_group: as which the devices' own rule lets a group count, at most, where there is
            noise; of a larger one no more devices' noise is counted on.
        groups: devices are dealt to so many groups, each one secure sum.
        stage_deadline: seconds that each of the four stages after training may take.
        rest: rounds between two in which the same device takes part.
        privacy: "off"; "devices": they add discrete Gaussian noise before they mask.
        noise_multiplier: standard deviation of the sum's noise over a device's sensitivity.
        season: its name, told to devices: their ledgers count by it, and allow a new one or not.
        participations: how often a device takes part in a season, at most.
        season_rounds: how many rounds a season has.
        epsilon, delta: what a season may spend, at most; rounds stop before they would pass it.
        range: largest size of one value of a change; 0: 1.25 x steps x learning rate.

    Raises:
        InvalidInputError: a setting is out of its range.
    """

    federation: str = ""
    enrolment: str = ""
    neighbours: int = 84
    least: int = 20
    largest_group: int = DeviceRules.largest_group
    groups: int = 1
    stage_deadline: float = 120.0
    rest: int = 8
    privacy: NoiseMode = "off"
    noise_multiplier: float = 2.4
    season: str = "1"
    participations: int = 1
    season_rounds: int = 10
    epsilon: float = 4.0
    delta: float = 1e-6
    range: float = 0.0

    def __post_init__(self) -> None:
        """Check each setting, and those that depend on each other."""
        check_fields(
            self,
            federation=_FEDERATION_RULE,
            enrolment=_ENROLMENT_RULE,
            neighbours=whole(2),
            least=whole(2),
            largest_group=whole(2),
            groups=whole(),
            stage_deadline=number(above=0),
            rest=whole(),
            privacy=one_of(*get_args(NoiseMode)),
            noise_multiplier=number(above=0),
            season=_SEASON_RULE,
            participations=whole(),
            season_rounds=whole(),
            epsilon=number(above=0),
            delta=number(above=0, below=1),
            range=number(0),
        )
        if self.neighbours % 2:
            raise InvalidInputError(
                f"neighbours is {self.neighbours}, expected an even number: as many on either side "
                "of the ring"
            )
        if self.participations > self.season_rounds:
            raise InvalidInputError(
                f"participations is {self.participations}, expected at most the season's rounds "
                f"({self.season_rounds})"
            )

    @property
    def is_noisy(self) -> bool:
        """Whether devices add noise."""
        return self.privacy != "off"

    @property
    def federation_id(self) -> bytes:
        """The id of the federation, 16 bytes."""
        return federation_id(self.federation)

    def least_survivors(self, size: int) -> int:
        """Of a group of ``size``, how many changes must be in the sum: where there is noise, that
        of four fifths."""
        if not self.is_noisy:
            return self.least
        return max(self.least, math.ceil(size * SURVIVING_PERCENT / 100))

    def counted_on(self, size: int) -> int:
        """Of a group of ``size``, how many devices' noise is counted on."""
        return counted_on(min(size, self.largest_group))

    def budget(self) -> Season:
        """The season that these settings declare.

        Raises:
            InvalidInputError: rounds without noise have none.
        """
        from pocketquery.server.private.budget import Season

        if not self.is_noisy:
            raise InvalidInputError("found privacy off, expected noise: no budget is without it")
        return Season(
            name=self.season,
            rounds=self.season_rounds,
            participations=self.participations,
            noise_multiplier=self.noise_multiplier,
            epsilon=self.epsilon,
            delta=self.delta,
        )

    def largest_value(self, local: LocalConfig) -> float:
        """How far a value that ``local`` trains may move; what goes further is cut."""
        return self.range or value_range(local.steps, local.learning_rate)

    def to_dict(self) -> dict[str, Any]:
        """The settings as JSON values; ``largest_group``, which files of before lack, where it is
        not the default."""
        body = asdict(self)
        if self.largest_group == DeviceRules.largest_group:
            del body["largest_group"]
        return body

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> SecureSettings:
        """The settings :meth:`to_dict` described.

        Raises:
            InvalidInputError: an unknown setting, or one out of its range.
        """
        if unknown := found.keys() - {one.name for one in fields(cls)}:
            raise InvalidInputError(
                f"found the secure settings {sorted(unknown)}, which this release does not know; "
                "upgrade pocketquery"
            )
        return cls(**found)


_FEDERATION_RULE = Rule(
    lambda value: isinstance(value, str) and bool(value),
    "the name or id that the devices' certificates are signed for (pocketquery enrol)",
)
_ENROLMENT_RULE = Rule(
    lambda value: isinstance(value, str) and bool(_KEY.fullmatch(value)),
    "64 hexadecimal digits, the public key of the authority that signs certificates",
)
_SEASON_RULE = Rule(
    lambda value: isinstance(value, str) and bool(_SEASON.fullmatch(value)),
    "a name of 1 to 64 printable ASCII characters without blanks",
)
