"""How private rounds are run: the graph, the groups, the stages' deadline, and the noise.

The settings are a server's wishes. What protects a device it enforces itself, by limits of its own
(client/secure/rules.py); here is refused what no device would accept, or what could not work.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

from pocketquery.client.local_config import LocalConfig
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.validation import Rule, check_fields, number, one_of, whole

if TYPE_CHECKING:
    from pocketquery.server.federation.privacy.budget import Season

__all__ = ["LEAST_COHORT", "LEAST_GROUPS", "STEP_SLACK", "SecureSettings"]

PrivacyMode = Literal["off", "devices", "server"]

LEAST_COHORT = 100  # below it noise on devices leaves nothing to learn
LEAST_GROUPS = 5  # of fewer means, one hostile group is not told from the others
RANGE_SLACK = 1.25  # AdamW moves a value by about one learning rate a step, and hardly ever by more
STEP_SLACK = 1.1  # times the clipping norm: what a round may change at most
_FEDERATION = re.compile(r"[0-9a-f]{32}")
_SEASON = re.compile(r"[!-~]{1,64}")


@dataclass(frozen=True)
class SecureSettings:
    """The settings of rounds in which the server learns sums over groups of devices alone.

    Attributes:
        federation: 32 hexadecimal digits, the id that the devices' certificates are signed for.
        neighbours: of a device, in the ring that masks are dealt along; a group of fewer is
            complete.
        least: devices in a group; with fewer that are ready, the round is skipped. It gives way to
            100 where noise is added.
        groups: devices are dealt to so many groups, each one secure sum.
        stage_deadline: seconds that each of the four stages after training may take.
        rest: rounds between two in which the same device takes part.
        privacy: "off"; "devices": they add discrete Gaussian noise before they mask; "server": the
            server adds correlated noise to the sum.
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
    neighbours: int = 84
    least: int = 20
    groups: int = 1
    stage_deadline: float = 120.0
    rest: int = 8
    privacy: PrivacyMode = "off"
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
            neighbours=whole(2),
            least=whole(2),
            groups=whole(),
            stage_deadline=number(above=0),
            rest=whole(),
            privacy=one_of("off", "devices", "server"),
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
        """Whether noise is added, by devices or by the server."""
        return self.privacy != "off"

    @property
    def federation_id(self) -> bytes:
        """The id as 16 bytes."""
        return bytes.fromhex(self.federation)

    def budget(self) -> Season:
        """The season that these settings declare.

        Raises:
            InvalidInputError: rounds without noise have none.
        """
        from pocketquery.server.federation.privacy.budget import Season

        if self.privacy == "off":
            raise InvalidInputError("found privacy off, expected noise: no budget is without it")
        return Season(
            name=self.season,
            mode=self.privacy,
            rounds=self.season_rounds,
            participations=self.participations,
            noise_multiplier=self.noise_multiplier,
            epsilon=self.epsilon,
            delta=self.delta,
        )

    def largest_value(self, local: LocalConfig) -> float:
        """Largest size of one value of a change that ``local`` trains; larger ones are cut."""
        return self.range or RANGE_SLACK * local.steps * local.learning_rate

    def to_dict(self) -> dict[str, Any]:
        """The settings as JSON values."""
        return asdict(self)

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
    lambda value: isinstance(value, str) and bool(_FEDERATION.fullmatch(value)),
    "32 hexadecimal digits, the id that the devices' certificates are signed for "
    "(pocketquery enrol)",
)
_SEASON_RULE = Rule(
    lambda value: isinstance(value, str) and bool(_SEASON.fullmatch(value)),
    "a name of 1 to 64 printable ASCII characters without blanks",
)
