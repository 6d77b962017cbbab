"""A federation as its privacy officer sees it: settings, rounds, ledgers and attack figures."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, get_args

from pocketquery.client.private.ledger import Ledger
from pocketquery.client.private.rules import DeviceRules
from pocketquery.sdk.errors import (
    ArtifactNotFoundError,
    CorruptArtifactError,
    InvalidInputError,
    PocketQueryError,
)
from pocketquery.server.private.accounting import Adversary, least_honest
from pocketquery.server.private.budget import Charge, Season, Spent, spent
from pocketquery.server.private.settings import SecureSettings

__all__ = [
    "ATTACKS",
    "Federation",
    "FinishedRound",
    "count_participations",
    "read_attacks",
    "read_json",
    "total",
]

ATTACKS = Path("docs/results/privacy_attacks.json")


class FinishedRound(Protocol):
    """What the page shows of a round; a round report of the federation is one."""

    @property
    def round(self) -> int: ...
    @property
    def asked(self) -> int: ...
    @property
    def accepted(self) -> int: ...
    @property
    def declined(self) -> int: ...
    @property
    def failed(self) -> int: ...
    @property
    def quarantined(self) -> Mapping[str, int]: ...
    @property
    def skipped(self) -> str | None: ...
    @property
    def stages(self) -> Mapping[str, int]: ...


@dataclass(frozen=True)
class Federation:
    """A federation as its officer looks at it.

    Attributes:
        options: by name, as they were given, nested values included.
        secure: how private rounds are run; None where rounds are plain.
        cohort: devices a round.
        rounds: that are over, in order.
        charges: rows of the server's privacy ledger.
        devices: that may take part at all; None where nobody said.
        participations: how many devices took part how often in the season in force, where the
            devices' own ledgers are in the folder, as a simulation's are; else None.
        attacks: result of benchmarks/privacy_attacks.py; None where there is none.
        rules: what a device insists on by default.
    """

    options: Mapping[str, Any]
    secure: SecureSettings | None
    cohort: int
    rounds: tuple[FinishedRound, ...] = ()
    charges: tuple[Charge, ...] = ()
    devices: int | None = None
    participations: Mapping[int, int] | None = None
    attacks: Mapping[str, Any] | None = None
    rules: DeviceRules = field(default_factory=DeviceRules)

    @property
    def season(self) -> Season | None:
        """The one that is declared; None without noise."""
        return self.secure.budget() if self.secure and self.secure.is_noisy else None

    @property
    def group(self) -> int:
        """Devices whose changes are one sum."""
        return self.cohort // self.secure.groups if self.secure else 1

    @property
    def least_honest(self) -> int | None:
        """Of any sum that a deviating server can learn, in a group of the size asked for."""
        if self.secure is None or self.group < 2:
            return None
        neighbours = min(self.group - 1, self.secure.neighbours)
        return least_honest(neighbours, 3 * neighbours // 5 + 1)

    def planned(self) -> Spent | None:
        """What the declared season costs when it is over; None without noise."""
        if self.secure is None or self.season is None or self.least_honest is None:
            return None
        known = [one for one in self.charges if one.season == self.season.name]
        first = known[0].round if known else 0
        rho = max((one.rho for one in known), default=None)
        rows = [
            self.season.charge(
                first + number,
                counted_on=self.secure.counted_on(self.secure.largest_group),
                least_honest=self.least_honest,
                rho=rho,
            )
            for number in range(self.season.rounds)
        ]
        return spent([*known, *(row for row in rows if row.round not in {k.round for k in known})])[
            self.season.name
        ]

    def summary(self) -> dict[str, Any]:
        """The figures of the page as JSON values; an infinite epsilon is None."""
        delta = None if self.secure is None else self.secure.delta
        seasons = spent(self.charges)
        everything = [total(list(seasons.values()))] if len(seasons) > 1 else []
        return {
            "secure": self.secure is not None,
            "privacy": "off" if self.secure is None else self.secure.privacy,
            "experimental": True,
            "rounds": len(self.rounds),
            "skipped": sum(one.skipped is not None for one in self.rounds),
            "quarantined": dict(
                sum((Counter(dict(one.quarantined)) for one in self.rounds), Counter())
            ),
            "least_honest": self.least_honest,
            "delta": delta,
            "seasons": [
                {
                    "season": one.season,
                    "rounds": one.rounds,
                    "participations": one.participations,
                    "epsilon": {who: _finite(one, who, delta) for who in one.rho},
                }
                for one in (*seasons.values(), *everything)
            ],
        }


def read_attacks(path: Path | None) -> Mapping[str, Any] | None:
    """The figures at ``path``; None where it is the default and not there.

    Raises:
        ArtifactNotFoundError: there is no such file.
        CorruptArtifactError: it is no result of the benchmark.
    """
    if path is None and not ATTACKS.is_file():
        return None
    path = path or ATTACKS
    result = read_json(path, "run benchmarks/privacy_attacks.py, or leave --attacks out")
    figures = result.get("figures")
    figures = figures if isinstance(figures, dict) else {}
    kinds = ("identification", "membership", "inversion")
    if not all(
        isinstance(figures.get(kind, {}), dict)
        and all(isinstance(one, dict) for one in figures.get(kind, {}).values())
        for kind in kinds
    ) or not any(figures.get(kind) for kind in kinds):
        raise CorruptArtifactError(
            f"{path} is no result of benchmarks/privacy_attacks.py, expected figures of "
            f"{', '.join(kinds)} by arm"
        )
    return figures


def read_json(path: Path, advice: str) -> dict[str, Any]:
    """The JSON object in a file; errors end with ``advice``.

    Raises:
        ArtifactNotFoundError: there is no such file.
        CorruptArtifactError: it holds something else.
    """
    try:
        values = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise ArtifactNotFoundError(f"{path} is not there; {advice}") from error
    except (ValueError, RecursionError) as error:
        raise CorruptArtifactError(f"{path} is not JSON ({error}); {advice}") from error
    if not isinstance(values, dict):
        raise CorruptArtifactError(f"{path} holds no JSON object; {advice}")
    return values


def count_participations(
    folder: Path, secure: SecureSettings | None, devices: int | None
) -> dict[int, int] | None:
    """How many devices took part how often in the season in force, by their own ledgers; None
    without noise, or where ``folder`` holds no ledgers.

    Args:
        folder: of the rounds; a simulation's has its devices' folders in it.
        secure: how private rounds are run.
        devices: that may take part at all; None where that is not known.

    Raises:
        CorruptArtifactError: a ledger is damaged.
        InvalidInputError: there are more ledgers than ``devices``.
    """
    if secure is None or not secure.is_noisy:
        return None
    paths = sorted((folder / "devices").glob("**/*privacy.json"))
    if not paths:
        return None
    counts: Counter[int] = Counter()
    for path in paths:
        try:
            account = Ledger(path).account(secure.federation_id)
        except PocketQueryError as error:
            raise CorruptArtifactError(f"the ledger of a simulated device: {error}") from error
        counts[account.participations if account.season == secure.season else 0] += 1
    if devices is not None and devices < len(paths):
        raise InvalidInputError(
            f"found the ledgers of {len(paths)} devices in {folder}, but --devices is {devices}"
        )
    if devices is not None:
        counts[0] += devices - len(paths)
    return dict(sorted(counts.items()))


def total(seasons: Sequence[Spent]) -> Spent:
    """What several seasons together have cost a device that took part in all of them."""
    return Spent(
        season=", ".join(one.season for one in seasons),
        rounds=sum(one.rounds for one in seasons),
        participations=sum(one.participations for one in seasons),
        noise_multiplier=min((one.noise_multiplier for one in seasons), default=math.inf),
        rho={who: sum(one.rho[who] for one in seasons) for who in get_args(Adversary)},
    )


def _finite(one: Spent, who: Adversary, delta: float | None) -> float | None:
    value = math.inf if delta is None else one.epsilon(who, delta)
    return None if math.isinf(value) else value
