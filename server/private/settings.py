"""How private rounds are run: the graph, the groups, the stages' deadline, and the noise.

The settings are a server's wishes. What protects a device it enforces itself, by limits of its own
(client/private/rules.py); here is refused what no device would accept, or what could not work.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pocketquery.client.local_config import LocalConfig
from pocketquery.client.private.binding import NoiseMode
from pocketquery.client.private.encoding import value_range
from pocketquery.client.private.keys import federation_id
from pocketquery.client.private.noise import counted_on
from pocketquery.client.private.rules import SURVIVING_PERCENT, DeviceRules
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.settings.declaration import Settings, as_json, from_json
from pocketquery.sdk.validation import Rule, number, whole

if TYPE_CHECKING:
    from pocketquery.server.private.budget import Season

__all__ = ["LEAST_COHORT", "LEAST_GROUPS", "SecureSettings"]

LEAST_COHORT = 100  # below it noise on devices leaves nothing to learn
LEAST_GROUPS = 5  # of fewer means, one hostile group is not told from the others
_KEY = re.compile(r"[0-9a-f]{64}")
_SEASON = re.compile(r"[!-~]{1,64}")


@dataclass(frozen=True)
class SecureSettings(Settings):
    """The settings of rounds in which the server learns sums over groups of devices alone.

    ``enrolment`` is not the server's own key: a certificate of another's would spoil its
    neighbours' round. A group of fewer devices than ``neighbours`` is a complete graph; with fewer
    than ``least`` that are ready the round is skipped. Of a group above ``largest_group``, which is
    the devices' own rule, no more devices' noise is counted on. Devices' ledgers count by
    ``season``. Rounds stop before they would pass ``epsilon``.

    Raises:
        InvalidInputError: a setting is out of its range.
    """

    federation: Annotated[
        str, _FEDERATION_RULE, "secure: the name or id that devices are enrolled for"
    ] = ""
    enrolment: Annotated[
        str,
        _ENROLMENT_RULE,
        "secure: public key of the authority that enrols devices, or its PEM",
    ] = ""
    neighbours: Annotated[int, whole(2), "secure: devices that one shares masks with"] = 84
    least: Annotated[int, whole(2), "secure: devices in a group; 100 with noise"] = 20
    largest_group: Annotated[int, whole(2), "privacy: the devices' largest-group"] = (
        DeviceRules.largest_group
    )
    groups: Annotated[int, whole(), "secure: sums a round; robust means need 5 or more"] = 1
    stage_deadline: Annotated[
        float, number(above=0), "secure: seconds of a stage after training"
    ] = 120.0
    rest: Annotated[int, whole(), "secure: rounds before a device takes part again"] = 8
    privacy: Annotated[NoiseMode, "secure: noise: off, or devices: they add it"] = "off"
    noise_multiplier: Annotated[float, number(above=0), "privacy: noise over sensitivity"] = 2.4
    season: Annotated[
        str, _SEASON_RULE, "privacy: name of the season; a new one is a new budget"
    ] = "1"
    participations: Annotated[int, whole(), "privacy: of a device in a season, at most"] = 1
    season_rounds: Annotated[int, whole(), "privacy: rounds of a season"] = 10
    epsilon: Annotated[float, number(above=0), "privacy: what a season may spend"] = 4.0
    delta: Annotated[
        float, number(above=0, below=1), "privacy: the delta that epsilon is told at"
    ] = 1e-6
    range: Annotated[float, number(0), "secure: largest value; 0: 1.25 x steps x learning rate"] = (
        0.0
    )

    def __post_init__(self) -> None:
        """Check each setting, and those that depend on each other."""
        super().__post_init__()
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
        """The settings as JSON values."""
        return as_json(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> SecureSettings:
        """The settings :meth:`to_dict` described.

        Raises:
            InvalidInputError: an unknown setting, or one out of its range.
        """
        return from_json(cls, values, "the settings of private rounds")


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
